use serde_json::{Value, json};
use shopmirror_core::record::Change;

use super::*;
use crate::store::Store;
use crate::store::fixtures::notices;

const START: &str = "2026-01-01T00:00:00Z";

fn sink(name: &str, state: &str) -> Value {
    json!({
        "name": name, "type": "webhook", "state": state, "position": 0, "backlog": 0, "delivered": 0,
        "retrying": 0, "dead": 0, "filtered": 0, "skipped": 0, "next_attempt_s": null,
        "last_error": "answered 503", "last_error_quotation": "for Quetzal",
        "notices": {"waiting": 0, "waiting_error": null, "refused": 0, "refused_error": null},
    })
}

/// A status with this health and these sinks; the reasons are those that the sinks give.
fn status(health: &str, reasons: &[&str], sinks: &[Value]) -> WorkspaceStatus {
    let mut reasons: Vec<String> = reasons.iter().map(|&reason| reason.to_owned()).collect();
    for sink in sinks.iter().filter(|sink| sink["state"] == "paused") {
        let name = sink["name"].as_str().unwrap();
        reasons.push(format!(
            "sink {name} is paused and will retry: answered 503"
        ));
    }
    WorkspaceStatus {
        health: serde_json::from_value(health.into()).unwrap(),
        reasons,
        sinks: serde_json::from_value(sinks.into()).unwrap(),
        ..WorkspaceStatus::default()
    }
}

fn well() -> WorkspaceStatus {
    status("ok", &[], &[sink("erp", "active"), sink("ops", "active")])
}

fn erp_paused() -> WorkspaceStatus {
    status(
        "degraded",
        &[],
        &[sink("erp", "paused"), sink("ops", "active")],
    )
}

fn gap(id: i64) -> Gap {
    Gap {
        id,
        route: "leads".into(),
        business: None,
        certainty: crate::store::Certainty::Gap,
        found_at: START.into(),
        from_at: START.into(),
        to_at: START.into(),
        after_id: None,
        before_id: None,
        estimate: None,
        state: crate::store::GapState::Open,
        repaired: 0,
        note: None,
        searched_seq: 0,
        searches: 0,
        shown: 0,
        shown_to: None,
        imported_from: None,
        import_may_be_older: false,
        left_out_id: None,
    }
}

/// A store, and a daemon that checks every ten seconds on a clock of its own.
struct Shop {
    _dir: tempfile::TempDir,
    store: Store,
    watch: AlertWatch,
    seconds: u64,
}

impl Shop {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("mirror.db")).unwrap();
        Self {
            _dir: dir,
            store,
            watch: AlertWatch::default(),
            seconds: 0,
        }
    }

    /// Shows the daemon this status for `seconds`; every `restart` seconds the daemon restarts.
    async fn sees(&mut self, status: &WorkspaceStatus, gaps: &[Gap], seconds: u64, restart: u64) {
        self.sees_each(10, status, gaps, seconds, restart).await;
    }

    /// As [`Self::sees`], with a check each `step` seconds.
    async fn sees_each(
        &mut self,
        step: u64,
        status: &WorkspaceStatus,
        gaps: &[Gap],
        seconds: u64,
        restart: u64,
    ) {
        let status = WorkspaceStatus {
            gaps: gaps.to_vec(),
            ..status.clone()
        };
        for _ in 0..seconds / step {
            self.seconds += step;
            let elapsed = Duration::from_secs(self.seconds);
            let wall = START.parse::<Timestamp>().unwrap() + elapsed;
            if restart > 0 && self.seconds.is_multiple_of(restart) {
                self.watch = AlertWatch::default();
            }
            let stored = self
                .store
                .read(|reader| reader.alerts("ops"))
                .await
                .unwrap();
            let found = symptoms(&status, "ops");
            let origin = Origin {
                workspace: Some("North".to_owned()),
                host: "shop1".to_owned(),
            };
            let steps = self
                .watch
                .judge(&stored, &found, &origin, Moment { elapsed, wall });
            self.store
                .save_alerts("ops".to_owned(), steps)
                .await
                .unwrap();
        }
    }

    /// The alerts so far: the second, what it is about, and its state.
    async fn sent(&self) -> Vec<(u64, String, String)> {
        let notices = self
            .store
            .read(|reader| notices(reader, "ops"))
            .await
            .unwrap();
        let read = |notice: Change| {
            let body: Value = serde_json::from_str(&notice.body).unwrap();
            let at: Timestamp = notice.observed_at.parse().unwrap();
            let second = at.duration_since(START.parse().unwrap()).as_secs();
            let state = body["state"].as_str().unwrap().to_owned();
            assert_eq!(body["about"], notice.record_id.unwrap().as_str());
            let (title, about) = (
                body["title"].as_str().unwrap(),
                body["about"].as_str().unwrap(),
            );
            let matter = title.strip_prefix("North, shopmirror on shop1: ");
            let matter = matter.unwrap_or_else(|| panic!("{title}"));
            assert!(!body["text"].as_str().unwrap().is_empty());
            assert!(
                !body.to_string().contains("Quetzal"),
                "a receiver's words: {body}"
            );
            let is_well = ["again", "accepted"]
                .iter()
                .any(|end| matter.ends_with(end));
            assert_eq!(is_well, state == "over", "{about}: {title}");
            (
                u64::try_from(second).unwrap(),
                body["about"].as_str().unwrap().to_owned(),
                state,
            )
        };
        notices.into_iter().map(read).collect()
    }
}

