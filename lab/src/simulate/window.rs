//! The server's side of a simulation: a window of the newest records and a key with a limit.
//!
//! What a page proves is decided by the daemon's own rule. What was truly lost is counted beside
//! it, so that a rule that proves too much shows as records lost outside gaps.

use std::collections::VecDeque;
use std::time::Duration;

use super::RunTotals;
use super::traffic::Traffic;
use shopmirror_core::budget::KeyReading;
use shopmirror_core::contiguity::{
    Contiguity, ListProfile, PreviousPage, Proof, Relation, Sighting,
};
use shopmirror_core::schedule::{Observation, PollResult};

/// The window of one route and what its poller knows about it.
#[derive(Debug, Clone)]
pub(super) struct RouteWindow<'a> {
    arrivals: &'a [f64],
    limit: usize,
    /// Records that have arrived by the last look.
    arrived: usize,
    /// Records known, counted from the first ever.
    known: usize,
    previous: Option<PreviousPage>,
    profile: ListProfile,
}

impl<'a> RouteWindow<'a> {
    /// One window a route, judged by the daemon's rule.
    pub(super) fn all(traffic: &'a Traffic, limit: u32) -> Vec<Self> {
        let window = |arrivals: &'a [f64]| Self {
            arrivals,
            limit: limit.max(1) as usize,
            arrived: 0,
            known: 0,
            previous: None,
            profile: ListProfile::default(),
        };
        traffic
            .routes
            .iter()
            .map(|route| window(&route.arrivals))
            .collect()
    }

    /// Reads the page as it is at `now`.
    pub(super) fn read(&mut self, now: f64, run: &mut RunTotals) -> PollResult {
        while self.arrivals.get(self.arrived).is_some_and(|at| *at <= now) {
            self.arrived += 1;
        }
        if self.arrived == self.known && self.previous.is_some() {
            return PollResult::Unchanged;
        }
        let first_shown = self.arrived.saturating_sub(self.limit);
        let records = self.arrived - first_shown;
        let shown_new = self.arrived - self.known.max(first_shown);
        let lost = first_shown.saturating_sub(self.known);
        let proof = self.prove(first_shown);
        run.arrived += (self.arrived - self.known) as u64;
        run.lost += lost as u64;
        match proof.contiguity {
            // Nothing is promised about the time before the first page.
            Contiguity::Baseline => {}
            Contiguity::Complete | Contiguity::Contiguous => run.lost_outside_gaps += lost as u64,
            Contiguity::Gap | Contiguity::Stale => run.gaps += 1,
            Contiguity::Suspect => run.suspect += 1,
        }
        let new = &self.arrivals[self.arrived - shown_new..self.arrived];
        run.delays.extend(new.iter().map(|at| (now - at) as f32));
        self.known = self.arrived;
        self.previous = Some(PreviousPage {
            records,
            is_full: records >= self.limit,
            high_id: i64::try_from(self.arrived).ok().filter(|_| records > 0),
            read_at: None,
        });
        let page = &self.arrivals[first_shown..self.arrived];
        let age = |at: &f64| Duration::from_secs_f64((now - at).max(0.0));
        let count = |records: usize| u32::try_from(records).unwrap_or(u32::MAX);
        PollResult::Page(Observation {
            records: count(records),
            new: count(shown_new),
            contiguous: proof.contiguity.is_proven(),
            ages: page.iter().rev().map(age).collect(),
        })
    }

    /// What the page from `first_shown` on proves; ids count the arrivals from 1.
    fn prove(&mut self, first_shown: usize) -> Proof {
        let previous_first = self
            .previous
            .map_or(self.known, |previous| self.known - previous.records);
        let sighting = |place: usize| Sighting {
            id: i64::try_from(place + 1).ok(),
            created_at: None,
            is_edited: false,
            relation: if (previous_first..self.known).contains(&place) {
                Relation::Unchanged(self.known - 1 - place)
            } else {
                Relation::NotShown
            },
        };
        let page: Vec<Sighting> = (first_shown..self.arrived).rev().map(sighting).collect();
        self.profile.read_page(self.previous, &page, self.limit)
    }
}

/// A key whose minute slides.
#[derive(Debug)]
pub(super) struct SlidingKey {
    limit: usize,
    taken: VecDeque<f64>,
}

impl SlidingKey {
    /// A key of the contract's size, or larger if the simulation needs more.
    pub(super) fn new(requests_per_minute: u32) -> Self {
        Self {
            limit: requests_per_minute.max(60) as usize,
            taken: VecDeque::new(),
        }
    }

    /// Counts one request at `now`, or refuses it.
    pub(super) fn take(&mut self, now: f64) -> KeyReading {
        while self.taken.front().is_some_and(|at| *at + 60.0 <= now) {
            self.taken.pop_front();
        }
        let limit = u32::try_from(self.limit).ok();
        if self.taken.len() >= self.limit {
            let wait = (self.taken[0] + 60.0 - now).max(0.0).ceil();
            let retry_after = Some(Duration::from_secs_f64(wait));
            return KeyReading {
                limit,
                remaining: Some(0),
                refused: true,
                retry_after,
            };
        }
        self.taken.push_back(now);
        let remaining = u32::try_from(self.limit - self.taken.len()).ok();
        KeyReading {
            limit,
            remaining,
            refused: false,
            retry_after: None,
        }
    }
}
