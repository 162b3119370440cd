//! The file: crashes, torn lines, rotation, links, a full disk.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shopmirror::sink::Verdict;
use tempfile::TempDir;

use super::{all_done, build, change, changes, deliver, deliver_one, file, ids, is_fault, reason};
use crate::support::TinyDisk;

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.ndjson");
    (dir, path)
}

fn lines_in(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines()
        .map(|line| {
            let data: serde_json::Value = serde_json::from_str(line).unwrap();
            data["event_id"].as_str().unwrap().to_owned()
        })
        .collect()
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

#[tokio::test]
async fn a_line_is_the_data_object_and_the_file_is_for_owner_and_group() {
    let (_dir, path) = place();
    assert_eq!(deliver_one(&mut build(&file(&path)), &change(1)).await, Verdict::Done);
    assert_eq!(fs::read_to_string(&path).unwrap(), change(1).data_json() + "\n");
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o137, 0, "{mode:o}");
}

#[tokio::test]
async fn a_record_sent_with_line_breaks_is_one_line() {
    let (_dir, path) = place();
    let mut pretty = change(1);
    pretty.body = "{\r\n  \"id\": 1,\n  \"note\": \"a\\nb\"\n}".into();
    assert_eq!(deliver_one(&mut build(&file(&path)), &pretty).await, Verdict::Done);
    assert_eq!(lines_in(&path), ["evt_0001"]);
    assert!(fs::read_to_string(&path).unwrap().contains(r"a\nb"));
}

#[tokio::test]
async fn a_crash_before_the_position_was_saved_repeats_no_line() {
    let (_dir, path) = place();
    let batch = changes(1..=40);
    assert!(all_done(&deliver(&mut build(&file(&path)), &batch).await));
    let mut restarted = build(&file(&path));
    // The same again, then the rest in other portions than before.
    assert!(all_done(&deliver(&mut restarted, &batch[..1]).await));
    assert!(all_done(&deliver(&mut restarted, &changes(2..=50)).await));
    assert_eq!(lines_in(&path), ids(&changes(1..=50)));
}

#[tokio::test]
async fn a_crash_at_any_byte_of_a_write_loses_and_repeats_nothing() {
    let (_dir, path) = place();
    let batch = changes(1..=3);
    assert!(all_done(&deliver(&mut build(&file(&path)), &batch).await));
    let whole = fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let verdicts = deliver(&mut build(&file(&path)), &batch).await;
        assert!(all_done(&verdicts), "cut at {cut}: {verdicts:?}");
        assert_eq!(fs::read(&path).unwrap(), whole, "cut at {cut}");
    }
}

#[tokio::test]
async fn a_position_that_could_not_be_saved_repeats_no_line() {
    let (_dir, path) = place();
    let mut sink = build(&file(&path));
    for _ in 0..3 {
        assert!(all_done(&deliver(&mut sink, &changes(1..=4)).await));
    }
    assert_eq!(lines_in(&path), ids(&changes(1..=4)));
}

#[tokio::test]
async fn older_changes_are_written_when_they_are_replayed() {
    let (_dir, path) = place();
    let mut sink = build(&file(&path));
    for batch in [changes(1..=2), changes(3..=4), changes(1..=2)] {
        assert!(all_done(&deliver(&mut sink, &batch).await));
    }
    assert_eq!(lines_in(&path), ids(&[changes(1..=4), changes(1..=2)].concat()));
}

#[tokio::test]
async fn after_a_rotation_a_new_file_is_started() {
    let (dir, path) = place();
    let old = dir.path().join("audit.ndjson.1");
    let mut sink = build(&file(&path));
    assert!(all_done(&deliver(&mut sink, &changes(1..=2)).await));
    fs::rename(&path, &old).unwrap();
    assert!(all_done(&deliver(&mut sink, &changes(3..=4)).await));
    assert_eq!(lines_in(&old), ids(&changes(1..=2)));
    assert_eq!(lines_in(&path), ids(&changes(3..=4)));
    fs::remove_file(&path).unwrap();
    assert!(all_done(&deliver(&mut sink, &changes(5..=5)).await));
    assert_eq!(lines_in(&path), ids(&changes(5..=5)));
    // Moved away, with another of the same length put in its place.
    fs::rename(&path, &old).unwrap();
    fs::copy(&old, &path).unwrap();
    assert!(all_done(&deliver(&mut sink, &changes(6..=6)).await));
    assert_eq!(lines_in(&old), ids(&changes(5..=5)));
    assert_eq!(lines_in(&path), ids(&changes(5..=6)));
    // Copied and truncated in place: what stood in it may have to be written again.
    fs::write(&path, "").unwrap();
    assert!(all_done(&deliver(&mut sink, &changes(6..=7)).await));
    assert_eq!(lines_in(&path), ids(&changes(6..=7)));
}

