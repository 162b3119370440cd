//! Files that are put aside: by size, by day, across crashes, compressed, and CSV.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::read::MultiGzDecoder;
use jiff::Timestamp;
use shopmirror::config::{FileFormat, FileSettings, SinkKind};
use shopmirror::record::Change;
use shopmirror::shape::{CloudEvents, Columns, Format, Mode};
use shopmirror::sink::{Sink, Verdict};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{all_done, build, change, changes, deliver, deliver_one, ids, is_fault, reason};
use crate::support::{Daemon, LIMIT_S, Pages, Place, Workspace, wait_until};

fn settings(path: &Path) -> FileSettings {
    FileSettings {
        path: path.to_owned(),
        format: FileFormat::Lines(Format::Standard),
        rotate_size: Some(1000),
        rotate_daily: false,
        compress: false,
    }
}

fn sink(settings: FileSettings) -> Sink {
    build(&SinkKind::File(settings))
}

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.ndjson");
    (dir, path)
}

/// Every file of the folder with its text, the oldest first; the one in use last.
fn files(path: &Path) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("audit."))
        .map(|path| {
            let mut text = String::new();
            let mut file = File::open(&path).unwrap();
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
        name.split('.')
            .find_map(|part| part.parse().ok().filter(|_| part.len() == 6))
            .unwrap_or(u32::MAX)
    });
    files
}

/// Delivers the last changes again, which writes nothing, until all files that were put aside are
/// compressed: the files of other tests may be compressed first.
async fn compressed(sink: &mut Sink, last: &[Change], path: &Path) {
    let waiting = || {
        let names = fs::read_dir(path.parent().unwrap()).unwrap();
        let names: Vec<PathBuf> = names.map(|entry| entry.unwrap().path()).collect();
        names.iter().any(|name| name != path && name.extension().is_none_or(|end| end != "gz"))
    };
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(LIMIT_S);
    while waiting() {
        assert!(std::time::Instant::now() < limit, "a file is not compressed");
        assert!(all_done(&deliver(sink, last).await));
    }
}

/// The event ids of all files, in order.
fn all_ids(path: &Path) -> Vec<String> {
    let text: String = files(path).into_iter().map(|(_, text)| text).collect();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines()
        .map(|line| {
            let data: serde_json::Value = serde_json::from_str(line).unwrap();
            data["event_id"].as_str().unwrap().to_owned()
        })
        .collect()
}

#[tokio::test]
async fn a_file_does_not_grow_beyond_its_size_and_no_line_is_lost_or_repeated() {
    let (_dir, path) = place();
    let mut sink = sink(settings(&path));
    let given = changes(1..=60);
    for batch in given.chunks(3) {
        assert!(all_done(&deliver(&mut sink, batch).await));
    }
    let files = files(&path);
    assert!(files.len() > 10, "{files:?}");
    assert!(files.iter().all(|(_, text)| text.len() <= 1000), "{files:?}");
    assert_eq!(all_ids(&path), ids(&given));
    let (first, _) = &files[0];
    let parts: Vec<&str> = first.split('.').collect();
    assert_eq!((parts[0], parts[2], parts[3]), ("audit", "000001", "ndjson"), "{first}");
    assert!(parts[1].parse::<jiff::civil::Date>().is_ok(), "{first}");
    // Everything again, as after a position that could not be saved.
    assert!(all_done(&deliver(&mut sink, &given[57..]).await));
    assert_eq!(all_ids(&path), ids(&given));
}

