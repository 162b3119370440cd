//! The daemon's own schedule and budget, driven as its dispatcher drives them.
//!
//! Faults are part of the run: failed requests, pauses as after a refused key, restarts that keep
//! only what the store keeps, and steps of the wall clock.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::traffic::Traffic;
use super::window::{RouteWindow, SlidingKey};
use super::{RunTotals, SimulationSettings};
use crate::budget::{Budget, Purpose};
use crate::clock::Moment;
use crate::config;
use crate::schedule::{Next, PollResult, PollerSettings, Schedule};

/// How long the key is refused.
const PAUSE: Duration = Duration::from_secs(600);

/// What goes wrong during a run, drawn from a seed.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedFaults {
    /// Chooses when.
    pub seed: u64,
    /// The part of requests that fail.
    pub failing: f64,
    /// Restarts, pauses of ten minutes, and steps of the wall clock of up to a day, each so often
    /// a day on average.
    pub a_day: f64,
}

/// One process with everything the store would keep for the next.
struct SimulatedDaemon<'a> {
    settings: &'a SimulationSettings,
    pollers: Vec<PollerSettings>,
    schedule: Schedule,
    budget: Budget,
    /// When the last requests were sent, as the store keeps it.
    sent: Vec<Duration>,
    /// How far the wall clock is off.
    off: SignedDuration,
    start: Timestamp,
}

impl<'a> SimulatedDaemon<'a> {
    fn new(traffic: &Traffic, settings: &'a SimulationSettings) -> Self {
        let poller = PollerSettings {
            limit: settings.limit,
            min_interval: settings.min_interval,
            max_interval: settings.max_interval,
            weight: 1.0,
            thrift: false,
        };
        let pollers = vec![poller; traffic.routes.len()];
        let now = Moment { elapsed: Duration::ZERO, wall: traffic.start };
        let (schedule, budget) = begin(settings, &pollers, &[], now);
        let (sent, off) = (Vec::new(), SignedDuration::ZERO);
        Self { settings, pollers, schedule, budget, sent, off, start: traffic.start }
    }

    fn moment(&self, elapsed: Duration) -> Moment {
        let wall = self.start.saturating_add(elapsed).and_then(|at| at.saturating_add(self.off));
        Moment { elapsed, wall: wall.unwrap_or(self.start) }
    }

    /// What the store keeps is taken over, the rest is forgotten.
    fn restart(&mut self, now: Duration) {
        let moment = self.moment(now);
        let learned: Vec<String> =
            (0..self.pollers.len()).map(|poller| self.schedule.learned(poller)).collect();
        let ages: Vec<Duration> = self.sent.iter().map(|at| now.saturating_sub(*at)).collect();
        (self.schedule, self.budget) = begin(self.settings, &self.pollers, &ages, moment);
        for (poller, learned) in learned.iter().enumerate() {
            self.schedule.restore(poller, learned, moment);
        }
    }

    fn started(&mut self, poller: usize, now: Moment) {
        let old = self.sent.partition_point(|at| *at + Duration::from_secs(61) <= now.elapsed);
        self.sent.drain(..old);
        self.sent.push(now.elapsed);
        self.schedule.started(poller, now);
    }
}

/// A process that has just started: its first polls go without spacing.
fn begin(
    settings: &SimulationSettings,
    pollers: &[PollerSettings],
    sent: &[Duration],
    now: Moment,
) -> (Schedule, Budget) {
    let requests_per_minute = settings.requests_per_minute;
    let mut budget = Budget::new(config::BudgetSettings { requests_per_minute, reserve: 0 }, now);
    budget.recall(sent, now);
    budget.start_cycle(u32::try_from(pollers.len()).unwrap_or(u32::MAX));
    budget.shorten_cycle();
    let pace = budget.pace_per_minute(now);
    (Schedule::new(pollers.to_vec(), pace, now), budget)
}

/// Runs from the start of the traffic to its end.
pub(super) fn run(traffic: &Traffic, settings: &SimulationSettings) -> RunTotals {
    let mut run = RunTotals::default();
    let mut windows = RouteWindow::all(traffic, settings.limit);
    let mut key = SlidingKey::new(settings.requests_per_minute);
    let mut daemon = SimulatedDaemon::new(traffic, settings);
    let mut chance = settings.faults.as_ref().map(|faults| fastrand::Rng::with_seed(faults.seed));
    let mut last_polled: Vec<Option<f64>> = vec![None; windows.len()];
    let (mut now, mut trouble_at) = (Duration::ZERO, Duration::MAX);
    let end = Duration::from_secs_f64(traffic.span_s);
    if let (Some(faults), Some(chance)) = (&settings.faults, &mut chance) {
        trouble_at = between_troubles(faults, chance);
    }
    while now < end {
        if let (true, Some(faults), Some(chance)) =
            (now >= trouble_at, &settings.faults, &mut chance)
        {
            trouble_at = now + between_troubles(faults, chance);
            now += trouble(&mut daemon, chance, now);
        }
        let moment = daemon.moment(now);
        let poller = match daemon.schedule.next(moment) {
            Next::Poll(poller) => poller,
            Next::WaitUntil(until) => {
                now = until;
                continue;
            }
            Next::Idle => break,
        };
        if let Err(until) = daemon.budget.try_take(Purpose::Poll, moment) {
            now = until;
            continue;
        }
        let at = now.as_secs_f64();
        run.count_request(at);
        if let Some(last) = last_polled[poller].replace(at) {
            run.over_guarantee =
                run.over_guarantee.max(at - last - daemon.schedule.guarantee(poller));
        }
        daemon.started(poller, moment);
        let seen = key.take(at);
        daemon.budget.observe(&seen, moment);
        let failing = settings.faults.as_ref().map_or(0.0, |faults| faults.failing);
        let outcome = if seen.refused {
            run.http_429 += 1;
            PollResult::Failed { not_before: moment.elapsed }
        } else if chance.as_mut().is_some_and(|chance| chance.f64() < failing) {
            PollResult::Failed { not_before: moment.elapsed + Duration::from_secs(5) }
        } else {
            windows[poller].read(at, &mut run)
        };
        daemon.schedule.observe(poller, &outcome, moment);
        daemon.budget.set_needed(daemon.schedule.needed_per_minute());
        daemon.schedule.set_pace(daemon.budget.pace_per_minute(moment), moment);
    }
    for window in &mut windows {
        window.read(traffic.span_s, &mut run);
    }
    run
}

fn between_troubles(faults: &SimulatedFaults, chance: &mut fastrand::Rng) -> Duration {
    let seconds = -(1.0 - chance.f64()).ln() * 86_400.0 / (3.0 * faults.a_day).max(1e-9);
    Duration::from_secs_f64(seconds.min(1e12))
}

/// Brings one trouble about; gives how long nothing can be asked.
fn trouble(
    daemon: &mut SimulatedDaemon<'_>,
    chance: &mut fastrand::Rng,
    now: Duration,
) -> Duration {
    match chance.u8(0..3) {
        0 => daemon.restart(now),
        1 => return PAUSE,
        _ => daemon.off = SignedDuration::from_secs(chance.i64(-86_400..86_400)),
    }
    Duration::ZERO
}
