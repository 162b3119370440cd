//! Puts a full file aside and compresses it.
//!
//! A file that was put aside has the day of its last line and a number that grows:
//! `audit.ndjson` becomes `audit.2026-11-21.000007.ndjson`, and then `….ndjson.gz`. Each step is a
//! rename whose folder is synced, so that after a crash at any moment every line is in exactly one
//! whole file. The number, not the day, says which one is the newest: a clock may be set back.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use jiff::civil::Date;
use rustix::fs::OFlags;

use super::{FileError, stream, tail};
use crate::file_owner::{self, folder_of};

const DIGITS: usize = 6;
/// A longer number is not ours; the one after it might not fit.
const MAX_DIGITS: usize = 18;
const CHUNK: usize = 64 * 1024;
/// The most text of a compressed file that is read for its end, in bytes: there is no other way to it.
const MAX_TEXT: u64 = 1024 * 1024 * 1024;

/// A file that was put aside.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Aside {
    number: u64,
    /// True if it is whole in its compressed form.
    compressed: bool,
    path: PathBuf,
}

/// The part of the name before the day, and the part behind the number.
fn name_parts(path: &Path) -> (String, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => {
            (format!("{stem}."), format!(".{extension}"))
        }
        _ => (format!("{name}."), String::new()),
    }
}

/// A name without `.gz`, and whether it ended so.
fn without_gz(name: &str) -> (&str, bool) {
    name.strip_suffix(".gz").map_or((name, false), |plain| (plain, true))
}

/// The files that were put aside from `path`, the oldest first.
pub(super) fn aside(path: &Path) -> io::Result<Vec<Aside>> {
    let (stem, extension) = name_parts(path);
    let mut found = Vec::new();
    let entries = match fs::read_dir(folder_of(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let (plain, compressed) = without_gz(&name);
        let middle = plain.strip_prefix(&stem).and_then(|rest| rest.strip_suffix(&extension));
        let number = middle.and_then(|middle| {
            let (day, number) = middle.split_once('.')?;
            day.parse::<Date>().ok()?;
            number.parse().ok().filter(|_| (DIGITS..=MAX_DIGITS).contains(&number.len()))
        });
        if let Some(number) = number {
            found.push(Aside { number, compressed, path: entry.path() });
        }
    }
    found.sort();
    Ok(found)
}

/// Puts the file at `path` aside, under the day of its last line.
pub(super) fn put_aside(path: &Path, day: Date) -> Result<(), FileError> {
    let listing = FileError::io("list the folder of", path);
    let last = aside(path).map_err(listing)?.last().map_or(0, |newest| newest.number);
    let (stem, extension) = name_parts(path);
    let number = last + 1;
    let target = folder_of(path).join(format!("{stem}{day}.{number:0DIGITS$}{extension}"));
    fs::rename(path, &target)
        .and_then(|()| sync_folder(path))
        .map_err(FileError::io("put aside", path))
}

/// The event ids of the last lines that were put aside, by this program and by another one: up to
/// [`BATCH`](super::BATCH) of each.
pub(super) fn recent_aside(path: &Path) -> Result<Vec<String>, FileError> {
    let reading = || FileError::io("read what was put aside from", path);
    // Between the listing and the opening, the file may have been compressed.
    let mut tries = 0;
    loop {
        let newest = aside(path).map_err(reading())?.pop();
        match newest.as_ref().map_or_else(|| Ok(Vec::new()), last_ids) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries < 2 => tries += 1,
            ids => {
                let mut ids = ids.map_err(reading())?;
                ids.extend(ids_renamed(path));
                return Ok(ids);
            }
        }
    }
}

/// The event ids of the last lines that another program put aside. A file that cannot be read, for
/// example one that is still being compressed, counts as absent.
fn ids_renamed(path: &Path) -> Vec<String> {
    let ids = renamed(path).and_then(|file| file.as_ref().map_or_else(|| Ok(Vec::new()), last_ids));
    ids.unwrap_or_else(|error| {
        tracing::warn!(%error, "a file that another program put aside cannot be read: after a crash some lines may be there twice");
        Vec::new()
    })
}

/// The newest file that another program put aside, under a name that logrotate gives:
/// `audit.ndjson.1`, `audit.ndjson-20261121`, and these with `.gz`.
fn renamed(path: &Path) -> io::Result<Option<Aside>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut newest = None;
    for entry in fs::read_dir(folder_of(path))? {
        let entry = entry?;
        let found = entry.file_name().to_string_lossy().into_owned();
        let (plain, compressed) = without_gz(&found);
        let digits = plain.strip_prefix(&name).and_then(|rest| rest.strip_prefix(['.', '-']));
        let numbered = |digits: &str| {
            (1..=MAX_DIGITS).contains(&digits.len())
                && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
        };
        if !digits.is_some_and(numbered) {
            continue;
        }
        // It may be gone again by now.
        let Ok(metadata) = entry.metadata() else { continue };
        if !metadata.is_file() {
            continue;
        }
        let written = metadata.modified()?;
        if newest.as_ref().is_none_or(|(before, _)| *before < written) {
            newest = Some((written, Aside { number: 0, compressed, path: entry.path() }));
        }
    }
    Ok(newest.map(|(_, file)| file))
}

