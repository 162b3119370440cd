//! Replays: older changes once more, beside new ones, faults, kills and operators.

use std::collections::BTreeMap;

use shopmirror_core::record::Kind;

use super::shop::Task;
use super::*;
use crate::store::{Operator, Reader, Replay, ReplayChoice, ReplayState};

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn leads(ids: std::ops::RangeInclusive<i32>) -> Vec<(String, String)> {
    ids.map(|id| (id.to_string(), format!("Lead {id}")))
        .collect()
}

/// Begins a replay of everything that the sink has behind it.
fn begin(shop: &Shop, task: &Task, choice: &ReplayChoice, rate: f64) -> Option<Replay> {
    let path = shop.dir.path().join("mirror.db");
    let position = Reader::open(&path)
        .unwrap()
        .sink("erp")
        .unwrap()
        .unwrap()
        .position;
    let mut operator = Operator::open(&path).unwrap();
    let at = shop.clock.now().stamp();
    let before = operator
        .begin_replay("erp", (0, position), choice, rate, &at)
        .unwrap();
    task.wake.send_replace(());
    before
}

async fn replay(shop: &Shop) -> Replay {
    shop.store
        .read(|reader| reader.replay("erp"))
        .await
        .unwrap()
        .unwrap()
}

async fn until_done(shop: &Shop) -> Replay {
    for _ in 0..100_000 {
        let found = replay(shop).await;
        if found.state != ReplayState::Running {
            return found;
        }
        tokio::time::sleep(millis(100)).await;
    }
    panic!("the replay does not end: {:?}", replay(shop).await);
}

fn acknowledged(task: &Task) -> Vec<Change> {
    let given = task.sink.given().into_iter();
    given
        .filter(|(_, _, verdict)| *verdict == Verdict::Done)
        .map(|(_, change, _)| change)
        .collect()
}

/// A shop with 100 leads, some of them changed, and a sink that has got all of it.
async fn filled(sink: Scripted) -> (Shop, Task) {
    let shop = Shop::new().await;
    let task = shop.start("erp", sink, settings()).await;
    shop.see_all(&leads(1..=90)).await;
    for round in 0..3 {
        let again: Vec<_> = (1..=20)
            .map(|id| (id.to_string(), format!("Round {round}")))
            .collect();
        shop.see_all(&again).await;
    }
    until("all have arrived", HOUR, || task.status().delivered == 150).await;
    (shop, task)
}

