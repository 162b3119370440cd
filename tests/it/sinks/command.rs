//! The command: its codes, its surroundings, its time-out.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use shopmirror::sink::{Sink, Verdict};
use tokio_util::sync::CancellationToken;

use super::{
    at, build, change, changes, command, deliver, deliver_one, is_fault, reason, stopped_at_a_fault,
};
use crate::support::{LIMIT_S, wait_until};

const LONG: Duration = Duration::from_secs(120);

fn shell(script: &str, argument: &Path, timeout: Duration) -> Sink {
    build(&command(["/bin/sh", "-c", script, "sink", argument.to_str().unwrap()], timeout))
}

fn here() -> &'static Path {
    Path::new("/")
}

/// Whether the process whose id the file holds has ended.
fn ended(pid_file: &Path) -> bool {
    let pid = fs::read_to_string(pid_file).unwrap();
    match fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
        Ok(stat) => stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'),
        Err(_) => true,
    }
}

#[tokio::test]
async fn the_exit_code_decides_between_delivered_refused_and_fault() {
    for (code, expected) in [
        (0, "done"),
        (1, "refused"),
        (2, "refused"),
        (65, "refused for good"),
        (69, "fault"),
        (75, "fault"),
        (126, "fault"),
        (127, "fault"),
        (255, "refused"),
    ] {
        let verdict =
            deliver_one(&mut shell(&format!("exit {code}"), here(), LONG), &change(1)).await;
        let found = match verdict {
            Verdict::Done => "done",
            Verdict::Refused { for_good: false, .. } => "refused",
            Verdict::Refused { for_good: true, .. } => "refused for good",
            Verdict::Fault { .. } => "fault",
            Verdict::Gone { .. } => "gone",
            Verdict::NotTried | Verdict::CutShort => "unknown",
        };
        assert_eq!(found, expected, "{code}: {verdict:?}");
        assert!(code == 0 || reason(&verdict).contains(&code.to_string()), "{verdict:?}");
    }
    let verdict = deliver_one(&mut shell("kill -SEGV $$", here(), LONG), &change(1)).await;
    assert!(matches!(verdict, Verdict::Refused { for_good: false, .. }), "{verdict:?}");
    assert!(reason(&verdict).contains("signal 11"), "{verdict:?}");
    let verdict = deliver_one(&mut shell("kill -TERM $$", here(), LONG), &change(1)).await;
    assert!(is_fault(&verdict) && reason(&verdict).contains("signal 15"), "{verdict:?}");
}

#[tokio::test]
async fn a_fault_ends_the_batch_without_another_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut sink = shell("echo run >> \"$1/runs\"; exit 75", dir.path(), LONG);
    let verdicts = deliver(&mut sink, &changes(1..=3)).await;
    assert!(stopped_at_a_fault(&verdicts));
    assert_eq!(fs::read_to_string(dir.path().join("runs")).unwrap(), "run\n");
}

#[tokio::test]
async fn the_program_gets_the_change_but_not_our_environment() {
    let dir = tempfile::tempdir().unwrap();
    // PWD, OLDPWD, SHLVL and _ are the shell's own.
    let ours = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "PWD", "OLDPWD", "SHLVL", "_"];
    let foreign =
        std::env::vars_os().any(|(name, _)| name.to_str().is_none_or(|n| !ours.contains(&n)));
    assert!(foreign, "there is something that must not be seen");
    let script = "cat > \"$1/stdin\"; env > \"$1/env\"; echo ignored";
    assert_eq!(deliver_one(&mut shell(script, dir.path(), LONG), &change(1)).await, Verdict::Done);
    let stdin = fs::read_to_string(dir.path().join("stdin")).unwrap();
    assert_eq!(stdin, change(1).data_json() + "\n");
    for line in fs::read_to_string(dir.path().join("env")).unwrap().lines() {
        assert!(ours.contains(&line.split('=').next().unwrap()), "{line}");
    }
}

#[tokio::test]
async fn an_argument_is_never_read_by_a_shell() {
    let dir = tempfile::tempdir().unwrap();
    let touched = dir.path().join("touched");
    let hostile = format!("$(touch {0}); touch {0}", touched.display());
    let mut sink = build(&command(["/bin/echo", &hostile], LONG));
    assert_eq!(deliver_one(&mut sink, &change(1)).await, Verdict::Done);
    assert!(!touched.exists());
}

#[tokio::test]
async fn a_time_out_kills_the_whole_process_group_and_parks_the_change() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let script = "sleep 600 & echo $! > \"$1/pid.new\"; mv \"$1/pid.new\" \"$1/pid\"; wait";
    let mut sink = shell(script, dir.path(), Duration::from_secs(2));
    // On a busy machine the time may be over before the program has begun.
    let limit = Instant::now() + Duration::from_secs(LIMIT_S);
    while !pid.exists() {
        assert!(Instant::now() < limit, "the program never begins in time");
        let verdict = deliver_one(&mut sink, &change(1)).await;
        assert!(matches!(verdict, Verdict::Refused { for_good: false, .. }), "{verdict:?}");
        assert!(reason(&verdict).contains("time-out of 2s"), "{verdict:?}");
    }
    wait_until("the grandchild is gone", || ended(&pid)).await;
}

