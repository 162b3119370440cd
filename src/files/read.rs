//! Reads the files that the configuration names: keys, secrets, templates, certificates, reports.
//!
//! Each has a largest size. A file whose content is trusted as a secret must not be writable by
//! others. No error names the file: its name may be the secret itself, written in the wrong place.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What some editors write before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// What they write before UTF-16 text.
const UTF_16_MARKS: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// The bytes of a file, at most `most`, without a byte order mark.
///
/// # Errors
/// If it cannot be read, is no regular file, or is too long.
pub fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Checked before the file is opened, because opening a pipe would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut content = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        return Err(io::Error::other(format!("it is longer than {most} bytes")));
    }
    if content.starts_with(BYTE_ORDER_MARK) {
        content.drain(..BYTE_ORDER_MARK.len());
    }
    if UTF_16_MARKS.iter().any(|mark| content.starts_with(mark)) {
        return Err(io::Error::other("it is text in UTF-16: save it as UTF-8"));
    }
    Ok(content)
}

/// The text of a file, at most `most` bytes.
///
/// # Errors
/// As [`bytes`], and if it is no text.
pub fn text(path: &Path, most: u64) -> io::Result<String> {
    let text = String::from_utf8(bytes(path, most)?);
    text.map_err(|_| io::Error::other("it is not text in UTF-8"))
}

/// As [`text`], for a file that holds a secret.
///
/// # Errors
/// As [`text`], and if other users may write it.
pub fn secret_text(path: &Path, most: u64) -> io::Result<String> {
    let mode = std::fs::metadata(path)?.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(io::Error::other(format!(
            "its group or everyone can write it (mode {mode:04o}): run chmod 0640 on it"
        )));
    }
    text(path, most)
}
