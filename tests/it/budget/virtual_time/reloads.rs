//! What reloads of the configuration do to the intervals between two polls.

use super::shop::{VirtualDaemon, VirtualShop};
use crate::support::Workspace;

#[tokio::test(start_paused = true)]
async fn a_max_interval_is_kept_through_reloads() {
    let shop = VirtualShop::new(Workspace::usual(), 1);
    let longest = [("jobs", 5.4), ("leads", 12.0), ("outsourced_jobs", 14.0)];
    let tables =
        longest.map(|(route, most)| format!("[routes.{route}]\nmax_interval = \"{most}s\"\n"));
    let mut daemon = VirtualDaemon::new(&shop, &tables.concat());
    daemon.start().await;
    let mut until = 0.0;
    for round in 0..20 {
        for wait in [9.1, 14.3, 4.7, 11.9, 20.3] {
            until += wait + 0.3 * f64::from(round);
            shop.until(until).await;
            daemon.reload().await;
        }
    }
    let polls = shop.polls(0.0, until);
    for (route, most) in longest {
        let times = polls.iter().filter(|poll| poll.route.replace('-', "_") == route);
        let times: Vec<f64> = times.map(|poll| poll.elapsed_s).collect();
        let waited = times.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
        // The network delays each request by up to half a second. A poll that a reload cuts off is
        // sent again in the next slot.
        let slot = 60.5 / 45.0;
        assert!(waited <= most + 0.5 + slot, "{route} waited {waited} of {most}");
        assert!(times.len() > 30, "{route} was polled {} times", times.len());
    }
    daemon.stop().await;
}

#[tokio::test(start_paused = true)]
async fn repeated_reloads_keep_no_route_from_being_polled() {
    let shop = VirtualShop::new(Workspace::usual(), 1);
    let mut daemon = VirtualDaemon::new(&shop, "");
    daemon.start().await;
    let mut until = 60.0;
    for _ in 0..100 {
        shop.until(until).await;
        daemon.reload().await;
        until += 3.0;
    }
    let polls = shop.polls(0.0, until);
    for route in ["jobs", "leads", "payments", "outsourced-jobs"] {
        let times = polls.iter().filter(|poll| poll.route == route).map(|poll| poll.elapsed_s);
        let times: Vec<f64> = times.collect();
        let waited = times.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
        // A new daemon polls in turn, or each route in 10 s. Reloads cut off a few requests.
        assert!(
            waited <= 20.0 && times.len() > 20,
            "{route} waited {waited}, {} polls",
            times.len()
        );
    }
    daemon.stop().await;
}
