//! The fixed schedules the adaptive one is compared with: as a careful script would poll.

use super::traffic::Traffic;
use super::window::{RouteWindow, SlidingKey};
use super::{RunTotals, SimulationSettings};

/// Polls as (time, route), in order of time.
type PollTimes = Vec<(f64, usize)>;

/// Every route in turn, evenly over the whole time.
pub(super) fn uniform(traffic: &Traffic, requests: u64) -> PollTimes {
    let step = traffic.span_s / requests.max(1) as f64;
    let routes = traffic.routes.len() as u64;
    (0..requests)
        .map(|k| ((k as f64 + 0.5) * step, (k % routes) as usize))
        .collect()
}

/// Every route evenly, as often as its share of all records.
pub(super) fn proportional(traffic: &Traffic, requests: u64) -> PollTimes {
    let total: usize = traffic
        .routes
        .iter()
        .map(|route| route.arrivals.len())
        .sum();
    if total == 0 {
        return uniform(traffic, requests);
    }
    let mut plan = PollTimes::new();
    let mut share = 0.0;
    let mut planned = 0;
    for (route, one) in traffic.routes.iter().enumerate() {
        share += requests as f64 * one.arrivals.len() as f64 / total as f64;
        let polls = (share.round() as u64).min(requests) - planned;
        planned += polls;
        let step = traffic.span_s / polls.max(1) as f64;
        let phase = (route as f64 + 0.5) / traffic.routes.len() as f64;
        for poll in 0..polls {
            plan.push(((poll as f64 + phase) * step, route));
        }
    }
    plan.sort_by(|a, b| a.0.total_cmp(&b.0));
    plan
}

/// All routes at once, at even ticks.
pub(super) fn cron(traffic: &Traffic, requests: u64) -> PollTimes {
    let routes = traffic.routes.len() as u64;
    let ticks = requests.div_ceil(routes.max(1));
    let step = traffic.span_s / ticks.max(1) as f64;
    (0..requests)
        .map(|k| (((k / routes) as f64 + 0.5) * step, (k % routes) as usize))
        .collect()
}

/// Polls as planned, whatever the responses.
pub(super) fn run(
    traffic: &Traffic,
    settings: &SimulationSettings,
    plan: &[(f64, usize)],
) -> RunTotals {
    let mut run = RunTotals::default();
    let mut windows = RouteWindow::all(traffic, settings.limit);
    let mut key = SlidingKey::new(settings.requests_per_minute);
    for &(at, route) in plan {
        run.count_request(at);
        if key.take(at).refused {
            run.http_429 += 1;
        } else {
            windows[route].read(at, &mut run);
        }
    }
    for window in &mut windows {
        window.read(traffic.span_s, &mut run);
    }
    run
}