fn expected(alerts: &[(u64, &str, &str)]) -> Vec<(u64, String, String)> {
    alerts
        .iter()
        .map(|(at, about, state)| (*at, (*about).into(), (*state).into()))
        .collect()
}

const HOUR: u64 = 3600;

#[tokio::test]
async fn a_paused_sink_is_reported_once_after_an_hour_and_when_it_is_over() {
    // Restarts neither repeat nor forget anything.
    let restart = 600;
    let mut shop = Shop::new();
    shop.sees(&well(), &[], HOUR, restart).await;
    assert_eq!(shop.sent().await, []);
    shop.sees(&erp_paused(), &[], 26 * HOUR, restart).await;
    shop.sees(&well(), &[], HOUR, restart).await;
    let begun = HOUR + 10;
    let ends = 27 * HOUR + 70;
    let all = [
        (begun + 60, "health", "begun"),
        (begun + HOUR, "sink/erp", "begun"),
        (begun + 60 + 24 * HOUR, "reminder", "still"),
        (ends, "health", "over"),
        (ends, "sink/erp", "over"),
    ];
    assert_eq!(shop.sent().await, expected(&all));
}

#[tokio::test]
async fn bad_health_is_reported_when_it_lasts_and_again_when_it_gets_worse() {
    let mut shop = Shop::new();
    let degraded = status("degraded", &["leads: http_503"], &[]);
    let failing = status("failing", &["every route: dns"], &[]);
    // Short trouble is not worth an alert, however often it comes.
    for _ in 0..50 {
        shop.sees(&degraded, &[], 40, 0).await;
        shop.sees(&well(), &[], 80, 0).await;
    }
    assert_eq!(shop.sent().await, []);
    let from = shop.seconds;
    shop.sees(&degraded, &[], 600, 0).await;
    // It swings between bad and worse, and is away for a moment.
    for _ in 0..50 {
        shop.sees(&failing, &[], 30, 0).await;
        shop.sees(&degraded, &[], 30, 0).await;
        shop.sees(&well(), &[], 30, 0).await;
    }
    shop.sees(&well(), &[], 600, 0).await;
    let alerts: Vec<(u64, String)> = shop
        .sent()
        .await
        .into_iter()
        .map(|(at, _, state)| (at - from, state))
        .collect();
    let begun = "begun".to_owned();
    assert_eq!(alerts[..2], [(70, begun.clone()), (610, begun)]);
    assert_eq!(
        (alerts.len(), alerts[2].1.as_str()),
        (3, "over"),
        "{alerts:?}"
    );
}

#[tokio::test]
async fn each_new_gap_is_reported_once_and_the_end_when_none_is_left() {
    let mut shop = Shop::new();
    shop.sees(&well(), &[gap(4)], HOUR, 600).await;
    shop.sees(&well(), &[gap(4), gap(9)], HOUR, 600).await;
    shop.sees(&well(), &[gap(4)], HOUR, 600).await;
    shop.sees(&well(), &[], HOUR, 0).await;
    let all = [
        (10, "gap/leads", "begun"),
        (HOUR + 10, "gap/leads", "begun"),
        (3 * HOUR + 70, "gap/leads", "over"),
    ];
    assert_eq!(shop.sent().await, expected(&all));
}

const DAY_S: u64 = 24 * 3600;

/// The reminders among the notices that were made.
async fn reminders(shop: &Shop) -> Vec<Value> {
    let mut found = Vec::new();
    let notices = shop.store.read(|reader| notices(reader, "ops")).await;
    for change in notices.unwrap() {
        let alert: Value = serde_json::from_str(&change.body).unwrap();
        if alert["state"] == "still" {
            found.push(alert);
        }
    }
    found
}

#[tokio::test]
async fn what_is_still_wrong_is_told_again_each_day_in_one_message_until_it_is_over() {
    let mut shop = Shop::new();
    let wrong = status(
        "degraded",
        &["the clock is wrong"],
        &[sink("erp", "paused"), sink("ops", "active")],
    );
    shop.sees(&wrong, &[], 7200, 0).await;
    assert_eq!(reminders(&shop).await, Vec::<Value>::new());
    shop.sees_each(600, &wrong, &[], 2 * DAY_S, 3600).await;
    let told = reminders(&shop).await;
    assert_eq!(told.len(), 2, "{told:?}");
    let text = told[0]["text"].as_str().unwrap();
    assert!(
        text.contains("since 2026-01-01 00:00 UTC: health is degraded")
            && text.contains("sink erp takes no changes"),
        "{text}"
    );
    assert!(
        told[0]["title"]
            .as_str()
            .unwrap()
            .contains("2 matters still need attention"),
        "{told:?}"
    );
    assert_eq!(told[0]["reasons"].as_array().unwrap().len(), 2);
    shop.sees_each(600, &well(), &[], 2 * DAY_S, 3600).await;
    assert_eq!(reminders(&shop).await.len(), 2, "it is over");
}

#[tokio::test]
async fn an_old_gap_alone_is_told_again_once_a_week() {
    let mut shop = Shop::new();
    shop.sees_each(600, &well(), &[gap(1)], 6 * DAY_S, 0).await;
    assert_eq!(reminders(&shop).await, Vec::<Value>::new());
    shop.sees_each(600, &well(), &[gap(1)], 2 * DAY_S, 0).await;
    let told = reminders(&shop).await;
    assert_eq!(told.len(), 1, "{told:?}");
    let text = told[0]["text"].as_str().unwrap();
    assert!(text.contains("shopmirror gaps"), "{text}");
}
