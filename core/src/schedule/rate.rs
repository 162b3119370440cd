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
/// Arrivals that the wider estimate counts for: in the week's, the day's and the hour's.
const PRIOR: [f64; 3] = [0.5, 2.0, 4.0];
/// An hour of the day forgets with this time constant, in seconds spent in it: 15 % a day.
const VISITS_S: f64 = 22_000.0;
/// What is assumed before anything is known, in records a second.
const UNKNOWN: f64 = 1e-3;

/// Records, and the seconds in which they came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Level(pub(super) f64, pub(super) f64);

impl Level {
    /// Counts records in `span` seconds and forgets the part of the past that does not fit
    /// `keep_s`.
    fn add(&mut self, count: f64, time: f64, span: f64, keep_s: f64) {
        let keep = (-span / keep_s).exp();
        *self = Self(self.0 * keep + count, self.1 * keep + time);
    }

    /// The rate, where `wider` counts as `prior` arrivals.
    fn rate(self, prior: f64, wider: f64) -> f64 {
        (self.0 + prior) / (self.1 + prior / wider)
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct ArrivalRate {
    now: Level,
    pub(super) long: Level,
    /// Records that came in bursts: they count for the long mean, not for the present rate.
    excess: f64,
    hours: [Level; 24],
    /// Arrivals a second without bursts.
    #[serde(skip)]
    pub(super) base: f64,
    /// The rate of the last week, drawn towards all routes.
    #[serde(skip)]
    wide: f64,
}

impl ArrivalRate {
    pub(super) fn new() -> Self {
        Self {
            base: UNKNOWN,
            wide: UNKNOWN,
            ..Self::default()
        }
    }

    /// Learns that `new` records came in `span` seconds; `importing` keeps a running import out of
    /// the rates.
    pub(super) fn observe(
        &mut self,
        new: f64,
        span: f64,
        wall: Timestamp,
        importing: bool,
        common: f64,
    ) {
        let expected = self.base * span;
        let clip = if importing {
            0.0
        } else {
            expected + 3.0 * expected.sqrt() + 3.0
        };
        let counted = new.min(clip);
        let spent = if importing { 0.0 } else { span };
        self.now.add(counted, spent, span, HOUR_S);
        self.long.add(counted, span, span, WEEK_S);
        self.excess = self.excess * (-span / WEEK_S).exp() + new - counted;
        // A longer absence was not spent in this hour alone.
        let part = HOUR_S / span.max(HOUR_S);
        self.hours[hour_of(wall)].add(counted * part, spent * part, span * part, VISITS_S);
        self.renew(wall, common);
    }

    fn renew(&mut self, wall: Timestamp, common: f64) {
        self.wide = self.long.rate(PRIOR[0], common);
        let hour = self.hours[hour_of(wall)].rate(PRIOR[1], self.wide);
        self.base = self.now.rate(PRIOR[2], hour);
    }

    /// Arrivals a second with the share of past bursts.
    pub(super) fn with_bursts(&self) -> f64 {
        self.base + self.excess / (self.long.1 + DAY_S)
    }

    /// Goes on with what an earlier process learned, `away` seconds ago.
    pub(super) fn resume(&mut self, away: f64, wall: Timestamp) {
        self.now.add(0.0, 0.0, away, HOUR_S);
        self.renew(wall, UNKNOWN);
    }
}

fn hour_of(wall: Timestamp) -> usize {
    (wall.as_second().div_euclid(3600)).rem_euclid(24) as usize
}
