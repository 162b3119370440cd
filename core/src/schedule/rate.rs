//! Estimates how many records arrive on one route.
//!
//! Three estimates: from the last hour, the same hour of other days, and the last week. Each is
//! drawn towards the next wider one, and the widest towards the mean of all routes, so that the
//! difference between few arrivals and fewer is not taken for a difference between routes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

const HOUR_S: f64 = 3600.0;
const DAY_S: f64 = 86_400.0;
const WEEK_S: f64 = 7.0 * DAY_S;
/// How many arrivals the wider estimate counts for: in that of the week, of the hour of the day, and
/// of the last hour.
const WEEK_PRIOR: f64 = 0.5;
const HOUR_OF_DAY_PRIOR: f64 = 2.0;
const LAST_HOUR_PRIOR: f64 = 4.0;
/// How fast the estimate for an hour of the day decays, in seconds spent in that hour: 15 % a day.
const HOUR_OF_DAY_MEMORY_S: f64 = 22_000.0;
/// What is assumed before anything was seen, in records a second.
const UNKNOWN: f64 = 1e-3;

/// Records, and the seconds in which they came; stored as a pair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "(f64, f64)", into = "(f64, f64)")]
pub(super) struct Level {
    pub(super) records: f64,
    pub(super) seconds: f64,
}

impl From<(f64, f64)> for Level {
    fn from((records, seconds): (f64, f64)) -> Self {
        Self { records, seconds }
    }
}

impl From<Level> for (f64, f64) {
    fn from(level: Level) -> Self {
        (level.records, level.seconds)
    }
}

impl Level {
    /// Adds `records` that came in `seconds`, and forgets as much of the past as `passed` seconds
    /// cost a memory of `memory_s`.
    fn add(&mut self, records: f64, seconds: f64, passed: f64, memory_s: f64) {
        let keep = (-passed / memory_s).exp();
        self.records = self.records * keep + records;
        self.seconds = self.seconds * keep + seconds;
    }

    /// The rate, where the wider estimate counts as `prior` arrivals.
    fn rate(self, prior: f64, wider: f64) -> f64 {
        (self.records + prior) / (self.seconds + prior / wider)
    }
}

/// The arrival rate of one route.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct ArrivalRate {
    #[serde(rename = "now")]
    last_hour: Level,
    #[serde(rename = "long")]
    pub(super) week: Level,
    /// Records that came in bursts: they count for the long mean, not for the present rate.
    excess: f64,
    #[serde(rename = "hours")]
    hours_of_day: [Level; 24],
    /// Arrivals a second without bursts.
    #[serde(skip)]
    pub(super) base: f64,
    /// The rate of the last week, drawn towards all routes.
    #[serde(skip)]
    week_rate: f64,
}

impl ArrivalRate {
    pub(super) fn new() -> Self {
        Self {
            base: UNKNOWN,
            week_rate: UNKNOWN,
            ..Self::default()
        }
    }

    /// Learns that `new` records came in `span` seconds; `is_importing` leaves a running import out
    /// of the rates. `common` is the mean rate of all routes.
    pub(super) fn observe(
        &mut self,
        new: f64,
        span: f64,
        wall: Timestamp,
        is_importing: bool,
        common: f64,
    ) {
        let mut most = 0.0;
        let mut counted_span = 0.0;
        if !is_importing {
            let expected = self.base * span;
            most = expected + 3.0 * expected.sqrt() + 3.0;
            counted_span = span;
        }
        let counted = new.min(most);
        self.last_hour.add(counted, counted_span, span, HOUR_S);
        self.week.add(counted, span, span, WEEK_S);
        self.excess = self.excess * (-span / WEEK_S).exp() + new - counted;
        // A longer absence was not spent in this hour alone.
        let part = HOUR_S / span.max(HOUR_S);
        self.hours_of_day[hour_of(wall)].add(
            counted * part,
            counted_span * part,
            span * part,
            HOUR_OF_DAY_MEMORY_S,
        );
        self.update(wall, common);
    }

    /// Computes the rates again, each drawn towards the wider one.
    fn update(&mut self, wall: Timestamp, common: f64) {
        let hour_of_day = self.hours_of_day[hour_of(wall)];
        self.week_rate = self.week.rate(WEEK_PRIOR, common);
        let hour_of_day_rate = hour_of_day.rate(HOUR_OF_DAY_PRIOR, self.week_rate);
        self.base = self.last_hour.rate(LAST_HOUR_PRIOR, hour_of_day_rate);
    }

    /// Arrivals a second with the share of past bursts.
    pub(super) fn with_bursts(&self) -> f64 {
        self.base + self.excess / (self.week.seconds + DAY_S)
    }

    /// Continues with what an earlier process learned, `away` seconds ago.
    pub(super) fn resume(&mut self, away: f64, wall: Timestamp) {
        self.last_hour.add(0.0, 0.0, away, HOUR_S);
        self.update(wall, UNKNOWN);
    }
}

/// The hour of the day in UTC.
fn hour_of(wall: Timestamp) -> usize {
    (wall.as_second().div_euclid(3600)).rem_euclid(24) as usize
}
