//! What a later process must know of the requests of this one, also after a kill.
//!
//! A process writes it when it begins, and exactly when it ends. In between it says the most that
//! the process can have sent, so that a kill costs no write for each request.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::pace::SPAN;
use super::{Budget, MAX_REST, ceiling};
use crate::clock::{MachineTime, Moment};

/// What is known of the last minute's requests on a key. Times are milliseconds.
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
    /// How long the workspace asked to wait from then on, and whom: a digest of address and key.
    rest: Option<(i64, String)>,
}

impl Spending {
    /// Adds a request that is sent `now` by a process that keeps no record of its own.
    pub fn add(&mut self, now: &MachineTime) {
        self.sent = self.ages(now);
        self.sent.push(0);
        let passed = millis(now.since(&self.at));
        self.rest = self.rest.take().map(|(wait, of)| (wait - passed, of));
        self.at = now.clone();
    }

    /// Notes how long the workspace asked to wait, from `now` on.
    pub fn rest(&mut self, wait: Duration, account: String, now: &MachineTime) {
        self.rest = Some((millis(wait + now.since(&self.at)), account));
    }

    /// How long before `now` each request was sent, or can have been sent at the latest.
    fn ages(&self, now: &MachineTime) -> Vec<i64> {
        let passed = millis(now.since(&self.at));
        let ages = self.sent.iter().map(|age| age + passed);
        let (mut sent, mut supposed): (Vec<i64>, Vec<i64>) = ages.partition(|age| *age >= passed);
        sent.retain(|age| *age < millis(SPAN));
        if let Some(in_span) = self.may_follow {
            let (least, slot) = (now.least_since(&self.at), SPAN / in_span.max(1));
            let in_span = usize::try_from(in_span).unwrap_or(usize::MAX);
            // The first of them came a slot after the last request that is known.
            let known = self.sent.iter().copied().filter(|age| *age >= 0);
            let first = millis(slot) - known.min().unwrap_or(i64::MAX).min(millis(slot));
            let slots = (0..).map(|back| millis(least + slot * back)).take(in_span);
            supposed.extend(slots.take_while(|age| *age <= passed - first));
            // All together are no more than that in a span, and the last of them stay the longest.
            supposed.sort_unstable();
            supposed.truncate(in_span.saturating_sub(sent.len()));
        }
        sent.extend(supposed.into_iter().map(|age| age.max(0)));
        sent
    }
}

impl Budget {
    /// Takes over what an earlier process left to know; `account` is the digest of address and key.
    pub fn resume(&mut self, from: &Spending, account: &str, now: Moment, machine: &MachineTime) {
        let ages: Vec<Duration> = from.ages(machine).into_iter().map(duration).collect();
        self.pace.recall(&ages, now.elapsed);
        self.knows_past = from.may_follow.is_none();
        if let Some((wait, _)) = from.rest.as_ref().filter(|(_, of)| of == account) {
            let left = duration(*wait)
                .min(MAX_REST)
                .saturating_sub(machine.since(&from.at));
            self.rest_until = (!left.is_zero()).then_some(now.elapsed + left);
        }
    }

    /// What a later process has to know; `has_ended` if this one sends nothing more.
    #[must_use]
    pub fn spending(
        &self,
        account: String,
        has_ended: bool,
        now: Moment,
        machine: MachineTime,
    ) -> Spending {
        let mut sent: Vec<i64> = self.pace.ages(now.elapsed).map(millis).collect();
        if !has_ended {
            let until = millis(self.cycle_until.saturating_sub(now.elapsed));
            sent.extend((0..self.unspaced).map(|_| -until));
        }
        Spending {
            at: machine,
            sent,
            may_follow: (!has_ended).then(|| ceiling(self.settings, None)),
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
