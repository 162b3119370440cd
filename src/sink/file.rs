//! An NDJSON file: one line a change, on the disk before it is acknowledged.
//!
//! A batch is whole in the file or not in it at all, and a change whose line already stands at the
//! file's end is not written again: that is what a crash between the write and the saved position
//! leaves behind. Blocking work is done off the runtime's threads.

mod append;
mod tail;

use std::io;
use std::path::{Path, PathBuf};

use super::Verdict;
use super::reason::Reason;
use crate::record::Change;
use append::Appender;

/// The most lines written at once. As the caller saves its position after each batch, no more than
/// these can be handed over again after a crash, and no more are looked at for repeats.
pub(super) const BATCH: usize = 256;

/// Why the file cannot be appended to.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("{0} is a symbolic link: name the file itself in the configuration")]
    Link(PathBuf),
    #[error("{0} is no regular file: name another")]
    NotRegular(PathBuf),
    #[error("{0} does not end in a line of this program: move it away or name another file")]
    Foreign(PathBuf),
    #[error("{0} is being written by another process or sink: give each a file of its own")]
    Held(PathBuf),
    #[error("{0} is taken away each time it is written: rotate it less often")]
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
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room",
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
            // A record stands in it as received and may have been sent with line breaks between
            // its members; inside a JSON string there is never a bare one.
            text = text.replace(['\n', '\r'], " ");
        }
        text.push('\n');
        Self { event_id: change.event_id.clone(), text }
    }
}

/// One NDJSON file.
pub struct File {
    name: String,
    path: PathBuf,
    /// `None` while a write is going on; made anew when the caller of that write was cut off.
    appender: Option<Appender>,
}

impl File {
    pub(super) fn new(name: &str, path: &Path) -> Self {
        Self { name: name.to_owned(), path: path.to_owned(), appender: None }
    }

    /// A write that has begun is finished whatever happens: it is work, not a wait.
    pub(super) async fn deliver(&mut self, changes: &[Change]) -> Vec<Verdict> {
        let mut appender =
            self.appender.take().unwrap_or_else(|| Appender::new(&self.name, &self.path));
        let lines: Vec<Line> = changes.iter().map(Line::of).collect();
        let written = tokio::task::spawn_blocking(move || {
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
            Err(_) => Verdict::fault("writing broke off in this program"),
        };
        vec![verdict; changes.len()]
    }

    pub(super) async fn probe(&self) -> Result<String, String> {
        let path = self.path.clone();
        tokio::task::spawn_blocking(move || append::probe(&path))
            .await
            .map_err(|_| "looking at the file broke off in this program".to_owned())?
            .map_err(Reason::of)
    }
}
