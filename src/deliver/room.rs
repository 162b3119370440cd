//! Room in memory for large records, shared by all sinks.
//!
//! While a record is delivered it is in memory several times: as it was read, with the state
//! before, as an event, and as the body of a request. Sinks that deliver large records wait for
//! each other, so that the number of sinks does not decide how much memory the daemon needs. A
//! record is read only once there is room for it; other records need none.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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

impl Room {
    pub(super) fn of(total_kib: u32) -> Self {
        Self {
            free: Arc::new(Semaphore::new(total_kib as usize)),
            total_kib,
        }
    }

    /// Waits for room for this many bytes of records. Larger requests are capped at the total.
    /// The room is given back when the permit is dropped.
    pub(super) async fn take(&self, bytes: usize) -> OwnedSemaphorePermit {
        let wanted = bytes.saturating_mul(COPIES) / 1024;
        let kib = u32::try_from(wanted)
            .unwrap_or(u32::MAX)
            .min(self.total_kib);
        let permit = Arc::clone(&self.free).acquire_many_owned(kib).await;
        permit.expect("the room is never closed")
    }
}