/// Every version of the records.
fn history() -> ReplayChoice {
    ReplayChoice {
        all_versions: true,
        ..ReplayChoice::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_replay_sends_the_same_events_in_order_at_its_rate_and_changes_no_count() {
    let (shop, task) = filled(Scripted::new(4, |_| Verdict::Done).slow(|_| millis(20))).await;
    let before = shop.row("erp").await;
    let first = acknowledged(&task);
    let begun = Instant::now();
    assert_eq!(begin(&shop, &task, &history(), 10.0), None);
    let in_flight = begin(&shop, &task, &history(), 99.0);
    assert!(
        in_flight.is_some_and(|replay| replay.rate == 10.0),
        "a second one is not begun"
    );
    let done = until_done(&shop).await;
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_secs(14) && took < Duration::from_secs(20),
        "{took:?}"
    );
    let counts = (done.sent, done.refused, done.left_out, done.position);
    assert_eq!(counts, (150, 0, 0, before.position));
    let again = acknowledged(&task).split_off(first.len());
    let ids = |changes: &[Change]| {
        let mut of_record: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
        for change in changes {
            of_record
                .entry(change.record_id.clone())
                .or_default()
                .push(change.event_id.clone());
        }
        of_record
    };
    assert_eq!(
        ids(&again),
        ids(&first),
        "the same events, each record in order"
    );
    assert_eq!(
        shop.row("erp").await,
        before,
        "neither position nor counters"
    );
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn new_changes_go_first_and_no_record_ends_in_an_older_state() {
    let (shop, task) = filled(Scripted::new(2, |_| Verdict::Done).slow(|_| millis(50))).await;
    begin(&shop, &task, &ReplayChoice::default(), 5.0);
    let mut newest: BTreeMap<String, String> = BTreeMap::new();
    for step in 0..15 {
        let id = (step * 6 + 1).to_string();
        let name = format!("New {step}");
        shop.see(&id, &name).await;
        until("the new one arrives", millis(1_500), || {
            task.taken().contains(&name)
        })
        .await;
        newest.insert(id, name);
        tokio::time::sleep(millis(900)).await;
        let in_flight = self::replay(&shop).await;
        assert_eq!(in_flight.state, ReplayState::Running, "it goes on beside");
    }
    let done = until_done(&shop).await;
    assert!(
        done.left_out > 0 && done.sent + done.left_out == 150,
        "{done:?}"
    );
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    for change in acknowledged(&task) {
        last.insert(change.record_id.unwrap(), change.version);
    }
    let versions = shop
        .store
        .read(|reader| reader.changes_after(0, 1_000))
        .await
        .unwrap();
    for change in versions
        .into_iter()
        .filter(|change| change.kind == Kind::Updated)
    {
        let id = change.record_id.unwrap();
        assert!(
            last[&id] >= change.version,
            "lead {id} ends with version {}",
            last[&id]
        );
    }
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replay_with_a_filter_leaves_out_what_is_older_than_the_sink_has() {
    let (shop, task) = filled(Scripted::new(4, |_| Verdict::Done)).await;
    let kinds = |kinds: &[&str]| ReplayChoice {
        kinds: kinds.iter().map(|&kind| kind.to_owned()).collect(),
        ..ReplayChoice::default()
    };
    let named = |name: &str| ReplayChoice {
        wheres: vec![("name".into(), name.into())],
        ..ReplayChoice::default()
    };
    // Of the 90 created leads 20 were changed three times.
    for (choice, sent, left_out) in [
        (kinds(&["created"]), 70, 20),
        (
            ReplayChoice {
                all_versions: true,
                ..kinds(&["created"])
            },
            90,
            0,
        ),
        (kinds(&["created", "updated"]), 90, 60),
        (ReplayChoice::default(), 90, 60),
        (kinds(&["updated"]), 20, 40),
        (named("Round 1"), 0, 20),
        (named("Round 2"), 20, 0),
    ] {
        begin(&shop, &task, &choice, 1_000.0);
        let done = until_done(&shop).await;
        assert_eq!((done.sent, done.left_out), (sent, left_out), "{choice:?}");
    }
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replay_that_fails_keeps_no_new_change_waiting_and_ends_with_its_endpoint() {
    let (shop, task) = filled(Scripted::new(4, |_| Verdict::Done)).await;
    until("all is saved", MINUTE, || shop.owed() == 0).await;
    let is_old = |change: &Change| name(change) == "Lead 50";
    task.sink.now_returns(move |change| {
        if is_old(change) {
            fault()
        } else {
            Verdict::Done
        }
    });
    begin(&shop, &task, &history(), 1_000.0);
    let retried = "SELECT count(*) FROM _queue WHERE lane = 3 AND state = 'retrying'";
    until("the rest is sent", HOUR, || {
        shop.owed() == 1 && shop.count(retried) == 1
    })
    .await;
    shop.see("50", "New").await;
    until("the new one arrives", MINUTE, || {
        task.taken().contains(&"New".to_owned())
    })
    .await;
    // An endpoint that is gone ends all attempts, and nothing is looked at over and over.
    task.sink.now_returns(|_| Verdict::Gone {
        reason: "answered 410".into(),
    });
    until("it is disabled", HOUR, || {
        task.status().state == SinkActivity::Disabled
    })
    .await;
    let before = task.sink.given().len();
    tokio::time::sleep(24 * HOUR).await;
    assert_eq!(task.sink.given().len(), before);
    assert!(
        shop.operator()
            .cancel_replay("erp", "2026-01-03T00:00:00.000000Z")
            .unwrap()
    );
    assert_eq!(shop.owed(), 0);
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn versions_that_a_newer_one_has_overtaken_take_no_time_of_a_replay() {
    let shop = Shop::new().await;
    let task = shop
        .start("erp", Scripted::new(4, |_| Verdict::Done), settings())
        .await;
    for version in 1..=50 {
        shop.see("1", &format!("Version {version}")).await;
    }
    until("all have arrived", HOUR, || task.status().delivered == 50).await;
    let begun = Instant::now();
    begin(&shop, &task, &ReplayChoice::default(), 1.0);
    let done = until_done(&shop).await;
    assert_eq!((done.sent, done.left_out), (1, 49));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?} for one change");
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replay_sends_no_version_while_an_older_one_of_its_record_is_tried_again() {
    let shop = Shop::new().await;
    let settings = config::SinkSettings {
        retry: Arc::from([9 * HOUR]),
        ..settings()
    };
    let refused = Verdict::Refused {
        reason: "answered 422".into(),
        for_good: false,
    };
    let task = shop
        .start("erp", refusing(4, "First", refused), settings)
        .await;
    shop.see("1", "First").await;
    until("it is refused", MINUTE, || task.status().retrying == 1).await;
    // An operator drops the second version.
    shop.store.hold_sink("erp".into()).await.unwrap();
    task.wake.send_replace(());
    until("it is held", MINUTE, || {
        task.status().state == SinkActivity::Held
    })
    .await;
    shop.see("1", "Second").await;
    let from = shop.row("erp").await.position;
    let to = shop.store.seq();
    let is_skipped = shop.operator().skip_held("erp", (from, to), 1).unwrap();
    assert!(is_skipped);
    task.wake.send_replace(());
    until("it is passed", MINUTE, || task.status().position == to).await;
    task.sink.now_returns(|_| Verdict::Done);
    begin(&shop, &task, &ReplayChoice::default(), 1_000.0);
    let done = until_done(&shop).await;
    assert_eq!((done.sent, done.left_out), (0, 2));
    until("the first arrives", 24 * HOUR, || task.taken() == ["First"]).await;
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_change_arrives_although_a_replay_could_not_be_queued_when_it_was_read() {
    let shop = Shop::new().await;
    let sink = || Scripted::new(1, |_| Verdict::Done);
    let task = shop.start("erp", sink(), settings()).await;
    shop.see("1", "First").await;
    until("it is saved", MINUTE, || shop.row_now("erp").delivered == 1).await;
    task.stop().await;
    let position = shop.row_now("erp").position;
    shop.see("2", "Second").await;
    let mut operator = shop.operator();
    let at = shop.clock.now().stamp();
    operator
        .begin_replay("erp", (0, position), &history(), 10.0, &at)
        .unwrap();
    let other = rusqlite::Connection::open(shop.store.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let task = shop.start("erp", sink(), settings()).await;
    // Nothing can be written now.
    tokio::time::sleep(Duration::from_secs(5)).await;
    other.execute_batch("ROLLBACK").unwrap();
    let has_second = || task.taken().contains(&"Second".to_owned());
    until("it arrives", 5 * MINUTE, has_second).await;
    assert_eq!(until_done(&shop).await.sent, 1);
    shop.assert_accounted().await;
    task.stop().await;
}