/// The event ids of its last whole lines, the oldest first. An unfinished line is not written yet.
fn last_ids(file: &Aside) -> io::Result<Vec<String>> {
    let opened = OpenOptions::new().read(true).custom_flags(nofollow()).open(&file.path)?;
    if !file.compressed {
        let size = opened.metadata()?.len();
        return tail::last_ids(&opened, size);
    }
    let found = stream::last_ids(MultiGzDecoder::new(opened), MAX_TEXT)?;
    Ok(found.unwrap_or_else(|| {
        tracing::warn!(
            file = %file.path.display(),
            "the compressed file holds more than 1 GiB of text and is not compared with: after a \
             crash, lines at its end may be written again; set a smaller rotate_size"
        );
        Vec::new()
    }))
}

/// Compresses every file that was put aside and is not compressed yet, until `stop`.
///
/// The plain file is removed when the compressed one is whole and on the disk. What a crash leaves
/// half done is begun again.
pub(super) fn compress_all(path: &Path, stop: &AtomicBool) -> io::Result<()> {
    let files = aside(path)?;
    for plain in files.iter().filter(|file| !file.compressed) {
        // Another file may have the same number, for example one that was copied back.
        let whole = files.iter().any(|other| other.compressed && other.path == gz(&plain.path));
        if !whole && !compress(&plain.path, stop)? {
            return Ok(());
        }
        fs::remove_file(&plain.path)?;
        sync_folder(path)?;
    }
    Ok(())
}

/// The name of the compressed form of a file.
fn gz(plain: &Path) -> PathBuf {
    let mut name = plain.as_os_str().to_owned();
    name.push(".gz");
    PathBuf::from(name)
}

/// Writes the compressed form of a file; false if `stop` came first.
fn compress(plain: &Path, stop: &AtomicBool) -> io::Result<bool> {
    let whole = gz(plain);
    let mut half = whole.clone().into_os_string();
    half.push(".part");
    let half = PathBuf::from(half);
    let mut source = OpenOptions::new().read(true).custom_flags(nofollow()).open(plain)?;
    match fs::remove_file(&half) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let target = OpenOptions::new().write(true).create_new(true).mode(0o640).open(&half)?;
    file_owner::give_to_folder(&target, &half);
    target.set_permissions(fs::Permissions::from_mode(
        source.metadata()?.permissions().mode() & 0o777,
    ))?;
    let mut encoder = GzEncoder::new(target, Compression::default());
    let mut chunk = vec![0; CHUNK];
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        match source.read(&mut chunk)? {
            0 => break,
            length => encoder.write_all(&chunk[..length])?,
        }
    }
    encoder.finish()?.sync_all()?;
    fs::rename(&half, &whole)?;
    sync_folder(plain)?;
    Ok(true)
}

/// Makes the names in the folder of `path` survive a power failure.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

fn nofollow() -> i32 {
    OFlags::NOFOLLOW.bits().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::super::BATCH;
    use super::*;

    #[test]
    fn only_files_of_this_name_are_taken_for_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.ndjson");
        for name in [
            "audit.ndjson",
            "audit.2026-11-21.000002.ndjson",
            "audit.2026-11-22.000001.ndjson.gz",
            "audit.2026-11-20.000010.ndjson.gz",
            "audit.2026-11-21.000013.ndjson.gz.part",
            "audit.x.000019.ndjson",
            "other.2026-11-21.000011.ndjson",
        ] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let numbers: Vec<u64> = aside(&path).unwrap().iter().map(|file| file.number).collect();
        assert_eq!(numbers, [1, 2, 10]);
        put_aside(&path, "2026-11-23".parse().unwrap()).unwrap();
        assert!(dir.path().join("audit.2026-11-23.000011.ndjson").exists() && !path.exists());
    }

    #[test]
    fn the_last_lines_of_the_newest_file_that_another_program_renamed_are_known() {
        let dir = tempfile::tempdir().unwrap();
        for (name, id, age_s) in [
            ("audit.ndjson.2", "evt_1", 100),
            ("audit.ndjson-20261121", "evt_2", 50),
            ("audit.ndjson.bak", "evt_3", 1),
            ("other.ndjson.1", "evt_3", 1),
        ] {
            let file = File::create(dir.path().join(name)).unwrap();
            writeln!(&file, "{{\"event_id\":\"{id}\"}}").unwrap();
            let age = std::time::Duration::from_secs(age_s);
            file.set_modified(std::time::SystemTime::now() - age).unwrap();
        }
        assert_eq!(recent_aside(&dir.path().join("audit.ndjson")).unwrap(), ["evt_2"]);
    }

    #[test]
    fn a_compression_that_a_crash_ended_anywhere_is_finished() {
        let text: String = (0..5000).map(|n| format!("{{\"event_id\":\"evt_{n}\"}}\n")).collect();
        for left in ["", "part", "both"] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("audit.ndjson");
            let plain = dir.path().join("audit.2026-11-21.000001.ndjson");
            fs::write(&plain, &text).unwrap();
            let go_on = AtomicBool::new(false);
            match left {
                "part" => fs::write(dir.path().join("audit.2026-11-21.000001.ndjson.gz.part"), "x"),
                "both" => compress(&plain, &go_on).map(drop),
                _ => Ok(()),
            }
            .unwrap();
            compress_all(&path, &AtomicBool::new(true)).unwrap();
            assert!(left == "both" || plain.exists(), "a stop leaves the plain file");
            compress_all(&path, &go_on).unwrap();
            let files = aside(&path).unwrap();
            assert_eq!(files.len(), 1, "{left}: {files:?}");
            let mut whole = String::new();
            let file = File::open(&files[0].path).unwrap();
            MultiGzDecoder::new(file).read_to_string(&mut whole).unwrap();
            assert_eq!(whole, text);
            let ids = recent_aside(&path).unwrap();
            assert_eq!((ids.len(), ids.last().unwrap().as_str()), (BATCH, "evt_4999"));
        }
    }
}
