//! Room in memory for large records, shared by all sinks.
//!
//! While a record is delivered it is in memory several times: as it was read, with the state before, as an
//! event, and as the body of a request. Sinks that deliver large records wait for each other, so that the
//! number of sinks does not decide how much memory the daemon needs. Other records need no room.
//!
//! Who waits for room holds none and has no large record in memory, so nobody waits for ever.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::Deliverer;
use super::round::weight;
use super::task_state::Ends;
use crate::record::Change;
use crate::sink::{Verdict, WindowedSink};

/// A change with this many bytes of records needs no room.
pub(super) const SMALL: usize = 256 * 1024;
/// How often such a change is in memory while a webhook delivers it, at most.
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

/// A part of the room. It is given back when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// Bytes of large records that it is for.
    pub(super) bytes: usize,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Room {
    pub(super) fn of(total_kib: u32) -> Self {
        Self { free: Arc::new(Semaphore::new(total_kib as usize)), total_kib }
    }

    /// Waits for room for so many bytes of large records. What needs more than there is gets all of it.
    pub(super) async fn take(&self, bytes: usize) -> Share {
        let permit = Arc::clone(&self.free).acquire_many_owned(self.kib(bytes)).await;
        self.share(bytes, permit.expect("the room is never closed"))
    }

    /// As [`Self::take`]; `None` if there is not so much room now.
    pub(super) fn try_take(&self, bytes: usize) -> Option<Share> {
        let permit = Arc::clone(&self.free).try_acquire_many_owned(self.kib(bytes)).ok()?;
        Some(self.share(bytes, permit))
    }

    fn kib(&self, bytes: usize) -> u32 {
        let wanted = bytes.saturating_mul(COPIES) / 1024;
        u32::try_from(wanted).unwrap_or(u32::MAX).min(self.total_kib)
    }

    fn share(&self, bytes: usize, permit: OwnedSemaphorePermit) -> Share {
        let bytes = if self.kib(bytes) == self.total_kib { usize::MAX } else { bytes };
        Share { bytes, _permit: Some(permit) }
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

    /// Hands a large change over when there is room for it. It is read only then. It is not tried if
    /// `ending` comes first, or if it can no longer be read.
    pub(super) async fn deliver_large(
        &self,
        sink: &WindowedSink,
        (seq, bytes): (i64, usize),
        ending: CancellationToken,
        cut: &CancellationToken,
    ) -> Verdict {
        let share = tokio::select! {
            biased;
            () = ending.cancelled() => return Verdict::NotTried,
            () = cut.cancelled() => return Verdict::NotTried,
            share = self.room.take(bytes) => share,
        };
        let read = self.store.read(move |reader| {
            let is_erased = reader.is_erased(seq)?;
            let mut changes = if is_erased { Vec::new() } else { reader.changes(&[seq])? };
            reader.add_jobs(&mut changes)?;
            Ok(changes.pop())
        });
        let Ok(Some(change)) = read.await else { return Verdict::NotTried };
        let verdict = sink.deliver(&change, self.clock.now().wall, cut).await;
        drop((change, share));
        verdict
    }
}

/// The bytes of those changes that need room.
pub(super) fn large(changes: &[Change]) -> usize {
    changes.iter().map(weight).filter(|bytes| *bytes > SMALL).sum()
}
