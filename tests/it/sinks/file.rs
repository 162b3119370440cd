//! The file: whole lines after a crash, rotation by others and by itself, foreign files.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Instant;

use flate2::read::MultiGzDecoder;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use shopmirror::config::{FileFormat, FileSettings, SinkKind};
use shopmirror::shape::{Columns, Format};
use shopmirror::sink::{Sink, Verdict};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{all_done, build, change, changes, deliver, deliver_one, ids, is_fault, reason};
use crate::support::LIMIT_S;

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.ndjson");
    (dir, path)
}

fn settings(path: &Path) -> FileSettings {
    FileSettings {
        path: path.to_owned(),
        format: FileFormat::Lines(Format::Standard),
        rotate_size: None,
        rotate_daily: false,
        compress: false,
    }
}

fn csv(path: &Path, columns: &[&str]) -> FileSettings {
    let columns = columns.iter().map(|&name| name.to_owned()).collect();
    FileSettings { format: FileFormat::Csv(Columns::new(columns)), ..settings(path) }
}

fn sink(settings: FileSettings) -> Sink {
    build(&SinkKind::File(settings))
}

fn plain(path: &Path) -> Sink {
    sink(settings(path))
}

fn ids_in(text: &str) -> Vec<String> {
    assert!(text.is_empty() || text.ends_with('\n'));
    let data = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    data.map(|data| data["event_id"].as_str().unwrap().to_owned()).collect()
}

fn lines_in(path: &Path) -> Vec<String> {
    ids_in(&fs::read_to_string(path).unwrap())
}

/// Every file of the folder with its text, the oldest first; the one in use last.
fn files(path: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    let mut files: Vec<(String, String)> = entries
        .map(|entry| {
            let path = entry.unwrap().path();
            let (mut text, mut file) = (String::new(), File::open(&path).unwrap());
            if path.extension().is_some_and(|extension| extension == "gz") {
                MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
            } else {
                file.read_to_string(&mut text).unwrap();
            }
            (path.file_name().unwrap().to_str().unwrap().to_owned(), text)
        })
        .collect();
    // The number of a file says which is older; the file in use has none.
    files.sort_by_key(|(name, _)| {
        let number = |part: &str| part.parse().ok().filter(|_| part.len() == 6);
        name.split('.').find_map(number).unwrap_or(u32::MAX)
    });
    files
}

/// The event ids of all files, in order.
fn all_ids(path: &Path) -> Vec<String> {
    ids_in(&files(path).into_iter().map(|(_, text)| text).collect::<String>())
}

