//! What the newest records show: whether an import runs, and how fast a page was filled.
//!
//! Stores when the last records arrived, in seconds of the monotonic clock. Ages that a page shows
//! are trusted only within the time since the previous poll, so that no clock, no format and no
//! order of the list can make an arrival earlier or later than the polls prove.

use super::Observation;

/// How many records in a row can show an import; the longest runs are tried first.
const RUNS: [usize; 3] = [20, 12, 7];
/// The shortest and the longest time in which such a run came, in seconds. Records that came at once
/// do not show how fast the next ones come.
const AT_ONCE_S: f64 = 0.25;
const WITHIN_S: f64 = 60.0;
/// An import is over when nothing came for this long beside a few of its gaps, in seconds.
const SILENCE_S: f64 = 1.5;
const SILENT_GAPS: f64 = 5.0;
/// How much faster than the usual rate an import is.
const FASTER: f64 = 4.0;
/// How far an age may lie before the previous poll, in seconds, and for how many of the records.
const AGE_SLACK_S: f64 = 5.0;
/// Records of a page that prove that nothing was missed before it.
const GUARD: usize = 3;
/// The part of a page that may fill between two polls before the poller counts as at risk.
pub(super) const FILLED: f64 = 0.8;

/// The newest arrivals of one route.
#[derive(Debug, Clone, Default)]
pub(super) struct Arrivals {
    /// When the newest records arrived, oldest first; at most two pages.
    recent: Vec<f64>,
    /// Records a second of the import that runs.
    pub(super) import_rate: Option<f64>,
    /// When the import was first seen.
    pub(super) import_since: Option<f64>,
}

impl Arrivals {
    /// Adds the new records of a page that was requested at `at`, `span` seconds after the previous
    /// one. Returns the fastest time in which nearly a page of records came.
    pub(super) fn add_page(
        &mut self,
        page: &Observation,
        at: f64,
        span: f64,
        limit: u32,
    ) -> Option<f64> {
        let new = page.new.min(page.records).min(limit) as usize;
        if !page.contiguous {
            self.recent.clear();
        }
        let first_new = self.recent.len();
        self.recent.extend(arrival_times(page, new, at, span));

        let full = nearly_full(limit);
        let mut fastest: Option<f64> = None;
        for last in first_new.max(full - 1)..self.recent.len() {
            let took = self.recent[last] - self.recent[last + 1 - full];
            if fastest.is_none_or(|fastest| took < fastest) {
                fastest = Some(took);
            }
        }
        let limit = limit as usize;
        if self.recent.len() > 2 * limit {
            self.recent.drain(..self.recent.len() - limit);
        }
        fastest
    }

    /// Updates whether an import runs at `at`, above the usual rate of `base` records a second.
    /// `has_new` is whether the page showed new records: only these begin an import.
    pub(super) fn update_import(&mut self, at: f64, has_new: bool, base: f64) {
        if has_new || self.import_rate.is_some() {
            self.import_rate = self.speed_of_import(at, base);
        }
        if self.import_rate.is_none() {
            self.import_since = None;
        } else if self.import_since.is_none() {
            self.import_since = Some(at);
        }
    }

    /// Records a second of an import that runs at `at`, if one does.
    fn speed_of_import(&self, at: f64, base: f64) -> Option<f64> {
        let newest = *self.recent.last()?;
        for run in RUNS {
            let Some(first) = self.recent.len().checked_sub(run) else {
                continue;
            };
            let oldest = self.recent[first];
            let gaps = (run - 1) as f64;
            let took = newest - oldest;
            let speed = gaps / (at - oldest);
            let is_over = at - newest > SILENCE_S + SILENT_GAPS * took / gaps;
            let is_run = took >= AT_ONCE_S && at - oldest <= WITHIN_S;
            if is_run && !is_over && speed > FASTER * base {
                return Some(speed);
            }
        }
        None
    }
}