#[tokio::test]
async fn a_crash_at_any_step_of_a_rotation_repeats_and_loses_nothing() {
    for compress in [false, true] {
        let given = changes(1..=4);
        // What the folder holds after each step: before the rename, after it, with the next file
        // begun, with the line torn anywhere, with the compression half done and done.
        for step in ["renamed", "empty", "torn", "half compressed", "compressed", "both"] {
            let (dir, path) = place();
            let last = deliver(&mut sink(settings(&path)), &given).await;
            assert!(all_done(&last));
            let aside = dir.path().join("audit.2026-01-02.000001.ndjson");
            fs::rename(&path, &aside).unwrap();
            let gzip = |keep: &str| {
                let made = Command::new("gzip").args([keep, "-f"]).arg(&aside).status().unwrap();
                assert!(made.success());
            };
            match step {
                "empty" => fs::write(&path, "").unwrap(),
                "torn" => fs::write(&path, &change(5).data_json()[..40]).unwrap(),
                "half compressed" => {
                    fs::write(dir.path().join("audit.2026-01-02.000001.ndjson.gz.part"), "x")
                        .unwrap();
                }
                "compressed" => gzip("-q"),
                "both" => gzip("-k"),
                _ => {}
            }
            let again = FileSettings { compress, ..settings(&path) };
            let mut restarted = sink(again);
            // The position was not saved: the same batch, then a part of it, then the next one.
            for batch in [&given[..], &given[2..], &changes(5..=5)] {
                let verdicts = deliver(&mut restarted, batch).await;
                assert!(all_done(&verdicts), "{step}: {verdicts:?}");
            }
            if compress {
                compressed(&mut restarted, &changes(5..=5), &path).await;
            } else {
                let _ = fs::remove_file(dir.path().join("audit.2026-01-02.000001.ndjson.gz.part"));
                if step == "both" {
                    fs::remove_file(&aside).unwrap();
                }
            }
            assert_eq!(all_ids(&path), ids(&changes(1..=5)), "{step}, {compress}");
        }
    }
}

#[tokio::test]
async fn a_sink_dropped_at_any_moment_of_its_rotations_repeats_and_loses_nothing() {
    let (_dir, path) = place();
    let given = changes(1..=120);
    let mut position = 0;
    let mut random = fastrand::Rng::with_seed(7);
    while position < given.len() {
        let mut sink = sink(FileSettings { compress: true, ..settings(&path) });
        // Some batches whose position is saved, then one whose position is not.
        for _ in 0..random.usize(1..4) {
            let end = (position + random.usize(1..9)).min(given.len());
            assert!(all_done(&deliver(&mut sink, &given[position..end]).await));
            if random.bool() {
                position = end;
            } else {
                break;
            }
        }
    }
    let mut last = sink(FileSettings { compress: true, ..settings(&path) });
    compressed(&mut last, &given[119..], &path).await;
    assert_eq!(all_ids(&path), ids(&given));
}

#[tokio::test]
async fn a_day_has_a_file_of_its_own() {
    let (_dir, path) = place();
    let settings = FileSettings { rotate_size: None, rotate_daily: true, ..settings(&path) };
    let mut sink = sink(settings);
    let now = Timestamp::now();
    let day = jiff::SignedDuration::from_hours(24);
    let mut at = async |seq: i64, now: Timestamp| {
        let verdicts = sink.deliver(&[change(seq)], now, &CancellationToken::new()).await;
        assert_eq!(verdicts, [Verdict::Done]);
    };
    at(1, now).await;
    at(2, now).await;
    at(3, now + day).await;
    // A clock that is set back begins no file.
    at(4, now).await;
    at(5, now + day + day).await;
    let counts: Vec<usize> = files(&path).iter().map(|(_, text)| text.lines().count()).collect();
    assert_eq!(counts, [2, 2, 1]);
    assert_eq!(all_ids(&path), ids(&changes(1..=5)));
}

fn csv(path: &Path, columns: &[&str]) -> FileSettings {
    let columns = columns.iter().map(|&name| name.to_owned()).collect();
    FileSettings {
        format: FileFormat::Csv(Columns::new(columns)),
        rotate_size: None,
        ..settings(path)
    }
}

