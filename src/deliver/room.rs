//! Room in memory for large records, shared by all sinks.
//!
//! While a record is delivered it is in memory several times: as it was read, with the state before, as an
//! event, and as the body of a request. Sinks that deliver large records wait for each other, so that the
//! number of sinks does not decide how much memory the daemon needs. Other records need no room.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Deliverer;
use super::round::weight;
use super::task_state::Ends;
use crate::record::Change;

/// A change with this many bytes of records needs no room.
const SMALL: usize = 256 * 1024;
/// How often such a change is in memory while it is delivered, measured with webhooks.
const COPIES: usize = 5;
/// The room of all sinks.
const TOTAL_KIB: u32 = 64 * 1024;

/// The room of all sinks of a daemon.
#[derive(Debug, Clone)]
pub struct Room {
    free: Arc<Semaphore>,
    total_kib: u32,
}

impl Default for Room {
    fn default() -> Self {
        Self::of(TOTAL_KIB)
    }
}

/// A part of the room. It is given back when the last clone is dropped.
#[derive(Debug, Clone, Default)]
pub(super) struct Share {
    /// Bytes of large records that it is for.
    pub(super) bytes: usize,
    _permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl Room {
    pub(super) fn of(total_kib: u32) -> Self {
        Self { free: Arc::new(Semaphore::new(total_kib as usize)), total_kib }
    }

    /// Waits for room for so many bytes of large records. What needs more than there is gets all of it.
    pub(super) async fn take(&self, bytes: usize) -> Share {
        let wanted = u32::try_from(bytes.saturating_mul(COPIES) / 1024).unwrap_or(u32::MAX);
        let given = wanted.min(self.total_kib);
        let permit = Arc::clone(&self.free).acquire_many_owned(given).await;
        let permit = permit.expect("the room is never closed");
        let bytes = if given < wanted { usize::MAX } else { bytes };
        Share { bytes, _permit: Some(Arc::new(permit)) }
    }
}

impl Deliverer {
    /// Waits for room for so many bytes of large records; `None` if the sink is told to end meanwhile.
    pub(super) async fn take_room(&self, bytes: usize, ends: &Ends<'_>) -> Option<Share> {
        tokio::select! {
            biased;
            () = ends.finish.cancelled() => None,
            () = ends.cut.cancelled() => None,
            share = self.room.take(bytes) => Some(share),
        }
    }
}

/// The bytes of those changes that need room.
pub(super) fn large(changes: &[Change]) -> usize {
    changes.iter().map(weight).filter(|bytes| *bytes > SMALL).sum()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn what_needs_more_than_there_is_gets_all_and_the_next_waits_for_its_end() {
        let room = Room::default();
        let whole = room.take(100 * MIB).now_or_never().expect("all of it is free");
        assert!(room.take(MIB).now_or_never().is_none());
        let clone = whole.clone();
        drop(whole);
        assert!(room.take(MIB).now_or_never().is_none(), "a clone still holds it");
        drop(clone);
        assert_eq!(room.take(MIB).now_or_never().expect("it is free again").bytes, MIB);
    }

    #[test]
    fn shares_are_taken_side_by_side_while_there_is_room() {
        let room = Room::default();
        let shares: Vec<Share> = std::iter::from_fn(|| room.take(2 * MIB).now_or_never()).collect();
        assert_eq!(shares.len(), TOTAL_KIB as usize / 1024 / (2 * COPIES));
    }
}
