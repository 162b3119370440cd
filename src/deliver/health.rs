//! What is known about a sink's endpoint, and what may be handed to it next: pure.
//!
//! A failed delivery may be the endpoint's fault or one change's own. An endpoint that keeps failing
//! is therefore compared: several changes are handed over one by one, and if it takes one of them,
//! the changes that failed after that are to blame themselves. All of this may be lost in a restart.

use std::time::Duration;

use crate::backoff::Backoff;

/// Waits between the attempts at an endpoint that failed.
const PAUSE: Backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(15 * 60) };
/// Changes handed over to compare, at most.
pub(super) const MAX_COMPARED: usize = 8;

/// A failure that the endpoint reported, or that kept it from answering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// What went wrong, for people.
    pub(super) reason: String,
    /// The wait that the endpoint asked for.
    pub(super) asked: Option<Duration>,
}

/// When changes are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparing {
    /// Never: this kind of sink fails for all changes or for none.
    Never,
    /// After three faults in a row, at first two changes.
    Patient,
    /// After the first fault: a single run cannot wait for more.
    AtOnce,
}

impl Comparing {
    /// Faults in a row after which changes are compared.
    fn after(self) -> u32 {
        match self {
            Self::Never => u32::MAX,
            Self::Patient => 3,
            Self::AtOnce => 1,
        }
    }

    /// Changes compared at first.
    fn begins_with(self) -> usize {
        match self {
            Self::Never | Self::Patient => 2,
            Self::AtOnce => MAX_COMPARED,
        }
    }
}

/// What the next round hands over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    /// As many changes as the sink takes at once.
    Batch,
    /// One change, to see whether the endpoint is back.
    Probe,
    /// Several changes one by one, to see whose fault it is. The number grows with each round.
    Compare {
        /// May exceed [`MAX_COMPARED`] and what the log holds.
        changes: usize,
        /// The endpoint asks for a wait, so that a round ends with the first change that fails. If
        /// there are no more changes to add, another one begins each time.
        in_turn: bool,
    },
}

impl Attempt {
    /// The most changes of the round, given what the sink takes at once.
    pub(super) fn most(self, batch: usize) -> usize {
        match self {
            Self::Batch => batch,
            Self::Probe => 1,
            Self::Compare { changes, .. } => changes.min(MAX_COMPARED),
        }
    }

    /// Among how many of the next changes those of the round are chosen: it doubles with each round,
    /// so that a long run of changes that fail is passed.
    pub(super) fn reach(self, batch: usize) -> usize {
        match self {
            Self::Compare { changes, .. } => changes.max(1 << changes.saturating_sub(1).min(9)),
            _ => self.most(batch),
        }
    }

    /// Whether changes are compared.
    pub(super) fn compares(self) -> bool {
        matches!(self, Self::Compare { .. })
    }

    /// The order in which `count` changes are compared: the last one first, since the first one is
    /// the one that failed.
    pub(super) fn order(self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).rev().collect();
        if let Self::Compare { changes, in_turn: true } = self
            && count > 0
        {
            order.rotate_left(changes.saturating_sub(count) % count);
        }
        order
    }
}

/// What one round showed about the endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Observed {
    /// There was nothing to hand over.
    Nothing,
    /// It responded, and no fault is left.
    Responded,
    /// It is at fault.
    Failed {
        fault: Fault,
        /// It acknowledged some changes of the same round.
        delivered: bool,
        /// Changes were compared, and the log held no other change to compare with; the number of
        /// new changes that were handed over.
        uncompared: Option<usize>,
    },
    /// It is gone for good (410).
    Gone { reason: String },
}

/// What is known about an endpoint. Times are those of [`crate::clock::Moment::elapsed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EndpointHealth {
    /// It responded the last time, or was not tried yet.
    Healthy,
    /// It failed.
    BackingOff { faults: u32, until: Duration, reason: String },
    /// It failed, and the log held no other change to compare with. `tried` new changes were
    /// handed over; the pause ends as soon as there are more.
    Uncompared { faults: u32, until: Duration, reason: String, tried: usize },
    /// It asked for a wait. Nothing ends this wait early.
    AskedToWait { faults: u32, until: Duration, reason: String },
    /// It said that it is gone for good (410).
    Gone { reason: String },
}

impl EndpointHealth {
    /// What the next round hands over.
    pub(super) fn attempt(&self, comparing: Comparing) -> Attempt {
        let (faults, after, in_turn) = match self {
            Self::Healthy | Self::Gone { .. } => return Attempt::Batch,
            // After a wait that may have been meant for one change, another change goes first.
            Self::AskedToWait { faults, .. } if comparing != Comparing::Never => (*faults, 1, true),
            Self::BackingOff { faults, .. }
            | Self::Uncompared { faults, .. }
            | Self::AskedToWait { faults, .. } => (*faults, comparing.after(), false),
        };
        match faults.checked_sub(after) {
            None => Attempt::Probe,
            Some(rounds) => {
                let rounds = usize::try_from(rounds).unwrap_or(usize::MAX);
                let changes = comparing.begins_with().saturating_add(rounds);
                Attempt::Compare { changes, in_turn }
            }
        }
    }

    /// How much longer nothing is handed over.
    pub(super) fn pause(&self, now: Duration) -> Option<Duration> {
        self.until().filter(|until| *until > now).map(|until| until - now)
    }

    /// Seconds until the next attempt, for people; `None` unless paused.
    pub(super) fn next_attempt_s(&self, now: Duration) -> Option<f64> {
        self.until().map(|until| until.saturating_sub(now).as_secs_f64())
    }

