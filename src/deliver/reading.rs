//! Reads what a sink is given next, with the sink's row.

use std::collections::HashSet;
use std::time::Duration;

use super::Deliverer;
use super::flood::Passage;
use super::health::Attempt;
use super::round::{Limits, Round};
use super::task_state::TaskState;
use crate::clock::stamp;
use crate::retry_after;
use crate::store::{DueBy, SinkRow, SinkState, StoreError};

/// What is to be read.
pub(super) struct ReadLimits {
    /// New changes are those after this row.
    pub(super) after: i64,
    pub(super) attempt: Attempt,
    /// The most changes.
    pub(super) most: usize,
    /// Whether several changes of one record are read.
    pub(super) several: bool,
    /// Deliveries that are under way.
    pub(super) under_way: HashSet<i64>,
    /// Bytes of large records for which there is room.
    pub(super) room: usize,
    /// Whether a large record ends the round before it if there is something to hand over.
    pub(super) ends_at_large: bool,
}

impl Deliverer {
    /// No attempt is planned for later than this: the longest wait with its jitter, and half as much
    /// again. One that is was planned while the clock was wrong.
    pub(super) fn longest_wait(&self) -> Duration {
        let longest = self.settings.retry.iter().max().copied().unwrap_or_default();
        longest.max(retry_after::MAX_WAIT).mul_f64(1.8)
    }

    /// The sink's row, `None` if it has none; and what it is given next, `None` if it is disabled or
    /// its position was moved on.
    pub(super) async fn read(
        &self,
        wanted: ReadLimits,
    ) -> Result<(Option<SinkRow>, Option<Round>), StoreError> {
        let name = self.name.clone();
        let filter = self.settings.filter.clone();
        let hold_above = self.settings.hold_above;
        let gate = self.gate.clone();
        let now = self.clock.now();
        let latest = now.wall.checked_add(self.longest_wait()).map(stamp).unwrap_or_default();
        let now = now.stamp();
        let read = self.store.read(move |reader| {
            let Some(row) = reader.sink(&name)? else { return Ok((None, None)) };
            let known = TaskState::of(row);
            let moved = known.row.position > wanted.after;
            if known.row.state == SinkState::Disabled || moved {
                return Ok((Some(known.row), None));
            }
            let passage = gate.look(reader, &filter, hold_above, &known.row, wanted.after)?;
            if passage == Passage::Flood {
                return Ok((Some(known.row), Some(Round { flood: true, ..Round::default() })));
            }
            let limits = Limits {
                sink: &name,
                position: wanted.after,
                filter: &filter,
                most: wanted.most,
                attempt: wanted.attempt,
                several: wanted.several,
                under_way: &wanted.under_way,
                by: DueBy { now: &now, latest: &latest },
                any_open: known.row.retrying > 0,
                only_due: known.only_due(),
                upto: match passage {
                    Passage::UpTo(row) => row,
                    Passage::Flood | Passage::Held => wanted.after,
                },
                room: wanted.room,
                ends_at_large: wanted.ends_at_large,
            };
            let round = Round::read(reader, &limits)?;
            Ok((Some(known.row), Some(round)))
        });
        read.await
    }
}
