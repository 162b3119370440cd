//! A file: one line per change, NDJSON or CSV, on the disk before it is acknowledged.
//!
//! The store keeps a mark of where the acknowledged lines end. What a crash leaves behind that mark
//! is cut off before the next write, so that no line is there twice or by half. Nothing before it
//! is ever changed. Blocking work runs outside the runtime's threads.

mod append;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use shopmirror_core::record::Change;
use tokio::sync::Mutex;

use super::preview::Preview;
use super::{Sink, SinkError, Verdict};
use crate::config::{FileFormat, FileSettings};
use append::{Appender, Mark};

/// The most lines written at once.
const BATCH: usize = 256;

/// How long one call waits for the disk. A write that takes longer continues in its own thread.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

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

/// One file that is appended to.
pub(super) struct FileSink {
    path: PathBuf,
    format: FileFormat,
    /// A write that has not ended has it. No other is begun before it has.
    appender: Arc<Mutex<Appender>>,
    /// Where the acknowledged lines end; `None` before the first one.
    mark: Option<Mark>,
    /// How long one call waits for the disk.
    write_timeout: Duration,
}

impl FileSink {
    pub(super) fn new(name: &str, settings: &FileSettings) -> Self {
        let header = header(&settings.format);
        Self {
            appender: Arc::new(Mutex::new(Appender::new(name, &settings.path, header))),
            path: settings.path.clone(),
            format: settings.format.clone(),
            mark: None,
            write_timeout: WRITE_TIMEOUT,
        }
    }
}

#[async_trait]
impl Sink for FileSink {
    fn batch(&self) -> usize {
        BATCH
    }

    fn keeps_order(&self) -> bool {
        true
    }

    fn limit(&self) -> (Duration, &'static str) {
        (
            self.write_timeout,
            "check the disk that the file is on; nothing else is written to it before this write \
             has ended",
        )
    }

    /// A write that has begun is always finished, even if the attempt is dropped.
    async fn deliver(&mut self, changes: &[&Change], _now: Timestamp) -> Result<(), Verdict> {
        let mut lines = String::new();
        for change in changes {
            lines += &line(&self.format, change);
        }
        let mark = self.mark.clone();
        let mut appender = Arc::clone(&self.appender).lock_owned().await;
        let append = move || appender.append(mark.as_ref(), &lines);
        let appended = tokio::task::spawn_blocking(append)
            .await
            .map_err(Verdict::fault)?;
        self.mark = Some(appended.map_err(Verdict::fault)?);
        Ok(())
    }

    async fn probe(&self) -> Result<String, SinkError> {
        let path = self.path.clone();
        let header = header(&self.format);
        let probing = tokio::task::spawn_blocking(move || append::probe(&path, &header));
        match probing.await {
            Ok(probed) => probed.map_err(SinkError::new),
            Err(_) => Err(SinkError::new(
                "the check of the file failed inside this program",
            )),
        }
    }

    /// The line as it would be appended.
    fn preview(&self, change: &Change, _now: Timestamp) -> Result<Preview, Verdict> {
        let how = format!("append to {}:", self.path.display());
        Ok(Preview::of(how, line(&self.format, change)))
    }

    /// Where the acknowledged lines end; the store saves it together with the position.
    fn mark(&self) -> Option<String> {
        self.mark.as_ref().map(ToString::to_string)
    }

    /// Takes the mark that the store saved. Call it once, before the first delivery.
    fn resume(&mut self, mark: Option<&str>) {
        self.mark = match mark {
            Some(text) => text.parse().ok(),
            None => None,
        };
    }
}

/// What every file begins with; empty if it begins with its first line.
fn header(format: &FileFormat) -> String {
    match format {
        FileFormat::Lines(_) => String::new(),
        FileFormat::Csv(columns) => columns.header() + "\n",
    }
}

/// One change as a line, with its end.
fn line(format: &FileFormat, change: &Change) -> String {
    let line = match format {
        // A template, the only format that can fail, is no format of a file.
        FileFormat::Lines(format) => format.line(change).unwrap_or_else(|_| change.data_json()),
        FileFormat::Csv(columns) => columns.row(change),
    };
    line + "\n"
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use shopmirror_core::record::fixtures;

    fn change(seq: i64) -> Change {
        Change {
            seq,
            event_id: format!("evt_{seq}"),
            ..fixtures::change("{}")
        }
    }

    async fn deliver(sink: &mut FileSink, seq: i64) -> Verdict {
        let (sink, stop): (&mut dyn Sink, _) = (sink, CancellationToken::new());
        sink.hand_over(&[change(seq)], Timestamp::UNIX_EPOCH, &stop)
            .await
            .remove(0)
    }

    #[tokio::test]
    async fn a_write_on_a_disk_that_hangs_is_a_fault_and_leaves_no_line_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.ndjson");
        let format = FileFormat::Lines(crate::shape::Format::Standard);
        let mut sink = FileSink::new("a", &FileSettings { path, format });
        assert_eq!(deliver(&mut sink, 1).await, Verdict::Done);

        // As a write that hangs has it.
        let mut hanging = Arc::clone(&sink.appender).lock_owned().await;
        sink.write_timeout = Duration::from_millis(20);
        for _ in 0..2 {
            let verdict = deliver(&mut sink, 2).await;
            let Verdict::Fault { reason, .. } = verdict else {
                panic!("{verdict:?}")
            };
            assert!(reason.contains("check the disk"), "{reason}");
        }
        hanging
            .append(sink.mark.as_ref(), &line(&sink.format, &change(2)))
            .unwrap();
        drop(hanging);

        sink.write_timeout = WRITE_TIMEOUT;
        assert_eq!(deliver(&mut sink, 2).await, Verdict::Done);
        let text = std::fs::read_to_string(&sink.path).unwrap();
        assert_eq!(
            text,
            [1, 2].map(|seq| line(&sink.format, &change(seq))).concat()
        );
    }
}
