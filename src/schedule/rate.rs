//! Estimates how many records arrive on one route.
//!
//! Three estimates: from the last hour, the same hour of other days, and the last week. Each is drawn
//! towards the next wider one, and the widest towards the mean of all routes, so that the
//! difference between few arrivals and fewer is not taken for a difference between routes.

use jiff::Timestamp;

pub(super) const HOUR_S: f64 = 3600.0;
const WEEK_S: f64 = 7.0 * 86_400.0;
const DAY_S: f64 = 86_400.0;
/// Arrivals that the wider estimate counts for: in the week's, the day's and the hour's.
const PRIOR: [f64; 3] = [0.5, 2.0, 4.0];
/// The most records that a first page counts for.
const HINT: f64 = 10.0;
/// The part of an hour of the day that is kept at each visit.
const KEEP_HOUR: f64 = 0.85;
/// What is assumed before anything is known, in records a second.
const UNKNOWN: f64 = 1e-3;

/// Records, and the seconds in which they came.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Level {
    pub(super) count: f64,
    pub(super) time: f64,
}

impl Level {
    fn add(&mut self, count: f64, time: f64, keep: f64) {
        self.count = self.count * keep + count;
        self.time = self.time * keep + time;
    }

    /// The rate, where `wider` counts as `prior` arrivals.
    fn rate(self, prior: f64, wider: f64) -> f64 {
        (self.count + prior) / (self.time + prior / wider)
    }
}

#[derive(Debug, Clone)]
pub(super) struct ArrivalRate {
    pub(super) now: Level,
    pub(super) long: Level,
    /// Records that came in bursts: they count for the long mean, not for the present rate.
    pub(super) excess: f64,
    pub(super) hours: [Level; 24],
    visit: Level,
    visited: Option<usize>,
    /// Arrivals a second without bursts.
    pub(super) base: f64,
    /// The rate of the last week, drawn towards all routes.
    wide: f64,
}

impl ArrivalRate {
    pub(super) fn new() -> Self {
        Self {
            now: Level::default(),
            long: Level::default(),
            excess: 0.0,
            hours: [Level::default(); 24],
            visit: Level::default(),
            visited: None,
            base: UNKNOWN,
            wide: UNKNOWN,
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
        let clip = if importing { 0.0 } else { expected + 3.0 * expected.sqrt() + 3.0 };
        let counted = new.min(clip);
        let spent = if importing { 0.0 } else { span };
        self.now.add(counted, spent, (-span / HOUR_S).exp());
        let keep = (-span / WEEK_S).exp();
        self.long.add(counted, span, keep);
        self.excess = self.excess * keep + new - counted;
        let hour = hour_of(wall);
        if self.visited != Some(hour) {
            self.end_visit();
            self.visited = Some(hour);
        }
        self.visit.add(counted, spent, 1.0);
        self.renew(hour, common);
    }

    /// Takes the records of a first page, `span` seconds from the oldest until now, as a hint.
    pub(super) fn hint(&mut self, records: f64, span: f64, common: f64) {
        if records >= 1.0 && (1.0..10.0 * WEEK_S).contains(&span) {
            let counted = records.min(HINT);
            self.long.add(counted, span * counted / records, 1.0);
            self.wide = self.long.rate(PRIOR[0], common);
            self.base = self.now.rate(PRIOR[2], self.wide);
        }
    }

    fn renew(&mut self, hour: usize, common: f64) {
        self.wide = self.long.rate(PRIOR[0], common);
        self.base = self.now.rate(PRIOR[2], self.hours[hour].rate(PRIOR[1], self.wide));
    }

    fn end_visit(&mut self) {
        if let Some(hour) = self.visited.take() {
            self.hours[hour].add(self.visit.count, self.visit.time, KEEP_HOUR);
        }
        self.visit = Level::default();
    }

    /// Arrivals a second with the share of past bursts.
    pub(super) fn with_bursts(&self) -> f64 {
        self.base + self.excess / (self.long.time + DAY_S)
    }

    /// Arrivals a second in the busiest hour of the day.
    pub(super) fn busiest(&self) -> f64 {
        let hours = self.hours.iter().map(|hour| hour.rate(PRIOR[1], self.wide));
        hours.fold(self.with_bursts(), f64::max)
    }

    /// Arrivals that the present estimate rests on.
    pub(super) fn evidence(&self) -> f64 {
        self.now.count + PRIOR[2]
    }

    /// The hours of the day with the one being visited.
    pub(super) fn hours_so_far(&self) -> [Level; 24] {
        let mut whole = self.clone();
        whole.end_visit();
        whole.hours
    }

    /// What an earlier process learned, `away` seconds ago.
    pub(super) fn restored(
        now: Level,
        long: Level,
        excess: f64,
        hours: [Level; 24],
        away: f64,
        wall: Timestamp,
    ) -> Self {
        let mut rate = Self { now, long, excess, hours, ..Self::new() };
        rate.now.add(0.0, 0.0, (-away / HOUR_S).exp());
        let mean = if long.time > 0.0 { long.rate(PRIOR[0], UNKNOWN) } else { UNKNOWN };
        rate.renew(hour_of(wall), mean);
        rate
    }
}

fn hour_of(wall: Timestamp) -> usize {
    (wall.as_second().div_euclid(3600)).rem_euclid(24) as usize
}
