//! What the page shows of the mirror and the daemon at one time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::record::Change;
use crate::status::WorkspaceStatus;
use crate::store::{Gap, Store};

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
    /// The last rows of the log, newest first.
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
            let mut changes =
                reader.changes_after(last_seq - CHANGES_SHOWN as i64, CHANGES_SHOWN)?;
            changes.reverse();
            Ok((gaps, changes, workspace, sizes(path)))
        });
        let (gaps, changes, workspace, (store_bytes, wal_bytes)) =
            timeout(PATIENCE, read).await.ok()?.ok()?;
        Some(Self { status, gaps, changes, store_bytes, wal_bytes, workspace })
    }
}

/// The bytes of the database and of its write-ahead log.
fn sizes(path: PathBuf) -> (u64, u64) {
    let size = |path: &std::ffi::OsStr| std::fs::metadata(path).map_or(0, |found| found.len());
    let store = size(path.as_os_str());
    let mut wal = path.into_os_string();
    wal.push("-wal");
    (store, size(&wal))
}

/// A snapshot, or `None` if the daemon's tasks did not answer.
pub(super) type SharedSnapshot = Option<Arc<Snapshot>>;
