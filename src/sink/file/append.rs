//! The open file: found again after a rotation, repaired behind its mark after a crash, appended to
//! and synced.
//!
//! Blocking. Only text behind the mark is ever cut off, and only if all before it is as it was; see
//! [`repair`].

use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{Access, OFlags};
use rustix::io::Errno;

use super::advice;
use super::tail::{Lines, WrittenRow, repair};
use crate::files::lock::lock_soon;
use crate::files::owner::{self, folder_of};
use crate::sink::short_digest;

/// How many bytes before a mark are part of its digest.
const DIGESTED: u64 = 1024;
/// Longer text behind a mark is not repaired: then it is no rest of a few writes.
pub(super) const MAX_TAIL: u64 = 64 * 1024 * 1024;
/// Rows that were found in the file and are owed are waited for until this many others were written.
const MAX_PASSED: usize = 10_000;

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

/// Where the acknowledged lines of a file end; in a new file, where the first line is to begin.
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
        let start = length.saturating_sub(DIGESTED);
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
        Ok(Self {
            inode: inode.parse().map_err(drop)?,
            length: length.parse().map_err(drop)?,
            before: before.to_owned(),
        })
    }
}

/// Appends to one path.
pub(super) struct Appender {
    sink: String,
    path: PathBuf,
    lines: Lines,
    /// Open and locked after a write; `None` before the first one and after one that failed.
    file: Option<File>,
    /// The mark that the last write returned, unless one has failed since.
    last_mark: Option<Mark>,
    /// Rows that a crash left in the file and that are still owed: they are not written again.
    written: VecDeque<WrittenRow>,
    /// How many rows were written since these were found.
    passed: usize,
}

/// What is to be done before lines can be appended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Prepared {
    /// Nothing.
    Ready,
    /// The mark is not in this file: this one is to be saved before its first byte.
    Begun(Mark),
    /// This many bytes stand behind the mark, and are to be repaired.
    Unsettled(u64),
}

impl Appender {
    pub(super) fn new(sink: &str, path: &Path, lines: Lines) -> Self {
        Self {
            sink: sink.to_owned(),
            path: path.to_owned(),
            lines,
            file: None,
            last_mark: None,
            written: VecDeque::new(),
            passed: 0,
        }
    }

    /// Opens the file that the path names now, which is created if there is none, and compares it
    /// with the mark of the last write that was acknowledged.
    pub(super) fn prepare(&mut self, mark: Option<&Mark>) -> Result<Prepared, FileError> {
        let file = self.open(mark)?;
        let prepared = self
            .compare(&file, mark)
            .map_err(FileError::io("read", &self.path))?;
        self.file = Some(file);
        Ok(prepared)
    }

    fn compare(&self, file: &File, mark: Option<&Mark>) -> io::Result<Prepared> {
        let length = file.metadata()?.len();
        let Some(mark) = mark else {
            return Ok(Prepared::Begun(Mark::at(file, length)?));
        };
        if length < mark.length {
            // It was emptied.
            return Ok(Prepared::Begun(Mark::at(file, length)?));
        }
        // What stands behind the mark of the last write in this process is of another program.
        if self.last_mark.as_ref() == Some(mark) {
            return Ok(Prepared::Ready);
        }
        if !mark.is_in(file)? {
            return Ok(Prepared::Begun(Mark::at(file, length)?));
        }
        match length - mark.length {
            0 => Ok(Prepared::Ready),
            bytes => Ok(Prepared::Unsettled(bytes)),
        }
    }

