//! The flood gate: notices when more changes come at once than a sink with `hold_above` is to get.
//!
//! Changes count by the time at which they were stored. A backlog that grew slowly while an endpoint
//! was down is therefore no flood, however long it is. The log is looked through before any of it is
//! handed over.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

use super::Deliverer;
use super::filter::wants;
use super::task_state::TaskState;
use crate::config::SinkFilter;
use crate::record::Kind;
use crate::store::{GateState, Reader, SinkRow, StoreError};

/// Changes that were stored within this time come at once.
const AT_ONCE: SignedDuration = SignedDuration::from_mins(1);
/// Rows of the log looked through in one read.
const LOOKED_THROUGH: usize = 2_000;
/// Rows that are looked through before the next ones are read: those of one read, and a flood behind
/// them, of which the first changes must not be sent.
const AHEAD: i64 = 1_024;

/// The changes of the last minute, by the time at which they were stored.
#[derive(Debug, Default)]
struct Burst {
    times: VecDeque<(Timestamp, u32)>,
    changes: u32,
}

impl Burst {
    /// Adds a change that was stored at `at`; returns whether there are now more than `most` within a
    /// minute.
    fn exceeds(&mut self, at: Timestamp, most: u32) -> bool {
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

/// How far the log was looked through for one task; clones share it. A restart begins at the position.
#[derive(Debug, Clone, Default)]
pub struct FloodGate {
    looked: Arc<Mutex<Looked>>,
}

#[derive(Debug, Default)]
struct Looked {
    upto: i64,
    burst: Burst,
}

/// What the gate lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passage {
    /// New changes up to this row.
    UpTo(i64),
    /// No new change: the sink is to be held.
    Flood,
    /// No new change: the sink is held.
    Held,
}

impl FloodGate {
    /// Looks at the log beyond `after`, the last row that was read for the sink.
    pub(super) fn look(
        &self,
        reader: &Reader,
        filter: &SinkFilter,
        hold_above: Option<u32>,
        row: &SinkRow,
        after: i64,
    ) -> Result<Passage, StoreError> {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if row.gate == GateState::Held {
            return Ok(Passage::Held);
        }
        let Some(most) = hold_above else { return Ok(Passage::UpTo(i64::MAX)) };
        let from = row.position.max(row.released_to);
        if from > looked.upto {
            *looked = Looked { upto: from, burst: Burst::default() };
        }
        if looked.upto >= after.saturating_add(AHEAD) {
            return Ok(Passage::UpTo(looked.upto));
        }
        let Looked { upto, burst } = &mut *looked;
        let (mut flood, mut failure) = (false, None);
        reader.scan_after(*upto, LOOKED_THROUGH, |change| {
            let mut counts = change.kind != Kind::Baseline && wants(filter, &change);
            // Of a record that was forgotten the sink gets no version.
            match counts.then(|| reader.is_erased(change.seq)).transpose() {
                Ok(erased) => counts &= erased == Some(false),
                Err(error) => {
                    failure = Some(error);
                    return ControlFlow::Break(());
                }
            }
            *upto = change.seq;
            if counts && let Ok(at) = change.observed_at.parse() {
                flood = burst.exceeds(at, most);
            }
            if flood { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        if flood {
            // It is found again if it cannot be saved that the sink is held.
            *looked = Looked::default();
            return Ok(Passage::Flood);
        }
        Ok(Passage::UpTo(looked.upto))
    }
}

impl Deliverer {
    /// Holds the sink and says so once. It is called when nothing is under way: no change that an
    /// operator drops later can still be delivered.
    pub(super) async fn hold(&self, known: &mut TaskState) -> Result<(), StoreError> {
        if !std::mem::take(&mut known.flooded) {
            return Ok(());
        }
        if let Some(row) = self.store.hold_sink(self.name.clone()).await? {
            known.adopt(row);
        }
        let most = self.settings.hold_above.unwrap_or_default();
        tracing::warn!(sink = %self.name, hold_above = most,
            "more changes than `hold_above` came within a minute: the sink is held and keeps its changes; look at them with `shopmirror log`, then run `shopmirror sinks release {}`, or add --skip to drop them", self.name);
        self.publish(known);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each second at which a change was stored, whether there are then more than `most`.
    fn judged(most: u32, seconds: &[i64]) -> Vec<bool> {
        let mut burst = Burst::default();
        let at = |second: &i64| Timestamp::from_second(1_700_000_000 + second).unwrap();
        seconds.iter().map(|second| burst.exceeds(at(second), most)).collect()
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
            assert_eq!(judged(most, seconds).last(), Some(&last), "{most} {seconds:?}");
        }
        assert_eq!(judged(2, &[0, 0, 0, 61, 61, 61]), [false, false, true, false, false, true]);
    }
}
