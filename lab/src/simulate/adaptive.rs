//! The daemon's own schedule and budget, driven as its dispatcher drives them.

use std::time::Duration;

use shopmirror_core::budget::BudgetSettings;
use shopmirror_core::budget::{Budget, Purpose};
use shopmirror_core::clock::Moment;
use shopmirror_core::schedule::{Next, PollResult, PollerSettings, Schedule};

use super::traffic::Traffic;
use super::window::{RouteWindow, SlidingKey};
use super::{RunTotals, SimulationSettings};

/// Runs from the start of the traffic to its end, as a process that has just started: its first
/// polls go without spacing.
pub(super) fn run(traffic: &Traffic, settings: &SimulationSettings) -> RunTotals {
    let mut run = RunTotals::default();
    let mut windows = RouteWindow::all(traffic, settings.limit);
    let requests_per_minute = settings.requests_per_minute;
    let mut key = SlidingKey::new(requests_per_minute);
    let moment = |elapsed: Duration| {
        let wall = traffic
            .start
            .saturating_add(elapsed)
            .unwrap_or(traffic.start);
        Moment { elapsed, wall }
    };
    let begin = moment(Duration::ZERO);
    let poller = PollerSettings {
        limit: settings.limit,
        min_interval: settings.min_interval,
        max_interval: settings.max_interval,
    };
    let pollers = vec![poller; traffic.routes.len()];
    let mut budget = Budget::new(
        BudgetSettings {
            requests_per_minute,
            reserve: 0,
        },
        begin,
    );
    budget.start_cycle(pollers.len(), begin);
    let mut schedule = Schedule::new(pollers, budget.pace_per_minute(begin), begin);
    let mut last_polled: Vec<Option<f64>> = vec![None; windows.len()];
    let mut now = Duration::ZERO;
    let end = Duration::from_secs_f64(traffic.span_s);
    while now < end {
        let moment = moment(now);
        let poller = match schedule.next(moment) {
            Next::Poll(poller) => poller,
            Next::WaitUntil(until) => {
                now = until;
                continue;
            }
            Next::Idle => break,
        };
        if let Err(until) = budget.try_take(Purpose::Poll, moment) {
            now = until;
            continue;
        }
        let at = now.as_secs_f64();
        run.count_request(at);
        if let Some(last) = last_polled[poller].replace(at) {
            run.over_guarantee = run
                .over_guarantee
                .max(at - last - schedule.guarantee(poller));
        }
        schedule.started(poller, moment);
        let seen = key.take(at);
        budget.observe(&seen, moment);
        let outcome = if seen.refused {
            run.http_429 += 1;
            PollResult::Failed {
                not_before: moment.elapsed,
            }
        } else {
            windows[poller].read(at, &mut run)
        };
        schedule.observe(poller, &outcome, moment);
        budget.set_needed(schedule.needed_per_minute());
        schedule.set_pace(budget.pace_per_minute(moment), moment);
    }
    for window in &mut windows {
        window.read(traffic.span_s, &mut run);
    }
    run
}
