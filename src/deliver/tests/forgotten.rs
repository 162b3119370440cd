//! Records that are forgotten while changes of them are parked, dead, held, under way or still to
//! come.

use shopmirror_core::record::Kind;

use super::shop::Task;
use super::*;
use crate::config::SinkSettings;
use crate::store::{ReplayChoice, ReplayState};

fn refused(for_good: bool) -> Verdict {
    Verdict::Refused {
        reason: "answered 422".into(),
        for_good,
    }
}

/// What a sink asks for that is told of forgotten records, or not; refused changes wait for hours.
fn asking(is_told: bool) -> SinkSettings {
    let mut settings = SinkSettings {
        retry: Arc::from([9 * HOUR, 9 * HOUR]),
        ..settings()
    };
    if is_told {
        settings.filter.changes.push(Kind::Forgotten);
    }
    settings
}

/// As the command does it; returns the last row of the log, which the store did not write itself.
fn forget(shop: &Shop, task: &Task, ids: &[&str]) -> i64 {
    for id in ids {
        let at = shop.clock.now().stamp();
        crate::store::fixtures::forget(&mut shop.operator(), id, &at);
    }
    task.wake.send_replace(());
    shop.count("SELECT max(seq) FROM changes")
}

/// The ids and kinds that were handed over after the first `before` of them.
fn given_after(task: &Task, before: usize) -> Vec<(String, Kind)> {
    let given = task.sink.given().split_off(before).into_iter();
    let mut given: Vec<_> = given
        .map(|(_, c, _)| (c.record_id.unwrap(), c.kind))
        .collect();
    given.sort();
    given
}

fn told_of(ids: &[&str]) -> Vec<(String, Kind)> {
    ids.iter()
        .map(|id| ((*id).to_owned(), Kind::Forgotten))
        .collect()
}

/// Each stored change is accounted for, by the shop's own count and by `verify`.
async fn assert_sound(shop: &Shop) {
    let verified = shop
        .store
        .read(|reader| reader.verify(&mut |_, _| {}))
        .await
        .unwrap();
    assert!(verified.iter().all(|finding| finding.ok), "{verified:?}");
    shop.assert_accounted().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_parked_or_dead_of_a_forgotten_record_is_skipped_and_the_sink_told_at_once() {
    for is_told in [true, false] {
        let shop = Shop::new().await;
        let sink = Scripted::new(4, |change| match name_of(change).as_str() {
            "Parked" => refused(false),
            "Dead" => refused(true),
            _ => Verdict::Done,
        });
        let task = shop.start("erp", sink, asking(is_told)).await;
        for (id, name) in [
            ("2", "Dead"),
            ("3", "Fine"),
            ("1", "Parked"),
            ("1", "Waits"),
        ] {
            shop.see(id, name).await;
        }
        until("they are settled", MINUTE, || {
            let status = task.status();
            (status.retrying > 0, status.dead, status.delivered) == (true, 1, 1)
        })
        .await;
        tokio::time::sleep(MINUTE).await;
        let before = task.sink.given().len();
        let last = forget(&shop, &task, &["1", "2", "3"]);
        until("all is passed", MINUTE, || task.status().position == last).await;
        let told = if is_told {
            told_of(&["1", "2", "3"])
        } else {
            Vec::new()
        };
        assert_eq!(given_after(&task, before), told);
        let row = shop.row("erp").await;
        assert_eq!(
            (row.retrying, row.dead, row.skipped),
            (0, 0, 1 + 3),
            "and the baseline"
        );
        assert_eq!(shop.resend(&task, false).changes, 0);
        tokio::time::sleep(24 * HOUR).await;
        assert_eq!(given_after(&task, before), told);
        assert_sound(&shop).await;
        task.stop().await;
    }
}

fn name_of(change: &Change) -> String {
    let body: serde_json::Value = serde_json::from_str(&change.body).unwrap();
    body["name"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_replay_sends_nothing_of_a_forgotten_record_but_that_it_was_forgotten() {
    let shop = Shop::new().await;
    let task = shop
        .start("erp", Scripted::new(4, |_| Verdict::Done), asking(true))
        .await;
    for (id, name) in [("1", "One"), ("2", "Two"), ("1", "Uno")] {
        shop.see(id, name).await;
    }
    let last = forget(&shop, &task, &["1"]);
    let is_fed = || task.status().position == last;
    until("all is passed", MINUTE, || is_fed() && shop.owed() == 0).await;
    for (all_versions, kinds) in [
        (true, vec![]),
        (true, vec!["created", "updated"]),
        (false, vec![]),
    ] {
        let kinds: Vec<String> = kinds.into_iter().map(str::to_owned).collect();
        let before = task.sink.given().len();
        let choice = ReplayChoice {
            all_versions,
            kinds,
            ..ReplayChoice::default()
        };
        let at = shop.clock.now().stamp();
        let rows = (0, last);
        shop.operator()
            .begin_replay("erp", rows, &choice, 1_000.0, &at)
            .unwrap();
        task.wake.send_replace(());
        tokio::time::sleep(MINUTE).await;
        let done = shop
            .store
            .read(|reader| reader.replay("erp"))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (done.state, done.left_out),
            (ReplayState::Done, 2),
            "{done:?}"
        );
        let told = if choice.kinds.is_empty() {
            told_of(&["1"])
        } else {
            Vec::new()
        };
        let mut expected = told;
        expected.push(("2".to_owned(), Kind::Created));
        assert_eq!(given_after(&task, before), expected);
    }
    assert_sound(&shop).await;
    task.stop().await;
}