/// How many records in a row nearly fill a page that can hold `limit`.
pub(super) fn nearly_full(limit: u32) -> usize {
    let limit = limit as usize;
    limit.saturating_sub(GUARD).max(limit / 2 + 1).max(2)
}

/// When the new records arrived, oldest first: by their ages where these agree with the polls,
/// else spread evenly over the time since the previous poll.
fn arrival_times(page: &Observation, new: usize, at: f64, span: f64) -> Vec<f64> {
    let ages = &page.ages[..page.ages.len().min(new)];
    // After a gap the time before the page is not known: only the future is impossible.
    let oldest = if page.contiguous { span } else { f64::INFINITY };
    let too_old = ages
        .iter()
        .filter(|age| age.as_secs_f64() > oldest + AGE_SLACK_S)
        .count();
    let mut times = Vec::with_capacity(new);
    if ages.len() < new || 2 * too_old > new {
        for place in 0..new {
            times.push(at - span * (new - place) as f64 / (new + 1) as f64);
        }
        return times;
    }
    for age in ages {
        times.push(at - age.as_secs_f64().min(oldest).min(1e9));
    }
    times.sort_by(f64::total_cmp);
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The speed of what came at these times, in records a second, as seen `at`.
    fn speed(times: &[f64], at: f64) -> Option<f64> {
        let arrivals = Arrivals {
            recent: times.to_vec(),
            ..Arrivals::default()
        };
        arrivals.speed_of_import(at, 0.01)
    }

    /// So many records, one every `gap` seconds from second 100 on.
    fn every(gap: f64, count: usize) -> Vec<f64> {
        let mut times = Vec::new();
        for place in 0..count {
            times.push(100.0 + gap * place as f64);
        }
        times
    }

    #[test]
    fn an_import_is_as_fast_as_its_last_records_came() {
        // Seven records have six gaps; twenty have nineteen.
        assert_eq!(speed(&every(0.5, 7), 103.0), Some(2.0));
        assert_eq!(speed(&every(0.5, 20), 109.5), Some(2.0));
        // A second without one more makes it slower.
        assert_eq!(speed(&every(0.5, 7), 104.0), Some(1.5));
        assert_eq!(speed(&every(0.5, 6), 102.5), None, "six are too few");
    }

    #[test]
    fn an_import_is_over_after_a_silence_of_five_gaps_and_a_second_and_a_half() {
        let times = every(1.0, 7);
        assert!(speed(&times, 106.0 + 6.4).is_some());
        assert_eq!(speed(&times, 106.0 + 6.6), None);
    }

    #[test]
    fn what_came_at_once_or_over_minutes_or_as_usual_is_no_import() {
        assert_eq!(speed(&every(0.01, 7), 100.1), None, "at once");
        assert_eq!(
            speed(&every(11.0, 7), 166.0),
            None,
            "over more than a minute"
        );
        let arrivals = Arrivals {
            recent: every(1.0, 7),
            ..Arrivals::default()
        };
        assert_eq!(
            arrivals.speed_of_import(106.0, 0.25),
            None,
            "four times the usual rate"
        );
        assert!(arrivals.speed_of_import(106.0, 0.24).is_some());
    }

    #[test]
    fn the_fastest_time_of_nearly_a_page_is_found_and_two_pages_are_remembered() {
        let page = |new: u32, ages: &[f64]| Observation {
            records: 10,
            new,
            contiguous: true,
            ages: ages
                .iter()
                .map(|age| std::time::Duration::from_secs_f64(*age))
                .collect(),
        };
        let mut arrivals = Arrivals::default();
        // A page of ten is nearly full with seven.
        let ages = [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0];
        assert_eq!(
            arrivals.add_page(&page(8, &ages), 100.0, 60.0, 10),
            Some(8.0)
        );
        for poll in 1..=3 {
            let at = 100.0 + 60.0 * f64::from(poll);
            arrivals.add_page(&page(8, &ages), at, 60.0, 10);
        }
        assert!(arrivals.recent.len() <= 20, "{:?}", arrivals.recent);
    }
}
