//! What the schedule knows and plans, for people and tools; decides nothing.

use serde::{Deserialize, Serialize};

use crate::clock::Moment;
use crate::duration;
use crate::schedule::{FILLED, Poller, REMEMBERED_S, Schedule};

/// Half of the width of the range that is shown for a rate, in deviations.
const DEVIATIONS: f64 = 2.0;
/// The longest span that is shown, in seconds.
const LONGEST_SHOWN_S: f64 = 10.0 * 365.0 * 86_400.0;

/// One poller as the schedule sees it. Times are seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PollerView {
    /// New records an hour, as estimated now.
    pub rate_per_hour: f64,
    /// The lower end of the rate, two deviations down.
    pub rate_low: f64,
    /// The upper end of the rate, two deviations up.
    pub rate_high: f64,
    /// The interval that results from its share of the budget; all of them together use the budget.
    pub interval_s: f64,
    /// The mean interval of the last polls; null before the third poll.
    pub kept_interval_s: Option<f64>,
    /// The longest interval of the last polls.
    pub longest_kept_s: Option<f64>,
    /// The guaranteed longest interval.
    pub guarantee_s: f64,
    /// Its `max_interval` or `every`, if the budget is too small to keep it; null if it is kept.
    #[serde(default)]
    pub unkept_max_interval_s: Option<f64>,
    /// Until the next poll is due; null while a request is under way.
    pub next_poll_s: Option<f64>,
    /// Records a minute that an import may bring without loss at the guaranteed interval.
    pub import_per_minute: f64,
    /// For how long the arrivals were watched, at most a week.
    pub watched_s: f64,
    /// How often nearly a page of records came within the guaranteed interval while arrivals were
    /// watched.
    pub overflows_seen: usize,
    /// The chance that one poll finds more records than a page holds, from 0 to 1, estimated from
    /// `overflows_seen` as if one more had been seen in one more day.
    pub overflow_chance: f64,
    /// Whether records may be missed in traffic like that seen so far.
    pub at_risk: bool,
    /// Why it is polled when it is.
    pub reason: String,
    /// How long a record stays on the page: changes to older ones are not seen on this route.
    pub horizon_s: f64,
}

/// Whether the guarantees keep every page from overflowing in traffic like that seen so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Forecast {
    /// No poller is at risk and the budget is enough.
    pub feasible: bool,
    /// The part of the budget without which pages would overflow at the rates seen; 1 is all of it.
    pub load: f64,
    /// The place in `pollers`, counted from 0, of the poller that misses records first; null while the
    /// budget is enough.
    pub first_to_fail: Option<usize>,
}

/// A guarantee longer than `max_interval` by this factor is a risk: other clients leave too little.
const BEYOND: f64 = 2.0;
/// A `max_interval` below this, in seconds, counts as this: no other client makes so short a wait long.
const LEAST_S: f64 = 5.0;

/// No budget of a key helps against a page of records that come within this time, in seconds.
const HOPELESS_S: f64 = 1.5;

/// Time that is added to what was watched, with one overflow in it, in seconds: a new daemon knows
/// nothing of rare bursts, and one burst in its first minute does not come every minute.
const SUPPOSED_S: f64 = 86_400.0;

/// The chance that one poll finds more than a page if so many overflows came in `watched` seconds.
fn overflow_chance(overflows: usize, watched: f64, guarantee: f64) -> f64 {
    let polls = (watched + SUPPOSED_S) / guarantee.max(1e-3);
    ((overflows as f64 + 1.0) / polls).min(1.0)
}

impl Schedule {
    /// What is known and planned for a poller.
    #[must_use]
    pub fn view(&self, poller: usize, now: Moment) -> PollerView {
        let (poller, at) = (&self.pollers[poller], now.elapsed.as_secs_f64());
        let rate = poller.rate_now();
        let spread = (DEVIATIONS / poller.memory.rate.evidence().sqrt()).exp();
        let guarantee = poller.guarantee.max(poller.raised.unwrap_or(0.0));
        let planned = self.planned(poller, at);
        // What came before is forgotten, so that its time must not count either.
        let watched = poller.memory.watched.min(REMEMBERED_S);
        let overflows = poller.memory.fills.iter().filter(|(_, took)| *took < guarantee).count();
        PollerView {
            rate_per_hour: rate * 3600.0,
            rate_low: rate * 3600.0 / spread,
            rate_high: rate * 3600.0 * spread,
            interval_s: poller.interval,
            kept_interval_s: None,
            longest_kept_s: None,
            guarantee_s: guarantee,
            unkept_max_interval_s: poller
                .raised
                .map(|_| poller.settings.max_interval.as_secs_f64()),
            next_poll_s: poller.in_flight.is_none().then(|| (planned - at).max(0.0)),
            import_per_minute: 60.0 * poller.page() / guarantee.max(1e-3),
            watched_s: watched,
            overflows_seen: overflows,
            overflow_chance: overflow_chance(overflows, watched, guarantee),
            at_risk: self.risk(poller) >= 1.0,
            reason: self.reason(poller, at),
            horizon_s: (f64::from(poller.settings.limit) / rate.max(1e-9)).min(LONGEST_SHOWN_S),
        }
    }