#[tokio::test]
async fn a_stop_and_a_dropped_delivery_kill_the_whole_process_group() {
    let script = "sleep 600 & echo $! > \"$1/pid.new\"; mv \"$1/pid.new\" \"$1/pid\"; wait";
    for dropped in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let mut sink = shell(script, dir.path(), LONG);
        let stop = CancellationToken::new();
        let given = changes(1..=2);
        let delivery = sink.deliver(&given, at(0), &stop);
        let started = wait_until("the program runs", || pid.exists());
        if dropped {
            tokio::select! {
                verdicts = delivery => panic!("{verdicts:?}"),
                () = started => {}
            }
        } else {
            let (verdicts, ()) = tokio::join!(delivery, async {
                started.await;
                stop.cancel();
            });
            assert_eq!(verdicts, [Verdict::CutShort, Verdict::CutShort]);
        }
        wait_until("the grandchild is gone", || ended(&pid)).await;
    }
}

#[tokio::test]
async fn a_reason_quotes_one_short_escaped_line() {
    let script = r"printf '\n  \033[31mno paper\r<0>FAKE\nsecond' >&2; exit 1";
    let verdict = deliver_one(&mut shell(script, here(), LONG), &change(1)).await;
    assert_eq!(reason(&verdict), r"ended with 1: \u{1b}[31mno paper\u{d}<0>FAKE");
    let script = "head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 1";
    let verdict = deliver_one(&mut shell(script, here(), LONG), &change(1)).await;
    assert!(matches!(verdict, Verdict::Refused { .. }), "{verdict:?}");
    assert!(reason(&verdict).chars().count() <= 256);
}

#[tokio::test]
async fn a_program_may_ignore_its_input_and_leave_a_child_running() {
    let mut big = change(1);
    big.body = format!(r#"{{"id":1,"x":"{}"}}"#, "y".repeat(1 << 20));
    let dir = tempfile::tempdir().unwrap();
    let script = "sleep 2 & exit 0";
    assert_eq!(deliver_one(&mut shell(script, dir.path(), LONG), &big).await, Verdict::Done);
    let script = "head -c 100000 /dev/zero >&2; wc -c > \"$1/size\"";
    assert_eq!(deliver_one(&mut shell(script, dir.path(), LONG), &big).await, Verdict::Done);
    let size = fs::read_to_string(dir.path().join("size")).unwrap();
    assert_eq!(size.trim(), (big.data_json().len() + 1).to_string());
}

#[tokio::test]
async fn a_missing_program_is_a_fault_and_a_relative_path_is_a_configuration_error() {
    let mut sink = build(&command(["/nowhere/print-label"], LONG));
    let verdict = deliver_one(&mut sink, &change(1)).await;
    assert!(is_fault(&verdict) && reason(&verdict).contains("/nowhere/print-label"), "{verdict:?}");
    assert!(sink.probe().await.unwrap_err().contains("No such file"));
    let text = tempfile::NamedTempFile::new().unwrap();
    let no_program = build(&command([text.path().to_str().unwrap()], LONG));
    assert!(no_program.probe().await.unwrap_err().contains("right to execute"));
    assert!(build(&command(["/tmp"], LONG)).probe().await.unwrap_err().contains("not a program"));
    for argv in [&["print-label"][..], &["./x"], &[""], &[]] {
        let argv = argv.iter().map(|&argument| argument.to_owned()).collect();
        let settings = shopmirror::config::CommandSettings::new(argv, LONG);
        let kind = shopmirror::config::SinkKind::Command(settings);
        assert!(Sink::build("label", &kind).unwrap_err().to_string().contains("label"));
    }
}

fn batch(script: &str, argument: &Path, batch: usize) -> Sink {
    let argv = ["/bin/sh", "-c", script, "sink", argument.to_str().unwrap()];
    let settings = shopmirror::config::CommandSettings::new(argv.map(str::to_owned).to_vec(), LONG);
    let settings = shopmirror::config::CommandSettings { batch, ..settings };
    build(&shopmirror::config::SinkKind::Command(settings))
}

#[tokio::test]
async fn a_batch_is_one_run_with_a_line_for_each_change() {
    let dir = tempfile::tempdir().unwrap();
    let script = "cat >> \"$1/taken\"; echo run >> \"$1/runs\"";
    let mut sink = batch(script, dir.path(), 10);
    assert_eq!(sink.batch(), 10);
    let mut given = changes(1..=7);
    given[2].body = "{\r\n\"id\": 3}".into();
    assert!(deliver(&mut sink, &given).await.iter().all(|verdict| *verdict == Verdict::Done));
    assert_eq!(fs::read_to_string(dir.path().join("runs")).unwrap(), "run\n");
    let taken = fs::read_to_string(dir.path().join("taken")).unwrap();
    let ids: Vec<String> = taken
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["event_id"].to_string()
        })
        .collect();
    assert_eq!(ids, (1..=7).map(|seq| format!("\"evt_{seq:04}\"")).collect::<Vec<_>>());
}

#[tokio::test]
async fn one_refused_change_of_a_batch_is_found_and_delays_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let script = "lines=$(cat); case \"$lines\" in *evt_0005*) exit 65;; esac; \
                  printf '%s\\n' \"$lines\" >> \"$1/taken\"";
    let verdicts = deliver(&mut batch(script, dir.path(), 100), &changes(1..=9)).await;
    for (index, verdict) in verdicts.iter().enumerate() {
        let refused = matches!(verdict, Verdict::Refused { for_good: true, .. });
        assert_eq!(refused, index == 4, "{index}: {verdict:?}");
        assert!(refused || *verdict == Verdict::Done, "{verdict:?}");
    }
    let taken = fs::read_to_string(dir.path().join("taken")).unwrap();
    assert_eq!(taken.lines().count(), 8, "{taken}");
    let verdicts = deliver(&mut batch("exit 75", dir.path(), 100), &changes(1..=9)).await;
    assert!(verdicts.iter().all(is_fault), "{verdicts:?}");
}
