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
use tokio::task::JoinHandle;
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

/// How long one call waits for the disk. A write that takes longer goes on in its own thread, gives its
/// turn to other files, and is a fault of the sink.
const PATIENCE: Duration = Duration::from_secs(30);

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
    #[error("could not {doing} {path}: {source}{}", hint(source))]
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

type Written = (Appender, Result<(), FileError>);

/// One NDJSON file.
pub struct FileSink {
    name: String,
    path: PathBuf,
    /// `None` during a write, and before the first one.
    appender: Option<Appender>,
    /// A write that has not ended. No other is begun before it has.
    writing: Option<JoinHandle<Written>>,
    /// How long one call waits for the disk.
    patience: Duration,
}

impl FileSink {
    pub(super) fn new(name: &str, path: &Path) -> Self {
        Self {
            name: name.to_owned(),
            path: path.to_owned(),
            appender: None,
            writing: None,
            patience: PATIENCE,
        }
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

    /// A write that has begun is always finished, even after a stop or a fault.
    pub(super) async fn deliver(
        &mut self,
        changes: &[Change],
        _now: Timestamp,
        _stop: &CancellationToken,
    ) -> Vec<Verdict> {
        let verdict = match tokio::time::timeout(self.patience, self.write(changes)).await {
            Ok(verdict) => verdict,
            Err(_) => Verdict::fault(format!(
                "{} was not written within {} s: check the disk it is on; the write is awaited, and nothing else is written to this file before it has ended",
                self.path.display(),
                self.patience.as_secs_f64()
            )),
        };
        vec![verdict; changes.len()]
    }

    async fn write(&mut self, changes: &[Change]) -> Verdict {
        // What it writes may be these changes: the appender then leaves them out.
        let _ = self.ended().await;
        let turn = TURNS.acquire().await.expect("the semaphore is never closed");
        let mut appender =
            self.appender.take().unwrap_or_else(|| Appender::new(&self.name, &self.path));
        let lines: Vec<Line> = changes.iter().map(Line::of).collect();
        self.writing = Some(tokio::task::spawn_blocking(move || {
            let outcome = appender.append(&lines);
            (appender, outcome)
        }));
        let ended = self.ended().await;
        // A write on a disk that hangs has given its turn to others long before it ends.
        drop(turn);
        match ended {
            Some(Ok(())) => Verdict::Done,
            Some(Err(error)) => Verdict::fault(error),
            None => Verdict::fault("the write failed inside this program"),
        }
    }

    /// Waits for the write that has not ended, if there is one; `None` if it has no outcome. May be
    /// called again after it was cancelled.
    async fn ended(&mut self) -> Option<Result<(), FileError>> {
        let written = self.writing.as_mut()?.await;
        self.writing = None;
        let (appender, outcome) = written.ok()?;
        self.appender = Some(appender);
        Some(outcome)
    }

    pub(super) async fn probe(&self) -> Result<String, String> {
        let path = self.path.clone();
        tokio::task::spawn_blocking(move || append::probe(&path))
            .await
            .map_err(|_| "the check of the file failed inside this program".to_owned())?
            .map_err(Reason::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Kind, Route};

    fn change(seq: i64) -> Change {
        Change {
            seq,
            event_id: format!("evt_{seq}"),
            route: Route::Leads,
            record_id: Some(seq.to_string()),
            kind: Kind::Created,
            version: 1,
            observed_at: "2026-01-01T00:00:00.000000Z".into(),
            business: None,
            body: "{}".into(),
            before: None,
        }
    }

    async fn deliver(sink: &mut FileSink, seq: i64) -> Verdict {
        let stop = CancellationToken::new();
        sink.deliver(&[change(seq)], Timestamp::UNIX_EPOCH, &stop).await.remove(0)
    }

    #[tokio::test]
    async fn files_on_disks_that_hang_hold_up_no_other_file_and_are_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let (hanging, disk) = std::sync::mpsc::channel::<()>();
        let disk = std::sync::Arc::new(std::sync::Mutex::new(disk));
        let mut sinks: Vec<FileSink> = Vec::new();
        for number in 0..=MOST_WRITES {
            let path = dir.path().join(format!("hangs{number}"));
            let mut sink =
                FileSink { patience: Duration::from_millis(50), ..FileSink::new("a", &path) };
            let mut appender = Appender::new("a", &path);
            let disk = std::sync::Arc::clone(&disk);
            appender.before_writing(move || {
                let _ = disk.lock().unwrap().recv();
            });
            sink.appender = Some(appender);
            sinks.push(sink);
        }
        for sink in &mut sinks {
            for _ in 0..2 {
                let verdict = deliver(sink, 1).await;
                let Verdict::Fault { reason, .. } = verdict else { panic!("{verdict:?}") };
                assert!(reason.contains("check the disk"), "{reason}");
            }
        }
        let mut well = FileSink::new("b", &dir.path().join("well"));
        assert_eq!(deliver(&mut well, 1).await, Verdict::Done);
        drop(hanging);
        for sink in &mut sinks {
            sink.patience = PATIENCE;
            assert_eq!(deliver(sink, 1).await, Verdict::Done);
            assert_eq!(deliver(sink, 2).await, Verdict::Done);
            let text = std::fs::read_to_string(&sink.path).unwrap();
            assert_eq!(text.lines().count(), 2, "each line once: {text}");
        }
    }
}
