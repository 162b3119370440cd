//! Whether a fault that may be the endpoint's or one change's is that change's own: pure.
//!
//! A filter before an endpoint refuses a text that it dislikes with 403, as an endpoint does that
//! refuses this sender. What tells them apart is what becomes of other changes. The fault is the
//! change's own if others were taken since it was forbidden first, and nothing was forbidden for
//! the first time since then.

use std::collections::{HashMap, HashSet};

use crate::store::{QueueLane, QueueRow};

/// So many changes may be forbidden one after the other, each as its own fault, before the endpoint
/// is believed to forbid everything again.
const MOST: usize = 8;
/// The most changes that are remembered; one beyond them is the endpoint's fault.
const REMEMBERED: usize = 4_096;

/// The changes that are forbidden.
#[derive(Debug, Default)]
pub(super) struct Forbidden {
    /// How many changes the endpoint took.
    taken: u64,
    /// For each change, how many it must have taken before the change is at fault.
    needed: HashMap<(QueueLane, i64), u64>,
    /// The changes that were forbidden alone since one was taken.
    alone: HashSet<(QueueLane, i64)>,
}

impl Forbidden {
    /// The endpoint took a change.
    pub(super) fn taken(&mut self, row: &QueueRow) {
        self.taken += 1;
        self.needed.remove(&row.key());
        self.alone.clear();
    }

    /// A change is forbidden; returns whether that is its own fault.
    pub(super) fn is_own_fault(&mut self, row: &QueueRow) -> bool {
        let key = row.key();
        if self.needed.len() >= REMEMBERED && !self.needed.contains_key(&key) {
            // Some are dead or dropped meanwhile. One that is forbidden again begins anew.
            let taken = self.taken;
            self.needed.retain(|_, needed| *needed > taken);
            if self.needed.len() >= REMEMBERED {
                return false;
            }
        }
        // One that was refused in an earlier run stays refused.
        let needed = if row.attempts > 0 { 0 } else { self.taken + 1 };
        self.needed.entry(key).or_insert(needed);
        for needed in self.needed.values() {
            if *needed > self.taken {
                return false;
            }
        }
        self.alone.insert(key);
        if self.alone.len() > MOST {
            return false;
        }
        // From its first refusal on, its attempts say that it needs nothing more.
        self.needed.remove(&key);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fixtures::queue_row;

    fn row(seq: i64, attempts: i64) -> QueueRow {
        queue_row(QueueLane::Change, seq, attempts)
    }

    #[test]
    fn a_change_is_at_fault_once_others_pass_and_none_is_while_nothing_passes() {
        let mut forbidden = Forbidden::default();
        assert!(!forbidden.is_own_fault(&row(1, 0)), "nothing passed");
        assert!(!forbidden.is_own_fault(&row(1, 0)), "still nothing");
        forbidden.taken(&row(2, 0));
        assert!(forbidden.is_own_fault(&row(1, 0)));
        assert!(
            forbidden.is_own_fault(&row(1, 1)),
            "no other needs to pass again"
        );
        // The key is revoked: a change that was never forbidden is now.
        assert!(!forbidden.is_own_fault(&row(3, 0)));
        assert!(!forbidden.is_own_fault(&row(1, 2)));
        forbidden.taken(&row(3, 0));
        assert!(forbidden.is_own_fault(&row(1, 2)));
    }

    #[test]
    fn what_was_refused_before_a_restart_stays_refused_and_many_in_a_row_are_the_endpoints_fault() {
        let mut forbidden = Forbidden::default();
        for seq in 1..=20 {
            forbidden.is_own_fault(&row(seq, 0));
        }
        forbidden.taken(&row(21, 0));
        let mut own = 0;
        for seq in 1..=20 {
            own += usize::from(forbidden.is_own_fault(&row(seq, 0)));
        }
        assert_eq!(own, MOST);
        let mut restarted = Forbidden::default();
        assert!(restarted.is_own_fault(&row(3, 4)) && restarted.is_own_fault(&row(4, 1)));
        assert!(!restarted.is_own_fault(&row(1, 0)));
        assert!(!restarted.is_own_fault(&row(3, 4)));
        restarted.taken(&row(2, 0));
        assert!(restarted.is_own_fault(&row(3, 4)));
    }
}
