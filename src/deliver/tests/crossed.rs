//! Where two features meet: parked changes, the flood gate, replays, other settings, forgotten records
//! and a clock that is set back.

use super::shop::Task;
use super::*;
use crate::clock::Clock;
use crate::config::{InOrder, SinkSettings};
use crate::record::Kind;
use crate::store::{NewNotice, ReplayChoice, ReplayState};

fn refused(for_good: bool) -> Verdict {
    Verdict::Refused { reason: "answered 422".into(), for_good }
}

fn leads(ids: std::ops::Range<i32>, name: &str) -> Vec<(String, String)> {
    ids.map(|id| (id.to_string(), format!("{name} {id}"))).collect()
}

/// Stops the task and starts it with other settings, as a reload does.
async fn reload(shop: &Shop, task: Task, settings: SinkSettings) -> Task {
    let sink = task.sink.clone();
    task.stop().await;
    shop.start("erp", sink, settings).await
}

/// The last row of the log, also if a command wrote it.
fn last(shop: &Shop) -> i64 {
    shop.count("SELECT max(seq) FROM changes")
}

fn replay_all(shop: &Shop, task: &Task) {
    let choice = ReplayChoice { all_versions: true, ..ReplayChoice::default() };
    let at = shop.clock.now().stamp();
    shop.operator().begin_replay("erp", (0, last(shop)), &choice, 1_000.0, &at).unwrap();
    task.wake.send_replace(());
}

async fn replay_state(shop: &Shop) -> ReplayState {
    shop.store.read(|reader| reader.replay("erp")).await.unwrap().unwrap().state
}

