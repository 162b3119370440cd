//! What the page shows: one snapshot that all viewers share.
//!
//! A snapshot is taken when one is requested and the last is a second old: once per second for any
//! number of viewers, and not at all without requests.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::live::LivePage;
use crate::record::Change;
use crate::status::WorkspaceStatus;
use crate::store::{Gap, Reader, Store, StoreError};

/// How long a snapshot is new enough.
const EVERY: Duration = Duration::from_secs(1);
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
    /// The page System, made when the first viewer needs it.
    pub(super) system: OnceLock<Arc<LivePage>>,
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
        let system = OnceLock::new();
        Some(Self { status, gaps, changes, store_bytes, wal_bytes, workspace, system })
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

/// The newest snapshot, and the means to ask for a newer one.
pub(super) struct Snapshots {
    newest: watch::Sender<Option<(Instant, SharedSnapshot)>>,
    /// How often a snapshot was wanted.
    wanted: watch::Sender<u64>,
}

impl Snapshots {
    pub(super) fn new() -> Self {
        Self { newest: watch::Sender::new(None), wanted: watch::Sender::new(0) }
    }

    /// Takes a snapshot whenever one is wanted, at most once per second; never returns.
    pub(super) async fn keep<T, F>(&self, take: T)
    where
        T: Fn() -> F,
        F: Future<Output = Option<Snapshot>>,
    {
        let mut wanted = self.wanted.subscribe();
        let mut met = 0;
        // The sender lives as long as `self`, so that waiting cannot fail.
        while wanted.wait_for(|wishes| *wishes > met).await.is_ok() {
            let taken = take().await.map(Arc::new);
            // Requests that came in the meantime get this snapshot.
            met = *wanted.borrow();
            self.newest.send_replace(Some((Instant::now(), taken)));
            sleep(EVERY).await;
        }
    }

    /// A snapshot that is at most a second old, or the next one.
    pub(super) async fn newest(&self) -> SharedSnapshot {
        let mut newest = self.newest.subscribe();
        let known = newest.borrow_and_update().clone();
        match known {
            Some((at, shared)) if at.elapsed() < EVERY => shared,
            _ => self.after(&mut newest).await,
        }
    }

    /// Follows the snapshots from now on; see [`Self::after`].
    pub(super) fn follow(&self) -> Follower {
        self.newest.subscribe()
    }

    /// Asks for a snapshot and waits for the next one.
    pub(super) async fn after(&self, follower: &mut Follower) -> SharedSnapshot {
        self.wanted.send_modify(|wishes| *wishes += 1);
        // As above, this cannot fail.
        let _ = follower.changed().await;
        follower.borrow_and_update().clone().and_then(|(_, shared)| shared)
    }
}

/// One viewer's place among the snapshots.
pub(super) type Follower = watch::Receiver<Option<(Instant, SharedSnapshot)>>;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    /// Runs `look` beside snapshots that cannot be taken, and counts how often one was tried.
    async fn takes(look: impl AsyncFnOnce(Rc<Snapshots>)) -> u32 {
        let snapshots = Rc::new(Snapshots::new());
        let taken = Cell::new(0);
        let keep = snapshots.keep(|| {
            taken.set(taken.get() + 1);
            std::future::ready(None)
        });
        tokio::select! {
            () = keep => {}
            () = look(Rc::clone(&snapshots)) => {}
        }
        taken.get()
    }

    #[tokio::test(start_paused = true)]
    async fn all_viewers_share_one_snapshot_per_second() {
        let taken = takes(async |snapshots| {
            let viewer = || async {
                let mut follower = snapshots.follow();
                for _ in 0..60 {
                    snapshots.after(&mut follower).await;
                }
            };
            let viewers: Vec<_> = (0..64).map(|_| viewer()).collect();
            let begun = Instant::now();
            futures_util::future::join_all(viewers).await;
            assert_eq!(begun.elapsed().as_secs(), 59);
        })
        .await;
        assert_eq!(taken, 60);
    }
}
