//! What the schedule thinks, for people and tools; decides nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::poller::{LONGEST_S, Poller};
use super::{Schedule, seconds};
use crate::clock::Moment;

/// The load up to which earliest deadline first meets every deadline (pinwheel density).
const FEASIBLE_LOAD: f64 = 5.0 / 6.0;

/// One poller as the schedule sees it. Times are seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PollerView {
    /// Arrivals an hour, now.
    pub rate_per_hour: f64,
    /// The lower end of the rate, two deviations down.
    pub rate_low: f64,
    /// The upper end of the rate, two deviations up.
    pub rate_high: f64,
    /// The interval in force.
    pub interval_s: f64,
    /// Until the next poll is due; absent while in flight.
    pub next_poll_s: Option<f64>,
    /// The longest interval with an overflow less likely than one in a million polls.
    pub safe_interval_s: f64,
    /// The longest interval that survives the largest burst seen if it comes no faster; absent if none was.
    pub burst_interval_s: Option<f64>,
    /// What waiting costs now: w·λ·τ²/2, rounded up to whole slots, in record-seconds.
    pub index: f64,
    /// Why it is polled when it is.
    pub reason: String,
    /// How long a record stays on the page: changes to older ones are not seen on this route.
    pub horizon_s: f64,
}

/// Whether the budget can keep every page from overflowing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Every deadline can be met.
    pub feasible: bool,
    /// The part of the budget that the deadlines need; feasible up to 5/6.
    pub load: f64,
    /// The poller that loses records first when the forecast fails.
    pub first_to_fail: Option<usize>,
}

impl Schedule {
    /// What is known and planned for a poller.
    #[must_use]
    pub fn view(&self, poller: usize, now: Moment) -> PollerView {
        let poller = &self.pollers[poller];
        let at = seconds(now);
        let rate = poller.rate.now(now.wall);
        let spread = 2.0 / poller.rate.slow_level().shape.sqrt();
        let burst = poller.burst_interval(now.wall);
        let planned = poller.ready_at().max(poller.due_at().min(poller.deadline()));
        PollerView {
            rate_per_hour: rate * 3600.0,
            rate_low: rate * 3600.0 * (-spread).exp(),
            rate_high: rate * 3600.0 * spread.exp(),
            interval_s: interval(poller),
            next_poll_s: poller.in_flight.is_none().then(|| (planned - at).max(0.0)),
            safe_interval_s: poller.safe_interval(now.wall, true),
            burst_interval_s: burst.is_finite().then(|| burst.min(LONGEST_S)),
            index: poller.index(at, 60.0 / self.pace),
            reason: reason(poller, at),
            horizon_s: (f64::from(poller.settings.limit) / rate.max(1e-9))
                .min(10.0 * 365.0 * 86_400.0),
        }
    }

    /// Whether `budget_per_minute` polls can keep every page from overflowing.
    #[must_use]
    pub fn forecast(&self, budget_per_minute: f64, now: Moment) -> Forecast {
        let budget = budget_per_minute.max(1e-9) / 60.0;
        let mut load = 0.0;
        let mut tightest: Option<(f64, usize)> = None;
        for (place, poller) in self.pollers.iter().enumerate() {
            let safe = poller.safe_interval(now.wall, true).min(poller.burst_interval(now.wall));
            let settings = &poller.settings;
            let least = settings.every.unwrap_or(settings.min_interval).as_secs_f64();
            load += 1.0 / (budget * safe.max(least).max(1e-3));
            // A poller that may not ask in time fails whatever the budget.
            let margin = safe / least.max(1e-3);
            let urgency = if margin < 1.0 { margin - 1.0 } else { safe };
            if tightest.is_none_or(|(other, _)| urgency < other) {
                tightest = Some((urgency, place));
            }
        }
        let held_back = tightest.is_some_and(|(urgency, _)| urgency < 0.0);
        let feasible = load <= FEASIBLE_LOAD && !held_back;
        let first_to_fail = tightest.filter(|_| !feasible).map(|(_, place)| place);
        Forecast { feasible, load, first_to_fail }
    }
}

fn interval(poller: &Poller) -> f64 {
    let settings = &poller.settings;
    settings.every.map_or_else(
        || {
            let due =
                poller.plan.index.min(settings.max_interval.as_secs_f64()).min(poller.plan.safe);
            due.max(settings.min_interval.as_secs_f64())
        },
        |every| every.as_secs_f64(),
    )
}

fn reason(poller: &Poller, at: f64) -> String {
    let settings = &poller.settings;
    let span = |seconds: f64| {
        humantime::format_duration(Duration::from_secs(seconds.round().max(1.0) as u64)).to_string()
    };
    if poller.in_flight.is_some() {
        "being asked now".into()
    } else if poller.not_before > at {
        format!("waits {} after a failure", span(poller.not_before - at))
    } else if poller.first_due.is_some() {
        "not read yet in this run".into()
    } else if settings.every.is_some() {
        "fixed by `every`".into()
    } else if poller.chase {
        "most of the last page was new, so the next follows at once".into()
    } else if poller.burst.fills_page(settings.limit) && poller.plan.safe <= poller.plan.index {
        format!(
            "a burst of about {:.0} records was seen, more than a page holds: no interval is safe from one that comes at once",
            poller.burst.size
        )
    } else if poller.plan.safe <= poller.plan.index {
        format!("later than {} the page could overflow", span(poller.plan.safe))
    } else if poller.plan.index >= settings.max_interval.as_secs_f64() {
        "so little arrives that only max_interval asks for it".into()
    } else if poller.plan.index <= settings.min_interval.as_secs_f64() {
        "the budget allows more than min_interval does".into()
    } else {
        format!(
            "its share of the budget, by the square root of {:.1} an hour",
            poller.plan.rate * 3600.0
        )
    }
}
