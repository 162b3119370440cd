//! How far apart the ids of a list are, and what a wider step than usual says.
//!
//! Ids need not be dense: a workspace may count by five, and several businesses may share one
//! sequence, so that each of them sees holes although nothing is missing. What is usual is learned
//! from pages that proved that nothing was missed.

use serde::{Deserialize, Serialize};

use super::Sighting;

/// Steps that are remembered.
const REMEMBERED: usize = 200;
/// Steps that have to be known before they say what is usual.
const ENOUGH: usize = 20;
/// A step is wide if it is wider than this many times the 99th percentile of the known ones.
const WIDE: i64 = 4;
/// The same before enough steps are known: this many times the median step of the first page.
const WIDE_AT_FIRST: i64 = 16;

/// The steps that were seen between the ids of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsualSteps {
    /// The median step between the ids of the first page, in which edited old records may be.
    first_median: i64,
    /// The last steps of proven pages, the oldest first.
    recent: Vec<i64>,
}

impl Default for UsualSteps {
    /// As if ids were dense: a doubt too many is better than a loss that nobody sees.
    fn default() -> Self {
        Self {
            first_median: 1,
            recent: Vec::new(),
        }
    }
}

impl UsualSteps {
    pub(super) fn from_first_page(page: &[Sighting]) -> Self {
        let Some(ids) = sorted_ids(page) else {
            return Self::default();
        };
        let mut steps = steps_between(&ids);
        steps.sort_unstable();
        match steps.get(steps.len() / 2) {
            Some(median) => Self {
                first_median: *median,
                recent: Vec::new(),
            },
            None => Self::default(),
        }
    }

    /// Adds the steps of a page that proved that nothing was missed.
    pub(super) fn learn(&mut self, new_ids: &NewIds) {
        self.recent.extend(steps_between(&new_ids.0));
        let too_many = self.recent.len().saturating_sub(REMEMBERED);
        self.recent.drain(..too_many);
    }

    /// Whether a step is so much wider than usual that ids which no page showed may lie in it.
    #[must_use]
    pub fn is_wide(&self, step: i64) -> bool {
        step > self.widest_usual()
    }

    fn widest_usual(&self) -> i64 {
        if self.recent.len() < ENOUGH {
            return self.first_median.saturating_mul(WIDE_AT_FIRST);
        }
        let mut sorted = self.recent.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * 99).div_ceil(100);
        sorted[rank - 1].saturating_mul(WIDE)
    }

    /// About how many ids between these two are the list's own.
    #[must_use]
    pub fn own_ids(&self, after: i64, before: i64) -> i64 {
        let ids_between = step(after, before) - 1;
        let own_ids = (ids_between as f64 * self.density()).round() as i64;
        own_ids.clamp(0, ids_between.max(0))
    }

    /// Which part of the ids is the list's own, by the steps that are not wide; 1 while ids are
    /// dense.
    pub(super) fn density(&self) -> f64 {
        if self.recent.len() < ENOUGH {
            return 1.0 / self.first_median as f64;
        }
        let widest_usual = self.widest_usual();
        let mut steps = 0.0;
        let mut ids = 0.0;
        for step in &self.recent {
            if *step <= widest_usual {
                steps += 1.0;
                ids += *step as f64;
            }
        }
        steps / ids
    }
}

/// The highest id known before a page and every id of the page above it, the lowest first.
pub(super) struct NewIds(Vec<i64>);

impl NewIds {
    /// `None` when an id is no integer, or none is above the highest known.
    pub(super) fn above(high_id: Option<i64>, page: &[Sighting]) -> Option<Self> {
        let high_id = high_id?;
        let mut ids = sorted_ids(page)?;
        ids.retain(|id| *id > high_id);
        if ids.is_empty() {
            return None;
        }
        ids.insert(0, high_id);
        Some(Self(ids))
    }

    pub(super) fn widest_step(&self) -> i64 {
        let mut widest = 0;
        for step in steps_between(&self.0) {
            widest = widest.max(step);
        }
        widest
    }

    /// Whether the oldest record of a page, which is the last one, has the id after the highest known
    /// one.
    pub(super) fn begin_at_known(&self, page: &[Sighting]) -> bool {
        let oldest = page.last().and_then(|record| record.id);
        oldest == Some(self.lowest()) && step(self.0[0], self.lowest()) == 1
    }

    /// How many new ids there are.
    pub(super) fn count(&self) -> i64 {
        self.0.len() as i64 - 1
    }

    pub(super) fn lowest(&self) -> i64 {
        self.0[1]
    }

    pub(super) fn highest(&self) -> i64 {
        self.0[self.0.len() - 1]
    }
}

/// The ids of a page, the lowest first and each once; `None` when one is no integer.
fn sorted_ids(page: &[Sighting]) -> Option<Vec<i64>> {
    let mut ids = Vec::with_capacity(page.len());
    for record in page {
        ids.push(record.id?);
    }
    ids.sort_unstable();
    ids.dedup();
    Some(ids)
}

fn steps_between(ids: &[i64]) -> Vec<i64> {
    let mut steps = Vec::new();
    for pair in ids.windows(2) {
        steps.push(step(pair[0], pair[1]));
    }
    steps
}

/// From one id to a higher one: 1 if they follow one another without a hole.
fn step(low: i64, high: i64) -> i64 {
    high.saturating_sub(low)
}