    /// Repairs what a crash left behind the mark; `owed` has the rows that the sink is still owed.
    pub(super) fn repair(&mut self, mark: &Mark, owed: &[String]) -> Result<(), FileError> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let repairing = || FileError::io("cut an interrupted write off", &self.path);
        let length = file.metadata().map_err(repairing())?.len();
        let bytes = length.saturating_sub(mark.length);
        let mut tail = vec![0; usize::try_from(bytes).unwrap_or_default()];
        file.read_exact_at(&mut tail, mark.length)
            .map_err(repairing())?;
        let repair = repair(&tail, mark.length == 0, &self.lines, owed);
        let cut = tail.len() - repair.keep;
        if cut > 0 {
            let keep = mark.length + repair.keep as u64;
            file.set_len(keep).map_err(repairing())?;
            tracing::warn!(
                sink = self.sink,
                bytes = cut,
                "cut off what a crash left behind the last acknowledged line of the file; its \
                 changes are written again"
            );
        }
        if repair.unknown > 0 {
            tracing::warn!(
                sink = self.sink,
                lines = repair.unknown,
                "the store is older than the file, as after a copy of it was put back, or another \
                 program writes to the file: these lines are kept, and what follows is written \
                 behind them"
            );
        }
        self.written = repair.written;
        for row in &mut self.written {
            row.at += mark.length;
        }
        self.passed = 0;
        Ok(())
    }

    /// Appends the lines that are not in the file already, and syncs. Returns the mark behind them.
    ///
    /// Call [`Self::prepare`] before.
    pub(super) fn append(&mut self, lines: &[String]) -> Result<Mark, FileError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.open(None)?,
        };
        self.last_mark = None;
        let mut text = String::new();
        for line in lines {
            match self.written.iter().position(|row| row.text == *line) {
                Some(place) => {
                    self.written.remove(place);
                }
                None => {
                    self.passed += 1;
                    text += line;
                }
            }
        }
        if self.passed > MAX_PASSED {
            // An operator has dropped them.
            self.written.clear();
        }
        self.write(&file, &text)
            .map_err(FileError::io("append to", &self.path))?;
        // The program that moved the file may have read it before these lines were in it.
        if !self.is_named(&file) {
            return Err(FileError::Moved(self.path.clone()));
        }
        let mark = match self.written.front() {
            // The rows from there on are not acknowledged.
            Some(row) => Mark::at(&file, row.at),
            None => Mark::at_end_of(&file),
        };
        let mark = mark.map_err(FileError::io("read", &self.path))?;
        self.last_mark = Some(mark.clone());
        self.file = Some(file);
        Ok(mark)
    }

    /// Appends a text, behind what it needs before it, and syncs.
    fn write(&self, file: &File, text: &str) -> io::Result<()> {
        let length = file.metadata()?.len();
        if length == 0 {
            return append(file, format!("{}{text}", self.lines.header()).as_bytes());
        }
        let mut last = [0];
        file.read_exact_at(&mut last, length - 1)?;
        // An editor may have saved the file without the last line break.
        if last != *b"\n" && !text.is_empty() {
            return append(file, format!("\n{text}").as_bytes());
        }
        append(file, text.as_bytes())
    }

    /// The file that the path names now; it is created if there is none.
    fn open(&mut self, mark: Option<&Mark>) -> Result<File, FileError> {
        if let Some(file) = self.file.take()
            && self.is_named(&file)
        {
            return Ok(file);
        }
        self.last_mark = None;
        self.written.clear();
        let file = match options().append(true).open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create()?,
            opened => opened.map_err(refused(&self.path))?,
        };
        let is_begun = match mark {
            Some(mark) => mark.length == 0 && mark.is_in(&file).unwrap_or(false),
            None => false,
        };
        check(&file, &self.path, self.lines.header(), is_begun)?;
        match lock_soon(&file) {
            Err(TryLockError::WouldBlock) => return Err(FileError::Held(self.path.clone())),
            // Some file systems have no locks. The lock only guards against a wrong configuration.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        // If the file's name were lost, a synced line would be lost with it.
        File::open(folder_of(&self.path))
            .and_then(|folder| folder.sync_all())
            .map_err(FileError::io("sync the folder of", &self.path))?;
        Ok(file)
    }

    fn create(&self) -> Result<File, FileError> {
        let created = options()
            .append(true)
            .create_new(true)
            .mode(0o640)
            .open(&self.path)
            .map_err(FileError::io("create", &self.path))?;
        owner::give_to_folder(&created, &self.path);
        Ok(created)
    }

    /// Whether the path names this file.
    fn is_named(&self, file: &File) -> bool {
        match (fs::symlink_metadata(&self.path), file.metadata()) {
            (Ok(named), Ok(open)) => named.dev() == open.dev() && named.ino() == open.ino(),
            _ => false,
        }
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
            check(&file, path, header, false)?;
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

/// Refuses what is no regular file, and a file that does not begin as one of this sink. If
/// `is_begun`, this sink was about to write its first lines, and a crash may have left zeros.
fn check(file: &File, path: &Path, header: &str, is_begun: bool) -> Result<(), FileError> {
    let metadata = file.metadata().map_err(FileError::io("look at", path))?;
    if !metadata.is_file() {
        return Err(FileError::NotRegular(path.to_owned()));
    }
    let begins = if header.is_empty() { "{" } else { header };
    let mut found = vec![0; begins.len()];
    let length = file
        .read_at(&mut found, 0)
        .map_err(FileError::io("read", path))?;
    found.truncate(length);
    // A crash may have left a part of it.
    let mut is_own = true;
    for (byte, expected) in found.iter().zip(begins.bytes()) {
        is_own &= *byte == expected || is_begun && *byte == 0;
    }
    if is_own {
        Ok(())
    } else {
        Err(FileError::Foreign(path.to_owned()))
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
