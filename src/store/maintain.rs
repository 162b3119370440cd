//! Keeping the file bounded: checkpoints whose result is read, and retention.

use std::time::Duration;

use jiff::Timestamp;

use super::error::StoreError;
use super::{Writer, log, open};
use crate::clock::stamp;

/// Rows of the log looked at in one step of retention.
const PRUNE_SPAN: i64 = 2_000;
/// Rows of `polls` deleted in one step.
const POLLS_STEP: i64 = 2_000;
/// How long `polls` goes back.
const POLLS_KEPT: Duration = Duration::from_secs(30 * 86_400);
/// Past this size the write-ahead log is cut, not only copied.
const WAL_TARGET: u64 = 16 * 1024 * 1024;

/// What one round of upkeep found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upkeep {
    /// Size of the write-ahead log in bytes.
    pub wal_bytes: u64,
    /// Whether a reader kept the checkpoint from finishing.
    pub reader_in_the_way: bool,
    /// Rows that retention deleted.
    pub pruned: usize,
}

/// One bounded step of upkeep.
pub(super) fn step(
    writer: &mut Writer,
    now: Timestamp,
    retention: Duration,
) -> Result<Upkeep, StoreError> {
    writer.refuse_replaced_file()?;
    // First: on a full disk it is what gives room back.
    let (wal_bytes, finished) = checkpoint(writer)?;
    let pruned = prune(writer, now, retention)?;
    Ok(Upkeep { wal_bytes, reader_in_the_way: !finished, pruned })
}

/// Copies the write-ahead log into the store, and cuts it when it is large and nobody reads it.
fn checkpoint(writer: &mut Writer) -> Result<(u64, bool), StoreError> {
    let path = open::with_suffix(&writer.path, "-wal");
    let size = || std::fs::metadata(&path).map_or(0, |m| m.len());
    if !writer.changed_since_checkpoint() && size() <= WAL_TARGET {
        return Ok((size(), true));
    }
    let run = |mode: &str| -> Result<bool, StoreError> {
        let (busy, in_log, moved): (i64, i64, i64) =
            writer.connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
        Ok(busy == 0 && in_log == moved)
    };
    // A reader would keep the cut waiting; the copy goes as far as it can.
    let finished = run("PASSIVE")? && (size() <= WAL_TARGET || run("TRUNCATE")?);
    if finished {
        writer.checkpointed();
    }
    Ok((size(), finished))
}

fn prune(writer: &mut Writer, now: Timestamp, retention: Duration) -> Result<usize, StoreError> {
    let before = |kept: Duration| now.checked_sub(kept).map(stamp).unwrap_or_default();
    let last = log::last_seq(&writer.connection)?;
    let from = if writer.prune_from >= last { 0 } else { writer.prune_from };
    let cutoff = before(retention);
    // Nothing is old enough yet: the common case on a young store, and it costs one look.
    let old: bool = writer
        .connection
        .prepare_cached("SELECT coalesce((SELECT observed_at FROM changes WHERE seq > ?1 ORDER BY seq LIMIT 1) < ?2, 0)")?
        .query_row((from, &cutoff), |row| row.get(0))?;
    let mut pruned = 0;
    if old {
        let (deleted, next) = log::prune(&writer.connection, from, PRUNE_SPAN, &cutoff)?;
        writer.prune_from = next;
        pruned += deleted;
    } else {
        writer.prune_from = last;
    }
    let polls_cutoff = before(POLLS_KEPT);
    let old_polls: bool = writer
        .connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM polls WHERE to_at < ?1)")?
        .query_row([&polls_cutoff], |row| row.get(0))?;
    if old_polls {
        pruned += writer
            .connection
            .prepare_cached(
                "DELETE FROM polls WHERE id IN (SELECT id FROM polls WHERE to_at < ?1 LIMIT ?2)",
            )?
            .execute((&polls_cutoff, POLLS_STEP))?;
    }
    Ok(pruned)
}
