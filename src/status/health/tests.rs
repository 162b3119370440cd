use super::*;

fn run(age_s: f64, failed: &[&str]) -> LastRun {
    let failed = failed.iter().map(|poller| super::super::FailedPoll {
        poller: (*poller).to_owned(),
        error: "http_503".to_owned(),
    });
    LastRun {
        at: "2026-01-01T00:00:00.000000Z".to_owned(),
        age_s,
        oldest_success_age_s: Some(age_s),
        polled: 6,
        created: 0,
        updated: 0,
        failed: failed.collect(),
    }
}

fn judged(last_run: Option<&LastRun>, once_every: Option<Duration>) -> (Health, Vec<String>) {
    let mut health = HealthReport::default();
    health.judge_absence(&ControlError::NotRunning, last_run, once_every, Path::new("./mirror.db"));
    health.into_parts()
}

#[test]
fn a_sink_that_is_out_of_the_configuration_for_a_week_counts_against_health() {
    for (since, health) in [
        ("2026-01-01T00:00:01.000000Z", Health::Ok),
        ("2025-12-31T23:59:59.000000Z", Health::Degraded),
    ] {
        let sink = RemovedSink { name: "old".into(), behind: 1, since: Some(since.to_owned()) };
        let mut report = HealthReport::default();
        report.judge_removed(&[sink], "2026-01-08T00:00:00.000000Z");
        let (found, reasons) = report.into_parts();
        assert_eq!(found, health, "{reasons:?}");
        let says = |reason: &String| reason.contains("`shopmirror sinks old forget`");
        assert!(reasons.iter().all(says), "{reasons:?}");
    }
}

#[test]
fn a_timer_that_runs_once_is_healthy_while_its_last_success_is_recent() {
    let every = Some(Duration::from_secs(600));
    assert_eq!(judged(Some(&run(1200.0, &[])), every), (Health::Ok, Vec::new()));
    for (last_run, health, word) in [
        (Some(run(1201.0, &[])), Health::Failing, "twice its interval of 10m"),
        (None, Health::Failing, "has not run yet"),
        (Some(run(5.0, &["leads"])), Health::Degraded, "leads: the last poll failed"),
    ] {
        let (found, reasons) = judged(last_run.as_ref(), every);
        assert_eq!((found, reasons.len()), (health, 1), "{reasons:?}");
        assert!(reasons[0].contains(word), "{reasons:?}");
    }
    let (health, _) = judged(Some(&run(1.0, &[])), None);
    assert_eq!(health, Health::Failing, "without a timer there must be a daemon");
}

fn poller(route: &str, failures: u32, error: Option<&str>) -> PollerStatus {
    serde_json::from_value(serde_json::json!({
        "route": route, "business": null, "state": "backoff", "last_success_age_s": 1.0,
        "interval_s": 5.0, "next_poll_s": 1.0, "rate_per_hour": 0.0, "guarantee_s": null, "gaps": 0,
        "failures": failures, "refused_pages": 0, "last_error": error,
        "last_error_text": error.map(|error| format!("{error} on {route}")),
    }))
    .unwrap()
}

fn judged_polling(pollers: &[PollerStatus], resting_s: Option<f64>) -> (Health, Vec<String>) {
    let polling: PollingStatus = serde_json::from_value(serde_json::json!({
        "pollers": pollers, "key_pause": null, "store_pause": null,
        "budget": {
            "limit": 60, "used_last_60s": 0, "remaining_seen": null, "others_per_minute": 0.0,
            "pace_per_minute": 45.0, "resting_s": resting_s,
        },
    }))
    .unwrap();
    let mut health = HealthReport::default();
    health.judge_polling(&polling);
    health.into_parts()
}

#[test]
fn every_route_at_risk_is_named_up_to_a_number() {
    let at_risk = |route: &str| PollerStatus { at_risk: true, ..poller(route, 0, None) };
    let (health, reasons) = judged_polling(&[poller("jobs", 0, None), at_risk("leads")], None);
    assert_eq!(health, Health::AtRisk);
    assert!(reasons[0].starts_with("records of leads may be missed:"), "{reasons:?}");
    let (_, reasons) = judged_polling(&vec![at_risk("jobs"); 9], None);
    assert!(reasons[0].contains("jobs and 3 more may be missed"), "{reasons:?}");
}

#[test]
fn a_wait_that_the_workspace_asked_for_is_reported_if_it_is_longer_than_the_minute_of_the_key() {
    let judged = |resting_s: Option<f64>| judged_polling(&[], resting_s);
    assert_eq!(judged(None), (Health::Ok, vec![]));
    assert_eq!(judged(Some(59.0)), (Health::Ok, vec![]));
    let (health, reasons) = judged(Some(3_540.0));
    assert_eq!(health, Health::Degraded);
    assert!(reasons[0].contains("no route is read for another 59m"), "{reasons:?}");
}

#[test]
fn routes_that_fail_alike_are_reported_together() {
    let judged = |pollers: &[PollerStatus]| {
        let mut health = HealthReport::default();
        health.judge_pollers(pollers);
        health.into_parts()
    };
    let (jobs, leads) = (poller("jobs", 3, Some("dns")), poller("leads", 2, Some("dns")));
    let all = judged(&[jobs.clone(), leads.clone()]);
    assert_eq!(all, (Health::Failing, vec!["every route: dns on jobs".to_owned()]));
    let payments = poller("payments", 0, None);
    let some = judged(&[jobs.clone(), leads, payments.clone()]);
    assert_eq!(some, (Health::Degraded, vec!["jobs, leads: dns on jobs".to_owned()]));
    let other = poller("customers", 2, Some("http_404"));
    assert_eq!(judged(&[jobs, other, payments]).1.len(), 2);
}

#[test]
fn a_stopped_service_is_started_by_the_name_of_its_unit() {
    for (store, command) in [
        ("./mirror.db", "`shopmirror run`"),
        ("/var/lib/shopmirror/mirror.db", "`systemctl start shopmirror`"),
        ("/var/lib/shopmirror/north/mirror.db", "`systemctl start shopmirror@north`"),
    ] {
        let mut health = HealthReport::default();
        health.judge_absence(&ControlError::NotRunning, None, None, Path::new(store));
        let (_, reasons) = health.into_parts();
        assert!(reasons[0].contains(command), "{reasons:?}");
    }
}
