//! Reads the files that the configuration names: keys, secrets, templates, certificates, reports.
//!
//! Each has a largest size. A file whose content is trusted as a secret must not be writable by others.
//! A message names a file only if there is one: otherwise its name may be the secret itself, written
//! in the wrong place.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// There is no such file.
    #[error(
        "there is no such file: name one that exists and that the user of the service can read"
    )]
    Absent,
    /// It is no regular file or no text, or this user may not read it.
    #[error("cannot read {}: {why}; the user of the service must be able to read it", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// Other users may write it.
    #[error("{} can be written by its group or by everyone (mode {mode:04o}): run chmod 0640 on it", path.display())]
    Writable {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is longer than a file of its purpose may be.
    #[error("{} is longer than {most} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The most bytes.
        most: u64,
    },
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Unreadable { why, .. } => why,
            FileError::Absent => Self::new(io::ErrorKind::NotFound, "there is no such file"),
            other => Self::other(other),
        }
    }
}

/// The bytes of a file, at most `most`.
///
/// # Errors
/// [`FileError`] if it is absent, no regular file, too long, or this user may not read it.
pub fn bytes(path: &Path, most: u64) -> Result<Vec<u8>, FileError> {
    let unreadable = |why: io::Error| match why.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename | io::ErrorKind::NotADirectory => {
            FileError::Absent
        }
        _ => FileError::Unreadable { path: path.to_owned(), why },
    };
    // Checked before the file is opened, because opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("it is not a regular file")));
    }
    let mut content = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(most + 1).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() as u64 > most {
        return Err(FileError::TooLong { path: path.to_owned(), most });
    }
    Ok(content)
}

/// The text of a file, at most `most` bytes.
///
/// # Errors
/// As [`bytes`], and if it is no text.
pub fn text(path: &Path, most: u64) -> Result<String, FileError> {
    String::from_utf8(bytes(path, most)?).map_err(|_| FileError::Unreadable {
        path: path.to_owned(),
        why: io::Error::other("it is not text in UTF-8"),
    })
}

/// As [`text`], for a file that holds a secret.
///
/// # Errors
/// As [`text`], and if other users may write it.
pub fn secret_text(path: &Path, most: u64) -> Result<String, FileError> {
    let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.mode() & 0o7777);
    if mode & 0o022 != 0 {
        return Err(FileError::Writable { path: path.to_owned(), mode });
    }
    text(path, most)
}
