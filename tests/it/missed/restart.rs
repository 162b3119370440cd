//! kill -9 at any instant: the workspace's truth, the mirror, the log and every sink agree
//! afterwards.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use sandbox::Route;
use serde_json::{Value, json};

use crate::support::{Daemon, Place, Receiver, Workspace, text, wait_until};

/// How often the daemon is killed.
const KILLS: usize = 8;

fn table(route: Route) -> String {
    route.segment().replace('-', "_")
}

/// Lets something happen in the shop: fewer records than a page holds, so that none can be missed.
fn work(workspace: &Workspace, random: &mut fastrand::Rng) {
    for route in Route::ALL {
        if random.u8(..3) > 0 {
            workspace.sandbox.burst(route, random.usize(1..4));
        }
        let newest = workspace
            .sandbox
            .truth(route)
            .len()
            .saturating_sub(random.usize(1..30));
        let id = text(&workspace.sandbox.truth(route)[newest].id);
        workspace.edit(
            route,
            &id,
            json!({"status": format!("Status {}", random.u32(..))}),
        );
    }
}

/// Lets time pass without a look at a clock: the daemon is killed at a random instant.
async fn strike(daemon: Daemon, after: Duration) {
    let at = Instant::now() + after;
    wait_until("the moment has come", || Instant::now() >= at).await;
    daemon.kill().await;
}

/// Waits until the mirror shows the truth and every sink has the whole log.
pub(crate) async fn settled(workspace: &Workspace, place: &Place) {
    let same = || {
        Route::ALL.iter().all(|route| {
            let mirrored = mirror(place, *route);
            let truth = workspace.sandbox.truth(*route);
            let shown = truth.iter().skip(truth.len().saturating_sub(100));
            shown.into_iter().all(|t| {
                mirrored
                    .get(&text(&t.id))
                    .is_some_and(|m| m == t.record.get())
            })
        })
    };
    wait_until("the mirror shows the truth", same).await;
    let behind = "SELECT (SELECT count(*) FROM _sinks WHERE position < (SELECT max(seq) FROM changes)) \
                  + (SELECT count(*) FROM _queue)";
    wait_until("every sink is done", || place.number(behind) == 0).await;
}

/// The exact text the mirror holds of each record.
fn mirror(place: &Place, route: Route) -> HashMap<String, String> {
    let sql = format!(
        "SELECT m.id, c.body FROM \"{}\" m JOIN changes c ON c.seq = m._seq",
        table(route)
    );
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    place
        .rows(&sql)
        .iter()
        .map(|row| (text(&row[0]), text(&row[1])))
        .collect()
}

#[tokio::test]
async fn the_truth_the_mirror_the_log_and_the_sinks_agree_after_kills_at_any_instant() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let hook = Receiver::start().await;
    let workspace = Workspace::start_full().await;
    let place = workspace.place();
    let all = "start = \"beginning\"\nchanges = [\"baseline\", \"created\", \"updated\", \"gap\"]";
    place.configure(&format!(
        "{}{}",
        Place::file_sink("audit", all),
        Place::webhook_sink("hook", &hook.url("/"), all),
    ));
    for _ in 0..KILLS {
        let daemon = place.daemon();
        work(&workspace, &mut random);
        strike(daemon, Duration::from_millis(random.u64(5..400))).await;
    }
    let daemon = place.started().await;
    work(&workspace, &mut random);
    settled(&workspace, &place).await;
    daemon.stop().await;

    let told = place.open().unwrap();
    let check: String = told
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
    assert_eq!(
        place.number("SELECT count(*) FROM gaps"),
        0,
        "every burst was shorter than a page"
    );

    // The log: gapless numbers, gapless versions, distinct event ids.
    let counted = place.rows("SELECT count(*), max(seq), count(DISTINCT event_id) FROM changes");
    let last = counted[0][0].as_i64().unwrap();
    assert_eq!(counted, [json!([last, last, last])]);
    let versions = "SELECT count(*) FROM (SELECT max(version) - count(*) AS missing FROM changes GROUP BY route, record_id) WHERE missing <> 0";
    assert_eq!(place.number(versions), 0);

    // A route has one first page, however often the daemon started.
    let first_pages =
        "SELECT count(DISTINCT observed_at) FROM changes WHERE kind = 'baseline' GROUP BY route";
    assert_eq!(place.rows(first_pages), vec![json!([1]); 6]);

    // The mirror is the last version of each record in the log.
    for route in Route::ALL {
        let sql = format!(
            "SELECT record_id, body FROM changes c WHERE route = '{}' AND version = \
             (SELECT max(version) FROM changes d WHERE d.route = c.route AND d.record_id = c.record_id)",
            table(route)
        );
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let latest: HashMap<String, String> = place
            .rows(&sql)
            .iter()
            .map(|row| (text(&row[0]), text(&row[1])))
            .collect();
        assert_eq!(mirror(&place, route), latest, "{route}");
    }

    // The file has each change exactly once, in order; the webhook at least once, under one id.
    let expected: BTreeMap<i64, String> = place
        .rows("SELECT seq, event_id FROM changes")
        .iter()
        .map(|row| {
            (
                row[0].as_i64().unwrap(),
                row[1].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let pair = |event: &Value| {
        (
            event["seq"].as_i64().unwrap(),
            event["event_id"].as_str().unwrap().to_owned(),
        )
    };
    let lines = place.lines("audit.ndjson");
    let in_file: Vec<_> = lines.iter().map(pair).collect();
    assert_eq!(
        in_file,
        expected.clone().into_iter().collect::<Vec<_>>(),
        "the file"
    );
    let mut at_hook: Vec<_> = hook.events().iter().map(pair).collect();
    let repeats = at_hook.len() - expected.len();
    at_hook.sort();
    at_hook.dedup();
    assert_eq!(
        at_hook,
        expected.into_iter().collect::<Vec<_>>(),
        "the webhook"
    );
    println!("{last} changes, {repeats} came twice");
}
