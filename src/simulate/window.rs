//! The server's side of a simulation: a window of the newest records and a key with a limit.
//!
//! Also keeps the ledger the way the daemon does: a page proves contiguity by overlap or by being
//! short, else a gap is recorded. What was truly lost is counted beside it, from the truth.

use std::collections::VecDeque;

use super::Run;
use super::traffic::Traffic;
use crate::budget::Seen;
use crate::schedule::{Observation, Outcome};

/// The window of one route and what its poller knows of it.
#[derive(Debug, Clone)]
pub(super) struct Window<'a> {
    arrivals: &'a [f64],
    limit: usize,
    /// Records that have arrived by the last look.
    arrived: usize,
    /// Records known, counted from the first ever.
    known: usize,
    read_before: bool,
}

impl<'a> Window<'a> {
    pub(super) fn all(traffic: &'a Traffic, limit: u32) -> Vec<Self> {
        let window = |arrivals: &'a [f64]| Self {
            arrivals,
            limit: limit.max(1) as usize,
            arrived: 0,
            known: 0,
            read_before: false,
        };
        traffic.routes.iter().map(|route| window(&route.arrivals)).collect()
    }

    /// Reads the page as it is at `now`.
    pub(super) fn read(&mut self, now: f64, run: &mut Run) -> Outcome {
        while self.arrivals.get(self.arrived).is_some_and(|at| *at <= now) {
            self.arrived += 1;
        }
        let first_shown = self.arrived.saturating_sub(self.limit);
        let records = self.arrived - first_shown;
        let shown_new = self.arrived - self.known.max(first_shown);
        let overlap = records - shown_new;
        let lost = first_shown.saturating_sub(self.known);
        let contiguous = overlap > 0 || records < self.limit;
        run.arrived += (self.arrived - self.known) as u64;
        run.lost += lost as u64;
        if contiguous {
            run.lost_outside_gaps += lost as u64;
        } else if lost > 0 {
            run.gaps += 1;
        } else {
            run.suspect += 1;
        }
        let new = &self.arrivals[self.arrived - shown_new..self.arrived];
        run.delays.extend(new.iter().map(|at| (now - at) as f32));
        self.known = self.arrived;
        if shown_new == 0 && self.read_before {
            return Outcome::Unchanged;
        }
        self.read_before = true;
        let page = &self.arrivals[first_shown..self.arrived];
        let window = page.first().zip(page.last()).map(|(oldest, newest)| newest - oldest);
        let count = |records: usize| u32::try_from(records).unwrap_or(u32::MAX);
        Outcome::Page(Observation {
            records: count(records),
            new: count(shown_new),
            overlap: count(overlap),
            contiguous,
            window: window.map(std::time::Duration::from_secs_f64),
        })
    }
}

/// A key whose minute slides.
#[derive(Debug)]
pub(super) struct Key {
    limit: usize,
    taken: VecDeque<f64>,
}

impl Key {
    /// A key of the contract's size, or larger when the simulation asks for more.
    pub(super) fn new(requests_per_minute: u32) -> Self {
        Self { limit: requests_per_minute.max(60) as usize, taken: VecDeque::new() }
    }

    pub(super) fn ask(&mut self, now: f64) -> Seen {
        while self.taken.front().is_some_and(|at| *at + 60.0 <= now) {
            self.taken.pop_front();
        }
        let limit = i64::try_from(self.limit).ok();
        if self.taken.len() >= self.limit {
            let wait = (self.taken[0] + 60.0 - now).max(0.0).ceil();
            let retry_after = Some(std::time::Duration::from_secs_f64(wait));
            return Seen { limit, remaining: Some(0), refused: true, retry_after };
        }
        self.taken.push_back(now);
        let remaining = i64::try_from(self.limit - self.taken.len()).ok();
        Seen { limit, remaining, refused: false, retry_after: None }
    }
}