/// Takes the file away as fast as it can, each time reading it once: what it misses is lost.
fn rotate(path: &Path, done: &AtomicBool) -> Vec<String> {
    let old = path.with_extension("old");
    let mut found = Vec::new();
    loop {
        let last = done.load(Ordering::Relaxed);
        if fs::rename(path, &old).is_ok() {
            let text = fs::read_to_string(&old).unwrap();
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            for line in whole.lines() {
                let data: serde_json::Value = serde_json::from_str(line).unwrap();
                found.push(data["event_id"].as_str().unwrap().to_owned());
            }
        }
        if last {
            return found;
        }
        std::thread::yield_now();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_rotated_at_any_moment_loses_no_line() {
    let (_dir, path) = place();
    let done = Arc::new(AtomicBool::new(false));
    let rotating = {
        let (path, done) = (path.clone(), done.clone());
        tokio::task::spawn_blocking(move || rotate(&path, &done))
    };
    let mut sink = build(&file(&path));
    let given = changes(1..=600);
    for change in &given {
        while deliver_one(&mut sink, change).await != Verdict::Done {}
    }
    done.store(true, Ordering::Relaxed);
    let mut found = rotating.await.unwrap();
    found.sort();
    found.dedup();
    assert_eq!(found, ids(&given));
}

#[tokio::test]
async fn links_pipes_folders_and_files_of_others_are_refused_and_not_changed() {
    let (dir, path) = place();
    let target = dir.path().join("passwd");
    fs::write(&target, "root:x:0:0\n").unwrap();
    symlink(&target, &path).unwrap();
    let refused = async |path: &Path, words: &str| {
        let verdict = deliver_one(&mut build(&file(path)), &change(1)).await;
        assert!(is_fault(&verdict) && reason(&verdict).contains(words), "{verdict:?}");
        let probed = build(&file(path)).probe().await.unwrap_err();
        assert!(probed.contains(words), "{probed}");
    };
    refused(&path, "symbolic link").await;
    refused(&target, "does not end in a line of this program").await;
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    refused(&pipe, "not a regular file").await;
    refused(Path::new("/dev/full"), "not a regular file").await;
    refused(&dir.path().join("missing/audit.ndjson"), "No such file").await;
    assert_eq!(fs::read_to_string(&target).unwrap(), "root:x:0:0\n");
}

#[tokio::test]
async fn two_sinks_cannot_write_the_same_file() {
    let (_dir, path) = place();
    let mut first = build(&file(&path));
    assert_eq!(deliver_one(&mut first, &change(1)).await, Verdict::Done);
    let mut second = build(&file(&path));
    let verdict = deliver_one(&mut second, &change(2)).await;
    assert!(is_fault(&verdict) && reason(&verdict).contains("another process"), "{verdict:?}");
    drop(first);
    assert_eq!(deliver_one(&mut second, &change(2)).await, Verdict::Done);
}

#[tokio::test]
async fn lines_added_by_others_are_kept() {
    let (_dir, path) = place();
    let mut sink = build(&file(&path));
    assert_eq!(deliver_one(&mut sink, &change(1)).await, Verdict::Done);
    append(&path, "{\"event_id\":\"mark\"}\n");
    assert_eq!(deliver_one(&mut sink, &change(2)).await, Verdict::Done);
    assert_eq!(lines_in(&path), ["evt_0001", "mark", "evt_0002"]);
}

#[tokio::test]
async fn a_full_disk_leaves_only_whole_lines_and_delivery_continues_when_there_is_space() {
    let Some(disk) = TinyDisk::mount() else {
        eprintln!("SKIPPED: a full disk needs the right to mount a tmpfs");
        return;
    };
    let path = disk.path().join("audit.ndjson");
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![0; 40 * 1024]).unwrap();
    let mut sink = build(&file(&path));
    let first = changes(1..=20);
    assert!(all_done(&deliver(&mut sink, &first).await));
    let before = fs::read(&path).unwrap();

    let second = changes(21..=200);
    for _ in 0..2 {
        let verdicts = deliver(&mut sink, &second).await;
        assert!(verdicts.iter().all(is_fault));
        assert!(reason(&verdicts[0]).contains("No space left"), "{:?}", verdicts[0]);
        assert_eq!(fs::read(&path).unwrap(), before, "the batch is in it as a whole or not at all");
    }
    fs::remove_file(&ballast).unwrap();
    assert!(all_done(&deliver(&mut sink, &second).await));
    assert_eq!(lines_in(&path), ids(&changes(1..=200)));
}
