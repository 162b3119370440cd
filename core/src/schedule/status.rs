//! What the schedule knows and plans for a poller, for people and tools; decides nothing.

use super::poller::Poller;
use super::{FILLED, Schedule, seconds};
use crate::clock::Moment;
use crate::duration;

/// How the schedule stands for one poller. Times are seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleStatus {
    /// New records an hour, as estimated now.
    pub rate_per_hour: f64,
    /// The interval that results from its share of the budget; all of them together use the budget.
    pub interval_s: f64,
    /// The guaranteed longest interval.
    pub guarantee_s: f64,
    /// Until the next poll is due; `None` while a request is under way.
    pub next_poll_s: Option<f64>,
    /// Whether records may be missed in traffic like that seen so far.
    pub at_risk: bool,
    /// Why it is polled when it is.
    pub reason: String,
}

/// A guarantee longer than `max_interval` by this factor is a risk: other clients leave too little.
const BEYOND: f64 = 2.0;
/// A `max_interval` below this, in seconds, counts as this: no other client makes so short a wait
/// long.
const MIN_INTERVAL_S: f64 = 5.0;

/// No budget of a key helps against a page of records that come within this time, in seconds.
const HOPELESS_S: f64 = 1.5;

impl Schedule {
    /// What is known and planned for a poller.
    #[must_use]
    pub fn status(&self, poller: usize, now: Moment) -> ScheduleStatus {
        let (poller, at) = (&self.pollers[poller], seconds(now));
        let planned = self.planned(poller, at);
        ScheduleStatus {
            rate_per_hour: poller.rate_now() * 3600.0,
            interval_s: poller.interval,
            guarantee_s: poller.guarantee.max(poller.raised.unwrap_or(0.0)),
            next_poll_s: poller.in_flight.is_none().then(|| (planned - at).max(0.0)),
            at_risk: self.risk(poller) >= 1.0,
            reason: self.reason(poller, at),
        }
    }

    /// How much of a page may fill between two polls in traffic like that seen so far; from 1 on
    /// records may be missed.
    fn risk(&self, poller: &Poller) -> f64 {
        // Waits after failed polls are told apart from this.
        let guarantee = poller.guarantee - (poller.not_before - poller.last).max(0.0);
        let page = poller.page();
        // Before anything was watched the rate is only supposed.
        let base = if poller.memory.watched > 0.0 {
            poller.memory.rate.base
        } else {
            0.0
        };
        let steady = base * guarantee / (FILLED * page);
        // The other routes may be due first.
        let next = poller.interval.max(guarantee.min(self.turn));
        let import = poller
            .arrivals
            .running
            .map_or(0.0, |speed| speed * next / page);
        let slow = poller
            .memory
            .fills
            .iter()
            .filter(|(_, took)| *took > HOPELESS_S);
        let fills = slow.map(|(_, took)| guarantee / took);
        // Without budget a guarantee becomes longer than the route may ever wait.
        let most = poller.max_interval.max(MIN_INTERVAL_S) * BEYOND;
        let waits = guarantee / most;
        fills.fold(steady.max(import).max(waits), f64::max)
    }

    fn reason(&self, poller: &Poller, at: f64) -> String {
        let wait = poller.not_before - at;
        let longest = poller.reserved.map_or(poller.guarantee, |own| own.every);
        match poller.arrivals.running {
            _ if wait > 0.0 => {
                format!(
                    "waits {} after a failed poll",
                    duration::seconds(wait.round().max(1.0))
                )
            }
            _ if poller.raised.is_some() => {
                "the budget is too small for its max_interval or every".into()
            }
            _ if poller.is_fixed() => "fixed by `every`".into(),
            _ if !poller.is_read() => "not polled yet".into(),
            Some(speed) => {
                format!(
                    "an import of about {:.0} records a minute is running",
                    speed * 60.0
                )
            }
            None if poller.interval >= longest * 0.999 => {
                "its guarantee; its share of the budget alone would be fewer polls".into()
            }
            None if poller.interval <= poller.min_interval * 1.001 => {
                "the budget allows more polls than min_interval does".into()
            }
            None => {
                let rate = poller.rate_now() * 3600.0;
                format!("its share of the budget at {rate:.1} records an hour")
            }
        }
    }
}
