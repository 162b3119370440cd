//! The file: whole lines after a crash, editors, rotation by others, foreign files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};

use async_trait::async_trait;
use serde_json::Value;
use shopmirror::config::{FileFormat, FileSettings, SinkKind};
use shopmirror::shape::{Columns, Format};
use shopmirror::sink::{OwedChanges, Sink, SinkError, Verdict};
use shopmirror_core::record::Change;
use tempfile::TempDir;

use super::{all_done, build, change, changes, deliver, deliver_one, ids, is_fault, reason};
use crate::support::servers::program;

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.ndjson");
    (dir, path)
}

fn settings(path: &Path) -> FileSettings {
    FileSettings {
        path: path.to_owned(),
        format: FileFormat::Lines(Format::Standard),
    }
}

fn csv(path: &Path, columns: &[&str]) -> FileSettings {
    let columns = columns.iter().map(|&name| name.to_owned()).collect();
    FileSettings {
        format: FileFormat::Csv(Columns::new(columns)),
        ..settings(path)
    }
}

fn sink(settings: FileSettings) -> Box<dyn Sink> {
    build(&SinkKind::File(settings))
}

fn plain(path: &Path) -> Box<dyn Sink> {
    sink(settings(path))
}

fn ids_in(text: &str) -> Vec<String> {
    assert!(text.is_empty() || text.ends_with('\n'));
    let data = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    data.map(|data| data["event_id"].as_str().unwrap().to_owned())
        .collect()
}

fn lines_in(path: &Path) -> Vec<String> {
    ids_in(&fs::read_to_string(path).unwrap())
}

/// The sink of the same file after a restart of the daemon, with what the store kept.
fn restarted(settings: &FileSettings, mark: Option<&str>) -> Box<dyn Sink> {
    let mut sink = sink(settings.clone());
    sink.resume(mark);
    sink
}

/// The changes that are owed to a sink.
struct Owed(Vec<Change>);

#[async_trait]
impl OwedChanges for Owed {
    async fn next(&self, _bytes: usize) -> Result<Vec<Change>, SinkError> {
        Ok(self.0.clone())
    }
}

/// As [`restarted`], of an engine that saves the marks and still owes these changes.
fn owing(settings: &FileSettings, mark: Option<&str>, owed: &[Change]) -> Box<dyn Sink> {
    let mut sink = restarted(settings, mark);
    sink.use_owed(Arc::new(Owed(owed.to_vec())));
    sink
}

/// Begins a file; returns the mark that is to be saved before the first byte.
async fn begin(sink: &mut Box<dyn Sink>, changes: &[Change], path: &Path) -> String {
    let before = sink.mark();
    let verdicts = deliver(sink, changes).await;
    assert_eq!(verdicts, vec![Verdict::NotTried; changes.len()]);
    assert_eq!(fs::read(path).unwrap(), b"", "no byte before the mark");
    let mark = sink.mark().unwrap();
    assert_ne!(Some(&mark), before.as_ref());
    mark
}

