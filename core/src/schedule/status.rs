//! What the schedule knows and plans for a poller, for people and tools; decides nothing.

use super::arrivals::FILLED;
use super::poller::Poller;
use super::slots::LATE_S;
use super::{Schedule, seconds};
use crate::clock::Moment;
use crate::duration;

/// A guarantee longer than `max_interval` by this factor is a risk: other clients leave too little.
const BEYOND: f64 = 2.0;
/// A `max_interval` below this, in seconds, counts as this: no other client makes so short a wait
/// long.
const MIN_INTERVAL_S: f64 = 5.0;
/// No budget of a key helps against a page of records that come within this time, in seconds.
const HOPELESS_S: f64 = 1.5;

/// How the schedule stands for one poller. Times are seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleStatus {
    /// New records an hour, as estimated now.
    pub rate_per_hour: f64,
    /// The interval that results from its share of the budget; all of them together use the budget.
    pub interval_s: f64,
    /// The guaranteed longest interval.
    pub guarantee_s: f64,
    /// Until the next poll is due; `None` while a request is in flight.
    pub next_poll_s: Option<f64>,
    /// Whether records may be missed in traffic like that seen so far.
    pub at_risk: bool,
    /// Why it is polled when it is.
    pub reason: String,
}

impl Schedule {
    /// What is learned and planned for a poller.
    #[must_use]
    pub fn status(&self, poller: usize, now: Moment) -> ScheduleStatus {
        let poller = &self.pollers[poller];
        let at = seconds(now);
        let next_poll_s = match poller.in_flight {
            Some(_) => None,
            None => Some((self.planned(poller, at) - at).max(0.0)),
        };
        ScheduleStatus {
            rate_per_hour: poller.rate_now() * 3600.0,
            interval_s: poller.interval,
            guarantee_s: poller.guarantee.max(poller.raised_interval.unwrap_or(0.0)),
            next_poll_s,
            at_risk: self.risk(poller) >= 1.0,
            reason: reason(poller, at),
        }
    }

    /// How much of a page may fill between two polls in traffic like that seen so far; from 1 on
    /// records may be missed.
    fn risk(&self, poller: &Poller) -> f64 {
        // Waits after failed polls are reported as such, not as a risk.
        let guarantee = poller.guarantee - after_failure(poller);
        let page = poller.page();
        // Without budget a guarantee becomes longer than the route may ever wait.
        let longest_wait = poller.max_interval.max(MIN_INTERVAL_S) * BEYOND;
        let mut risk = guarantee / longest_wait;
        // Before anything was watched the rate is only an assumption.
        if poller.memory.watched > 0.0 {
            risk = risk.max(poller.memory.rate.base * guarantee / (FILLED * page));
        }
        if let Some(rate) = poller.arrivals.import_rate {
            // The other routes may be due first.
            let next = poller.interval.max(guarantee.min(self.round));
            risk = risk.max(rate * next / page);
        }
        for fill in &poller.memory.fills {
            if fill.took > HOPELESS_S {
                risk = risk.max(guarantee / fill.took);
            }
        }
        risk
    }
}

/// How many seconds of an interval a failed poll imposes.
fn after_failure(poller: &Poller) -> f64 {
    (poller.not_before - poller.last_sent).max(0.0)
}

/// Why a poller is polled when it is.
fn reason(poller: &Poller, at: f64) -> String {
    let wait = poller.not_before - at;
    if wait > 0.0 {
        let wait = duration::seconds(wait.round().max(1.0));
        return format!("waits {wait} after a failed poll");
    }
    if poller.raised_interval.is_some() {
        return "the budget is too small for its max_interval or every".into();
    }
    if poller.guarantee - after_failure(poller) > poller.max_interval + LATE_S {
        return "fewer requests are left than its max_interval or every needs".into();
    }
    if poller.is_fixed() {
        return "fixed by `every`".into();
    }
    if !poller.has_page() {
        return "not polled yet".into();
    }
    if let Some(rate) = poller.arrivals.import_rate {
        let per_minute = rate * 60.0;
        return format!("an import of about {per_minute:.0} records a minute is running");
    }
    let longest = match poller.reserved {
        Some(reserved) => reserved.interval,
        None => poller.guarantee,
    };
    if poller.interval >= longest * 0.999 {
        return "its guarantee; its share of the budget alone would be fewer polls".into();
    }
    if poller.interval <= poller.min_interval * 1.001 {
        return "the budget allows more polls than min_interval does".into();
    }
    let per_hour = poller.rate_now() * 3600.0;
    format!("its share of the budget at {per_hour:.1} records an hour")
}
