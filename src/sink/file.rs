//! A file: one line per change, NDJSON or CSV, on the disk before it is acknowledged.
//!
//! The store keeps a mark of where the acknowledged lines end; in a new file it is saved before the
//! first byte. What a crash leaves behind the mark is repaired before the next write, so that no
//! line is there twice or by half; see [`tail`]. Nothing before the mark is ever changed. Blocking
//! work runs outside the runtime's threads.

mod append;
mod tail;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use shopmirror_core::record::Change;
use tokio::sync::Mutex;

use super::preview::Preview;
use super::{OwedChanges, Sink, SinkError, Verdict};
use crate::config::{FileFormat, FileSettings};
use append::{Appender, MAX_TAIL, Mark, Prepared};
use tail::Lines;

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
    /// Where the acknowledged lines end; `None` before the first file.
    mark: Option<Mark>,
    /// The changes that this sink is owed; `None` without an engine, which then saves no mark.
    owed: Option<Arc<dyn OwedChanges>>,
    /// How long one call waits for the disk.
    write_timeout: Duration,
}

impl FileSink {
    pub(super) fn new(name: &str, settings: &FileSettings) -> Self {
        let lines = lines(&settings.format);
        Self {
            appender: Arc::new(Mutex::new(Appender::new(name, &settings.path, lines))),
            path: settings.path.clone(),
            format: settings.format.clone(),
            mark: None,
            owed: None,
            write_timeout: WRITE_TIMEOUT,
        }
    }

    /// The rows of the changes that this sink is owed, `batch` among them: of this many bytes, or
    /// all.
    async fn owed_rows(&self, batch: &[String], bytes: u64) -> Result<Vec<String>, SinkError> {
        let Some(owed) = &self.owed else {
            return Ok(batch.to_vec());
        };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut rows = batch.to_vec();
        let mut rest = batch.to_vec();
        for change in owed.next(bytes).await? {
            let row = line(&self.format, &change);
            match rest.iter().position(|one| *one == row) {
                // It belongs to the batch.
                Some(place) => {
                    rest.swap_remove(place);
                }
                None => rows.push(row),
            }
        }
        Ok(rows)
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
        let mut rows = Vec::new();
        for change in changes {
            rows.push(line(&self.format, change));
        }
        let mark = self.mark.clone();
        let mut appender = Arc::clone(&self.appender).lock_owned().await;
        let preparing = tokio::task::spawn_blocking(move || {
            let prepared = appender.prepare(mark.as_ref());
            (appender, prepared)
        });
        let (mut appender, prepared) = preparing.await.map_err(Verdict::fault)?;
        let mut repair = None;
        match prepared.map_err(Verdict::fault)? {
            Prepared::Ready => {}
            Prepared::Begun(mark) if self.owed.is_some() => {
                self.mark = Some(mark);
                return Err(Verdict::NotTried);
            }
            Prepared::Begun(_) => {}
            Prepared::Unsettled(bytes) if bytes <= MAX_TAIL => {
                let owed = self.owed_rows(&rows, bytes).await?;
                repair = self.mark.clone().map(|mark| (mark, owed));
            }
            Prepared::Unsettled(_) => {}
        }
        let appending = tokio::task::spawn_blocking(move || {
            if let Some((mark, owed)) = repair {
                appender.repair(&mark, &owed)?;
            }
            appender.append(&rows)
        });
        let appended = appending.await.map_err(Verdict::fault)?;
        self.mark = Some(appended.map_err(Verdict::fault)?);
        Ok(())
    }

    async fn probe(&self) -> Result<String, SinkError> {
        let path = self.path.clone();
        let lines = lines(&self.format);
        let probing = tokio::task::spawn_blocking(move || append::probe(&path, lines.header()));
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
        Ok(Preview::new(how, line(&self.format, change)))
    }

    /// Where the acknowledged lines end; the store saves it together with the position.
    fn mark(&self) -> Option<String> {
        self.mark.as_ref().map(ToString::to_string)
    }

    /// Takes the queue: from now on, new files begin with a saved mark, and rows behind a mark are
    /// compared with it.
    fn use_owed(&mut self, owed: Arc<dyn OwedChanges>) {
        self.owed = Some(owed);
    }

    /// Takes the mark that the store saved. Call it once, before the first delivery.
    fn resume(&mut self, mark: Option<&str>) {
        self.mark = match mark {
            Some(text) => text.parse().ok(),
            None => None,
        };
    }
}

/// The lines of this format.
fn lines(format: &FileFormat) -> Lines {
    match format {
        FileFormat::Lines(_) => Lines::Json,
        FileFormat::Csv(columns) => Lines::Csv {
            header: columns.header() + "\n",
        },
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
        sink.send(&[change(seq)], Timestamp::UNIX_EPOCH, &stop)
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
            assert!(reason.text.contains("check the disk"), "{reason:?}");
        }
        hanging.prepare(sink.mark.as_ref()).unwrap();
        hanging.append(&[line(&sink.format, &change(2))]).unwrap();
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
