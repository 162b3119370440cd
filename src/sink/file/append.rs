//! The open file: found again after a rotation, repaired after a crash, appended to and synced.
//!
//! Blocking. [`Appender::append`] either puts every line on the disk or leaves the file as it was. If
//! it cannot restore the file, it reads the end of the file again before the next write.

use std::collections::HashSet;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use rustix::fs::{Access, OFlags};
use rustix::io::Errno;

use super::layout::{Layout, Line};
use super::tail::{Damage, Tail, TailError};
use super::{BATCH, FileError, Rotate, rotation};
use crate::file_lock::lock_soon;
use crate::file_owner::{self, folder_of};

/// How often the file may be moved away during one write.
const ROTATIONS: usize = 3;

/// Appends to one path.
pub(super) struct Appender {
    sink: String,
    path: PathBuf,
    layout: Layout,
    rotate: Rotate,
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
    /// The day of its last line, by the machine's time zone.
    day: Date,
    /// The event ids of the last lines: all changes that may be handed over again are among them.
    recent: HashSet<String>,
    /// Damaged lines that were found when it was opened. The first write decides about them.
    damage: Option<Damage>,
    /// The event ids of whole lines behind damaged ones that stayed. They may still be handed over.
    kept: Vec<String>,
}

impl Appender {
    pub(super) fn new(sink: &str, path: &Path, layout: &Layout, rotate: Rotate) -> Self {
        Self {
            sink: sink.to_owned(),
            path: path.to_owned(),
            layout: layout.clone(),
            rotate,
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

    /// Opens the file that the path names now, and makes it if there is none.
    pub(super) fn reopen(&mut self) -> Result<(), FileError> {
        self.open = None;
        self.open = Some(self.reopened()?);
        Ok(())
    }

    /// Writes the lines that are not in the file yet, in one piece, and syncs. Before that, a file
    /// that is full or of an earlier day is put aside; returns whether one was.
    pub(super) fn append(&mut self, lines: &[Line], today: Date) -> Result<bool, FileError> {
        #[cfg(test)]
        if let Some(call) = &mut self.before_writing {
            call();
        }
        let mut put_aside = false;
        for _ in 0..ROTATIONS {
            let mut open = self.reopened()?;
            if let Some(cut) = open.cut_damage(lines).map_err(cutting(&self.path))? {
                tracing::warn!(
                    sink = self.sink,
                    bytes = cut,
                    "cut lines off the end of the file that a power failure had damaged; their changes are written again"
                );
            }
            if open.must_be_put_aside(lines, today, self.rotate, &self.layout) {
                open = self.begin_next(&open)?;
                put_aside = true;
            }
            open.write(lines, today, &self.layout)
                .map_err(FileError::io("append to", &self.path))?;
            // The program that moved the file may have read it before these lines were in it.
            let named = fs::symlink_metadata(&self.path).is_ok_and(|now| open.is_in(&now));
            self.open = Some(open);
            if named {
                return Ok(put_aside);
            }
        }
        Err(FileError::Moving(self.path.clone()))
    }

    /// Puts the open file aside and begins the next one. What the last lines held is still known.
    fn begin_next(&self, full: &OpenFile) -> Result<OpenFile, FileError> {
        rotation::put_aside(&self.path, full.day)?;
        let mut next = OpenFile::at(&self.path, &self.layout)?.open;
        next.recent.extend(full.recent.iter().cloned());
        tracing::info!(sink = self.sink, "the file was put aside, and a new one begun");
        Ok(next)
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
        let mut open = match OpenFile::at(&self.path, &self.layout) {
            // Rows of other columns stay in a file of their own.
            Err(FileError::Foreign(_)) if has_other_columns(&self.path, &self.layout) => {
                rotation::put_aside(&self.path, day_of(&self.path)?)?;
                OpenFile::at(&self.path, &self.layout)?
            }
            opened => opened?,
        };
        if open.open.recent.len() < BATCH {
            // The last batch may be in the file that was put aside.
            open.open.recent.extend(rotation::recent_aside(&self.path)?);
        }
        if open.torn > 0 {
            tracing::warn!(
                sink = self.sink,
                bytes = open.torn,
                "cut an unfinished or damaged end off the file; its changes are written again"
            );
        }
        Ok(open.open)
    }
}

/// A file that was just opened, and the bytes that were cut off: unfinished or damaged lines.
struct OpenedFile {
    open: OpenFile,
    torn: u64,
}

impl OpenFile {
    fn at(path: &Path, layout: &Layout) -> Result<OpenedFile, FileError> {
        let mut options = options();
        options.append(true).mode(0o640);
        let file = match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = options.create_new(true).open(path);
                made.inspect(|file| file_owner::give_to_folder(file, path))
            }
            other => other,
        }
        .map_err(refused(path))?;
        match lock_soon(&file) {
            Err(TryLockError::WouldBlock) => return Err(FileError::Held(path.to_owned())),
            // Some file systems have no locks. The lock only guards against a wrong configuration.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let metadata = regular(&file, path)?;
        let tail = tail(&file, metadata.len(), path, layout)?;
        let torn = metadata.len() - tail.length;
        if torn > 0 {
            file.set_len(tail.length).and_then(|()| file.sync_data()).map_err(cutting(path))?;
        }
        // If the file's name were lost, a synced line would be lost with it.
        rotation::sync_folder(path).map_err(FileError::io("sync the folder of", path))?;
        let open = Self {
            day: day_of(path)?,
            device: metadata.dev(),
            inode: metadata.ino(),
            length: tail.length,
            recent: tail.event_ids,
            damage: tail.damage,
            kept: Vec::new(),
            file,
        };
        Ok(OpenedFile { open, torn })
    }

    /// Cuts damaged lines off with all lines after them, if each of these is handed over again and so
    /// is written anew at once: they were written together, and none was acknowledged. Otherwise all
    /// stay as they are, and what is new is written behind them. Returns the bytes that were cut.
    fn cut_damage(&mut self, lines: &[Line]) -> io::Result<Option<u64>> {
        let Some(Damage { at, followers }) = self.damage.take() else { return Ok(None) };
        let given: HashSet<&str> = lines.iter().map(|line| line.event_id.as_str()).collect();
        if !followers.iter().all(|id| given.contains(id.as_str())) {
            self.kept = followers;
            return Ok(None);
        }
        self.file.set_len(at).and_then(|()| self.file.sync_data())?;
        let cut = self.length - at;
        self.length = at;
        self.recent.retain(|id| !followers.contains(id));
        Ok(Some(cut))
    }

    fn fresh<'l>(&self, lines: &'l [Line]) -> impl Iterator<Item = &'l Line> {
        lines.iter().filter(|line| !self.recent.contains(&line.event_id))
    }

    /// Whether these lines belong into the next file.
    fn must_be_put_aside(
        &self,
        lines: &[Line],
        today: Date,
        rotate: Rotate,
        layout: &Layout,
    ) -> bool {
        let added: usize = self.fresh(lines).map(|line| line.text.len()).sum();
        let full = rotate.size.is_some_and(|size| self.length + added as u64 > size);
        let over = rotate.daily && today > self.day;
        added > 0 && self.length > layout.header().len() as u64 && (full || over)
    }

    fn write(&mut self, lines: &[Line], today: Date, layout: &Layout) -> io::Result<()> {
        let fresh: Vec<&Line> = self.fresh(lines).collect();
        let mut bytes: String = fresh.iter().map(|line| line.text.as_str()).collect();
        if self.length == 0 && !bytes.is_empty() {
            bytes.insert_str(0, &layout.header());
        }
        // Synced even if nothing is new: a line found after a crash may not be on the disk yet.
        let written = self.file.write_all(bytes.as_bytes()).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // The caller also drops it, so that the next attempt reads the end of the file again.
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        if !fresh.is_empty() {
            self.day = today;
            self.length += bytes.len() as u64;
            self.recent = lines.iter().map(|line| line.event_id.clone()).collect();
            self.recent.extend(self.kept.iter().cloned());
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
pub(super) fn probe(path: &Path, layout: &Layout) -> Result<String, FileError> {
    match options().open(path) {
        Ok(file) => {
            let length = regular(&file, path)?.len();
            match tail(&file, length, path, layout) {
                Err(FileError::Foreign(_)) if has_other_columns(path, layout) => {}
                read => drop(read?),
            }
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

/// Options that follow no link and do not wait for the other end of a pipe.
fn options() -> OpenOptions {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.cast_signed());
    options
}

fn cutting(path: &Path) -> impl FnOnce(io::Error) -> FileError {
    FileError::io("cut damaged lines off", path)
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

fn tail(file: &File, length: u64, path: &Path, layout: &Layout) -> Result<Tail, FileError> {
    Tail::read(file, length, layout).map_err(|error| match error {
        TailError::Foreign => FileError::Foreign(path.to_owned()),
        TailError::Io(source) => FileError::io("read the end of", path)(source),
    })
}

/// Whether a CSV file was written by this program for other columns.
fn has_other_columns(path: &Path, layout: &Layout) -> bool {
    let first = layout.header().split(',').next().unwrap_or_default().to_owned() + ",";
    let mut head = vec![0; first.len()];
    let read = options().open(path).and_then(|mut file| file.read_exact(&mut head));
    first.len() > 1 && read.is_ok() && head == first.as_bytes()
}

/// The day on which the file was last written, by the machine's time zone.
fn day_of(path: &Path) -> Result<Date, FileError> {
    let modified = fs::symlink_metadata(path)
        .and_then(|metadata| metadata.modified())
        .map_err(FileError::io("look at", path))?;
    let time = Timestamp::try_from(modified).unwrap_or(Timestamp::UNIX_EPOCH);
    Ok(time.to_zoned(TimeZone::system()).date())
}

#[cfg(test)]
mod tests;
