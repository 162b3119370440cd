//! The open file: found again after a rotation, repaired after a crash, appended to and synced.
//!
//! Blocking. [`Appender::append`] either puts every line on the disk or leaves the file as it was. If
//! it cannot restore the file, it reads the end of the file again before the next write.

use std::collections::HashSet;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, OFlags};
use rustix::io::Errno;

use super::tail::{Tail, TailError};
use super::{FileError, Line};

/// How often the file may be moved away during one write.
const ROTATIONS: usize = 3;

/// Appends to one path.
pub(super) struct Appender {
    sink: String,
    path: PathBuf,
    open: Option<OpenFile>,
    #[cfg(test)]
    before_writing: Option<Box<dyn FnMut() + Send + Sync>>,
}

/// The file as it was left by the last good write.
struct OpenFile {
    file: File,
    device: u64,
    inode: u64,
    length: u64,
    /// The event ids of the last lines: all changes that may be handed over again are among them.
    recent: HashSet<String>,
}

impl Appender {
    pub(super) fn new(sink: &str, path: &Path) -> Self {
        Self {
            sink: sink.to_owned(),
            path: path.to_owned(),
            open: None,
            #[cfg(test)]
            before_writing: None,
        }
    }

    /// Calls this before each write, as a disk that hangs would.
    #[cfg(test)]
    pub(super) fn before_writing(&mut self, call: impl FnMut() + Send + Sync + 'static) {
        self.before_writing = Some(Box::new(call));
    }

    /// Writes the lines that are not in the file yet, in one piece, and syncs.
    pub(super) fn append(&mut self, lines: &[Line]) -> Result<(), FileError> {
        #[cfg(test)]
        if let Some(call) = &mut self.before_writing {
            call();
        }
        for _ in 0..ROTATIONS {
            let mut open = self.reopened()?;
            open.write(lines).map_err(FileError::io("append to", &self.path))?;
            // The program that moved the file may have read it before these lines were in it.
            let named = fs::symlink_metadata(&self.path).is_ok_and(|now| open.is_in(&now));
            self.open = Some(open);
            if named {
                return Ok(());
            }
        }
        Err(FileError::Moving(self.path.clone()))
    }

    /// Returns the open file if the path still names it; otherwise opens the path.
    fn reopened(&mut self) -> Result<OpenFile, FileError> {
        if let Some(open) = self.open.take() {
            match fs::symlink_metadata(&self.path) {
                Ok(now) if open.is(&now) => return Ok(open),
                _ => tracing::info!(
                    sink = self.sink,
                    "another program moved or changed the file: opening it again"
                ),
            }
        }
        let open = OpenFile::at(&self.path)?;
        if open.torn > 0 {
            tracing::warn!(
                sink = self.sink,
                bytes = open.torn,
                "cut an unfinished last line off the file; its change is written again"
            );
        }
        Ok(open.open)
    }
}

/// A file that was just opened, and the bytes of an unfinished line that were cut off.
struct OpenedFile {
    open: OpenFile,
    torn: u64,
}

impl OpenFile {
    fn at(path: &Path) -> Result<OpenedFile, FileError> {
        let mut options = options();
        options.append(true).mode(0o640);
        let file = match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                options.create_new(true).open(path)
            }
            other => other,
        }
        .map_err(refused(path))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(FileError::Held(path.to_owned())),
            // Some file systems have no locks. The lock only guards against a wrong configuration.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let metadata = regular(&file, path)?;
        let tail = tail(&file, metadata.len(), path)?;
        let torn = metadata.len() - tail.length;
        if torn > 0 {
            file.set_len(tail.length)
                .and_then(|()| file.sync_data())
                .map_err(FileError::io("cut an unfinished line off", path))?;
        }
        // If the file's name were lost, a synced line would be lost with it.
        File::open(directory(path))
            .and_then(|directory| directory.sync_all())
            .map_err(FileError::io("sync the folder of", path))?;
        let open = Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: tail.length,
            recent: tail.event_ids,
            file,
        };
        Ok(OpenedFile { open, torn })
    }

    fn write(&mut self, lines: &[Line]) -> io::Result<()> {
        let fresh: Vec<&Line> =
            lines.iter().filter(|line| !self.recent.contains(&line.event_id)).collect();
        let bytes: String = fresh.iter().map(|line| line.text.as_str()).collect();
        // Synced even if nothing is new: a line found after a crash may not be on the disk yet.
        let written = self.file.write_all(bytes.as_bytes()).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // The caller also drops it, so that the next attempt reads the end of the file again.
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        if !fresh.is_empty() {
            self.length += bytes.len() as u64;
            self.recent = lines.iter().map(|line| line.event_id.clone()).collect();
        }
        Ok(())
    }

    /// Whether the path still names this file, and no other program has changed its length.
    fn is(&self, now: &Metadata) -> bool {
        self.is_in(now) && now.len() == self.length
    }

    /// Whether the path names this file, and the file still has all lines.
    fn is_in(&self, now: &Metadata) -> bool {
        (now.dev(), now.ino()) == (self.device, self.inode) && now.len() >= self.length
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // A program that is just being started may hold a copy of the descriptor, and with it the
        // lock. Unlocking releases it at once.
        let _ = self.file.unlock();
    }
}

/// What `check` reports about the path. Nothing is created or changed.
pub(super) fn probe(path: &Path) -> Result<String, FileError> {
    match options().open(path) {
        Ok(file) => {
            let length = regular(&file, path)?.len();
            tail(&file, length, path)?;
            rustix::fs::access(path, Access::WRITE_OK)
                .map_err(|error| FileError::io("write to", path)(error.into()))?;
            Ok(format!("{} can be appended to", path.display()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            rustix::fs::access(directory(path), Access::WRITE_OK | Access::EXEC_OK)
                .map_err(|error| FileError::io("create", path)(error.into()))?;
            Ok(format!("{} can be created", path.display()))
        }
        Err(error) => Err(refused(path)(error)),
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

fn regular(file: &File, path: &Path) -> Result<Metadata, FileError> {
    let metadata = file.metadata().map_err(FileError::io("look at", path))?;
    if metadata.is_file() { Ok(metadata) } else { Err(FileError::NotRegular(path.to_owned())) }
}

fn tail(file: &File, length: u64, path: &Path) -> Result<Tail, FileError> {
    Tail::read(file, length).map_err(|error| match error {
        TailError::Foreign => FileError::Foreign(path.to_owned()),
        TailError::Io(source) => FileError::io("read the end of", path)(source),
    })
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