#[tokio::test]
async fn a_crash_at_any_byte_of_a_write_loses_and_repeats_nothing() {
    let (_dir, path) = place();
    let mut given = changes(1..=3);
    given[1].body = "{\r\n\"id\":2,\"name\":\"=1+1\\r\\n,\\\"x\\\"\",\n\"amount\":-1.5}".into();
    for settings in [settings(&path), csv(&path, &["name", "amount", "gone"])] {
        let _ = fs::remove_file(&path);
        let mut first = owing(&settings, None, &given);
        let begun = begin(&mut first, &given[..1], &path).await;
        assert!(all_done(&deliver(&mut first, &given[..1]).await));
        let (mark, acknowledged) = (first.mark().unwrap(), fs::read(&path).unwrap());
        assert!(all_done(&deliver(&mut first, &given[1..]).await));
        drop(first);
        let whole = fs::read(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o137, 0, "it is for owner and group: {mode:o}");
        for (mark, from, owed) in [
            (&begun, 0, &given[..]),
            (&mark, acknowledged.len(), &given[1..]),
        ] {
            for cut in from..=whole.len() {
                // After a power failure, zeros may be in the place of text: of all that was
                // written, or of a part of it.
                for zeros in [cut..cut, from..cut, from..(from + cut) / 2] {
                    let mut left = whole[..cut].to_vec();
                    left[zeros.clone()].fill(0);
                    fs::write(&path, &left).unwrap();
                    let mut sink = owing(&settings, Some(mark), owed);
                    // The batches need not be those of before.
                    for batch in owed.chunks(2) {
                        let verdicts = deliver(&mut sink, batch).await;
                        assert!(all_done(&verdicts), "cut at {cut}: {verdicts:?}");
                    }
                    let found = fs::read(&path).unwrap();
                    assert_eq!(found, whole, "cut at {cut}, zeros at {zeros:?}");
                }
            }
        }
        let whole = String::from_utf8(whole).unwrap();
        let lines: Vec<&str> = whole.lines().collect();
        if matches!(settings.format, FileFormat::Lines(_)) {
            assert_eq!(ids_in(&whole), ids(&given));
            assert_eq!(lines[0], change(1).data_json());
        } else {
            assert_eq!(lines.len(), 4, "{whole}");
            assert!(
                lines[0].ends_with("observed_at,business,name,amount,gone"),
                "{whole}"
            );
            assert!(lines[2].ends_with(r#",,"'=1+1  ,""x""",-1.5,"#), "{whole}");
        }
    }
}

#[tokio::test]
async fn each_new_file_begins_with_a_mark_that_is_saved_before_its_first_byte() {
    let (dir, path) = place();
    let settings = settings(&path);
    let given = changes(1..=3);
    let mut sink = owing(&settings, None, &given);
    begin(&mut sink, &given[..1], &path).await;
    assert!(all_done(&deliver(&mut sink, &given[..2]).await));
    // Moved away, and a power failure in the first write to the new one.
    fs::rename(&path, dir.path().join("audit.ndjson.1")).unwrap();
    let begun = begin(&mut sink, &given[2..], &path).await;
    drop(sink);
    fs::write(&path, "\0\0\0\0").unwrap();
    let mut sink = owing(&settings, Some(&begun), &given[2..]);
    assert!(all_done(&deliver(&mut sink, &given[2..]).await));
    assert_eq!(lines_in(&path), ids(&given[2..]));
    // Copied and truncated in place.
    fs::write(&path, "").unwrap();
    begin(&mut sink, &given[..1], &path).await;
    assert!(all_done(&deliver(&mut sink, &given[..1]).await));
    assert_eq!(lines_in(&path), ids(&given[..1]));
}

#[tokio::test]
async fn a_row_that_nobody_knows_stays_behind_the_mark_with_everything_before_it() {
    let (_dir, path) = place();
    let settings = settings(&path);
    let given = changes(1..=4);
    let mut first = owing(&settings, None, &given);
    begin(&mut first, &given[..1], &path).await;
    assert!(all_done(&deliver(&mut first, &given[..1]).await));
    let mark = first.mark().unwrap();
    drop(first);
    let row = |seq: i64| change(seq).data_json() + "\n";
    let note = "{\"event_id\":\"note\"}\n";
    let before = fs::read_to_string(&path).unwrap();
    // The second was written, then a note came, then a part of the third.
    let third = row(3);
    fs::write(&path, before.clone() + &row(2) + note + &third[..9]).unwrap();
    let mut sink = owing(&settings, Some(&mark), &given[1..]);
    for batch in given[1..].chunks(2) {
        assert!(all_done(&deliver(&mut sink, batch).await));
    }
    let expected = before + &row(2) + note + &third + &row(4);
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
}

#[tokio::test]
async fn nothing_that_was_acknowledged_is_cut_whatever_an_editor_does_to_the_file() {
    let (dir, path) = place();
    let settings = settings(&path);
    let note = "{\"event_id\":\"note\"}\n";
    let edits: [fn(&str, &str) -> String; 5] = [
        |text, _| text.trim_end().to_owned(),
        |text, note| note.to_owned() + text,
        |text, note| note.repeat(20) + text.trim_end(),
        |text, note| text.replacen('\n', &format!("\n{note}"), 1),
        |_, _| String::new(),
    ];
    for edit in edits {
        // Some editors write into the file, others put a new one in its place.
        for is_replaced in [false, true] {
            for is_restarted in [false, true] {
                let _ = fs::remove_file(&path);
                let mut sink = sink(settings.clone());
                assert!(all_done(&deliver(&mut sink, &changes(1..=3)).await));
                let edited = edit(&fs::read_to_string(&path).unwrap(), note);
                let target = if is_replaced {
                    dir.path().join("new")
                } else {
                    path.clone()
                };
                fs::write(&target, &edited).unwrap();
                fs::rename(&target, &path).unwrap();
                if is_restarted {
                    let mark = sink.mark();
                    drop(sink);
                    sink = restarted(&settings, mark.as_deref());
                }
                assert!(all_done(&deliver(&mut sink, &changes(4..=4)).await));
                let line_break = if edited.is_empty() { "" } else { "\n" };
                let expected = edited.trim_end().to_owned() + line_break + &change(4).data_json();
                assert_eq!(fs::read_to_string(&path).unwrap(), expected + "\n");
            }
        }
    }
}

#[tokio::test]
async fn two_sinks_cannot_write_one_file_and_the_lines_of_other_programs_stay() {
    let (_dir, path) = place();
    let mut first = plain(&path);
    for seqs in [1..=1, 2..=2] {
        assert!(all_done(&deliver(&mut first, &changes(seqs)).await));
    }
    let mut second = plain(&path);
    let verdict = deliver_one(&mut second, &change(3)).await;
    assert!(
        is_fault(&verdict) && reason(&verdict).contains("another process"),
        "{verdict:?}"
    );
    // A replay of older changes is written, too.
    let marked = fs::read_to_string(&path).unwrap() + "{\"event_id\":\"mark\"}\n";
    fs::write(&path, marked).unwrap();
    assert!(all_done(&deliver(&mut first, &changes(1..=2)).await));
    assert_eq!(
        lines_in(&path),
        ["evt_0001", "evt_0002", "mark", "evt_0001", "evt_0002"]
    );
}

#[tokio::test]
async fn a_file_that_others_moved_removed_or_emptied_is_begun_anew() {
    let (dir, path) = place();
    let old = dir.path().join("audit.ndjson.1");
    let mut sink = plain(&path);
    assert!(all_done(&deliver(&mut sink, &changes(1..=2)).await));
    fs::rename(&path, &old).unwrap();
    assert!(all_done(&deliver(&mut sink, &changes(3..=4)).await));
    assert_eq!(lines_in(&old), ids(&changes(1..=2)));
    assert_eq!(lines_in(&path), ids(&changes(3..=4)));
    fs::remove_file(&path).unwrap();
    assert!(all_done(&deliver(&mut sink, &changes(5..=5)).await));
    assert_eq!(lines_in(&path), ids(&changes(5..=5)));
    // Copied and truncated in place.
    fs::write(&path, "").unwrap();
    assert!(all_done(&deliver(&mut sink, &changes(6..=7)).await));
    assert_eq!(lines_in(&path), ids(&changes(6..=7)));
    let names = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(names, 2, "nothing else is left in the folder");
}

#[tokio::test]
async fn logrotate_with_the_shipped_file_loses_and_repeats_nothing() {
    let Some(logrotate) = program("logrotate", &["/usr/sbin/logrotate"]) else {
        return;
    };
    let (dir, path) = place();
    let shipped = include_str!("../../../examples/logrotate");
    let own = |line: &&str| !line.trim().starts_with("su ");
    let rules: Vec<&str> = shipped.lines().filter(own).collect();
    let rules = rules
        .join("\n")
        .replace("/var/lib/shopmirror", dir.path().to_str().unwrap());
    let config = dir.path().join("rules");
    fs::write(&config, rules + "\n").unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).unwrap();
    let mut sink = plain(&path);
    assert!(all_done(&deliver(&mut sink, &changes(1..=2)).await));
    let done = Command::new(logrotate)
        .arg("--force")
        .arg("--state")
        .arg(dir.path().join("state"))
        .arg(&config)
        .output()
        .unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    assert!(!path.exists());
    assert!(all_done(&deliver(&mut sink, &changes(3..=4)).await));
    assert_eq!(lines_in(&path), ids(&changes(3..=4)));
    let names = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let rotated = names.filter(|name| name.extension().is_some_and(|end| end == "gz"));
    let [rotated] = rotated.collect::<Vec<_>>().try_into().unwrap();
    let text = Command::new("gzip")
        .arg("-dc")
        .arg(rotated)
        .output()
        .unwrap()
        .stdout;
    assert_eq!(
        ids_in(&String::from_utf8(text).unwrap()),
        ids(&changes(1..=2))
    );
}

/// Takes the file away once for each word of `told` and once at its end, and reads it once each
/// time: what it misses is lost.
fn rotate(path: &Path, told: &mpsc::Receiver<()>) -> Vec<String> {
    let old = path.with_extension("old");
    let mut found = Vec::new();
    loop {
        let last = told.recv().is_err();
        // Any moment of the delivery that goes on.
        for _ in 0..fastrand::u32(..100) {
            std::thread::yield_now();
        }
        if fs::rename(path, &old).is_ok() {
            let text = fs::read_to_string(&old).unwrap();
            found.extend(ids_in(&text[..text.rfind('\n').map_or(0, |end| end + 1)]));
        }
        if last {
            return found;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_others_rotate_at_any_moment_loses_no_line() {
    let (_dir, path) = place();
    let (tell, told) = mpsc::channel();
    let rotating = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || rotate(&path, &told))
    };
    let mut sink = plain(&path);
    let given = changes(1..=300);
    for change in &given {
        tell.send(()).unwrap();
        while deliver_one(&mut sink, change).await != Verdict::Done {}
    }
    drop(tell);
    let mut found = rotating.await.unwrap();
    found.sort();
    found.dedup();
    assert_eq!(found, ids(&given));
}

#[tokio::test]
async fn links_pipes_folders_and_files_of_others_are_refused_and_not_changed() {
    let (dir, path) = place();
    let (target, table) = (dir.path().join("passwd"), dir.path().join("table.csv"));
    fs::write(&target, "root:x:0:0\n").unwrap();
    fs::write(&table, "name;amount\n1;2\n").unwrap();
    symlink(&target, &path).unwrap();
    let pipe = dir.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    for (settings, words) in [
        (settings(&path), "symbolic link"),
        (settings(&target), "the file of another program"),
        (csv(&table, &["name"]), "the file of another program"),
        (settings(&pipe), "not a regular file"),
        (settings(Path::new("/dev/full")), "not a regular file"),
        (
            settings(&dir.path().join("missing/audit.ndjson")),
            "No such file",
        ),
    ] {
        let verdict = deliver_one(&mut sink(settings.clone()), &change(1)).await;
        assert!(
            is_fault(&verdict) && reason(&verdict).contains(words),
            "{verdict:?}"
        );
        let probed = sink(settings).check().await.unwrap_err().to_string();
        assert!(probed.contains(words), "{probed}");
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), "root:x:0:0\n");
    assert_eq!(fs::read_to_string(&table).unwrap(), "name;amount\n1;2\n");

    // Our own file with other columns is waited for.
    let (dir, path) = place();
    assert_eq!(
        deliver_one(&mut sink(csv(&path, &["name"])), &change(1)).await,
        Verdict::Done
    );
    let mut other = sink(csv(&path, &["name", "amount"]));
    let verdict = deliver_one(&mut other, &change(2)).await;
    assert!(
        is_fault(&verdict) && reason(&verdict).contains("rename it"),
        "{verdict:?}"
    );
    fs::rename(&path, dir.path().join("old")).unwrap();
    assert_eq!(deliver_one(&mut other, &change(2)).await, Verdict::Done);
    assert_eq!(
        fs::read_to_string(&path).unwrap().matches("amount").count(),
        1
    );
}
