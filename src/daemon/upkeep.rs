//! Maintains the store while the daemon runs: checkpoints, pruning, a warning if the write-ahead
//! log grows, reading values again.
//!
//! If the store cannot be written for a while, the next round retries; any other error ends the
//! daemon.

use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use shopmirror_core::clock::{Clock, Moment};
use tokio_util::sync::CancellationToken;

use crate::poll::Clocks;
use crate::store::{Store, StoreError};

/// The time between two rounds.
const EVERY: Duration = Duration::from_secs(30);
/// From this size on, a growing write-ahead log is logged.
const WAL_ALARM: u64 = 64 * 1024 * 1024;
/// A growing write-ahead log is logged again after this many rounds.
const WARN_EVERY: u32 = 20;

/// The time that retention counts from: a clock that is ahead would delete what is not old. `None`
/// before the first page, when nothing can be compared yet.
pub(crate) fn old_by(clocks: &Clocks, own: Moment) -> Option<Timestamp> {
    let there = clocks.workspace_time(own)?;
    Some(there.min(own.wall))
}

/// Maintains the store until stopped. The first round is at once: it empties the write-ahead log
/// that an unclean stop left.
pub(super) async fn run(
    retention: Duration,
    clock: Clock,
    clocks: Clocks,
    store: Store,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut blocked_rounds = 0_u32;
    loop {
        match store.upkeep(old_by(&clocks, clock.now()), retention).await {
            Ok(upkeep) => {
                blocked_rounds = if upkeep.reader_in_the_way {
                    blocked_rounds + 1
                } else {
                    0
                };
                if upkeep.wal_bytes > WAL_ALARM && blocked_rounds.is_multiple_of(WARN_EVERY) {
                    tracing::warn!(
                        wal_bytes = upkeep.wal_bytes,
                        "the write-ahead log grows, because a program that reads the store keeps \
                         a transaction open; end that transaction or program"
                    );
                }
                if upkeep.pruned > 0 {
                    tracing::debug!(rows = upkeep.pruned, "pruned");
                }
            }
            Err(error) if error.is_transient() => {}
            Err(error) => return Err(error).context("maintaining the store"),
        }
        match reread(&store, &stop).await {
            Ok(()) => {}
            Err(error) if error.is_transient() => {}
            Err(error) => return Err(error).context("reading values again"),
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// Reads values again whose rules changed, in steps between which polls are stored.
pub(crate) async fn reread(store: &Store, stop: &CancellationToken) -> Result<(), StoreError> {
    while !stop.is_cancelled() && store.reread_step().await? {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_makes_nothing_old() {
        let at = |wall: &str| Moment {
            elapsed: Duration::ZERO,
            wall: wall.parse().unwrap(),
        };
        let early = at("2026-11-22T00:00:00Z");
        let late = at("2028-04-01T00:00:00Z");
        let clocks = Clocks::default();
        assert_eq!(old_by(&clocks, late), None, "nothing was compared yet");
        clocks.compare(early.wall, late);
        assert_eq!(old_by(&clocks, late), Some(early.wall));
        clocks.compare(late.wall, early);
        assert_eq!(
            old_by(&clocks, early),
            Some(early.wall),
            "nor one of the workspace"
        );
    }
}
