//! What the other clients of the key spend, inferred from how `X-RateLimit-Remaining` falls.
//!
//! The API does not say whether its minute slides or is fixed, so two estimates run side by side
//! and the larger counts: what a fixed minute lost beyond our own requests, and what a sliding
//! minute holds beyond them. Each is right for its kind and low for the other.

use std::collections::VecDeque;

/// How long a fall in `Remaining` counts as recent, in seconds.
const RECENT_S: f64 = 15.0;
/// How fast the mean follows, in seconds.
const FOLLOW_S: f64 = 15.0;
/// Requests by which responses out of order or a late clock may deceive.
const SLACK: f64 = 2.0;
/// Most samples kept; more responses than this in [`RECENT_S`] only coarsen the estimate.
const SAMPLES: usize = 4096;

/// One response's view of the key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// Seconds on the monotonic clock.
    pub(super) at: f64,
    /// Requests left to all clients.
    pub(super) remaining: f64,
    /// The limit that `remaining` counts down from.
    pub(super) limit: f64,
    /// Our own requests in the last minute.
    pub(super) own_minute: f64,
    /// Our own requests since the start.
    pub(super) own_total: f64,
}

/// A running estimate of the others' requests a minute.
#[derive(Debug, Default)]
pub(super) struct Others {
    last: Option<Reading>,
    /// Time and requests of others between two responses; negative where a sliding minute refunds.
    falls: VecDeque<(f64, f64)>,
    latest: f64,
    mean: f64,
    variance: f64,
}

impl Others {
    pub(super) fn observe(&mut self, reading: Reading) {
        if let Some(last) = self.last {
            let fall = last.remaining - reading.remaining;
            // A clear rise is a new minute: it says nothing about who spent what.
            if fall >= -SLACK {
                self.falls.push_back((reading.at, fall - (reading.own_total - last.own_total)));
            }
        }
        while self.falls.len() > SAMPLES
            || self.falls.front().is_some_and(|(at, _)| *at + RECENT_S <= reading.at)
        {
            self.falls.pop_front();
        }
        let fallen: f64 = self.falls.iter().map(|(_, others)| others).sum();
        let fixed = (fallen - SLACK / 2.0).max(0.0) * 60.0 / RECENT_S;
        let sliding = (reading.limit - reading.remaining - reading.own_minute - SLACK).max(0.0);
        self.latest = fixed.max(sliding).min(reading.limit);

        let since = self.last.map_or(FOLLOW_S, |last| (reading.at - last.at).max(0.0));
        let keep = (-since / FOLLOW_S).exp();
        let off = self.latest - self.mean;
        self.mean += (1.0 - keep) * off;
        self.variance = keep * (self.variance + (1.0 - keep) * off * off);
        self.last = Some(reading);
    }

    /// The newest estimate, requests a minute.
    pub(super) fn latest(&self, now: f64) -> f64 {
        self.latest * self.trust(now)
    }

    /// The smoothed estimate, requests a minute.
    pub(super) fn mean(&self, now: f64) -> f64 {
        self.mean * self.trust(now)
    }

    /// Mean and two standard deviations, requests a minute.
    pub(super) fn upper(&self, now: f64) -> f64 {
        (self.mean + 2.0 * self.variance.sqrt()) * self.trust(now)
    }

    /// The last reading, if a minute has not made it meaningless.
    pub(super) fn last(&self, now: f64) -> Option<Reading> {
        self.last.filter(|last| now - last.at < 60.0)
    }

    /// What is left of an estimate that no response has renewed for over a minute.
    fn trust(&self, now: f64) -> f64 {
        let age = self.last.map_or(0.0, |last| now - last.at);
        (-(age - 60.0).max(0.0) / 30.0).exp()
    }
}