#[tokio::test]
async fn a_crash_at_any_byte_of_a_write_loses_and_repeats_nothing() {
    let (_dir, path) = place();
    let mut given = changes(1..=2);
    given[1].body = "{\r\n\"id\":2,\"name\":\"=1+1\\r\\n,\\\"x\\\"\",\n\"amount\":-1.5}".into();
    for settings in [settings(&path), csv(&path, &["name", "amount", "gone"])] {
        let _ = fs::remove_file(&path);
        assert!(all_done(&deliver(&mut sink(settings.clone()), &given).await));
        let whole = fs::read_to_string(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o137, 0, "it is for owner and group: {mode:o}");
        for cut in 0..whole.len() {
            fs::write(&path, &whole.as_bytes()[..cut]).unwrap();
            let verdicts = deliver(&mut sink(settings.clone()), &given).await;
            assert!(all_done(&verdicts), "cut at {cut}: {verdicts:?}");
            assert_eq!(fs::read_to_string(&path).unwrap(), whole, "cut at {cut}");
        }
        let lines: Vec<&str> = whole.lines().collect();
        if matches!(settings.format, FileFormat::Lines(_)) {
            assert_eq!(ids_in(&whole), ids(&given));
            assert_eq!(lines[0], change(1).data_json());
        } else {
            assert_eq!(lines.len(), 3, "{whole}");
            assert!(lines[0].ends_with("observed_at,business,name,amount,gone"), "{whole}");
            assert!(lines[2].ends_with(r#",,"'=1+1  ,""x""",-1.5,"#), "{whole}");
        }
    }
}

#[tokio::test]
async fn what_is_handed_over_again_is_written_once_and_a_replay_of_older_changes_is_written() {
    let (_dir, path) = place();
    let mut first = plain(&path);
    for _ in 0..2 {
        assert!(all_done(&deliver(&mut first, &changes(1..=40)).await));
    }
    // Two sinks cannot write one file.
    let mut second = plain(&path);
    let verdict = deliver_one(&mut second, &change(41)).await;
    assert!(is_fault(&verdict) && reason(&verdict).contains("another process"), "{verdict:?}");
    drop(first);
    // After a crash the same comes again, then the rest in other portions than before.
    assert!(all_done(&deliver(&mut second, &changes(1..=1)).await));
    assert!(all_done(&deliver(&mut second, &changes(2..=50)).await));
    assert_eq!(lines_in(&path), ids(&changes(1..=50)));
    // Lines of others are kept.
    let marked = fs::read_to_string(&path).unwrap() + "{\"event_id\":\"mark\"}\n";
    fs::write(&path, marked).unwrap();
    assert!(all_done(&deliver(&mut second, &changes(51..=51)).await));
    assert!(all_done(&deliver(&mut second, &changes(1..=2)).await));
    let found = lines_in(&path);
    assert_eq!(found[50..], ["mark", "evt_0051", "evt_0001", "evt_0002"]);
}

#[tokio::test]
async fn a_file_that_others_moved_removed_or_emptied_is_begun_anew() {
    let (dir, path) = place();
    let old = dir.path().join("audit.ndjson.1");
    let mut sink = plain(&path);
    assert!(all_done(&deliver(&mut sink, &changes(1..=2)).await));
    fs::rename(&path, &old).unwrap();
    // As a reload does after logrotate.
    sink.reopen().await;
    assert!(path.exists());
    assert!(all_done(&deliver(&mut sink, &changes(3..=4)).await));
    assert_eq!(lines_in(&old), ids(&changes(1..=2)));
    assert_eq!(lines_in(&path), ids(&changes(3..=4)));
    fs::remove_file(&path).unwrap();
    assert!(all_done(&deliver(&mut sink, &changes(5..=5)).await));
    assert_eq!(lines_in(&path), ids(&changes(5..=5)));
    // Copied and truncated in place: what stood in it may have to be written again.
    fs::write(&path, "").unwrap();
    assert!(all_done(&deliver(&mut sink, &changes(6..=7)).await));
    assert_eq!(lines_in(&path), ids(&changes(6..=7)));
}

/// Takes the file away once for each word of `told` and once at its end, and reads it once each time: what it
/// misses is lost.
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
async fn own_rotation_by_size_or_day_loses_and_repeats_nothing_whenever_the_sink_ends() {
    let (_dir, path) = place();
    let rotating = FileSettings { rotate_size: Some(1000), compress: true, ..settings(&path) };
    let given = changes(1..=60);
    // Each sink ends before its position is saved, so that the next one gets a part again; one was
    // killed while it wrote a line.
    for end in (3..=60).step_by(3) {
        if end == 33 {
            let torn = fs::read_to_string(&path).unwrap() + &change(31).data_json()[..40];
            fs::write(&path, torn).unwrap();
        }
        let again = &given[usize::saturating_sub(end, 5)..end];
        assert!(all_done(&deliver(&mut sink(rotating.clone()), again).await));
    }
    let mut by_size = sink(rotating);
    // What is handed over again writes nothing. The files of other tests may be compressed first.
    let begun = Instant::now();
    let names = || fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    while names().any(|name| name != path && name.extension().is_none_or(|end| end != "gz")) {
        assert!(begun.elapsed().as_secs() < LIMIT_S, "a file is not compressed");
        assert!(all_done(&deliver(&mut by_size, &given[57..]).await));
    }
    let found = files(&path);
    assert!(found.len() > 10 && found.iter().all(|(_, text)| text.len() <= 1000), "{found:?}");
    let parts: Vec<&str> = found[0].0.split('.').collect();
    assert_eq!((parts[0], parts[2], parts[3]), ("audit", "000001", "ndjson"), "{parts:?}");
    assert!(parts[1].parse::<jiff::civil::Date>().is_ok(), "{parts:?}");
    assert_eq!(all_ids(&path), ids(&given));

    let (_dir, path) = place();
    let mut by_day = sink(FileSettings { rotate_daily: true, ..settings(&path) });
    let (now, stop) = (Timestamp::now(), CancellationToken::new());
    // A clock that is set back begins no file.
    for (seq, days) in [(1, 0), (2, 0), (3, 1), (4, 0), (5, 2)] {
        let at = now + SignedDuration::from_hours(24 * days);
        assert_eq!(by_day.deliver(&[change(seq)], at, &stop).await, [Verdict::Done]);
    }
    let counts: Vec<usize> = files(&path).iter().map(|(_, text)| text.lines().count()).collect();
    assert_eq!(counts, [2, 2, 1]);
    assert_eq!(all_ids(&path), ids(&changes(1..=5)));
}

#[tokio::test]
async fn links_pipes_folders_and_files_of_others_are_refused_and_not_changed() {
    let (dir, path) = place();
    let (target, table) = (dir.path().join("passwd"), dir.path().join("table.csv"));
    fs::write(&target, "root:x:0:0\n").unwrap();
    fs::write(&table, "name;amount\n1;2\n").unwrap();
    symlink(&target, &path).unwrap();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (settings, words) in [
        (settings(&path), "symbolic link"),
        (settings(&target), "does not end in a line of this program"),
        (csv(&table, &["name"]), "another file"),
        (settings(&pipe), "not a regular file"),
        (settings(Path::new("/dev/full")), "not a regular file"),
        (settings(&dir.path().join("missing/audit.ndjson")), "No such file"),
    ] {
        let verdict = deliver_one(&mut sink(settings.clone()), &change(1)).await;
        assert!(is_fault(&verdict) && reason(&verdict).contains(words), "{verdict:?}");
        let probed = sink(settings).probe().await.unwrap_err();
        assert!(probed.contains(words), "{probed}");
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), "root:x:0:0\n");
    assert_eq!(fs::read_to_string(&table).unwrap(), "name;amount\n1;2\n");

    // Our own file with other columns is put aside.
    let (_dir, path) = place();
    for (seq, columns) in [(1, &["name"][..]), (2, &["name", "amount"])] {
        assert_eq!(deliver_one(&mut sink(csv(&path, columns)), &change(seq)).await, Verdict::Done);
    }
    let headers: Vec<usize> =
        files(&path).iter().map(|(_, text)| text.matches("seq").count()).collect();
    assert_eq!(headers, [1, 1]);
}