#[tokio::test]
async fn csv_has_one_header_a_file_and_survives_a_cut_anywhere() {
    let (_dir, path) = place();
    let mut hostile = changes(1..=3);
    hostile[1].body = r#"{"id":2,"name":"=1+1\r\n,\"x\"","amount":-1.5}"#.into();
    let columns = ["name", "amount", "gone"];
    assert!(all_done(&deliver(&mut sink(csv(&path, &columns)), &hostile).await));
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    assert_eq!(lines.len(), 4, "{whole}");
    assert!(lines[0].ends_with("observed_at,business,name,amount,gone"), "{whole}");
    assert!(lines[2].ends_with(r#",,"'=1+1  ,""x""",-1.5,"#), "{whole}");
    for cut in 0..whole.len() {
        fs::write(&path, &whole.as_bytes()[..cut]).unwrap();
        let verdicts = deliver(&mut sink(csv(&path, &columns)), &hostile).await;
        assert!(all_done(&verdicts), "cut at {cut}: {verdicts:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), whole, "cut at {cut}");
    }
    // Python's own reader sees as many columns in each row.
    let script = "import csv, sys; print({len(row) for row in csv.reader(open(sys.argv[1]))})";
    let read = Command::new("python3").args(["-c", script]).arg(&path).output().unwrap();
    assert_eq!(String::from_utf8(read.stdout).unwrap().trim(), "{11}");
}

#[tokio::test]
async fn other_columns_begin_another_file_and_a_foreign_file_is_left_alone() {
    let (_dir, path) = place();
    assert_eq!(deliver_one(&mut sink(csv(&path, &["name"])), &change(1)).await, Verdict::Done);
    let mut second = sink(csv(&path, &["name", "amount"]));
    assert!(second.probe().await.is_ok());
    assert_eq!(deliver_one(&mut second, &change(2)).await, Verdict::Done);
    let files = files(&path);
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(files[0].1.contains("evt_0001") && files[1].1.contains("evt_0002"), "{files:?}");
    drop(second);
    fs::write(&path, "name;amount\n1;2\n").unwrap();
    let verdict = deliver_one(&mut sink(csv(&path, &["name"])), &change(3)).await;
    assert!(is_fault(&verdict) && reason(&verdict).contains("another file"), "{verdict:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "name;amount\n1;2\n");
}

#[tokio::test]
async fn a_file_of_cloud_events_repeats_nothing_after_a_crash() {
    let (_dir, path) = place();
    let events = CloudEvents { mode: Mode::Structured, source: "/shops/north".into() };
    let format = FileFormat::Lines(Format::CloudEvents(events));
    let with = || sink(FileSettings { format: format.clone(), ..settings(&path) });
    let given: Vec<Change> = changes(1..=3);
    for _ in 0..2 {
        assert!(all_done(&deliver(&mut with(), &given).await));
    }
    // A line that is written again may be in the next file.
    let text: String = files(&path).into_iter().map(|(_, text)| text).collect();
    let sources: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["source"].to_string())
        .collect();
    assert_eq!(sources, ["\"/shops/north\""; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_begins_a_new_file_when_the_old_one_was_renamed() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink(
        "audit",
        "start = \"beginning\"\nroutes = [\"leads\"]\nchanges = [\"created\"]",
    ));
    let daemon = place.started().await;
    workspace.polled(sandbox::Route::Leads).await;
    workspace.add(sandbox::Route::Leads, serde_json::json!({ "name": "Ada" }));
    wait_until("the lead is in the file", || place.lines("audit.ndjson").len() == 1).await;
    let (path, old) = (place.path("audit.ndjson"), place.path("audit.1"));
    fs::rename(&path, &old).unwrap();
    daemon.signal(rustix::process::Signal::HUP);
    wait_until("a new file has begun", || path.exists()).await;
    workspace.add(sandbox::Route::Leads, serde_json::json!({ "name": "Eva" }));
    wait_until("the next lead is in it", || place.lines("audit.ndjson").len() == 1).await;
    assert_eq!(fs::read_to_string(&old).unwrap().lines().count(), 1);
    daemon.stop().await;
}

/// What the daemon does to its files around a rotation; it is killed as it begins the call.
///
/// strace counts the calls of each thread by itself, so a second call is not made in every run.
const CALLS: [(&str, u32); 10] = [
    ("rename", 1),
    ("rename", 2),
    ("rename", 3),
    ("fsync", 1),
    ("fdatasync", 1),
    ("fdatasync", 2),
    ("write", 1),
    ("write", 3),
    ("unlink", 1),
    ("unlink", 2),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_call_of_a_rotation_repeats_and_loses_no_line() {
    let pages = Pages::start().await;
    let place = pages.place();
    // Each batch is longer than a file.
    let sink = Place::file_sink("audit", "rotate_size = \"70kB\"\nstart = \"beginning\"");
    let calm = "[poll]\nmin_interval = \"30s\"\nmax_interval = \"60s\"\n";
    place.configure_all(&format!("{calm}{sink}"));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let folder = place.path("");
    for (call, when) in CALLS {
        append(&place, 600);
        let inject = format!("inject={call}:signal=KILL:when={when}");
        let mut wrapper = vec!["strace", "-f", "-qq", "-o", "/dev/null", "-e", &inject];
        // Of the calls that the store makes as well, only those for the sink's file count.
        let path = place.path("audit.ndjson").display().to_string();
        match call {
            "rename" | "unlink" => {}
            "fsync" => wrapper.extend(["-P", folder.to_str().unwrap()]),
            _ => wrapper.extend(["-P", &path]),
        }
        let mut daemon = place.daemon_by(&wrapper);
        let kills = when == 1;
        wait_until(&format!("{call} {when} kills it, or it is done"), || {
            !daemon.is_running() || (!kills && is_done(&place))
        })
        .await;
        end(daemon).await;
    }
    let daemon = place.started().await;
    wait_until("it is done", || is_done(&place)).await;
    daemon.stop().await;
    // A file that was put aside while another one was compressed waits for the next batch.
    append(&place, 1);
    let daemon = place.started().await;
    wait_until("all files that were put aside are compressed", || {
        is_done(&place) && is_compressed(&folder)
    })
    .await;
    daemon.stop().await;
    let log: Vec<String> = place
        .rows("SELECT event_id FROM changes ORDER BY seq")
        .iter()
        .map(|row| row[0].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(log.len(), 600 * CALLS.len() + 1);
    let mut found = Vec::new();
    for (name, text) in files(&place.path("audit.ndjson")) {
        if name.starts_with("audit.") {
            found.extend(text.lines().map(|line| {
                let data: serde_json::Value = serde_json::from_str(line).unwrap();
                data["event_id"].as_str().unwrap().to_owned()
            }));
        }
    }
    assert_eq!(found, log);
}

/// Kills the daemon and waits for strace, which ends with it.
async fn end(mut daemon: Daemon) {
    if daemon.is_running() {
        let pid = daemon.pid();
        let path = format!("/proc/{pid}/task/{pid}/children");
        for child in fs::read_to_string(path).unwrap_or_default().split_whitespace() {
            let child = rustix::process::Pid::from_raw(child.parse().unwrap()).unwrap();
            let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
        }
        wait_until("the daemon has ended", || !daemon.is_running()).await;
    }
}

/// Whether all files that were put aside are compressed.
fn is_compressed(folder: &Path) -> bool {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    !names
        .map(|name| name.into_string().unwrap())
        .any(|name| name.starts_with("audit.2") && !name.ends_with(".gz"))
}

fn is_done(place: &Place) -> bool {
    place.number("SELECT count(*) FROM sinks WHERE position < (SELECT max(seq) FROM changes)") == 0
}

/// Adds changes to the log, as polls would.
fn append(place: &Place, count: u32) {
    let mut store = place.writer();
    let tx = store.transaction().unwrap();
    let first: u32 = tx.query_row("SELECT count(*) FROM changes", [], |row| row.get(0)).unwrap();
    for number in first..first + count {
        let body = serde_json::json!({ "id": number, "note": "n".repeat(200) }).to_string();
        tx.execute(
            "INSERT INTO changes (event_id, route, record_id, kind, version, observed_at, body) \
             VALUES (?, 'jobs', ?, 'created', 1, '2026-01-02T03:04:05.000000Z', ?)",
            (format!("evt_{number:06}"), number.to_string(), body),
        )
        .unwrap();
    }
    tx.commit().unwrap();
}
