//! The rate budget of the real program on real sockets; `virtual_time` proves the rules over hours.

use sandbox::{FaultKind, Options, Route};

use crate::support::{EAGER, Workspace, wait_until};

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

#[tokio::test]
async fn a_429_with_retry_after_rests_the_whole_key_of_the_real_program() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let _daemon = place.started().await;
    workspace.all_polled().await;
    let kind = FaultKind::Status { code: 429, retry_after: Some("1".to_owned()) };
    workspace.fault(Some(Route::Leads), kind, 1);
    let log = || workspace.sandbox.requests().log;
    wait_until("the fault is met", || log().iter().any(|r| r.status == 429)).await;
    workspace.all_polled().await;
    let log = log();
    let fault = log.iter().find(|request| request.status == 429).unwrap().elapsed_s;
    let during = log.iter().filter(|r| r.elapsed_s > fault && r.elapsed_s < fault + 0.95);
    // One request a poller may have been under way when the answer came.
    assert!(during.clone().count() <= 6, "{:?}", during.collect::<Vec<_>>());
}
