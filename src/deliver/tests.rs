//! Delivery tasks over a real store and scripted sinks, on virtual time.

mod beside;
mod crossed;
mod forgotten;
mod held;
mod reloads;
mod replays;
mod room;
mod shop;
mod sliding;

use std::sync::Arc;

use tokio::time::Instant;

use super::*;
use crate::config::Start;
use crate::record::{Change, Route};
use crate::sink::{Scripted, Verdict};
use shop::{HOUR, MINUTE, Shop, Task, name, settings, until};

fn fault() -> Verdict {
    Verdict::Fault { reason: "answered 503".into(), retry_after: None }
}

fn wait_for(seconds: u64) -> Verdict {
    let retry_after = Some(Duration::from_secs(seconds));
    Verdict::Fault { reason: "answered 503".into(), retry_after }
}

/// Takes everything but records with this name, which get `verdict`.
fn refusing(batch: usize, bad: &'static str, verdict: Verdict) -> Scripted {
    Scripted::new(
        batch,
        move |change| {
            if name(change) == bad { verdict.clone() } else { Verdict::Done }
        },
    )
}

#[tokio::test(start_paused = true)]
async fn one_record_that_is_told_to_wait_does_not_stop_its_sink() {
    let shop = Shop::new().await;
    let task = shop.start("erp", refusing(4, "Busy", wait_for(5)), settings()).await;
    let name = |id: i32| if id == 7 { "Busy".to_owned() } else { format!("Good {id}") };
    let leads: Vec<_> = (1..=180).map(|id| (id.to_string(), name(id))).collect();
    shop.see_all(&leads).await;
    until("the others have arrived", MINUTE, || task.taken().len() == 179).await;
    let attempts = task.attempts("Busy");
    assert!(attempts[1] - attempts[0] >= Duration::from_secs(5), "{attempts:?}");
    assert_eq!(task.status().state, SinkActivity::Active);
    // It is counted against its own schedule, and ends there.
    tokio::time::sleep(2 * HOUR).await;
    assert_eq!(shop.row("erp").await.dead, 1);
    assert_eq!(task.attempts("Busy").len(), 5, "one before it was compared, then the schedule");
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_asks_for_a_wait_is_left_alone_for_that_long() {
    let shop = Shop::new().await;
    let task = shop.start("erp", Scripted::new(4, |_| wait_for(600)), settings()).await;
    shop.see("1", "First").await;
    until("it is asked to wait", MINUTE, || task.status().state == SinkActivity::Paused).await;
    // Neither new changes nor an operator end the wait.
    shop.see("2", "Second").await;
    task.wake.send_replace(());
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert_eq!(task.sink.given().len(), 1);
    task.sink.now_returns(|_| Verdict::Done);
    until("both have arrived", MINUTE, || task.taken().len() == 2).await;
    assert_eq!(shop.row("erp").await.retrying, 0);
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_ends_a_pause_that_the_endpoint_did_not_ask_for() {
    let shop = Shop::new().await;
    let task = shop.start("erp", Scripted::new(1, |_| fault()), settings()).await;
    shop.see("1", "First").await;
    shop.see("2", "Second").await;
    tokio::time::sleep(HOUR).await;
    task.sink.now_returns(|_| Verdict::Done);
    task.wake.send_replace(());
    until("both have arrived", Duration::from_secs(1), || task.taken().len() == 2).await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_that_fails_alone_does_not_hold_up_the_next_one() {
    let shop = Shop::new().await;
    let task = shop.start("erp", refusing(4, "Poison", fault()), settings()).await;
    shop.see("1", "Poison").await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(task.status().state, SinkActivity::Paused);
    shop.see("2", "Good").await;
    until("the next one arrives", Duration::from_secs(1), || task.taken() == ["Good"]).await;
    until("the first one is parked", Duration::from_secs(1), || task.status().retrying == 1).await;
    assert_eq!(shop.open("erp").await[0].attempts, 1);
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_fails_and_changes_again_does_not_hold_up_others() {
    let shop = Shop::new().await;
    let task = shop.start("erp", refusing(1, "Poison", fault()), settings()).await;
    for (id, name) in [("1", "Poison"), ("1", "Poison again"), ("2", "Good")] {
        shop.see(id, name).await;
    }
    until("the good one arrives", MINUTE, || task.taken() == ["Good"]).await;
    until("both versions are parked", MINUTE, || task.status().retrying == 2).await;
    task.sink.now_returns(|_| Verdict::Done);
    until("they arrive in order", MINUTE, || task.taken() == ["Good", "Poison", "Poison again"])
        .await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn many_changes_that_fail_do_not_hold_up_the_next_one() {
    for (batch, bad) in [(1, 7), (16, 7), (1, 40), (4, 100)] {
        let shop = Shop::new().await;
        for id in 1..=bad {
            shop.see(&id.to_string(), "Poison").await;
        }
        shop.see("200", "Good").await;
        let beginning = config::SinkSettings { start: Start::Beginning, ..settings() };
        let task = shop.start("erp", refusing(batch, "Poison", fault()), beginning).await;
        until("the good one arrives", HOUR, || task.taken() == ["Good"]).await;
        shop.see("201", "Late").await;
        until("the late one arrives", HOUR, || task.taken() == ["Good", "Late"]).await;
        task.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_change_that_fails_alone_does_not_hold_up_the_next_one() {
    let shop = Shop::new().await;
    let poison =
        |change: &Change| if change.body.len() > 5 << 20 { fault() } else { Verdict::Done };
    let task = shop.start("erp", Scripted::new(1, poison), settings()).await;
    shop.see("1", &"x".repeat(6 << 20)).await;
    shop.see("2", "Good").await;
    until("the next one arrives", MINUTE, || task.taken() == ["Good"]).await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_large_dead_letter_that_fails_when_it_is_sent_again_does_not_hold_up_another_one() {
    let shop = Shop::new().await;
    let once = config::SinkSettings { retry: Arc::from([]), ..settings() };
    let refused = |_: &Change| Verdict::Refused { reason: "answered 422".into(), for_good: true };
    let task = shop.start("erp", Scripted::new(1, refused), once).await;
    shop.see("1", &"x".repeat(6 << 20)).await;
    shop.see("2", "Good").await;
    until("both are dead", MINUTE, || task.status().dead == 2).await;
    task.sink
        .now_returns(|change| if change.body.len() > 5 << 20 { fault() } else { Verdict::Done });
    assert_eq!(shop.redrive(&task).changes, 2);
    until("the other one arrives", HOUR, || task.taken() == ["Good"]).await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_down_for_an_hour_slows_no_other_and_then_gets_everything() {
    let shop = Shop::new().await;
    let slow = |_: &Change| Duration::from_millis(200);
    let down = shop.start("down", Scripted::new(4, |_| fault()).slow(slow), settings()).await;
    let well = shop.start("well", Scripted::new(4, |_| Verdict::Done), settings()).await;
    let mut changes = 0;
    // A record every minute, and an edit of one of five others; the last ten of them when it is up again.
    let mut traffic = async |minutes: std::ops::Range<usize>| {
        for minute in minutes {
            let edited = (1_000 + minute % 5, format!("Edit {minute}"));
            for (id, name) in [(minute, format!("Lead {minute}")), edited] {
                shop.see(&id.to_string(), &name).await;
                changes += 1;
                until("the other has it", Duration::from_secs(2), || well.taken().len() == changes)
                    .await;
            }
            tokio::time::sleep(MINUTE).await;
        }
        changes
    };
    traffic(1..61).await;
    let attempts = down.sink.given().len();
    // Whatever the waits are drawn: ten rounds until they are a quarter of an hour, then no two within
    // 90 seconds, and each compares eight changes at most.
    assert!(attempts < (10 + 40) * 8, "{attempts} attempts in an hour");
    assert_eq!(shop.row("down").await.retrying, 0, "an endpoint's fault parks nothing");
    down.sink.now_returns(|_| Verdict::Done);
    // It is probed as before, and nothing but the probe is sent until it takes one.
    until("it is probed", Duration::from_secs(15 * 60 + 1), || {
        down.sink.given().len() > attempts || down.sink.under_way() > 0
    })
    .await;
    let changes = traffic(61..71).await;
    until("it has everything", MINUTE, || down.taken().len() == changes).await;
    down.assert_once_in_order();
    // No storm: four at once for 200 ms each are at most 20 a second, and the first is alone.
    let given = down.sink.given().split_off(attempts);
    assert_eq!(given.len(), changes, "each is sent once");
    assert!(given[1].0 >= given[0].0 + Duration::from_millis(200), "the first is alone");
    let up = given[0].0 - Duration::from_millis(200);
    for second in 1..=10 {
        let within = up + Duration::from_secs(second);
        let sent = given.iter().filter(|(at, _, _)| *at <= within).count();
        let most = usize::try_from(second * 20).unwrap();
        assert!(sent <= most, "{sent} within {second} s");
    }
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(down.taken()), sorted(well.taken()));
    down.stop().await;
    well.stop().await;
}

#[tokio::test(start_paused = true)]
async fn fifty_sinks_that_want_nothing_cost_two_commits_a_page() {
    let shop = Shop::new().await;
    let mut tasks = Vec::new();
    for number in 0..50 {
        let mut settings = settings();
        settings.filter.routes = vec![Route::Payments];
        let sink = Scripted::new(4, |_| Verdict::Done);
        tasks.push(shop.start(&format!("sink{number}"), sink, settings).await);
    }
    tokio::time::sleep(MINUTE).await;
    let before = shop.commits();
    for round in 0..10 {
        shop.see("1", &format!("Round {round}")).await;
        tokio::time::sleep(MINUTE).await;
    }
    let commits = shop.commits() - before;
    assert!(commits <= 20, "{commits} commits for 10 pages");
    let last = shop.store.seq();
    for row in shop.store.read(|reader| reader.sinks()).await.unwrap() {
        assert_eq!(row.position, last, "saved all the same: {}", row.name);
    }
    for task in tasks {
        task.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_with_too_many_dead_letters_takes_nothing_new_until_they_are_dropped() {
    let shop = Shop::new().await;
    let task = shop.start("erp", Scripted::new(4, |_| Verdict::Done), settings()).await;
    shop.sql("UPDATE sinks SET dead = 1000000");
    shop.see("1", "First").await;
    until("it holds", MINUTE, || task.status().state == SinkActivity::Holding).await;
    assert_eq!(task.taken(), [""; 0]);
    shop.sql("UPDATE sinks SET dead = 999999");
    task.wake.send_replace(());
    until("it goes on", MINUTE, || task.taken() == ["First"]).await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn behind_counts_the_changes_that_the_sink_asked_for() {
    let shop = Shop::new().await;
    let mut settings = settings();
    settings.filter.conditions.push(config::Condition::Field {
        side: config::Side::After,
        name: "name".to_owned(),
        wanted: config::Wanted::Compared(config::Comparison::Equal, "Wanted".into()),
    });
    let (deliverer, _poke) = shop.deliverer("erp", &Scripted::new(4, |_| fault()), settings);
    deliverer.open().await.unwrap();
    let view = SinkView::of(&deliverer);
    tokio::spawn(deliverer.run(CancellationToken::new(), CancellationToken::new()));
    let behind = async || {
        tokio::time::sleep(MINUTE).await;
        let view = view.clone();
        let read = shop.store.read(move |reader| view.status(reader, reader.last_seq()?));
        read.await.unwrap().unwrap().behind
    };
    assert_eq!(behind().await, 0);
    for id in 1..=60 {
        let name = if id % 15 == 0 { "Wanted" } else { "Other" };
        shop.see(&id.to_string(), name).await;
        if id == 30 {
            assert_eq!(behind().await, 2);
        }
    }
    assert_eq!(behind().await, 4);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_not_sent_again_after_a_newer_version_was() {
    let shop = Shop::new().await;
    let once = config::SinkSettings { retry: Arc::from([]), ..settings() };
    let refused = Verdict::Refused { reason: "answered 422".into(), for_good: false };
    let task = shop.start("erp", refusing(4, "Bad", refused), once.clone()).await;
    for (id, name) in [("1", "Bad"), ("1", "Good"), ("2", "Bad"), ("3", "Good")] {
        shop.see(id, name).await;
    }
    until("two are dead", MINUTE, || task.status().dead == 2).await;
    until("the newer version has arrived", MINUTE, || task.taken() == ["Good", "Good"]).await;
    task.sink.now_returns(|_| Verdict::Done);
    let path = shop.dir.path().join("mirror.db");
    let send = |all_versions: bool| {
        let reader = Reader::open(&path).unwrap();
        let sink = reader.sink("erp").unwrap().unwrap();
        let wanted = Redrive { filter: Some(&once.filter), seq: None, all_versions };
        let mut operator = crate::store::Operator::open(&path).unwrap();
        let at = shop.clock.now().stamp();
        let done = redrive(&mut operator, &reader, &sink, &wanted, &at).unwrap();
        task.wake.send_replace(());
        done
    };
    assert_eq!(send(false), Redriven { changes: 1, superseded: 1 });
    until("the current one arrives", MINUTE, || task.taken() == ["Good", "Good", "Bad"]).await;
    assert_eq!(shop.row("erp").await.dead, 1);
    assert_eq!(send(true), Redriven { changes: 1, superseded: 0 });
    until("the older one arrives", MINUTE, || task.taken().len() == 4).await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_single_run_passes_what_fails_alone() {
    let shop = Shop::new().await;
    let (deliverer, _poke) = shop.deliverer("erp", &refusing(1, "Poison", fault()), settings());
    deliverer.open().await.unwrap();
    for (id, name) in ["Good", "Poison", "Good", "Good", "Poison", "Good"].iter().enumerate() {
        shop.see(&(id + 1).to_string(), name).await;
    }
    let begun = Instant::now();
    let status = deliverer.once(&CancellationToken::new()).await.unwrap();
    assert_eq!((status.delivered, status.retrying, status.behind), (4, 2, 0));
    assert!(begun.elapsed().is_zero(), "it waits for nothing");
}

#[tokio::test(start_paused = true)]
async fn a_single_run_asks_an_endpoint_that_is_down_only_twice() {
    for (verdict, attempts) in [(fault(), 4), (wait_for(5), 1)] {
        let shop = Shop::new().await;
        let sink = Scripted::new(1, move |_| verdict.clone());
        let (deliverer, _poke) = shop.deliverer("erp", &sink, settings());
        deliverer.open().await.unwrap();
        for id in 1..=3 {
            shop.see(&id.to_string(), "Good").await;
        }
        let status = deliverer.once(&CancellationToken::new()).await.unwrap();
        assert_eq!((status.delivered, status.behind), (0, 3));
        assert_eq!(sink.given().len(), attempts, "one, then each of the three to compare them");
    }
}
