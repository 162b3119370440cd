use super::*;
use crate::status::LeftOutList;

fn poller(route: &str, failures: u32, error: Option<&str>) -> PollerStatus {
    serde_json::from_value(serde_json::json!({
        "route": route, "business": null, "state": "backoff", "last_success_age_s": 1.0,
        "last_success_unknown": false, "interval_s": 5.0, "next_poll_s": 1.0, "rate_per_hour": 0.0,
        "guarantee_s": null, "at_risk": false, "gaps": 0,
        "failures": failures, "refused_pages": 0, "last_error": error,
        "last_error_text": error.map(|error| format!("{error} on {route}")),
    }))
    .unwrap()
}

fn judged_polling(pollers: &[PollerStatus], resting_s: Option<f64>) -> (Health, Vec<String>) {
    let polling: PollingStatus = serde_json::from_value(serde_json::json!({
        "pollers": pollers, "paused": null,
        "budget": {
            "limit": 60, "used_last_60s": 0, "remaining_seen": null,
            "remaining_disproved": false, "others_per_minute": 0.0, "pace_per_minute": 45.0, "resting_s": resting_s,
        },
    }))
    .unwrap();
    judged(judge_polling(&polling))
}

fn judged(findings: Vec<Finding>) -> (Health, Vec<String>) {
    let worst = findings.iter().map(|(level, _)| *level).max();
    (
        worst.unwrap_or_default(),
        findings.into_iter().map(|(_, reason)| reason).collect(),
    )
}

#[test]
fn every_route_at_risk_is_named() {
    let at_risk = |route: &str| PollerStatus {
        at_risk: true,
        ..poller(route, 0, None)
    };
    let (health, reasons) = judged_polling(&[poller("jobs", 0, None), at_risk("leads")], None);
    assert_eq!(health, Health::AtRisk);
    assert!(
        reasons[0].starts_with("records of leads may be missed:"),
        "{reasons:?}"
    );
}

#[test]
fn a_wait_that_the_workspace_asked_for_is_reported_if_it_is_longer_than_the_minute_of_the_key() {
    let resting = |resting_s: Option<f64>| judged_polling(&[], resting_s);
    assert_eq!(resting(None), (Health::Ok, vec![]));
    assert_eq!(resting(Some(59.0)), (Health::Ok, vec![]));
    let (health, reasons) = resting(Some(3_540.0));
    assert_eq!(health, Health::Degraded);
    assert!(
        reasons[0].contains("no route is read for another 59m"),
        "{reasons:?}"
    );
}

#[test]
fn routes_that_fail_alike_are_reported_together() {
    let of_pollers = |pollers: &[PollerStatus]| judged(judge_pollers(pollers));
    let (jobs, leads) = (
        poller("jobs", 3, Some("dns")),
        poller("leads", 2, Some("dns")),
    );
    let all = of_pollers(&[jobs.clone(), leads.clone()]);
    assert_eq!(
        all,
        (Health::Failing, vec!["every route: dns on jobs".to_owned()])
    );
    let payments = poller("payments", 0, None);
    let some = of_pollers(&[jobs.clone(), leads, payments.clone()]);
    assert_eq!(
        some,
        (
            Health::Degraded,
            vec!["jobs, leads: dns on jobs".to_owned()]
        )
    );
    let other = poller("customers", 2, Some("http_404"));
    assert_eq!(of_pollers(&[jobs, other, payments]).1.len(), 2);
}

#[test]
fn a_route_that_the_timer_has_not_read_for_long_is_named() {
    let read = |route: &str, last_success_age_s: Option<f64>| PollerStatus {
        last_success_age_s,
        ..poller(route, 0, None)
    };
    let of_timer = |pollers: &[PollerStatus]| {
        let (hour, store) = (Some(Duration::from_secs(3600)), Path::new("./mirror.db"));
        judged(judge_absence(
            &ControlError::NotRunning,
            pollers,
            hour,
            store,
        ))
    };
    let (jobs, leads) = (read("jobs", Some(7_199.0)), read("leads", Some(7_201.0)));
    assert_eq!(of_timer(std::slice::from_ref(&jobs)), (Health::Ok, vec![]));
    let (health, reasons) = of_timer(&[jobs, leads, read("payments", None)]);
    assert_eq!(health, Health::Failing);
    assert!(
        reasons[0].contains("has not read leads, payments for more than"),
        "{reasons:?}"
    );
}

#[test]
fn a_stopped_service_is_started_by_the_name_of_its_unit() {
    for (store, command) in [
        ("./mirror.db", "`shopmirror run`"),
        (
            "/var/lib/shopmirror/mirror.db",
            "`systemctl start shopmirror`",
        ),
        (
            "/var/lib/shopmirror/north/mirror.db",
            "`systemctl start shopmirror@north`",
        ),
    ] {
        let found = judge_absence(&ControlError::NotRunning, &[], None, Path::new(store));
        let (_, reasons) = judged(found);
        assert!(reasons[0].contains(command), "{reasons:?}");
    }
}

#[test]
fn a_business_that_is_not_polled_any_more_is_a_reason_for_a_week_and_a_replaced_default_for_longer()
{
    let reasons = |last_read_at: &str, replaced_at: Option<&str>| {
        let status = WorkspaceStatus {
            at: "2026-03-10T00:00:00Z".to_owned(),
            pollers: vec![poller("jobs", 0, None)],
            left_out: vec![LeftOutList {
                name: "jobs@2".to_owned(),
                last_read_at: last_read_at.to_owned(),
                replaced_at: replaced_at.map(str::to_owned),
            }],
            ..WorkspaceStatus::default()
        };
        status.judge_left_out().len()
    };
    assert_eq!(reasons("2026-03-04T00:00:00Z", None), 1);
    assert_eq!(reasons("2026-03-02T00:00:00Z", None), 0, "a closed branch");
    assert_eq!(
        reasons("2026-03-02T00:00:00Z", Some("2026-03-02T00:00:01Z")),
        1
    );
}
