//! The budget: the key's limit holds however the daemon starts, and a rest that was asked for is kept.

use std::time::{Duration, SystemTime};

use sandbox::{FaultKind, Options, Received, Route, Shop};

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

/// Lets time pass: what is tested here is what happens in it.
async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

/// What the daemons of a workspace asked for between two of the sandbox's seconds.
fn polls(log: &[Received], from: f64, to: f64) -> impl Iterator<Item = &Received> {
    let polled = |r: &&Received| Route::ALL.iter().any(|route| route.segment() == r.route);
    log.iter().filter(polled).filter(move |r| (from..to).contains(&r.elapsed_s))
}

/// Both take minutes and next to no work, so they share one test and its thread.
#[tokio::test]
async fn clients_that_share_a_key_are_left_their_requests() {
    tokio::join!(
        a_rival_is_never_refused_and_full_pace_is_back_two_minutes_after_it(),
        two_daemons_come_to_equal_shares(),
    );
}

async fn a_rival_is_never_refused_and_full_pace_is_back_two_minutes_after_it() {
    let workspace = Workspace::of(Workspace::usual()).await;
    let place = workspace.place();
    place.configure_all("");
    let _daemon = place.started().await;
    seconds(40).await;

    let (url, key) = (workspace.url("/automation/ping"), workspace.sandbox.automation_key());
    let client = shopmirror::tls::client_builder().build().unwrap();
    let mut turn = tokio::time::interval(Duration::from_millis(60_000 / 50));
    for _ in 0..60 {
        turn.tick().await;
        let asked = client.get(&url).header("x-api-key", &key).send().await.unwrap();
        assert_eq!(asked.status(), 200, "the rival was refused");
    }
    let during = workspace.sandbox.requests();
    let left = during.log.last().unwrap().elapsed_s;
    let beside = polls(&during.log, left - 30.0, left).count();
    assert!((1..=10).contains(&beside), "{beside} polls beside the rival in its last 30 s");
    let others = place.status().await["budget"]["others_per_minute"].as_f64().unwrap();
    assert!((35.0..60.0).contains(&others), "{others} a minute inferred of the rival's 50");

    seconds(151).await;
    let requests = workspace.sandbox.requests();
    let again = polls(&requests.log, left + 120.0, left + 150.0).count();
    assert!(again >= 18, "{again} polls in half a minute, two minutes after the rival left");
    assert!(requests.log.iter().all(|request| request.status == 200), "none was refused");
    assert!(requests.max_in_60s["automation"] <= 60, "{:?}", requests.max_in_60s);
    let status = place.status().await;
    assert_eq!((&status["health"], place.number("SELECT count(*) FROM gaps")), (&"ok".into(), 0));
}

async fn two_daemons_come_to_equal_shares() {
    let workspace = Workspace::of(Options { shop: Shop::Chain, ..Workspace::usual() }).await;
    let (first, second) = (workspace.place(), workspace.place());
    first.configure_all("businesses = [\"1\"]\n");
    second.configure_all("businesses = [\"2\"]\n");
    let _first = first.started().await;
    seconds(40).await;
    let _second = second.started().await;
    seconds(200).await;

    let requests = workspace.sandbox.requests();
    let end = requests.log.last().unwrap().elapsed_s;
    let of = |business: i64| {
        polls(&requests.log, end - 120.0, end).filter(|poll| poll.business == business).count()
    };
    let (one, two) = (of(1), of(2));
    assert!(one + two >= 40, "{one} and {two} in two minutes: the key is hardly used");
    assert!((one * 3).min(two * 3) >= one + two, "{one} and {two}: one of them gets all");
    assert!(requests.log.iter().all(|request| request.status == 200), "none was refused");
    assert!(requests.max_in_60s["automation"] <= 60, "{:?}", requests.max_in_60s);
}
