//! A file: one line per change, NDJSON or CSV, on the disk before it is acknowledged.
//!
//! Either all lines of a batch are in the file or none. A change whose line is already at the end of
//! the file is not written again: a crash between the write and the saved position leaves such lines.
//! Blocking work runs outside the runtime's thread.

mod append;
mod compress;
mod layout;
mod rotation;
mod stream;
mod tail;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Verdict;
use super::preview::Preview;
use super::reason::{self, Secrets};
use crate::config::{FileFormat, FileSettings};
use crate::record::Change;
use append::Appender;
use compress::Compressor;
use layout::{Layout, Line};

/// The most lines written at once. The caller saves its position after each batch, so a crash can
/// repeat no more changes than these, and no more lines have to be compared.
const BATCH: usize = 256;

/// Files written at the same time, by all sinks together: each takes a thread.
const MAX_WRITES: usize = 4;

/// How long one call waits for the disk. A write that takes longer goes on in its own thread, gives its
/// turn to other files, and is a fault of the sink.
const PATIENCE: Duration = Duration::from_secs(30);

static TURNS: Semaphore = Semaphore::const_new(MAX_WRITES);

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
    #[error("could not {doing} {path}: {source}{}", advice(source))]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

/// What the operator can do about a file that cannot be written; may be empty.
pub fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "; create the folder",
        io::ErrorKind::PermissionDenied => "; allow this user to write there",
        io::ErrorKind::ReadOnlyFilesystem => "; under systemd, name the folder in ReadWritePaths=",
        io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => "; name another path",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free some space",
        _ => "",
    }
}

impl FileError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }
}

/// When a file is put aside and the next one begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rotate {
    /// A file does not grow beyond this many bytes, unless one batch is longer.
    size: Option<u64>,
    /// A file holds the lines of one day.
    daily: bool,
}

type Written = (Appender, Result<bool, FileError>);

/// One file that is appended to.
pub struct FileSink {
    name: String,
    path: PathBuf,
    layout: Layout,
    rotate: Rotate,
    /// `None` during a write, and before the first one.
    appender: Option<Appender>,
    /// A write that has not ended. No other is begun before it has.
    writing: Option<JoinHandle<Written>>,
    /// How long one call waits for the disk.
    patience: Duration,
    /// What compresses the files that were put aside; `None` if they stay as they are.
    compressor: Option<Compressor>,
}

impl FileSink {
    pub(super) fn new(name: &str, settings: &FileSettings) -> Self {
        let rotate = Rotate { size: settings.rotate_size, daily: settings.rotate_daily };
        let rotates = rotate.daily || rotate.size.is_some();
        Self {
            name: name.to_owned(),
            path: settings.path.clone(),
            layout: match &settings.format {
                FileFormat::Lines(format) => Layout::Json(format.clone()),
                FileFormat::Csv(columns) => Layout::Csv(columns.clone()),
            },
            rotate,
            appender: None,
            writing: None,
            patience: PATIENCE,
            compressor: (rotates && settings.compress).then(Compressor::new),
        }
    }

    /// A file says nothing.
    pub(super) fn secrets(&self) -> &Secrets {
        &reason::NONE
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
        now: Timestamp,
        _stop: &CancellationToken,
    ) -> Vec<Verdict> {
        let verdict = match tokio::time::timeout(self.patience, self.write(changes, now)).await {
            Ok(verdict) => verdict,
            Err(_) => Verdict::fault(format!(
                "{} was not written within {} s: check the disk it is on; the write is awaited, and nothing else is written to this file before it has ended",
                self.path.display(),
                self.patience.as_secs_f64()
            )),
        };
        vec![verdict; changes.len()]
    }

    async fn write(&mut self, changes: &[Change], now: Timestamp) -> Verdict {
        // What it writes may be these changes: the appender then leaves them out.
        let _ = self.ended().await;
        let turn = TURNS.acquire().await.expect("the semaphore is never closed");
        let mut appender = self.appender();
        let lines: Vec<Line> = changes.iter().map(|change| self.layout.line(change)).collect();
        let today = now.to_zoned(TimeZone::system()).date();
        self.writing = Some(tokio::task::spawn_blocking(move || {
            let outcome = appender.append(&lines, today);
            (appender, outcome)
        }));
        let ended = self.ended().await;
        // A write on a disk that hangs has given its turn to others long before it ends.
        drop(turn);
        match ended {
            Some(Ok(_)) => Verdict::Done,
            Some(Err(error)) => Verdict::fault(error),
            None => Verdict::fault("the write failed inside this program"),
        }
    }

    /// Waits for the write that has not ended, if there is one; `None` if it has no outcome. May be
    /// called again after it was cancelled.
    async fn ended(&mut self) -> Option<Result<bool, FileError>> {
        let written = self.writing.as_mut()?.await;
        self.writing = None;
        let (appender, outcome) = written.ok()?;
        self.appender = Some(appender);
        if let Some(compressor) = &mut self.compressor {
            compressor.look(&self.name, &self.path, matches!(outcome, Ok(true)));
        }
        Some(outcome)
    }

    /// The line as it would be appended.
    pub(super) fn preview(&self, change: &Change) -> Preview {
        let how = format!("append to {}:", self.path.display());
        Preview::of(how, self.layout.line(change).text)
    }

    /// Opens the file that the path names now: the one before may have been renamed.
    pub(super) async fn reopen(&mut self) {
        if self.writing.is_some() {
            // The write that hangs opens it when it ends.
            return;
        }
        let mut appender = self.appender();
        self.writing = Some(tokio::task::spawn_blocking(move || {
            let outcome = appender.reopen().map(|()| false);
            (appender, outcome)
        }));
        let ended = tokio::time::timeout(self.patience, self.ended()).await;
        if let Ok(Some(Err(error))) = ended {
            tracing::warn!(sink = %self.name, "opening the file again: {error}");
        }
    }

    fn appender(&mut self) -> Appender {
        self.appender
            .take()
            .unwrap_or_else(|| Appender::new(&self.name, &self.path, &self.layout, self.rotate))
    }

    pub(super) async fn probe(&self) -> Result<String, String> {
        let (path, layout) = (self.path.clone(), self.layout.clone());
        tokio::task::spawn_blocking(move || append::probe(&path, &layout))
            .await
            .map_err(|_| "the check of the file failed inside this program".to_owned())?
            .map_err(|error| error.to_string())
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
            job: None,
        }
    }

    fn sink(path: PathBuf) -> FileSink {
        let settings = FileSettings {
            path,
            format: FileFormat::Lines(crate::shape::Format::Standard),
            rotate_size: None,
            rotate_daily: false,
            compress: false,
        };
        FileSink::new("a", &settings)
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
        for number in 0..=MAX_WRITES {
            let path = dir.path().join(format!("hangs{number}"));
            let mut sink = FileSink { patience: Duration::from_millis(50), ..sink(path) };
            let mut appender = sink.appender();
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
        let mut well = sink(dir.path().join("well"));
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
