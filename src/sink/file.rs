//! An NDJSON file: one line per change, on the disk before it is acknowledged.
//!
//! Either all lines of a batch are in the file or none. A change whose line is already at the end of
//! the file is not written again: a crash between the write and the saved position leaves such lines.
//! Blocking work runs outside the runtime's thread.

mod append;
mod tail;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::Verdict;
use super::reason::Reason;
use crate::record::Change;
use append::Appender;

/// The most lines written at once. The caller saves its position after each batch, so a crash can
/// repeat no more changes than these, and no more lines have to be compared.
const BATCH: usize = 256;

/// Files written at the same time, by all sinks together: each takes a thread.
const MOST_WRITES: usize = 4;

static TURNS: Semaphore = Semaphore::const_new(MOST_WRITES);

/// Why the file cannot be appended to.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("{0} is a symbolic link: name the file itself in the configuration")]
    Link(PathBuf),
    #[error("{0} is not a regular file: name another one")]
    NotRegular(PathBuf),
    #[error("{0} does not end in a line of this program: move it away or name another file")]
    Foreign(PathBuf),
    #[error("{0} is being written by another process or sink: give each a file of its own")]
    Held(PathBuf),
    #[error("{0} is moved away each time it is written: rotate it less often")]
    Moving(PathBuf),
    #[error("{doing} {path}: {source}{}", hint(source))]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

/// What the operator can do about it.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; create the folder",
        io::ErrorKind::PermissionDenied => "; allow this user to write there",
        io::ErrorKind::ReadOnlyFilesystem => "; under systemd, name the folder in ReadWritePaths=",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free some space",
        _ => "",
    }
}

impl FileError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }
}

/// One line to be written.
struct Line {
    event_id: String,
    text: String,
}

impl Line {
    fn of(change: &Change) -> Self {
        let mut text = change.data_json();
        if text.contains(['\n', '\r']) {
            // The record is in it as received, possibly with line breaks between its members. A JSON
            // string never holds a line break itself.
            text = text.replace(['\n', '\r'], " ");
        }
        text.push('\n');
        Self { event_id: change.event_id.clone(), text }
    }
}

/// One NDJSON file.
pub struct FileSink {
    name: String,
    path: PathBuf,
    /// `None` during a write. It is made again if the caller of that write was cancelled.
    appender: Option<Appender>,
}

impl FileSink {
    pub(super) fn new(name: &str, path: &Path) -> Self {
        Self { name: name.to_owned(), path: path.to_owned(), appender: None }
    }

    pub(super) fn batch(&self) -> usize {
        BATCH
    }

    pub(super) fn can_fail_for_one(&self) -> bool {
        false
    }

    pub(super) fn linger(&self) -> Duration {
        Duration::ZERO
    }

    /// A write that has begun is always finished, even during a stop.
    pub(super) async fn deliver(
        &mut self,
        changes: &[Change],
        _now: Timestamp,
        _stop: &CancellationToken,
    ) -> Vec<Verdict> {
        let mut appender =
            self.appender.take().unwrap_or_else(|| Appender::new(&self.name, &self.path));
        let lines: Vec<Line> = changes.iter().map(Line::of).collect();
        let turn = TURNS.acquire().await.expect("the semaphore is never closed");
        let written = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let outcome = appender.append(&lines);
            (appender, outcome)
        });
        let verdict = match written.await {
            Ok((appender, outcome)) => {
                self.appender = Some(appender);
                match outcome {
                    Ok(()) => Verdict::Done,
                    Err(error) => Verdict::fault(error),
                }
            }
            Err(_) => Verdict::fault("the write failed inside this program"),
        };
        vec![verdict; changes.len()]
    }

    pub(super) async fn probe(&self) -> Result<String, String> {
        let path = self.path.clone();
        tokio::task::spawn_blocking(move || append::probe(&path))
            .await
            .map_err(|_| "the check of the file failed inside this program".to_owned())?
            .map_err(Reason::of)
    }
}
