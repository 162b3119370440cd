//! What the page shows: one snapshot that all viewers share.
//!
//! A snapshot is taken when one is requested and the last is a second old: once per second for any
//! number of viewers, and not at all without requests.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::record::Change;
use crate::status::WorkspaceStatus;
use crate::store::{Gap, Reader, Store, StoreError};

/// How long a snapshot is new enough.
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// A store that does not answer within this time is stuck.
const PATIENCE: Duration = Duration::from_secs(4);
/// Changes on the page.
const CHANGES_SHOWN: usize = 20;

/// The state of the workspace at one time.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) status: WorkspaceStatus,
    /// The gaps that are neither repaired nor accepted, newest first.
    pub(super) gaps: Vec<Gap>,
    /// The last rows of the log without the records' content, newest first.
    pub(super) changes: Vec<Change>,
    /// Size of the database file in bytes.
    pub(super) store_bytes: u64,
    /// Size of its write-ahead log in bytes.
    pub(super) wal_bytes: u64,
    /// The name of the workspace, once it is known.
    pub(super) workspace: Option<String>,
}

impl Snapshot {
    /// Adds what the store holds to a status; `None` if the store does not answer.
    pub(super) async fn take(status: WorkspaceStatus, store: &Store) -> Option<Self> {
        let path = store.path().to_owned();
        let last_seq = status.last_seq;
        let read = store.read(move |reader| {
            let workspace = reader.workspace()?.map(|known| known.name);
            let gaps: Vec<Gap> = reader.gaps()?.into_iter().filter(Gap::is_unsettled).collect();
            Ok((gaps, latest(reader, last_seq)?, workspace, sizes(path)))
        });
        let (gaps, changes, workspace, (store_bytes, wal_bytes)) =
            timeout(PATIENCE, read).await.ok()?.ok()?;
        Some(Self { status, gaps, changes, store_bytes, wal_bytes, workspace })
    }
}

fn latest(reader: &Reader, last_seq: i64) -> Result<Vec<Change>, StoreError> {
    let shown = i64::try_from(CHANGES_SHOWN).unwrap_or(i64::MAX);
    let latest = reader.changes_after(last_seq.saturating_sub(shown), CHANGES_SHOWN)?;
    let without = |change: Change| Change { body: String::new(), before: None, ..change };
    Ok(latest.into_iter().rev().map(without).collect())
}

/// The bytes of the database and of its write-ahead log.
fn sizes(path: PathBuf) -> (u64, u64) {
    let size = |path: &std::ffi::OsStr| std::fs::metadata(path).map_or(0, |found| found.len());
    let store = size(path.as_os_str());
    let mut wal = path.into_os_string();
    wal.push("-wal");
    (store, size(&wal))
}

/// A snapshot, or `None` if the daemon's tasks did not answer; shared by all viewers.
pub(super) type SharedSnapshot = Option<Arc<Snapshot>>;

/// The newest snapshot.
#[derive(Default)]
pub(super) struct Snapshots(Mutex<Option<(Instant, SharedSnapshot)>>);

impl Snapshots {
    /// A snapshot that is at most a second old: the newest one, or the one that `take` takes.
    pub(super) async fn newest<F>(&self, take: impl FnOnce() -> F) -> SharedSnapshot
    where
        F: Future<Output = Option<Snapshot>>,
    {
        let mut newest = self.0.lock().await;
        match &*newest {
            Some((at, shared)) if at.elapsed() < EVERY => shared.clone(),
            _ => {
                let taken = take().await.map(Arc::new);
                *newest = Some((Instant::now(), taken.clone()));
                taken
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_viewers_share_one_snapshot_per_second() {
        let (snapshots, taken) = (Snapshots::default(), Cell::new(0));
        let take = || {
            taken.set(taken.get() + 1);
            std::future::ready(None)
        };
        let viewer = || async {
            for _ in 0..60 {
                snapshots.newest(take).await;
                sleep(EVERY).await;
            }
        };
        futures_util::future::join_all((0..64).map(|_| viewer())).await;
        assert_eq!(taken.get(), 60);
    }
}