    /// Whether the guarantees keep every page from overflowing in traffic like that seen so far.
    #[must_use]
    pub fn forecast(&self) -> Forecast {
        let load = self.needed_per_minute() * self.slot_s() / 60.0;
        let risks = self.pollers.iter().map(|poller| self.risk(poller)).enumerate();
        let worst = risks.max_by(|a, b| a.1.total_cmp(&b.1));
        let feasible = load <= 1.0 && worst.is_none_or(|(_, risk)| risk < 1.0);
        Forecast {
            feasible,
            load,
            first_to_fail: worst.map(|(place, _)| place).filter(|_| !feasible),
        }
    }

    /// How much of a page may fill between two polls in traffic like that seen so far; from 1 on
    /// records may be missed.
    fn risk(&self, poller: &Poller) -> f64 {
        // Waits after failed polls are told apart from this.
        let guarantee = poller.guarantee - (poller.not_before - poller.last).max(0.0);
        let page = poller.page();
        // Before anything was watched the rate is only supposed.
        let base = if poller.memory.watched > 0.0 { poller.memory.rate.base } else { 0.0 };
        let steady = base * guarantee / (FILLED * page);
        // The other routes may be due first.
        let next = poller.interval.max(guarantee.min(self.turn));
        let import = poller.arrivals.running.map_or(0.0, |speed| speed * next / page);
        let slow = poller.memory.fills.iter().filter(|(_, took)| *took > HOPELESS_S);
        let fills = slow.map(|(_, took)| guarantee / took);
        // Without budget a guarantee becomes longer than the route may ever wait.
        let most = poller.max_interval.max(LEAST_S) * BEYOND;
        let waits = guarantee / most;
        fills.fold(steady.max(import).max(waits), f64::max)
    }

    fn reason(&self, poller: &Poller, at: f64) -> String {
        let span = |seconds: f64| duration::seconds(seconds.round().max(1.0));
        if poller.in_flight.is_some() {
            return "the request is under way".into();
        }
        if poller.not_before > at {
            return format!("waits {} after a failed poll", span(poller.not_before - at));
        }
        if poller.is_fixed() && poller.raised.is_some() {
            return "fixed by `every`, but the budget is too small for that".into();
        }
        if poller.is_fixed() {
            return "fixed by `every`".into();
        }
        if !poller.is_read() {
            return "not polled yet".into();
        }
        if let Some(speed) = poller.arrivals.running {
            return format!("an import of about {:.0} records a minute is running", speed * 60.0);
        }
        if poller.raised.is_some() {
            let max = span(poller.max_interval);
            return format!("the budget is too small for its max_interval of {max}");
        }
        let guarantee = poller.guarantee;
        if poller.reserved.is_some_and(|slots| poller.interval >= slots.every * 0.999) {
            "its max_interval; its share of the budget alone would be fewer polls".into()
        } else if poller.interval >= guarantee * 0.999 {
            if self.thrift {
                "its guarantee; poll.thrift leaves requests unused while few records arrive"
            } else {
                "its guarantee; its share of the budget alone would be fewer polls"
            }
            .into()
        } else if poller.interval <= poller.min_interval * 1.001 {
            "the budget allows more polls than min_interval does".into()
        } else {
            format!("its share of the budget at {:.1} records an hour", poller.rate_now() * 3600.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::overflow_chance;
    use crate::clock::Moment;
    use crate::schedule::{PollerSettings, Schedule};

    fn every(seconds: u64) -> PollerSettings {
        PollerSettings {
            limit: 100,
            min_interval: Duration::from_secs(seconds),
            max_interval: Duration::from_secs(seconds),
            weight: 1.0,
            thrift: false,
        }
    }

    #[test]
    fn only_the_week_in_which_overflows_are_remembered_counts_as_watched() {
        let wall = "2026-03-01T12:00:00Z".parse().unwrap();
        let now = Moment { elapsed: Duration::ZERO, wall };
        let mut schedule = Schedule::new(vec![every(10)], 45.0, now);
        schedule.pollers[0].memory.watched = 60.0 * 86_400.0;
        let view = schedule.view(0, now);
        assert_eq!(view.watched_s, 7.0 * 86_400.0);
        // One overflow is supposed in one day more.
        let expected = view.guarantee_s / (8.0 * 86_400.0);
        assert!((view.overflow_chance / expected - 1.0).abs() < 1e-9, "{view:?}");
    }

    #[test]
    fn a_daemon_that_has_just_begun_is_not_told_of_an_overflow_every_few_polls() {
        let one_in = |overflows, watched, guarantee| {
            (1.0 / overflow_chance(overflows, watched, guarantee)).round()
        };
        assert_eq!(one_in(0, 20.0, 10.0), 8642.0);
        assert_eq!(one_in(1, 60.0, 10.0), 4323.0, "one burst in the first minute");
        assert_eq!(one_in(0, 7.0 * 86_400.0, 32.0), 21_600.0);
        assert_eq!(one_in(700, 7.0 * 86_400.0, 10.0), 99.0);
        assert_eq!(one_in(usize::MAX, 1.0, 10.0), 1.0);
    }
}
