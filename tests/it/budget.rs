//! The budget: the key's limit holds however the daemon starts, and a rest that was asked for is kept.

use std::time::{Duration, SystemTime};

use shopmirror::sandbox::{FaultKind, Options, Received, Route};

use crate::support::{Workspace, wait_until};

/// As fast as the configuration can ask.
const EAGER: &str = "[poll]\nmin_interval = \"100ms\"\nmax_interval = \"100ms\"\n";

#[tokio::test]
async fn no_minute_ever_holds_more_requests_than_the_limit_restarts_included() {
    // Five starts that asked for every route at once would break it.
    let limit = 10;
    let options = Options { requests_per_minute: limit, ..Workspace::usual() };
    let workspace = Workspace::of(options).await;
    workspace.sandbox.pause_growth(true);
    let place = workspace.place();
    place.configure_all(&format!("[budget]\nrequests_per_minute = {limit}\nreserve = 0\n{EAGER}"));
    for kill in [true, false, true, false, true] {
        let daemon = place.daemon();
        let before = workspace.sandbox.requests().total;
        wait_until("it polls", || workspace.sandbox.requests().total > before).await;
        // Time in which a daemon that did not hold back would have asked for every route.
        place.status_when("it answers", |status| status["running"] == true).await;
        if kill { daemon.kill().await } else { daemon.stop().await }
    }
    let requests = workspace.sandbox.requests();
    let most = requests.max_in_60s["automation"];
    assert!(most <= limit as usize, "{most} in a minute");
    assert!(requests.log.iter().all(|request| request.status == 200), "none was refused");
}

/// The requests that arrived within `seconds` after the one that met the fault.
fn within(log: &[Received], status: u16, seconds: f64) -> Vec<Received> {
    let fault = log.iter().find(|request| request.status == status).unwrap();
    let (from, to) = (fault.elapsed_s, fault.elapsed_s + seconds);
    log.iter().filter(|r| r.elapsed_s > from && r.elapsed_s < to).cloned().collect()
}

#[tokio::test]
async fn a_429_with_retry_after_rests_the_whole_key() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let _daemon = place.started().await;
    workspace.all_polled().await;
    let kind = FaultKind::Status { code: 429, retry_after: Some("3".to_owned()) };
    workspace.fault(Some(Route::Leads), kind, 1);
    let log = || workspace.sandbox.requests().log;
    wait_until("the fault is met", || log().iter().any(|r| r.status == 429)).await;
    workspace.all_polled().await;
    // One request a poller may have been under way when the answer came.
    let during = within(&log(), 429, 2.95);
    assert!(during.len() <= 6, "{during:?}");
    assert!(during.iter().all(|request| request.route != "leads"), "{during:?}");
}

#[tokio::test]
async fn a_503_with_retry_after_rests_its_route_alone() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let _daemon = place.started().await;
    workspace.all_polled().await;
    let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(4));
    for (route, code, retry_after) in [(Route::Leads, 503, "3"), (Route::Jobs, 502, date.as_str())]
    {
        let kind = FaultKind::Status { code, retry_after: Some(retry_after.to_owned()) };
        workspace.fault(Some(route), kind, 1);
    }
    let log = || workspace.sandbox.requests().log;
    for code in [503, 502] {
        wait_until("the fault is met", || log().iter().any(|r| r.status == code)).await;
    }
    workspace.all_polled().await;
    let count = |log: &[Received], route: Route| {
        log.iter().filter(|request| request.route == route.segment()).count()
    };
    let during = within(&log(), 503, 2.95);
    assert_eq!(count(&during, Route::Leads), 0);
    assert!(count(&during, Route::Payments) > 3, "the others go on: {during:?}");
    // A date has no fraction: four seconds from now are more than three.
    let during = within(&log(), 502, 2.5);
    assert_eq!(count(&during, Route::Jobs), 0);
    assert!(count(&during, Route::Payments) > 3, "{during:?}");
}