#[tokio::test(start_paused = true)]
async fn all_that_may_be_parked_a_flood_and_a_redrive_at_once_lose_and_double_nothing() {
    let shop = Shop::new().await;
    let settings = || SinkSettings {
        retry: Arc::from([4 * HOUR, 4 * HOUR]),
        hold_above: Some(300),
        ..settings()
    };
    let sink = Scripted::new(16, |change| refused(name(change).starts_with("Dead")));
    let task = shop.start("erp", sink, settings()).await;
    shop.see_all(&leads(1..50, "Dead")).await;
    // As many as a test build lets a sink park.
    for page in 1..=11 {
        shop.see_all(&leads(page * 99..page * 99 + 99, "Parked")).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
    until("it holds", HOUR, || task.status().state == SinkActivity::Holding).await;
    assert_eq!(task.status().dead, 49);
    // A flood, among it newer versions of what is parked and dead.
    shop.see_all(&leads(1..400, "Flood")).await;
    until("it is held", HOUR, || task.status().state == SinkActivity::Held).await;
    task.sink.now_returns(|_| Verdict::Done);
    let (parked, before) = (task.status().retrying, task.sink.given().len());
    assert_eq!(shop.redrive(&task).changes, 49);
    until("all that is parked arrives", 24 * HOUR, || task.status().retrying == 0).await;
    let sent = i64::try_from(task.sink.given().len() - before).unwrap();
    assert_eq!((sent, task.status().state), (parked + 49, SinkActivity::Held));
    assert!(!task.taken().iter().any(|name| name.starts_with("Flood")), "the flood is held");
    assert!(shop.operator().release_sink("erp").unwrap());
    task.wake.send_replace(());
    let last = shop.store.seq();
    until("the rest arrives", 24 * HOUR, || task.status().position == last).await;
    until("nothing is parked", 24 * HOUR, || task.status().retrying == 0).await;
    let wanted = shop.count("SELECT count(*) FROM changes WHERE kind IN ('created', 'updated')");
    assert_eq!(task.status().delivered, wanted);
    task.assert_once_in_order();
    shop.assert_accounted().await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_record_leaves_nothing_of_itself_in_what_is_parked_dead_held_or_replayed() {
    let shop = Shop::new().await;
    let mut wants = SinkSettings { hold_above: Some(20), ..settings() };
    wants.filter.changes.push(Kind::Forgotten);
    let sink = Scripted::new(4, |change| match name(change).as_str() {
        "Ada parked" => refused(false),
        "Ada dead" => refused(true),
        _ => Verdict::Done,
    });
    let task = shop.start("erp", sink, wants).await;
    for (id, name) in [("1", "Ada parked"), ("1", "Ada waits"), ("2", "Ada dead"), ("3", "Ada")] {
        shop.see(id, name).await;
    }
    until("they are settled", MINUTE, || {
        let status = task.status();
        (status.retrying, status.dead, status.delivered) == (2, 1, 1)
    })
    .await;
    tokio::time::sleep(2 * MINUTE).await;
    let mut flood = leads(10..40, "Other");
    flood.push(("4".to_owned(), "Ada held".to_owned()));
    shop.see_all(&flood).await;
    until("it is held", MINUTE, || task.status().state == SinkActivity::Held).await;
    let before = task.sink.given().len();
    for id in ["1", "2", "3", "4"] {
        let at = shop.clock.now().stamp();
        shop.operator().forget(Route::Leads, id, &at).unwrap();
    }
    task.sink.now_returns(|_| Verdict::Done);
    shop.redrive(&task);
    assert!(shop.operator().release_sink("erp").unwrap());
    task.wake.send_replace(());
    let last = last(&shop);
    until("all arrives", 3 * HOUR, || {
        task.status().position == last && task.status().retrying == 0
    })
    .await;
    replay_all(&shop, &task);
    for _ in 0..1_000 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(replay_state(&shop).await, ReplayState::Done);
    let after = task.sink.given().split_off(before);
    let ada = after.iter().filter(|(_, change, _)| change.body.contains("Ada"));
    assert_eq!(ada.count(), 0, "{after:?}");
    let seen = |change: &Change| change.before.as_ref().is_some_and(|body| body.contains("Ada"));
    assert!(!after.iter().any(|(_, change, _)| seen(change)), "{after:?}");
    for id in ["1", "2", "3", "4"] {
        let of_record =
            after.iter().rfind(|(_, change, _)| change.record_id.as_deref() == Some(id));
        let kind = of_record.map(|(_, change, _)| change.kind);
        assert_eq!(kind, Some(Kind::Forgotten), "the last word about {id}");
    }
    shop.assert_accounted().await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn other_settings_lose_nothing_of_what_is_parked_held_or_replayed() {
    let shop = Shop::new().await;
    let parked = |change: &Change| {
        if name(change) == "Parked" { refused(false) } else { Verdict::Done }
    };
    let slow = SinkSettings { retry: Arc::from([HOUR, HOUR]), ..settings() };
    let task = shop.start("erp", Scripted::new(4, parked), slow.clone()).await;
    shop.see("1", "Parked").await;
    shop.see("2", "Two").await;
    until("one is parked", MINUTE, || task.status().retrying == 1).await;
    until("the other arrives", MINUTE, || task.taken() == ["Two"]).await;
    // The order of all changes is kept from now on: nothing passes what is parked.
    let strict = SinkSettings { in_order: InOrder::Sink, ..slow.clone() };
    let task = reload(&shop, task, strict).await;
    shop.see("3", "Three").await;
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(task.taken(), ["Two"]);
    // And back: the others pass it.
    let task = reload(&shop, task, SinkSettings { start: Start::Beginning, ..slow.clone() }).await;
    until("it passes", MINUTE, || task.taken() == ["Two", "Three"]).await;
    // A sink that asks for other changes still gets what was parked for it.
    let mut other = SinkSettings { hold_above: Some(5), ..slow.clone() };
    other.filter.routes = vec![Route::Payments];
    let task = reload(&shop, task, other).await;
    task.sink.now_returns(|_| Verdict::Done);
    until("it arrives", 3 * HOUR, || task.taken() == ["Two", "Three", "Parked"]).await;
    shop.see("5", "Unwanted").await;
    until("it is passed", MINUTE, || task.status().position == shop.store.seq()).await;
    // A held sink stays held without its gate, until an operator releases it.
    let gated = SinkSettings { hold_above: Some(5), ..slow.clone() };
    let task = reload(&shop, task, gated).await;
    tokio::time::sleep(2 * MINUTE).await;
    shop.see_all(&leads(10..20, "Flood")).await;
    until("it is held", MINUTE, || task.status().state == SinkActivity::Held).await;
    let task = reload(&shop, task, slow.clone()).await;
    tokio::time::sleep(HOUR).await;
    assert_eq!((task.status().state, task.taken().len()), (SinkActivity::Held, 3));
    // A replay goes on under other settings, and sends what these ask for.
    replay_all(&shop, &task);
    let mut nothing = slow.clone();
    nothing.filter.routes = vec![Route::Payments];
    let task = reload(&shop, task, nothing).await;
    tokio::time::sleep(MINUTE).await;
    assert_eq!(replay_state(&shop).await, ReplayState::Done);
    let task = reload(&shop, task, slow).await;
    assert!(shop.operator().release_sink("erp").unwrap());
    task.wake.send_replace(());
    until("the flood arrives", MINUTE, || task.status().delivered == 13).await;
    shop.assert_accounted().await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_delays_what_waits_by_no_more_than_an_hour() {
    // An hour, as when a shop sets its machine by hand; and years, as when a battery was empty.
    for back in ["2025-12-31T23:00:00Z", "2020-01-01T00:00:00Z"] {
        let mut shop = Shop::new().await;
        let task = shop.start("erp", Scripted::new(4, |_| refused(false)), settings()).await;
        shop.see("1", "Parked").await;
        until("it is parked", MINUTE, || task.status().retrying == 1).await;
        let notice = NewNotice {
            kind: Kind::Alert,
            about: "one".to_owned(),
            version: 1,
            made_at: shop.clock.now().stamp(),
            body: r#"{"name":"Notice"}"#.to_owned(),
        };
        shop.store.post_notice(vec!["erp".to_owned()], notice).await.unwrap();
        task.wake.send_replace(());
        until("it was tried", MINUTE, || task.attempts("Notice").len() == 1).await;
        replay_all(&shop, &task);
        tokio::time::sleep(MINUTE).await;
        task.stop().await;
        shop.clock = Clock::starting_at(back.parse().unwrap());
        let task = shop.start("erp", Scripted::new(4, |_| Verdict::Done), settings()).await;
        shop.see("2", "New").await;
        until("all arrives", HOUR + 10 * MINUTE, || {
            let taken = task.taken();
            ["Parked", "Notice", "New"].iter().all(|name| taken.contains(&(*name).to_owned()))
        })
        .await;
        until("nothing is parked", MINUTE, || task.status().retrying == 0).await;
        until("the replay ends", MINUTE, || task.status().replay.is_none()).await;
        task.stop().await;
    }
}
