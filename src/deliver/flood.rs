//! The flood gate: notices when more changes come at once than a sink with `hold_above` is to get.
//!
//! Changes count by the time at which they were stored. A backlog that grew slowly while an
//! endpoint was down is therefore no flood, however long it is.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

/// Changes that were stored within this time come at once.
const AT_ONCE: SignedDuration = SignedDuration::from_mins(1);

/// The changes of the last minute, by the time at which they were stored.
#[derive(Debug, Clone, Default)]
pub(super) struct Burst {
    times: VecDeque<(Timestamp, u32)>,
    changes: u32,
}

impl Burst {
    /// Adds a change that was stored at `at`; returns whether there are now more than `most` within
    /// a minute.
    pub(super) fn exceeds(&mut self, at: Timestamp, most: u32) -> bool {
        let is_near = |time: Timestamp| time <= at && at.duration_since(time) < AT_ONCE;
        // Times after `at` were stored before the clock was set back.
        while let Some((time, changes)) = self.times.front().copied()
            && !is_near(time)
        {
            self.changes -= changes;
            self.times.pop_front();
        }
        match self.times.back_mut() {
            Some((time, changes)) if *time == at => *changes += 1,
            _ => self.times.push_back((at, 1)),
        }
        self.changes += 1;
        self.changes > most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each second at which a change was stored, whether there are then more than `most`.
    fn judged(most: u32, seconds: &[i64]) -> Vec<bool> {
        let mut burst = Burst::default();
        let at = |second: &i64| Timestamp::from_second(1_700_000_000 + second).unwrap();
        seconds
            .iter()
            .map(|second| burst.exceeds(at(second), most))
            .collect()
    }

    #[test]
    fn more_changes_within_a_minute_than_allowed_are_a_flood() {
        for (most, seconds, last) in [
            (2, &[0, 0][..], false),
            (2, &[0, 0, 0], true),
            (1, &[0, 59], true),
            (1, &[0, 60], false),
            // A backlog that grew slowly.
            (2, &[0, 30, 60, 90, 120, 150, 180], false),
            (2, &[0, 20, 40], true),
            // One page after another.
            (4, &[0, 0, 0, 10, 10], true),
            (4, &[0, 0, 0, 70, 70, 70], false),
            // The clock was set back: what came before does not count for ever.
            (2, &[3600, 3600, 0, 0], false),
            (2, &[3600, 0, 0, 0], true),
            (1, &[0], false),
        ] {
            assert_eq!(
                judged(most, seconds).last(),
                Some(&last),
                "{most} {seconds:?}"
            );
        }
        assert_eq!(
            judged(2, &[0, 0, 0, 61, 61, 61]),
            [false, false, true, false, false, true]
        );
    }
}
