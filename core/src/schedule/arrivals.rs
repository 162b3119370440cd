//! What the newest records say: whether an import runs, and how fast a page was filled.
//!
//! Keeps when the last records arrived, in seconds of the monotonic clock. Ages that a page shows
//! are trusted only within the time since the previous poll, so that no clock, no format and no
//! order of the list can make an arrival earlier or later than the polls prove.

use super::Observation;

/// Runs of records that can show an import, longest first.
const RUNS: [usize; 3] = [20, 12, 7];
/// The shortest and the longest time in which such a run came, in seconds. What came at once says
/// nothing about the next second.
const AT_ONCE_S: f64 = 0.25;
const WITHIN_S: f64 = 60.0;
/// An import is over when nothing came for this long beside a few of its gaps, in seconds.
const SILENCE_S: f64 = 1.5;
const SILENT_GAPS: f64 = 5.0;
/// How much faster than the background an import is.
const FASTER: f64 = 4.0;
/// How far an age may lie before the previous poll, in seconds, and for how many of the records.
const AGE_SLACK_S: f64 = 5.0;
/// Records of a page that prove that nothing was missed before it.
const GUARD: usize = 3;

#[derive(Debug, Clone, Default)]
pub(super) struct Arrivals {
    /// When the newest records arrived, oldest first; at most two pages.
    recent: Vec<f64>,
    /// Records a second of the import that runs.
    pub(super) running: Option<f64>,
    /// When the import was first seen.
    pub(super) since: Option<f64>,
}

impl Arrivals {
    /// Takes in the new records of a page read at `at`, `span` seconds after the previous one;
    /// gives the fastest time in which nearly a page of records came.
    pub(super) fn take(
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
        let start = self.recent.len();
        self.recent.extend(arrived(page, new, at, span));
        let need = nearly_full(limit);
        let fastest = (start.max(need - 1)..self.recent.len())
            .map(|last| self.recent[last] - self.recent[last + 1 - need])
            .min_by(f64::total_cmp);
        let keep = 2 * limit as usize;
        if self.recent.len() > keep {
            self.recent.drain(..self.recent.len() - limit as usize);
        }
        fastest
    }

    /// Looks whether an import runs at `at` above the background of `base` records a second.
    pub(super) fn look(&mut self, at: f64, new: bool, base: f64) {
        let was = self.running.is_some();
        self.running = if new || was {
            self.speed(at, base)
        } else {
            None
        };
        self.since = self.running.and(self.since.or(Some(at)));
    }

    fn speed(&self, at: f64, base: f64) -> Option<f64> {
        RUNS.iter().find_map(|&run| {
            let newest = *self.recent.last()?;
            let oldest = *self.recent.get(self.recent.len().checked_sub(run)?)?;
            let (gaps, took) = ((run - 1) as f64, newest - oldest);
            let silent = at - newest > SILENCE_S + SILENT_GAPS * took / gaps;
            let speed = gaps / (at - oldest);
            let in_time = took >= AT_ONCE_S && at - oldest <= WITHIN_S;
            (in_time && !silent && speed > FASTER * base).then_some(speed)
        })
    }
}

/// How many records in a row nearly fill a page that can hold `limit`.
pub(super) fn nearly_full(limit: u32) -> usize {
    let limit = limit as usize;
    limit.saturating_sub(GUARD).max(limit / 2 + 1).max(2)
}

/// When the new records arrived, oldest first: by their ages where these agree with the polls,
/// else spread evenly over the time since the previous poll.
fn arrived(page: &Observation, new: usize, at: f64, span: f64) -> Vec<f64> {
    let ages = &page.ages[..page.ages.len().min(new)];
    // After a gap the time before the page is not known: only the future is impossible.
    let oldest = if page.contiguous { span } else { f64::INFINITY };
    let odd = ages
        .iter()
        .filter(|age| age.as_secs_f64() > oldest + AGE_SLACK_S)
        .count();
    if ages.len() < new || 2 * odd > new {
        return (0..new)
            .map(|place| at - span * (new - place) as f64 / (new + 1) as f64)
            .collect();
    }
    let mut times: Vec<f64> = ages
        .iter()
        .map(|age| at - age.as_secs_f64().min(oldest).min(1e9))
        .collect();
    times.sort_by(f64::total_cmp);
    times
}
