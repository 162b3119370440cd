//! What a later process must know of the requests of this one, also after a kill.
//!
//! A process writes it when it begins, and exactly when it ends. In between it says the most that
//! the process can have sent, so that a kill costs no write for each request.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::pace::SPAN;
use super::{Budget, MAX_REST, ceiling};
use crate::clock::{MachineTime, Moment};

/// The requests of the last minute on a key. Times are milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    /// When it was written.
    at: MachineTime,
    /// How long before that each request was sent. It is negative if it may have been sent after
    /// that.
    sent: Vec<i64>,
    /// How many requests a [`SPAN`] can hold if more may have followed, at most one in each slot;
    /// nothing if the process had ended.
    may_follow: Option<u32>,
    /// How long a wait the workspace requested from then on, and of whom: a digest of address and
    /// key.
    rest: Option<(i64, String)>,
}

impl Spending {
    /// Adds a request that is sent `now` by a process that writes no record of its own.
    pub fn add(&mut self, now: &MachineTime) {
        self.sent = self.ages(now);
        self.sent.push(0);
        if let Some((wait, _)) = &mut self.rest {
            *wait -= millis(now.since(&self.at));
        }
        self.at = now.clone();
    }

    /// Notes how long a wait the workspace requested, from `now` on.
    pub fn rest(&mut self, wait: Duration, account: String, now: &MachineTime) {
        self.rest = Some((millis(wait + now.since(&self.at)), account));
    }

    /// How long before `now` each request was sent, or can have been sent at the latest.
    fn ages(&self, now: &MachineTime) -> Vec<i64> {
        let passed = millis(now.since(&self.at));
        let mut sent = Vec::new();
        let mut possible = Vec::new();
        for age in &self.sent {
            let age = age + passed;
            if age < passed {
                possible.push(age);
            } else if age < millis(SPAN) {
                sent.push(age);
            }
        }
        if let Some(in_span) = self.may_follow {
            let least = now.least_since(&self.at);
            let slot = SPAN / in_span.max(1);
            // The first of them came a slot after the last request that is noted.
            let newest = self.sent.iter().copied().filter(|age| *age >= 0).min();
            let first = millis(slot) - newest.unwrap_or(i64::MAX).min(millis(slot));
            for back in 0..in_span {
                let age = millis(least + slot * back);
                if age > passed - first {
                    break;
                }
                possible.push(age);
            }
            // All together are no more than that in a span, and the last of them stay the longest.
            possible.sort_unstable();
            let in_span = usize::try_from(in_span).unwrap_or(usize::MAX);
            possible.truncate(in_span.saturating_sub(sent.len()));
        }
        for age in possible {
            sent.push(age.max(0));
        }
        sent
    }
}

impl Budget {
    /// Continues after the requests of an earlier process; `account` is the digest of address and
    /// key.
    pub fn resume(&mut self, from: &Spending, account: &str, now: Moment, machine: &MachineTime) {
        let ages: Vec<Duration> = from.ages(machine).into_iter().map(duration).collect();
        self.pace.recall(&ages, now.elapsed);
        self.knows_past = from.may_follow.is_none();
        if let Some((wait, resting)) = &from.rest
            && resting == account
        {
            let wait = duration(*wait).min(MAX_REST);
            let left = wait.saturating_sub(machine.since(&from.at));
            self.rest_until = None;
            if !left.is_zero() {
                self.rest_until = Some(now.elapsed + left);
            }
        }
    }

    /// What a later process must know; `has_ended` if this one sends nothing more.
    #[must_use]
    pub fn spending(
        &self,
        account: String,
        has_ended: bool,
        now: Moment,
        machine: MachineTime,
    ) -> Spending {
        let mut sent: Vec<i64> = self.pace.ages(now.elapsed).map(millis).collect();
        let mut may_follow = None;
        if !has_ended {
            let until = millis(self.cycle_until.saturating_sub(now.elapsed));
            for _ in 0..self.unspaced {
                sent.push(-until);
            }
            may_follow = Some(ceiling(self.settings, None));
        }
        Spending {
            at: machine,
            sent,
            may_follow,
            rest: self.resting(now).map(|rest| (millis(rest), account)),
        }
    }
}

fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX / 4)
}
