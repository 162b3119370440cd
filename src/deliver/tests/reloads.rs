//! A sink that gets other settings, or is removed and comes back, in the middle of a backlog with parked
//! changes, of a replay and of a held flood.

use std::collections::HashMap;

use super::shop::Task;
use super::*;
use crate::config::{InOrder, SinkSettings};
use crate::store::{ReplayChoice, ReplayState};

/// What a reload changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reload {
    Concurrency,
    Order,
    Filter,
    Removal,
}

const SECOND: Duration = Duration::from_secs(1);

fn leads(ids: std::ops::Range<i32>, name: &str) -> Vec<(String, String)> {
    ids.map(|id| (id.to_string(), format!("{name} {id}"))).collect()
}

fn usual() -> SinkSettings {
    SinkSettings { retry: Arc::from([2 * HOUR, 2 * HOUR]), hold_above: Some(90), ..settings() }
}

/// Changes the sink for some seconds and changes it back, as two reloads do.
async fn there_and_back(shop: &Shop, task: Task, reload: Reload) -> Task {
    let sink = task.sink.clone();
    task.stop().await;
    let mut other = usual();
    let mut meanwhile = sink.clone();
    match reload {
        Reload::Concurrency => meanwhile = sink.clone().taking(7),
        Reload::Order => other.in_order = InOrder::Sink,
        Reload::Filter => other.filter.routes = vec![Route::Payments],
        Reload::Removal => {
            shop.store.retire_sinks(Vec::new()).await.unwrap();
            tokio::time::sleep(MINUTE).await;
            return shop.start("erp", sink, usual()).await;
        }
    }
    let task = shop.start("erp", meanwhile, other).await;
    tokio::time::sleep(3 * SECOND).await;
    task.stop().await;
    shop.start("erp", sink, usual()).await
}

/// How often the sink acknowledged each change; asserts that first times come in order per record.
fn acknowledged(task: &Task) -> HashMap<i64, usize> {
    let (mut times, mut newest) = (HashMap::new(), HashMap::new());
    let given = task.sink.given().into_iter();
    for (_, change, _) in given.filter(|(_, _, verdict)| *verdict == Verdict::Done) {
        let times = times.entry(change.seq).or_insert(0);
        *times += 1;
        if *times == 1 {
            let before = newest.insert(change.record_id.clone(), change.version);
            assert!(before < Some(change.version), "after version {before:?}: {change:?}");
        }
    }
    times
}

#[tokio::test(start_paused = true)]
async fn reloads_in_a_backlog_a_replay_and_a_flood_lose_and_double_nothing() {
    for reload in [Reload::Concurrency, Reload::Order, Reload::Filter, Reload::Removal] {
        let shop = Shop::new().await;
        let parked = |change: &Change| match name(change).starts_with("Parked") {
            true => Verdict::Refused { reason: "answered 422".into(), for_good: false },
            false => Verdict::Done,
        };
        let sink = Scripted::new(2, parked).slow(|_| SECOND);
        let mut task = shop.start("erp", sink, usual()).await;
        // A backlog in which every change of five records is parked.
        shop.see_all(&leads(1..60, "Good")).await;
        shop.see_all(&leads(60..65, "Parked")).await;
        shop.see_all(&leads(1..20, "Better")).await;
        shop.see_all(&leads(60..65, "Waits")).await;
        for _ in 0..3 {
            tokio::time::sleep(5 * SECOND).await;
            task = there_and_back(&shop, task, reload).await;
        }
        let last = shop.store.seq();
        until("the backlog is done", HOUR, || task.status().position == last).await;
        let row = shop.row("erp").await;
        let unwanted = || {
            let asked = "('baseline', 'created', 'updated')";
            shop.count(&format!("SELECT count(*) FROM changes WHERE kind NOT IN {asked}"))
        };
        if reload != Reload::Filter {
            assert_eq!((row.retrying, row.filtered), (10, unwanted()), "{reload:?}: {row:?}");
        }

        // A replay, with reloads in the middle of it.
        let choice = ReplayChoice { all_versions: true, ..ReplayChoice::default() };
        let at = shop.clock.now().stamp();
        let before = acknowledged(&task);
        shop.operator().begin_replay("erp", (0, last), &choice, 5.0, &at).unwrap();
        task.wake.send_replace(());
        for _ in 0..3 {
            tokio::time::sleep(4 * SECOND).await;
            task = there_and_back(&shop, task, reload).await;
        }
        let replay =
            async || shop.store.read(|reader| reader.replay("erp")).await.unwrap().unwrap();
        for _ in 0..600 {
            tokio::time::sleep(SECOND).await;
        }
        let done = replay().await;
        assert_eq!(done.state, ReplayState::Done, "{reload:?}: {done:?}");
        let after = acknowledged(&task);
        let repeated: usize = after.values().sum::<usize>() - before.values().sum::<usize>();
        assert_eq!(i64::try_from(repeated).unwrap(), done.sent, "{reload:?}: {done:?}");
        assert!(after.values().all(|times| *times <= 2), "{reload:?}: each at most once more");

        // A flood that is held, with a reload before its release.
        shop.see_all(&leads(100..300, "Flood")).await;
        until("it is held", HOUR, || task.status().state == SinkActivity::Held).await;
        let task = there_and_back(&shop, task, reload).await;
        tokio::time::sleep(MINUTE).await;
        assert_eq!(task.status().state, SinkActivity::Held, "{reload:?}");
        assert!(!task.taken().iter().any(|name| name.starts_with("Flood")), "{reload:?}");
        task.sink.now_returns(|_| Verdict::Done);
        assert!(shop.operator().release_sink("erp").unwrap());
        task.wake.send_replace(());
        let last = shop.store.seq();
        until("the rest arrives", 24 * HOUR, || {
            task.status().position == last && task.status().retrying == 0
        })
        .await;
        let row = shop.row("erp").await;
        let arrived = acknowledged(&task);
        let firsts = i64::try_from(arrived.len()).unwrap();
        assert_eq!(row.delivered, firsts, "{reload:?}: {row:?}");
        let stored = shop.count("SELECT count(*) FROM changes WHERE kind <> 'baseline'");
        assert_eq!(firsts + row.filtered, stored, "{reload:?}: {row:?}");
        if reload != Reload::Filter {
            assert_eq!(row.filtered, unwanted(), "{reload:?}: nothing passed the sink: {row:?}");
        }
        assert_eq!(row.dead, 0, "{reload:?}");
        shop.assert_accounted().await;
        task.stop().await;
    }
}
