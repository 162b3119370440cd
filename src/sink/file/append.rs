//! The open file: found again after a rotation, cut to its mark after a crash, appended to and
//! synced.
//!
//! Blocking. Only what stands behind the mark is ever cut off, and only if all before it is as it
//! was.

use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{Access, OFlags};
use rustix::io::Errno;

use super::advice;
use crate::files::lock::lock_soon;
use crate::files::owner::{self, folder_of};
use crate::sink::short_digest;

/// How much of the text before a mark the mark knows.
const KNOWN: u64 = 1024;

/// Why the file cannot be appended to.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("{0} is a symbolic link: name the file itself in the configuration")]
    Link(PathBuf),
    #[error("{0} is not a regular file: name another one")]
    NotRegular(PathBuf),
    #[error(
        "{0} begins with other columns, or is the file of another program: rename it, and a new file is begun, or name another path"
    )]
    Foreign(PathBuf),
    #[error(
        "{0} is being written by another process or sink: give each a file of its own; the sink of a running daemon is tested by `shopmirror check --sink NAME`"
    )]
    Held(PathBuf),
    #[error("{0} was moved away while it was written; the lines are written again")]
    Moved(PathBuf),
    #[error("could not {doing} {path}: {source}{}", advice(source))]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

impl FileError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            doing,
            path: path.to_owned(),
            source,
        }
    }
}

/// Where the acknowledged lines of a file end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    inode: u64,
    length: u64,
    /// A digest of the text just before it: another program may have written into the file, or the
    /// number of a file that was deleted may belong to another one.
    before: String,
}

impl Mark {
    fn at_end_of(file: &File) -> io::Result<Self> {
        Self::at(file, file.metadata()?.len())
    }

    fn at(file: &File, length: u64) -> io::Result<Self> {
        let start = length.saturating_sub(KNOWN);
        let mut text = vec![0; usize::try_from(length - start).expect("it is short")];
        file.read_exact_at(&mut text, start)?;
        Ok(Self {
            inode: file.metadata()?.ino(),
            length,
            before: short_digest(&text),
        })
    }

    /// Whether all of this file up to the mark is as it was.
    fn is_in(&self, file: &File) -> io::Result<bool> {
        Ok(file.metadata()?.len() >= self.length && Self::at(file, self.length)? == *self)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.inode, self.length, self.before)
    }
}

impl FromStr for Mark {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let words: Vec<&str> = text.split(' ').collect();
        let [inode, length, before] = words[..] else {
            return Err(());
        };
        let number = |text: &str| text.parse().map_err(drop);
        Ok(Self {
            inode: number(inode)?,
            length: number(length)?,
            before: before.to_owned(),
        })
    }
}

/// Appends to one path.
pub(super) struct Appender {
    sink: String,
    path: PathBuf,
    /// What a file begins with; may be empty.
    header: String,
    /// Open and locked after a write; `None` before the first one and after one that failed.
    file: Option<File>,
    /// Where the last write ended, unless it failed.
    written: Option<Mark>,
}

impl Appender {
    pub(super) fn new(sink: &str, path: &Path, header: String) -> Self {
        Self {
            sink: sink.to_owned(),
            path: path.to_owned(),
            header,
            file: None,
            written: None,
        }
    }

    /// Writes the lines behind the mark of the last write that was acknowledged, and syncs. Returns
    /// the mark behind them.
    pub(super) fn append(&mut self, mark: Option<&Mark>, lines: &str) -> Result<Mark, FileError> {
        let file = self.open()?;
        // What stands behind the mark of the last write in this process is of another program.
        let is_known = match mark {
            Some(mark) if self.written.take().as_ref() == Some(mark) => true,
            Some(mark) => self.cut(&file, mark)?,
            None => false,
        };
        let text = self.text(&file, lines, is_known);
        text.and_then(|text| append(&file, &text))
            .map_err(FileError::io("append to", &self.path))?;
        // The program that moved the file may have read it before these lines were in it.
        if !self.is_named(&file) {
            return Err(FileError::Moved(self.path.clone()));
        }
        let mark = Mark::at_end_of(&file).map_err(FileError::io("read", &self.path))?;
        self.written = Some(mark.clone());
        self.file = Some(file);
        Ok(mark)
    }

