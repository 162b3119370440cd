//! The rate budget over hours of virtual time: the real dispatcher, store and deliverers against
//! the sandbox's router.
//!
//! Nothing here waits for real time: an hour of one daemon takes about a second. A seed moves the
//! start, the delays of the network and the jitter of retries.

mod shop;
mod waits;

use sandbox::{Options, Route};

use shopmirror::api::Client;
use shopmirror::poll::PollingStatus;

use self::shop::{HOUR, VirtualDaemon, VirtualShop};
use crate::support::Workspace;

/// Small pages keep an hour of polls cheap.
const SMALL_PAGES: &str = "[poll]\nlimit = 10\n";

/// The seeds of a test; SHOPMIRROR_SEEDS asks for more.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    0..std::env::var("SHOPMIRROR_SEEDS").map_or(usual, |seeds| seeds.parse().unwrap())
}

fn was_never_refused(shop: &VirtualShop, limit: u32) {
    let requests = shop.sandbox.requests();
    let refused: Vec<_> = requests.log.iter().filter(|r| r.status != 200).collect();
    assert!(refused.is_empty(), "{refused:?}");
    let most = requests.max_in_60s["automation"];
    assert!(
        most <= limit as usize,
        "{most} requests in a minute, of {limit}"
    );
}

#[tokio::test(start_paused = true)]
async fn no_minute_ever_holds_more_requests_than_the_limit_stops_and_kills_included() {
    // A reserve would hide requests that a start forgets.
    for (seed, limit, is_killed, least, most) in [
        (0, 20, false, 0.0, 40.0),
        (1, 60, true, 3.0, 43.0),
        (2, 30, true, 0.3, 4.0),
    ] {
        let options = Options {
            requests_per_minute: limit,
            ..Workspace::usual()
        };
        let shop = VirtualShop::new(options, seed);
        let budget = format!("[budget]\nrequests_per_minute = {limit}\nreserve = 0\n");
        let mut daemon = VirtualDaemon::new(&shop, &format!("{budget}{SMALL_PAGES}"));
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..25 {
            daemon.start().await;
            shop.until(shop.now() + least + random.f64() * (most - least))
                .await;
            if is_killed {
                daemon.kill().await;
            } else {
                daemon.stop().await;
            }
        }
        was_never_refused(&shop, limit);
        let a_minute = shop.sandbox.requests().total as f64 / shop.now() * 60.0;
        assert!(
            is_killed || a_minute > 18.0,
            "only {a_minute} a minute were used"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_daemon_does_not_take_its_own_requests_for_others() {
    let shop = VirtualShop::new(Workspace::usual(), 1);
    let mut daemon = VirtualDaemon::new(&shop, SMALL_PAGES);
    daemon.start().await;
    shop.until(300.0).await;
    daemon.stop().await;
    daemon.start().await;
    for later in [1.0, 5.0, 20.0, 40.0] {
        shop.until(300.0 + later).await;
        let budget = daemon.status().await.budget;
        assert!(
            budget.others_per_minute < 1.0,
            "{later} s after the start: {budget:?}"
        );
    }
    shop.until(360.0).await;
    assert!(shop.polls(300.0, 360.0).len() >= 42, "the pace stays");
    daemon.stop().await;
}

/// The longest time by which an interval between two polls of a route exceeded the guarantee that
/// was stated meanwhile, and where.
async fn exceeds_its_guarantee(
    shop: &VirtualShop,
    daemon: &VirtualDaemon<'_>,
    span: f64,
) -> (f64, String) {
    let begun = shop.now();
    let mut stated = Vec::new();
    while shop.now() < begun + span {
        let status = daemon.status().await;
        let guarantees = status
            .pollers
            .iter()
            .map(|poller| (poller.route.replace('_', "-"), poller.guarantee_s.unwrap()));
        stated.push((shop.now(), guarantees.collect::<Vec<_>>()));
        shop.until(shop.now() + 1.0).await;
    }
    let mut worst = (f64::NEG_INFINITY, String::new());
    for (place, route) in Route::ALL.into_iter().enumerate() {
        let polls = shop.polls(begun, begun + span);
        let times = polls.iter().filter(|poll| poll.route == route.segment());
        let times: Vec<f64> = times.map(|poll| poll.elapsed_s).collect();
        for pair in times.windows(2) {
            let guarantee = stated
                .iter()
                .filter(|(at, _)| (pair[0]..pair[1] + 1.0).contains(at))
                .map(|(_, guarantees)| {
                    assert_eq!(guarantees[place].0, route.segment());
                    guarantees[place].1
                })
                .fold(0.0, f64::max);
            let excess = pair[1] - pair[0] - guarantee;
            if excess > worst.0 {
                worst = (
                    excess,
                    format!("{} {pair:?}, {guarantee} s stated", route.segment()),
                );
            }
        }
    }
    worst
}

#[tokio::test(start_paused = true)]
async fn no_route_waits_longer_than_its_guarantee_from_the_first_minute_on() {
    for (seed, a_minute, reserve) in [(0, 60, 15), (1, 10, 0), (2, 25, 5)] {
        let options = Options {
            requests_per_minute: a_minute,
            ..Workspace::usual()
        };
        let shop = VirtualShop::new(options, seed);
        let budget = format!("[budget]\nrequests_per_minute = {a_minute}\nreserve = {reserve}\n");
        let mut daemon = VirtualDaemon::new(&shop, &format!("{budget}{SMALL_PAGES}"));
        daemon.start().await;
        let (excess, at) = exceeds_its_guarantee(&shop, &daemon, HOUR / 4.0).await;
        assert!(
            excess <= 1.0,
            "{a_minute} a minute, reserve {reserve}: {excess} s over; {at}"
        );
        daemon.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn guarantees_hold_after_restarts_and_while_another_client_comes_and_goes() {
    for seed in seeds(1) {
        let shop = VirtualShop::new(Workspace::usual(), seed);
        let mut daemon = VirtualDaemon::new(&shop, SMALL_PAGES);
        for runs in [7.0, 25.0, 50.0] {
            daemon.start().await;
            let (excess, at) = exceeds_its_guarantee(&shop, &daemon, runs).await;
            assert!(
                excess <= 1.0,
                "seed {seed}, restarted: {excess} s over; {at}"
            );
            daemon.stop().await;
        }
        daemon.start().await;
        let from = shop.now() + 200.0 + 7.3 * seed as f64;
        let ((excess, at), statuses) = tokio::join!(
            exceeds_its_guarantee(&shop, &daemon, 1200.0),
            shop.rival(40, from, from + 400.0)
        );
        assert!(
            excess <= 1.0,
            "seed {seed}, beside a rival: {excess} s over; {at}"
        );
        assert!(
            statuses.iter().all(|status| *status == 200),
            "seed {seed}: the rival was refused"
        );
        was_never_refused(&shop, 60);
        daemon.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn searches_without_end_take_a_twentieth_of_the_budget_and_no_guarantee() {
    for (seed, a_minute, reserve, span) in [(0, 60, 15, HOUR / 4.0), (1, 12, 0, HOUR * 0.75)] {
        let options = Options {
            requests_per_minute: a_minute,
            ..Workspace::usual()
        };
        let shop = VirtualShop::new(options, seed);
        let budget = format!("[budget]\nrequests_per_minute = {a_minute}\nreserve = {reserve}\n");
        let mut daemon = VirtualDaemon::new(&shop, &format!("{budget}{SMALL_PAGES}"));
        daemon.start().await;
        shop.until(120.0).await;
        let until = 120.0 + span;
        let search = async {
            let background = daemon.background();
            let search = async |client: &Client| client.search_customers("a", None).await;
            let mut searches = 0;
            while shop.now() < until {
                background.request(search).await.unwrap();
                searches += 1;
            }
            searches
        };
        let guarantee = exceeds_its_guarantee(&shop, &daemon, span);
        let ((excess, at), searches) = tokio::join!(guarantee, search);
        let whole = span / 60.5 * f64::from(a_minute - reserve);
        let polls = shop.polls(120.0, until).len() as f64;
        assert!(excess <= 1.0, "{a_minute} a minute: {excess} s over; {at}");
        let part = f64::from(searches) / whole;
        assert!(
            (0.03..0.06).contains(&part),
            "{searches} searches, {part} of the budget"
        );
        assert!(polls > 0.93 * whole, "{polls} polls of {whole}");
        daemon.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn other_clients_that_use_up_the_key_are_a_risk_until_they_leave() {
    let shop = VirtualShop::new(Workspace::usual(), 1);
    let mut daemon = VirtualDaemon::new(&shop, SMALL_PAGES);
    daemon.start().await;
    shop.until(600.0).await;
    let is_at_risk = |status: &PollingStatus| status.pollers.iter().any(|poller| poller.at_risk);
    assert!(!is_at_risk(&daemon.status().await));
    shop.rival(60, 600.0, 1800.0).await;
    let status = daemon.status().await;
    assert!(is_at_risk(&status), "{status:?}");
    // The health names the others from half of the key on.
    assert!(
        status.budget.others_per_minute > 30.0,
        "{:?}",
        status.budget
    );
    shop.until(HOUR).await;
    let status = daemon.status().await;
    assert!(!is_at_risk(&status), "{status:?}");
    daemon.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_is_killed_every_few_seconds_reads_every_route_in_turn() {
    for every in [4.0, 6.0, 10.0, 15.0] {
        let shop = VirtualShop::new(Workspace::usual(), 3);
        let mut daemon = VirtualDaemon::new(&shop, SMALL_PAGES);
        let begun = shop.now();
        while shop.now() < begun + 600.0 {
            daemon.start().await;
            shop.until(shop.now() + every).await;
            daemon.kill().await;
        }
        let polls = shop.polls(begun, shop.now());
        let even_round = 600.0 / polls.len() as f64 * Route::ALL.len() as f64;
        let mut longest: f64 = 0.0;
        for route in Route::ALL {
            let mut last = begun;
            for poll in polls.iter().filter(|poll| poll.route == route.segment()) {
                longest = longest.max(poll.elapsed_s - last);
                last = poll.elapsed_s;
            }
        }
        assert!(
            longest <= 1.8 * even_round,
            "killed every {every} s: a route waited {longest} s, an even round takes {even_round} s"
        );
        // How often each other route was polled since the last poll of a route.
        let mut since = vec![[0; Route::ALL.len()]; Route::ALL.len()];
        for poll in shop.polls(begun, shop.now()) {
            for (place, route) in Route::ALL.into_iter().enumerate() {
                if poll.route == route.segment() {
                    since[place] = [0; Route::ALL.len()];
                    for (other, counts) in since.iter_mut().enumerate() {
                        counts[place] += usize::from(other != place);
                    }
                }
            }
            let most = since.iter().flatten().max();
            assert!(
                most <= Some(&3),
                "killed every {every} s, at {} s: {since:?}",
                poll.elapsed_s
            );
        }
    }
}
