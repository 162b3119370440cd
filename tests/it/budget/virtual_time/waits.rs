//! Waits that the workspace asked for with `Retry-After`, on virtual time.

use std::time::{Duration, SystemTime};

use sandbox::{Fault, FaultKind, Received, Route};

use super::shop::{VirtualDaemon, VirtualShop};
use super::{SMALL_PAGES, seeds};
use crate::support::Workspace;

/// The polls that arrived within `seconds` after the one that was answered with `status`.
fn within(shop: &VirtualShop, status: u16, seconds: f64) -> Vec<Received> {
    let log = shop.sandbox.requests().log;
    let fault = log.iter().find(|request| request.status == status).unwrap();
    shop.polls(fault.elapsed_s + 0.001, fault.elapsed_s + seconds)
}

fn fails_once(shop: &VirtualShop, route: Route, code: u16, retry_after: &str) {
    let kind = FaultKind::Status {
        code,
        retry_after: Some(retry_after.to_owned()),
    };
    let route = Some(route.segment().to_owned());
    shop.sandbox.fault(Fault {
        route,
        kind,
        count: 1,
    });
}

fn of(polls: &[Received], route: Route) -> usize {
    polls
        .iter()
        .filter(|poll| poll.route == route.segment())
        .count()
}

#[tokio::test(start_paused = true)]
async fn a_429_with_retry_after_rests_the_whole_key_through_a_kill() {
    let shop = VirtualShop::new(Workspace::usual(), 1);
    let mut daemon = VirtualDaemon::new(&shop, SMALL_PAGES);
    daemon.start().await;
    shop.until(120.0).await;
    fails_once(&shop, Route::Leads, 429, "90");
    shop.until(150.0).await;
    let status = daemon.status().await;
    let rest_s = status.budget.resting_s.unwrap();
    assert!(
        status
            .pollers
            .iter()
            .all(|p| p.next_poll_s.unwrap() >= rest_s),
        "{status:?}"
    );
    daemon.kill().await;
    daemon.start().await;
    shop.until(400.0).await;
    // The others may have been under way when the answer came.
    let during = within(&shop, 429, 90.0);
    assert!(
        during.len() <= 5 && of(&during, Route::Leads) == 0,
        "{during:?}"
    );
    assert_eq!(daemon.status().await.pollers[2].failures, 0);
    daemon.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_503_with_retry_after_rests_its_route_alone_through_a_reload() {
    let shop = VirtualShop::new(Workspace::usual(), 1);
    let mut daemon = VirtualDaemon::new(&shop, SMALL_PAGES);
    daemon.start().await;
    shop.until(120.0).await;
    // A date is counted from the answer's own `Date`, or from this clock when it has none.
    let date = httpdate::fmt_http_date(
        SystemTime::try_from(shop.wall()).unwrap() + Duration::from_secs(300),
    );
    fails_once(&shop, Route::Leads, 503, "90");
    fails_once(&shop, Route::Jobs, 502, &date);
    shop.until(150.0).await;
    daemon.reload().await;
    shop.until(600.0).await;
    let during = within(&shop, 503, 90.0);
    assert_eq!(of(&during, Route::Leads), 0, "{during:?}");
    assert!(
        of(&during, Route::Payments) > 5,
        "the other routes go on: {during:?}"
    );
    let polls = shop.polls(0.0, 600.0);
    let failed = polls.iter().position(|poll| poll.status == 502).unwrap();
    let next = polls[failed + 1..]
        .iter()
        .find(|poll| poll.route == Route::Jobs.segment())
        .unwrap();
    assert!((419.0..440.0).contains(&next.elapsed_s), "{next:?}");
    daemon.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_every_route_is_read_within_a_turn_of_the_first() {
    for seed in seeds(2) {
        let shop = VirtualShop::new(Workspace::usual(), seed);
        let mut daemon = VirtualDaemon::new(&shop, SMALL_PAGES);
        daemon.start().await;
        shop.until(120.0).await;
        for route in Route::ALL {
            let kind = FaultKind::Status {
                code: 503,
                retry_after: None,
            };
            let route = Some(route.segment().to_owned());
            shop.sandbox.fault(Fault {
                route,
                kind,
                count: u32::MAX,
            });
        }
        shop.until(720.0).await;
        shop.sandbox.clear_faults();
        shop.until(1200.0).await;
        let polls = shop.polls(720.0, 1200.0);
        let back = Route::ALL.map(|route| {
            let mut of_route = polls.iter().filter(|poll| poll.route == route.segment());
            of_route.find(|poll| poll.status == 200).unwrap().elapsed_s
        });
        let first = back.iter().copied().fold(f64::INFINITY, f64::min);
        let last = back.iter().copied().fold(0.0, f64::max);
        // Six slots, and what the network delays.
        assert!(last - first < 10.0, "seed {seed}: {back:?}");
        daemon.stop().await;
    }
}

fn answers_between(shop: &VirtualShop, route: Option<Route>) {
    shop.sandbox.fault(Fault {
        route: route.map(|route| route.segment().to_owned()),
        kind: FaultKind::Between {
            code: 403,
            body: "<html><title>Just a moment...</title>".to_owned(),
        },
        count: u32::MAX,
    });
}

#[tokio::test(start_paused = true)]
async fn a_challenge_holds_every_route_and_two_minutes_after_it_all_are_read() {
    let shop = VirtualShop::new(Workspace::usual(), 1);
    let mut daemon = VirtualDaemon::new(&shop, SMALL_PAGES);
    daemon.start().await;
    shop.until(120.0).await;
    answers_between(&shop, None);
    shop.until(720.0).await;
    let status = daemon.status().await;
    for poller in &status.pollers {
        assert_eq!(poller.state.to_string(), "somebody_between", "{status:?}");
    }
    let paused = status.paused.unwrap();
    assert!(paused.contains("a web page (status 403)"), "{paused}");
    assert_eq!(status.paused_quotation.unwrap(), "Just a moment...");
    let log = shop.sandbox.requests().log;
    let during = log.iter().filter(|request| request.elapsed_s > 121.0);
    let during: Vec<_> = during.map(|request| request.status).collect();
    // Polls that were under way, and pings.
    assert!((5..15).contains(&during.len()), "{during:?}");

    shop.sandbox.clear_faults();
    shop.until(720.0 + 145.0).await;
    for route in Route::ALL {
        let polls = of(&shop.polls(720.0, 865.0), route);
        assert!(polls > 0, "{route} is read again");
    }
    assert_eq!(daemon.status().await.paused, None);
    daemon.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_route_that_somebody_between_answers_alone_waits_alone() {
    let shop = VirtualShop::new(Workspace::usual(), 1);
    let mut daemon = VirtualDaemon::new(&shop, SMALL_PAGES);
    daemon.start().await;
    shop.until(120.0).await;
    answers_between(&shop, Some(Route::Leads));
    shop.until(720.0).await;
    let status = daemon.status().await;
    for poller in &status.pollers {
        let expected = if poller.route == "leads" {
            "route_broken"
        } else {
            "ok"
        };
        assert_eq!(poller.state.to_string(), expected, "{status:?}");
    }
    let polls = shop.polls(200.0, 720.0);
    assert!(of(&polls, Route::Leads) < 7, "{polls:?}");
    assert!(of(&polls, Route::Jobs) > 20, "{polls:?}");
    shop.sandbox.clear_faults();
    shop.until(720.0 + 145.0).await;
    assert!(of(&shop.polls(720.0, 865.0), Route::Leads) > 0);
    daemon.stop().await;
}
