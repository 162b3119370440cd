//! The sliding window: many changes under way, slow ones among them, ends at any moment.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use shopmirror_core::record::{Change, Kind};

use super::shop::{HOUR, MINUTE, Shop, Task, name, settings, until};
use super::{fault, wait_for};
use crate::config::{self, Start};
use crate::sink::{Scripted, Verdict};

fn leads(count: usize) -> Vec<(String, String)> {
    (1..=count)
        .map(|id| (id.to_string(), format!("Lead {id}")))
        .collect()
}

fn beginning() -> config::SinkSettings {
    config::SinkSettings {
        start: Start::Beginning,
        ..settings()
    }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_stalls_no_change_of_another_record() {
    let shop = Shop::new().await;
    shop.see_all(&leads(1_000)).await;
    shop.see("1", "Lead 1 again").await;
    let slow = |change: &Change| {
        if name(change) == "Lead 1" {
            MINUTE
        } else {
            millis(10)
        }
    };
    let sink = Scripted::new(4, |_| Verdict::Done).slow(slow);
    let task = shop.start("erp", sink, beginning()).await;
    tokio::time::sleep(millis(4_500)).await;
    assert_eq!(task.taken().len(), 999, "the others have arrived");
    assert_eq!(task.sink.in_flight(), 1);
    let row = shop.row("erp").await;
    assert!(
        row.position >= 900,
        "the position passes it: {}",
        row.position
    );
    tokio::time::sleep(2 * MINUTE).await;
    assert!(
        task.taken()
            .ends_with(&["Lead 1".to_owned(), "Lead 1 again".to_owned()])
    );
    let row = shop.row("erp").await;
    assert_eq!(
        (row.delivered, row.retrying, row.position),
        (1_001, 0, shop.store.seq())
    );
    task.stop().await;
}

/// What the sink acknowledged, as the numbers of the log.
fn acknowledged(sink: &Scripted) -> Vec<i64> {
    let given = sink.given();
    let done = given
        .iter()
        .filter(|(_, _, verdict)| *verdict == Verdict::Done);
    done.map(|(_, change, _)| change.seq).collect()
}

#[tokio::test(start_paused = true)]
async fn a_kill_repeats_at_most_two_groups_and_what_was_under_way() {
    for (wait, slowest) in [(333, 40), (2_500, 60_000)] {
        let shop = Shop::new().await;
        shop.see_all(&leads(1_500)).await;
        let delay = move |change: &Change| {
            millis(if change.seq % 97 == 1 {
                slowest
            } else {
                5 + change.seq.unsigned_abs() % 7
            })
        };
        let sink = Scripted::new(16, |_| Verdict::Done).slow(delay);
        let task = shop.start("erp", sink.clone(), beginning()).await;
        tokio::time::sleep(millis(wait)).await;
        task.handle.abort();
        let _ = task.handle.await;
        let before = acknowledged(&sink);
        // What the dead process had under way is not known to its successor.
        let after = Scripted::new(16, |_| Verdict::Done);
        let task = shop.start("erp", after.clone(), beginning()).await;
        let is_fed = || task.status().position == shop.store.seq();
        until("the rest has arrived", HOUR, || {
            is_fed() && shop.owed() == 0
        })
        .await;
        let mut times: BTreeMap<i64, usize> = BTreeMap::new();
        for seq in before.iter().chain(&acknowledged(&after)) {
            *times.entry(*seq).or_default() += 1;
        }
        assert_eq!(times.len(), 1_500, "nothing is lost");
        let repeated = times.values().filter(|times| **times > 1).count();
        assert!(repeated <= 128 + 16, "{repeated} repeated after {wait} ms");
        assert_eq!(
            shop.row("erp").await.delivered,
            1_500,
            "each is counted once"
        );
        task.stop().await;
    }
}

/// A sink whose answers follow from a seed: some changes fail for a while, some for good.
fn moody(seed: u64, at_once: usize) -> Scripted {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut tries: HashMap<i64, u32> = HashMap::new();
    let delays = std::sync::Mutex::new(fastrand::Rng::with_seed(seed + 1));
    Scripted::new(at_once, move |change| {
        let tried = tries.entry(change.seq).or_default();
        *tried += 1;
        let refused = |for_good| Verdict::Refused {
            reason: "answered 422".into(),
            for_good,
        };
        match (random.u32(0..100), change.seq % 50) {
            (_, 7) if *tried < 3 => refused(false),
            (_, 19) => refused(true),
            (0, _) => fault(),
            (1, _) => wait_for(3),
            _ => Verdict::Done,
        }
    })
    .slow(move |_| {
        let mut random = delays.lock().unwrap();
        millis(if random.u32(0..20) == 0 {
            random.u64(500..4_000)
        } else {
            random.u64(0..20)
        })
    })
}

/// Versions of each record that were acknowledged, in order.
fn versions(task: &Task) -> HashMap<String, Vec<i64>> {
    let mut versions: HashMap<String, Vec<i64>> = HashMap::new();
    for (_, change, verdict) in task.sink.given() {
        if verdict == Verdict::Done {
            versions
                .entry(change.record_id.unwrap())
                .or_default()
                .push(change.version);
        }
    }
    versions
}

#[tokio::test(start_paused = true)]
async fn whatever_the_endpoint_does_each_record_arrives_in_order_and_each_change_is_accounted_for()
{
    // SHOPMIRROR_SEEDS=2000 tries that many.
    let seeds = std::env::var("SHOPMIRROR_SEEDS").map_or(4, |seeds| seeds.parse().unwrap());
    for seed in 0..seeds {
        let shop = Shop::new().await;
        let at_once = [1, 64, 4, 16][usize::try_from(seed % 4).unwrap()];
        let task = shop.start("erp", moody(seed, at_once), settings()).await;
        let mut random = fastrand::Rng::with_seed(seed);
        for round in 0..20 {
            let ids = (0..random.u32(1..20)).map(|_| random.u32(1..60).to_string());
            let ids: std::collections::BTreeSet<String> = ids.collect();
            let page: Vec<_> = ids
                .into_iter()
                .map(|id| (id, format!("Round {round}")))
                .collect();
            shop.see_all(&page).await;
            tokio::time::sleep(millis(random.u64(0..2_000))).await;
            if random.u32(0..8) == 0 {
                task.wake.send_replace(());
            }
        }
        let last = shop.store.seq();
        until("it is done", 24 * HOUR, || {
            let status = task.status();
            status.position == last && shop.owed() == status.dead
        })
        .await;
        let row = shop.row("erp").await;
        let wanted =
            shop.count("SELECT count(*) FROM changes WHERE kind IN ('created', 'updated')");
        assert_eq!(row.delivered + row.dead, wanted, "seed {seed}");
        assert_eq!(
            acknowledged(&task.sink).len(),
            usize::try_from(row.delivered).unwrap(),
            "once"
        );
        let accounted = row.delivered + row.retrying + row.dead + row.filtered + row.skipped;
        assert_eq!(
            accounted, last,
            "seed {seed}: every stored change is accounted for"
        );
        for (record, versions) in versions(&task) {
            assert!(
                versions.is_sorted(),
                "seed {seed}: record {record}: {versions:?}"
            );
        }
        task.stop().await;
    }
}

/// How many pages of the write-ahead log were written.
fn frames(shop: &Shop) -> u64 {
    let log = std::fs::metadata(shop.dir.path().join("mirror.db-wal")).unwrap();
    log.len() / 4_096
}

#[tokio::test(start_paused = true)]
async fn fifty_sinks_that_want_nothing_of_a_page_save_their_positions_together() {
    let shop = Shop::new().await;
    let nothing = || {
        let mut settings = settings();
        settings.filter.routes = Vec::new();
        settings
    };
    let mut tasks = Vec::new();
    for number in 0..50 {
        let sink = Scripted::new(1, |_| Verdict::Done);
        let name = format!("sink{number}");
        tasks.push(shop.start(&name, sink, nothing()).await);
    }
    tokio::time::sleep(MINUTE).await;
    let before = frames(&shop);
    shop.see("1", "Lead").await;
    let page = frames(&shop) - before;
    tokio::time::sleep(MINUTE).await;
    let positions = frames(&shop) - before - page;
    assert!(positions <= 10, "{positions} beside {page} of the page");
    let last = shop.store.seq();
    assert_eq!(shop.count("SELECT min(position) FROM _sinks"), last);
    assert_eq!(shop.count("SELECT min(filtered) FROM _sinks"), last - 1);
    for task in tasks {
        task.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_delivered_at_once_is_never_queued_and_what_is_not_done_is() {
    let shop = Shop::new().await;
    let slow = |change: &Change| {
        if name(change) == "Lead 1" {
            MINUTE
        } else {
            Duration::ZERO
        }
    };
    let sink = Scripted::new(4, |_| Verdict::Done).slow(slow);
    let task = shop.start("erp", sink, settings()).await;
    shop.see("1", "Lead 1").await;
    shop.see_all(&leads(90)[1..]).await;
    until("the others are saved", MINUTE, || {
        shop.row_now("erp").delivered == 89
    })
    .await;
    let queued = shop.numbers("SELECT seq FROM _queue");
    assert_eq!(queued.len(), 1, "only the slow one");
    until("it arrives", 2 * MINUTE, || {
        shop.row_now("erp").delivered == 90 && shop.owed() == 0
    })
    .await;
    shop.assert_accounted().await;
    task.stop().await;
}

/// What a sink for new records asks for.
fn only_new() -> config::SinkSettings {
    let mut settings = settings();
    settings.filter.changes = vec![Kind::Created];
    settings
}

#[tokio::test(start_paused = true)]
async fn a_status_counts_what_is_not_wanted_up_to_the_position_that_it_shows() {
    let shop = Shop::new().await;
    let sink = Scripted::new(1, |_| Verdict::Done);
    let task = shop.start("erp", sink, only_new()).await;
    shop.see("1", "Lead").await;
    until("it is saved", MINUTE, || shop.row_now("erp").delivered == 1).await;
    shop.see("1", "Lead again").await;
    until("it has looked at all", MINUTE, || {
        task.status().position == shop.store.seq()
    })
    .await;
    let status = task.status();
    let sum = status.delivered + status.filtered + status.skipped;
    assert_eq!(sum, status.position, "{status:?}");
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_log_is_read_saves_what_was_taken() {
    let shop = Shop::new().await;
    let sink = Scripted::new(1, |_| Verdict::Done);
    let task = shop.start("erp", sink, only_new()).await;
    shop.see("1", "Lead").await;
    until("it is taken", MINUTE, || task.taken() == ["Lead"]).await;
    shop.see("1", "Lead again").await;
    task.stop().await;
    assert_eq!(shop.row("erp").await.delivered, 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_change_is_tried_again_although_its_position_was_saved_elsewhere() {
    let shop = Shop::new().await;
    let slow = |_: &Change| Duration::from_secs(2);
    let refused = Verdict::Refused {
        reason: "answered 422".into(),
        for_good: false,
    };
    let sink = Scripted::new(1, move |_| refused.clone()).slow(slow);
    let task = shop.start("erp", sink, only_new()).await;
    shop.see("1", "Lead").await;
    until("it is in flight", MINUTE, || task.sink.in_flight() == 1).await;
    shop.see("1", "Lead again").await;
    // It passes the row before the lead, which the sink does not want.
    shop.sql("UPDATE _sinks SET position = position + 1, filtered = filtered + 1");
    until("it is refused", MINUTE, || !task.sink.given().is_empty()).await;
    task.sink.now_returns(|_| Verdict::Done);
    until("it arrives", HOUR, || task.taken() == ["Lead"]).await;
    until("it is saved", MINUTE, || shop.row_now("erp").delivered == 1).await;
    shop.assert_accounted().await;
    task.stop().await;
}
