//! How busy a poller is at each hour of the week, learned from visits to that hour.
//!
//! An hour that was seen little is drawn to the same hour of other days, that to the mean, and the
//! mean to a cautious prior, so that nothing is believed on thin evidence. Hours are UTC: a shop's
//! day keeps its shape in them, and a change of summer time is forgotten within weeks.

use jiff::Timestamp;

const HOURS: usize = 168;
/// Seconds of an hour.
pub(super) const HOUR_S: f64 = 3600.0;
/// What a visit to an hour still counts for at the next one, a week later.
const KEEP_A_VISIT: f64 = 0.8;
/// Seconds after which what is known of the mean counts for 1/e.
const KEEP_MEAN_S: f64 = 14.0 * 86_400.0;
/// Arrivals that the wider estimate counts for beside an hour's own.
const DRAW: f64 = 0.5;
/// The prior: one arrival in two minutes, on the evidence of one.
const PRIOR: Seen = Seen { arrivals: 1.0, seconds: 120.0 };

/// Arrivals and the time in which they came.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Seen {
    arrivals: f64,
    seconds: f64,
}

impl Seen {
    fn add(&mut self, arrivals: f64, seconds: f64) {
        self.arrivals += arrivals;
        self.seconds += seconds;
    }

    /// The rate a second when `wider` is what is known otherwise.
    fn rate_within(self, wider: f64) -> f64 {
        (self.arrivals + DRAW) / (self.seconds + DRAW / wider)
    }
}

/// The expected rate over the week.
#[derive(Debug, Clone)]
pub(super) struct Profile {
    hours: [Seen; HOURS],
    mean: Seen,
    /// The hour being visited; joins `hours` when it ends, so that the present is judged by
    /// earlier visits alone.
    visit: Seen,
    visited: Option<usize>,
    /// Rates a second derived from all of the above.
    rates: [f64; HOURS],
    busy_rate: f64,
}

impl Profile {
    pub(super) fn new() -> Self {
        let rate = PRIOR.arrivals / PRIOR.seconds;
        Self {
            hours: [Seen::default(); HOURS],
            mean: Seen::default(),
            visit: Seen::default(),
            visited: None,
            rates: [rate; HOURS],
            busy_rate: 0.0,
        }
    }

    /// Arrivals on whose evidence the mean stands.
    pub(super) fn evidence(&self) -> f64 {
        PRIOR.arrivals + self.mean.arrivals
    }

    /// The rate a second expected at a wall time.
    pub(super) fn rate(&self, wall: Timestamp) -> f64 {
        self.rates[hour_of(seconds(wall))]
    }

    /// The rate a second that a typical record arrives at: the busy hours' rate, not the mean. Zero
    /// before a whole day was seen: until then no hour is known to be a quiet one.
    pub(super) fn busy_rate(&self) -> f64 {
        self.busy_rate
    }

    /// The expected rates from `wall` on: each with the seconds it holds for.
    pub(super) fn ahead(&self, wall: Timestamp) -> impl Iterator<Item = (f64, f64)> {
        let from = seconds(wall);
        let first = hour_of(from);
        let left = HOUR_S - from.rem_euclid(HOUR_S);
        (0..).map(move |step: usize| {
            let span = if step == 0 { left } else { HOUR_S };
            (self.rates[(first + step) % HOURS], span)
        })
    }

    /// Arrivals expected in the `span` seconds before `wall`.
    pub(super) fn expected_before(&self, wall: Timestamp, span: f64) -> f64 {
        let mut at = seconds(wall);
        let mut left = span.min(7.0 * 24.0 * HOUR_S);
        let mut sum = 0.0;
        while left > 0.0 {
            let part = back_to_the_hour(at).min(left);
            sum += self.rates[hour_of(at - part / 2.0)] * part;
            at -= part;
            left -= part;
        }
        sum
    }

    /// Counts `arrivals` in the `span` seconds before `wall`.
    pub(super) fn observe(&mut self, arrivals: f64, wall: Timestamp, span: f64) {
        let span = span.min(7.0 * 24.0 * HOUR_S);
        if span <= 0.0 {
            return;
        }
        let keep = (-span / KEEP_MEAN_S).exp();
        self.mean.arrivals *= keep;
        self.mean.seconds *= keep;
        self.mean.add(arrivals, span);
        let mut at = seconds(wall) - span;
        let mut left = span;
        while left > 0.0 {
            let to_the_hour = HOUR_S - at.rem_euclid(HOUR_S);
            let part = to_the_hour.min(left);
            self.visit_hour(hour_of(at + part / 2.0));
            self.visit.add(arrivals * part / span, part);
            at += part;
            left -= part;
        }
    }

