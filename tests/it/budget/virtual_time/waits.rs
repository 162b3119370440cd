//! Waits that the workspace asked for with `Retry-After`, on virtual time.

use std::time::{Duration, SystemTime};

use sandbox::{Fault, FaultKind, Provider, Received, Route};

use super::SMALL_PAGES;
use super::shop::{VirtualDaemon, VirtualShop};
use crate::support::Workspace;

/// The polls that arrived within `seconds` after the one that was answered with `status`.
pub(super) fn within(shop: &VirtualShop, status: u16, seconds: f64) -> Vec<Received> {
    let log = shop.sandbox.requests().log;
    let fault = log.iter().find(|request| request.status == status).unwrap();
    shop.polls(fault.elapsed_s + 0.001, fault.elapsed_s + seconds)
}

pub(super) fn fails_once(shop: &VirtualShop, route: Route, code: u16, retry_after: &str) {
    let kind = FaultKind::Status { code, retry_after: Some(retry_after.to_owned()) };
    let route = Some(route.segment().to_owned());
    shop.sandbox.fault(Fault { route, kind, count: 1 });
}

/// A daemon whose leads were answered 503 a while ago, with a wait of 90 seconds.
async fn with_waiting_leads(shop: &VirtualShop) -> VirtualDaemon<'_> {
    let mut daemon = VirtualDaemon::new(shop, SMALL_PAGES);
    daemon.start().await;
    shop.until(60.0).await;
    fails_once(shop, Route::Leads, 503, "90");
    shop.until(90.0).await;
    daemon
}

/// During the 90 seconds after the 503 no lead is polled, and the other routes are.
fn leads_rest_alone(shop: &VirtualShop) {
    let during = within(shop, 503, 90.0);
    assert_eq!(of(&during, Route::Leads), 0, "{during:?}");
    assert!(of(&during, Route::Payments) > 5, "the other routes go on: {during:?}");
}

fn of(polls: &[Received], route: Route) -> usize {
    polls.iter().filter(|poll| poll.route == route.segment()).count()
}

#[tokio::test(start_paused = true)]
async fn a_429_with_retry_after_rests_the_whole_key() {
    let shop = VirtualShop::new(Workspace::usual(), 1);
    let mut daemon = VirtualDaemon::new(&shop, SMALL_PAGES);
    daemon.start().await;
    shop.until(120.0).await;
    fails_once(&shop, Route::Leads, 429, "90");
    shop.until(150.0).await;
    let status = daemon.status().await;
    let rest_s = status.budget.resting_s.unwrap();
    assert!(status.pollers.iter().all(|p| p.next_poll_s.unwrap() >= rest_s), "{status:?}");
    shop.until(400.0).await;
    // The others may have been under way when the answer came.
    let during = within(&shop, 429, 90.0);
    assert!(during.len() <= 5 && of(&during, Route::Leads) == 0, "{during:?}");
    assert_eq!(daemon.status().await.pollers[2].failures, 0);
    daemon.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_one_address_asked_for_holds_up_no_other_one_after_a_reload_or_a_restart() {
    for restarts in [false, true] {
        let shop = VirtualShop::new(Workspace::usual(), 1);
        let mut daemon = VirtualDaemon::new(&shop, SMALL_PAGES);
        daemon.start().await;
        shop.until(120.0).await;
        fails_once(&shop, Route::Leads, 429, "3600");
        shop.until(300.0).await;
        let goes_on = async |daemon: &mut VirtualDaemon<'_>| {
            if restarts {
                daemon.kill().await;
                daemon.start().await;
            } else {
                daemon.reload().await;
            }
        };
        goes_on(&mut daemon).await;
        shop.until(600.0).await;
        assert_eq!(shop.polls(200.0, 600.0).len(), 0, "it is the same account: {restarts}");
        daemon.move_to("http://127.0.0.1:10/api");
        goes_on(&mut daemon).await;
        shop.until(700.0).await;
        assert!(shop.polls(600.0, 700.0).len() > 10, "the new one starts at once: {restarts}");
        daemon.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_429_that_arrives_after_a_change_of_the_key_rests_only_the_older_key() {
    let shop = VirtualShop::new(Workspace::usual(), 1);
    let mut daemon = VirtualDaemon::new(&shop, SMALL_PAGES);
    daemon.write_key(&shop.sandbox.automation_key());
    daemon.start().await;
    shop.until(120.0).await;
    fails_once(&shop, Route::Leads, 429, "3600");
    shop.transport.delay_next(Route::Leads.segment(), Duration::from_secs(10));
    let is_refused = || shop.sandbox.requests().log.iter().any(|request| request.status == 429);
    while !is_refused() {
        shop.until(shop.now() + 0.05).await;
    }
    shop.sandbox.add_key("ak_newer", "newer", Provider::Automation);
    daemon.write_key("ak_newer");
    daemon.read_key_again().await;
    let changed_at = shop.now();
    shop.until(changed_at + 120.0).await;
    assert_eq!(daemon.status().await.budget.resting_s, None);
    let polls = shop.polls(changed_at + 15.0, changed_at + 120.0);
    assert!(polls.len() > 40 && of(&polls, Route::Leads) > 4, "{} polls", polls.len());
    daemon.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_503_with_retry_after_rests_its_route_alone() {
    let shop = VirtualShop::new(Workspace::usual(), 1);
    let mut daemon = VirtualDaemon::new(&shop, SMALL_PAGES);
    daemon.start().await;
    shop.until(120.0).await;
    // A date is counted from the answer's own `Date`, or from this clock when it has none.
    let date = httpdate::fmt_http_date(SystemTime::from(shop.wall()) + Duration::from_secs(300));
    fails_once(&shop, Route::Leads, 503, "90");
    fails_once(&shop, Route::Jobs, 502, &date);
    shop.until(600.0).await;
    leads_rest_alone(&shop);
    let polls = shop.polls(0.0, 600.0);
    let failed = polls.iter().position(|poll| poll.status == 502).unwrap();
    let next = polls[failed + 1..].iter().find(|poll| poll.route == Route::Jobs.segment()).unwrap();
    assert!((419.0..440.0).contains(&next.elapsed_s), "{next:?}");
    daemon.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_route_waits_as_long_as_the_server_asked_through_a_reload() {
    let shop = VirtualShop::new(Workspace::usual(), 1);
    let mut daemon = with_waiting_leads(&shop).await;
    daemon.reload().await;
    shop.until(120.0).await;
    daemon.reload().await;
    shop.until(300.0).await;
    leads_rest_alone(&shop);
    daemon.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_route_waits_as_long_as_the_server_asked_through_a_lock_of_the_store() {
    let shop = VirtualShop::new(Workspace::usual(), 1);
    let mut daemon = with_waiting_leads(&shop).await;
    let other = rusqlite::Connection::open(daemon.store_path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    shop.sandbox.burst(Route::Jobs, 1);
    while daemon.status().await.store_pause.is_none() {
        shop.until(shop.now() + 0.1).await;
    }
    other.execute_batch("ROLLBACK").unwrap();
    shop.until(300.0).await;
    assert_eq!(daemon.status().await.store_pause, None);
    let during = within(&shop, 503, 90.0);
    assert_eq!(of(&during, Route::Leads), 0, "{during:?}");
    daemon.stop().await;
}