    /// The file that the path names now; it is made if there is none.
    fn open(&mut self) -> Result<File, FileError> {
        if let Some(file) = self.file.take().filter(|file| self.is_named(file)) {
            return Ok(file);
        }
        let file = match options().append(true).open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = options()
                    .append(true)
                    .create_new(true)
                    .mode(0o640)
                    .open(&self.path);
                let made = made.map_err(FileError::io("create", &self.path))?;
                owner::give_to_folder(&made, &self.path);
                made
            }
            opened => opened.map_err(refused(&self.path))?,
        };
        check(&file, &self.path, &self.header)?;
        match lock_soon(&file) {
            Err(TryLockError::WouldBlock) => return Err(FileError::Held(self.path.clone())),
            // Some file systems have no locks. The lock only guards against a wrong configuration.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        // If the file's name were lost, a synced line would be lost with it.
        let synced = File::open(folder_of(&self.path)).and_then(|folder| folder.sync_all());
        synced.map_err(FileError::io("sync the folder of", &self.path))?;
        Ok(file)
    }

    /// Cuts off what a write that was not acknowledged left behind the mark; false if the mark is
    /// of another file, or of another text.
    fn cut(&self, file: &File, mark: &Mark) -> Result<bool, FileError> {
        let cutting = || FileError::io("cut an interrupted write off", &self.path);
        if !mark.is_in(file).map_err(cutting())? {
            return Ok(false);
        }
        let bytes = file.metadata().map_err(cutting())?.len() - mark.length;
        if bytes > 0 {
            file.set_len(mark.length).map_err(cutting())?;
            tracing::warn!(
                sink = self.sink,
                bytes,
                "cut off what stood behind the last acknowledged line of the file; changes that a crash interrupted are written again"
            );
        }
        Ok(true)
    }

    /// What is to be appended so that the lines are in the file.
    fn text(&self, file: &File, lines: &str, is_known: bool) -> io::Result<Vec<u8>> {
        let whole = format!("{}{lines}", self.header).into_bytes();
        let length = file.metadata()?.len();
        // A crash may have come between the first lines of a file and their mark.
        let end = usize::try_from(length).unwrap_or(usize::MAX);
        if end <= whole.len() && (end == 0 || !is_known) {
            let mut found = vec![0; end];
            file.read_exact_at(&mut found, 0)?;
            if whole.starts_with(&found) {
                return Ok(whole[end..].to_vec());
            }
        }
        let mut last = [b'\n'];
        if length > 0 {
            file.read_exact_at(&mut last, length - 1)?;
        }
        // An editor may have saved the file without the last line break.
        let line_break = if last == [b'\n'] { "" } else { "\n" };
        Ok(format!("{line_break}{lines}").into_bytes())
    }

    /// Whether the path names this file.
    fn is_named(&self, file: &File) -> bool {
        let place = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let named = fs::symlink_metadata(&self.path).map(place);
        named.is_ok_and(|named| file.metadata().is_ok_and(|open| place(open) == named))
    }
}

/// Appends and syncs; a file that cannot take all of it stays as it was.
fn append(mut file: &File, text: &[u8]) -> io::Result<()> {
    let length = file.metadata()?.len();
    let written = file.write_all(text).and_then(|()| file.sync_data());
    if written.is_err() {
        // If this fails too, the next write cuts it off.
        let _ = file.set_len(length);
    }
    written
}

/// What `check` reports about the path. Nothing is created or changed.
pub(super) fn probe(path: &Path, header: &str) -> Result<String, FileError> {
    match options().open(path) {
        Ok(file) => {
            check(&file, path, header)?;
            rustix::fs::access(path, Access::WRITE_OK)
                .map_err(|error| FileError::io("write to", path)(error.into()))?;
            Ok(format!("{} can be appended to", path.display()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            rustix::fs::access(folder_of(path), Access::WRITE_OK | Access::EXEC_OK)
                .map_err(|error| FileError::io("create", path)(error.into()))?;
            Ok(format!("{} can be created", path.display()))
        }
        Err(error) => Err(refused(path)(error)),
    }
}

/// Refuses what is no regular file, and a file that does not begin as one of this sink.
fn check(file: &File, path: &Path, header: &str) -> Result<(), FileError> {
    let metadata = file.metadata().map_err(FileError::io("look at", path))?;
    if !metadata.is_file() {
        return Err(FileError::NotRegular(path.to_owned()));
    }
    let begins = if header.is_empty() { "{" } else { header };
    let mut found = vec![0; begins.len()];
    let length = file
        .read_at(&mut found, 0)
        .map_err(FileError::io("read", path))?;
    // A crash may have left a part of it.
    match begins.as_bytes().starts_with(&found[..length]) {
        true => Ok(()),
        false => Err(FileError::Foreign(path.to_owned())),
    }
}

/// Options that follow no link and do not wait for the other end of a pipe.
fn options() -> OpenOptions {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.cast_signed());
    options
}

fn refused(path: &Path) -> impl FnOnce(io::Error) -> FileError {
    move |error| match error.raw_os_error() {
        Some(code) if code == Errno::LOOP.raw_os_error() => FileError::Link(path.to_owned()),
        _ => FileError::io("open", path)(error),
    }
}