    fn visit_hour(&mut self, hour: usize) {
        if self.visited == Some(hour) {
            return;
        }
        if let Some(left) = self.visited.replace(hour) {
            let seen = &mut self.hours[left];
            seen.arrivals *= KEEP_A_VISIT;
            seen.seconds *= KEEP_A_VISIT;
            seen.add(self.visit.arrivals, self.visit.seconds);
        }
        self.visit = Seen::default();
        self.derive();
    }

    fn derive(&mut self) {
        let mean = (self.mean.arrivals + PRIOR.arrivals) / (self.mean.seconds + PRIOR.seconds);
        for of_day in 0..24 {
            let mut all_days = Seen::default();
            for day in 0..7 {
                let seen = self.hours[day * 24 + of_day];
                all_days.add(seen.arrivals, seen.seconds);
            }
            let of_day_rate = all_days.rate_within(mean);
            for day in 0..7 {
                let hour = day * 24 + of_day;
                self.rates[hour] = self.hours[hour].rate_within(of_day_rate);
            }
        }
        let visited = self.hours.iter().filter(|seen| seen.seconds > 0.0).count();
        let squares: f64 = self.rates.iter().map(|rate| rate * rate).sum();
        self.busy_rate = if visited < 24 { 0.0 } else { squares / self.rates.iter().sum::<f64>() };
    }

    /// The first thing ever seen: a page that spans `span` seconds, given little weight since it
    /// may tell of any hour.
    pub(super) fn first_page(&mut self, arrivals: f64, span: f64) {
        let weight = (10.0 / arrivals.max(1.0)).min(1.0);
        self.mean.add(arrivals * weight, span * weight);
        self.derive();
    }

    /// The hours that were visited, as (hour, arrivals, seconds), the present visit included.
    pub(super) fn visits(&self) -> Vec<(usize, f64, f64)> {
        let mut hours = self.hours;
        if let Some(hour) = self.visited {
            hours[hour].add(self.visit.arrivals, self.visit.seconds);
        }
        let seen = hours.iter().enumerate().filter(|(_, seen)| seen.seconds > 0.0);
        seen.map(|(hour, seen)| (hour, seen.arrivals, seen.seconds)).collect()
    }

    /// The mean as (arrivals, seconds).
    pub(super) fn mean(&self) -> (f64, f64) {
        (self.mean.arrivals, self.mean.seconds)
    }

    /// A profile from what [`visits`](Self::visits) and [`mean`](Self::mean) gave; `None` when the
    /// numbers cannot be such.
    pub(super) fn from_parts(visits: &[(usize, f64, f64)], mean: (f64, f64)) -> Option<Self> {
        let sane = |value: f64| value.is_finite() && (0.0..1e12).contains(&value);
        let mut profile = Self::new();
        for &(hour, arrivals, seconds) in visits {
            if !(sane(arrivals) && sane(seconds)) {
                return None;
            }
            *profile.hours.get_mut(hour)? = Seen { arrivals, seconds };
        }
        if !(sane(mean.0) && sane(mean.1)) {
            return None;
        }
        profile.mean = Seen { arrivals: mean.0, seconds: mean.1 };
        profile.derive();
        Some(profile)
    }
}

fn seconds(wall: Timestamp) -> f64 {
    wall.as_second() as f64 + f64::from(wall.subsec_nanosecond()) * 1e-9
}

fn hour_of(seconds: f64) -> usize {
    (seconds / HOUR_S).floor().rem_euclid(HOURS as f64) as usize
}

/// Seconds since the last full hour, a whole hour at a full hour.
fn back_to_the_hour(at: f64) -> f64 {
    let since = at.rem_euclid(HOUR_S);
    if since > 1e-6 { since } else { HOUR_S }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 / 3600 * 3600 + hours * 3600).unwrap()
    }

    #[test]
    fn an_open_hour_is_told_from_a_closed_one() {
        let mut profile = Profile::new();
        for day in 0i64..21 {
            for hour in 0..24 {
                let arrivals = if (9i64..18).contains(&hour) { 10.0 } else { 0.0 };
                profile.observe(arrivals, at(day * 24 + hour + 1), HOUR_S);
            }
        }
        let rate = |hour: i64| profile.rate(at(21 * 24 + hour)) * HOUR_S;
        assert!((8.0..12.0).contains(&rate(12)), "{}", rate(12));
        assert!(rate(3) < 0.3, "{}", rate(3));
        assert!(profile.busy_rate() * HOUR_S > 8.0);
    }

    #[test]
    fn what_was_seen_survives_a_restart() {
        let mut profile = Profile::new();
        profile.observe(30.0, at(5), 3.0 * HOUR_S);
        let restored = Profile::from_parts(&profile.visits(), profile.mean()).unwrap();
        assert_eq!(restored.mean(), profile.mean());
        assert_eq!(restored.visits(), profile.visits());
        assert!(Profile::from_parts(&[(900, 1.0, 1.0)], (0.0, 0.0)).is_none());
        assert!(Profile::from_parts(&[(9, f64::NAN, 1.0)], (0.0, 0.0)).is_none());
    }
}