    /// Why the last attempt failed.
    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            Self::Healthy => None,
            Self::BackingOff { reason, .. }
            | Self::Uncompared { reason, .. }
            | Self::AskedToWait { reason, .. }
            | Self::Gone { reason } => Some(reason),
        }
    }

    /// The number of new changes above which the pause ends early.
    pub(super) fn ends_with_more_than(&self) -> Option<usize> {
        match self {
            Self::Uncompared { tried, .. } => Some(*tried),
            _ => None,
        }
    }

    /// Ends a pause because an operator asks for it. A wait that the endpoint asked for goes on.
    pub(super) fn end_pause(&mut self, now: Duration) {
        if let Self::BackingOff { until, .. } | Self::Uncompared { until, .. } = self {
            *until = now.min(*until);
        }
    }

    /// Learns from a round that ended at `now`; `chance` is uniform in `0.0..1.0`.
    pub(super) fn observe(&mut self, observed: Observed, now: Duration, chance: f64) {
        *self = match observed {
            Observed::Nothing | Observed::Responded => Self::Healthy,
            Observed::Gone { reason } => Self::Gone { reason },
            Observed::Failed { fault: Fault { reason, asked }, delivered, uncompared } => {
                let faults = if delivered { 1 } else { self.faults().saturating_add(1) };
                let until = now + PAUSE.wait(faults, chance, asked);
                match (asked, uncompared) {
                    (Some(_), _) => Self::AskedToWait { faults, until, reason },
                    (None, Some(tried)) => Self::Uncompared { faults, until, reason, tried },
                    (None, None) => Self::BackingOff { faults, until, reason },
                }
            }
        };
    }

    fn until(&self) -> Option<Duration> {
        match self {
            Self::Healthy | Self::Gone { .. } => None,
            Self::BackingOff { until, .. }
            | Self::Uncompared { until, .. }
            | Self::AskedToWait { until, .. } => Some(*until),
        }
    }

    fn faults(&self) -> u32 {
        match self {
            Self::Healthy | Self::Gone { .. } => 0,
            Self::BackingOff { faults, .. }
            | Self::Uncompared { faults, .. }
            | Self::AskedToWait { faults, .. } => *faults,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn failed(asked: Option<u64>, delivered: bool, uncompared: Option<usize>) -> Observed {
        let asked = asked.map(Duration::from_secs);
        Observed::Failed {
            fault: Fault { reason: "answered 503".into(), asked },
            delivered,
            uncompared,
        }
    }

    fn after(rounds: &[Observed]) -> EndpointHealth {
        let mut health = EndpointHealth::Healthy;
        for observed in rounds {
            health.observe(observed.clone(), NOW, 1.0);
        }
        health
    }

    #[test]
    fn what_is_handed_over_next_follows_from_what_the_rounds_before_showed() {
        use Comparing::{AtOnce, Never, Patient};
        let fault = failed(None, false, None);
        let asked_to_wait = failed(Some(5), false, None);
        let compare = |changes| Attempt::Compare { changes, in_turn: false };
        let in_turn = |changes| Attempt::Compare { changes, in_turn: true };
        for (rounds, comparing, expected) in [
            (vec![], Patient, Attempt::Batch),
            (vec![fault.clone()], Patient, Attempt::Probe),
            (vec![fault.clone(); 2], Patient, Attempt::Probe),
            (vec![fault.clone(); 3], Patient, compare(2)),
            (vec![fault.clone(); 4], Patient, compare(3)),
            (vec![fault.clone(); 40], Never, Attempt::Probe),
            (vec![fault.clone()], AtOnce, compare(8)),
            // A wait that was asked for may be meant for only one change.
            (vec![asked_to_wait.clone()], Patient, in_turn(2)),
            (vec![asked_to_wait.clone(); 2], Patient, in_turn(3)),
            (vec![asked_to_wait], Never, Attempt::Probe),
            // An endpoint that takes some changes begins anew.
            (vec![fault.clone(), fault.clone(), failed(None, true, None)], Patient, Attempt::Probe),
            (vec![fault.clone(), fault.clone(), Observed::Responded], Patient, Attempt::Batch),
            (vec![fault, Observed::Nothing], Patient, Attempt::Batch),
        ] {
            assert_eq!(after(&rounds).attempt(comparing), expected, "{comparing:?} {rounds:?}");
        }
    }

    #[test]
    fn a_pause_grows_with_each_fault_up_to_a_quarter_of_an_hour() {
        let pause = |faults: usize| {
            after(&vec![failed(None, false, None); faults]).pause(NOW).unwrap().as_secs()
        };
        assert_eq!([1, 2, 3, 4, 10, 11, 60].map(pause), [1, 2, 4, 8, 512, 900, 900]);
        assert_eq!(after(&[Observed::Responded]).pause(NOW), None);
    }

    #[test]
    fn the_endpoint_is_not_tried_before_the_wait_that_it_asked_for() {
        let mut health = after(&[failed(Some(600), false, None)]);
        assert_eq!(health.pause(NOW), Some(Duration::from_secs(600)));
        health.end_pause(NOW);
        assert_eq!(health.pause(NOW), Some(Duration::from_secs(600)), "not for an operator");
        assert_eq!(health.ends_with_more_than(), None, "not for new changes");
        assert_eq!(health.pause(NOW + Duration::from_secs(600)), None);
    }
}
