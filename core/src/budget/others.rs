//! Estimates the requests of the key's other clients from `X-RateLimit-Remaining`.
//!
//! The API does not say whether its minute is fixed or sliding. So there are two estimates, and the
//! larger counts: for a fixed minute, how far `Remaining` fell beyond our own requests; for a
//! sliding minute, how many requests it counts beyond our own. Each is right for its kind and too
//! low for the other.

use std::collections::VecDeque;

/// How long a decrease of `Remaining` counts as recent, in seconds.
const RECENT_S: f64 = 15.0;
/// How long the last decrease counts while no other is seen, in seconds: across the beginning of a
/// fixed minute, and between rare requests.
const REMEMBERED_S: f64 = 60.0;
/// The time constant of the smoothed mean, in seconds.
const FOLLOW_S: f64 = 15.0;
/// The error in requests that responses out of order or a clock offset may cause.
const SLACK: f64 = 2.0;
/// What one response shows of the key.
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

/// How many requests of others came between two responses; negative if a sliding minute gave
/// requests back.
#[derive(Debug)]
struct Fall {
    /// When the later response came, and how long after the earlier one, in seconds.
    at: f64,
    span: f64,
    others: f64,
}

/// The estimate of the others' requests per minute.
#[derive(Debug, Default)]
pub(super) struct Others {
    last: Option<Reading>,
    /// The recent falls; at least one, as long as it is younger than [`REMEMBERED_S`].
    falls: VecDeque<Fall>,
    latest: f64,
    mean: f64,
    variance: f64,
}

impl Others {
    pub(super) fn observe(&mut self, reading: Reading) {
        if let Some(last) = self.last {
            let fall = last.remaining - reading.remaining;
            // A clear rise is a new minute and shows nothing about the others' requests.
            if fall >= -SLACK {
                self.falls.push_back(Fall {
                    at: reading.at,
                    span: (reading.at - last.at).max(0.0),
                    others: fall - (reading.own_total - last.own_total),
                });
            }
        }
        while let Some(oldest) = self.falls.front() {
            let keep_s = if self.falls.len() > 1 {
                RECENT_S
            } else {
                REMEMBERED_S
            };
            if oldest.at + keep_s > reading.at {
                break;
            }
            self.falls.pop_front();
        }
        let mut fallen = 0.0;
        let mut span: f64 = 0.0;
        for fall in &self.falls {
            fallen += fall.others;
            span += fall.span;
        }
        let fixed = (fallen - SLACK / 2.0).max(0.0) * 60.0 / span.max(RECENT_S);
        let sliding = (reading.limit - reading.remaining - reading.own_minute - SLACK).max(0.0);
        self.latest = fixed.max(sliding).min(reading.limit);

        let since = match self.last {
            Some(last) => (reading.at - last.at).max(0.0),
            None => FOLLOW_S,
        };
        let keep = (-since / FOLLOW_S).exp();
        let difference = self.latest - self.mean;
        self.mean += (1.0 - keep) * difference;
        self.variance = keep * (self.variance + (1.0 - keep) * difference * difference);
        self.last = Some(reading);
    }

    /// The newest estimate, requests per minute.
    pub(super) fn latest(&self, now: f64) -> f64 {
        self.latest * self.trust(now)
    }

    /// The smoothed estimate, requests per minute.
    pub(super) fn mean(&self, now: f64) -> f64 {
        self.mean * self.trust(now)
    }

    /// Mean plus two standard deviations, requests per minute.
    pub(super) fn upper(&self, now: f64) -> f64 {
        (self.mean + 2.0 * self.variance.sqrt()) * self.trust(now)
    }

    /// The last reading, if it is younger than a minute.
    pub(super) fn last(&self, now: f64) -> Option<Reading> {
        self.last.filter(|last| now - last.at < 60.0)
    }

    /// The weight of the estimate, which falls from 1 if no response came for more than a minute.
    fn trust(&self, now: f64) -> f64 {
        let age = match self.last {
            Some(last) => now - last.at,
            None => 0.0,
        };
        (-(age - 60.0).max(0.0) / 30.0).exp()
    }
}
