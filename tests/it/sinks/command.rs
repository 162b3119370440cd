//! The command: what its exit codes mean, what it may see, what ends it, batches.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use shopmirror::config::SinkKind;
use shopmirror::sink::{Sink, Verdict};
use tokio_util::sync::CancellationToken;

use super::{
    all_done, at, build, change, changes, command, command_settings, deliver, deliver_one,
    is_fault, kind_of, reason,
};
use crate::support::{LIMIT_S, wait_until};

const LONG: Duration = Duration::from_secs(120);

fn shell(script: &str, argument: &Path, timeout: Duration) -> Box<dyn Sink> {
    build(&command(
        ["/bin/sh", "-c", script, "sink", argument.to_str().unwrap()],
        timeout,
    ))
}

/// Whether the process whose id the file holds has ended.
fn ended(pid_file: &Path) -> bool {
    let pid = fs::read_to_string(pid_file).unwrap();
    match fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
        Ok(stat) => stat
            .rsplit(')')
            .next()
            .unwrap()
            .trim_start()
            .starts_with('Z'),
        Err(_) => true,
    }
}

#[tokio::test]
async fn the_exit_code_decides_between_delivered_refused_and_fault() {
    for (ends, expected, words) in [
        ("exit 0", "done", ""),
        ("exit 1", "refused", "ended with 1"),
        ("exit 65", "refused for good", "ended with 65"),
        ("exit 69", "fault", "69"),
        ("exit 75", "fault", "75"),
        ("exit 126", "fault", "126"),
        ("exit 127", "fault", "127"),
        ("exit 255", "refused", "255"),
        ("kill -SEGV $$", "refused", "signal 11"),
        ("kill -TERM $$", "fault", "signal 15"),
    ] {
        let verdict = deliver_one(&mut shell(ends, Path::new("/"), LONG), &change(1)).await;
        assert_eq!(kind_of(&verdict), expected, "{ends}: {verdict:?}");
        assert!(reason(&verdict).contains(words), "{ends}: {verdict:?}");
    }
}

#[tokio::test]
async fn the_program_gets_the_change_and_its_arguments_without_a_shell_or_our_environment() {
    let dir = tempfile::tempdir().unwrap();
    // PWD, OLDPWD, SHLVL and _ are the shell's own.
    let ours = [
        "PATH", "HOME", "LANG", "LC_ALL", "TZ", "PWD", "OLDPWD", "SHLVL", "_",
    ];
    let foreign =
        std::env::vars_os().any(|(name, _)| name.to_str().is_none_or(|n| !ours.contains(&n)));
    assert!(foreign, "there is something that must not be seen");
    let touched = dir.path().join("touched");
    let hostile = format!("$(touch {0}); touch {0}", touched.display());
    let script = "cd \"$1\"; cat > stdin; env > env; printf %s \"$2\" > argument; echo ignored";
    let argv = [
        "/bin/sh",
        "-c",
        script,
        "sink",
        dir.path().to_str().unwrap(),
        &hostile,
    ];
    assert_eq!(
        deliver_one(&mut build(&command(argv, LONG)), &change(1)).await,
        Verdict::Done
    );
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(read("stdin"), change(1).data_json() + "\n");
    assert_eq!(read("argument"), hostile);
    assert!(!touched.exists());
    for line in read("env").lines() {
        assert!(ours.contains(&line.split('=').next().unwrap()), "{line}");
    }
}

#[tokio::test]
async fn a_time_out_a_stop_and_a_dropped_delivery_end_the_whole_process_group() {
    let script = "sleep 600 & echo $! > \"$1/pid.new\"; mv \"$1/pid.new\" \"$1/pid\"; wait";
    for way in ["time-out", "stop", "drop"] {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let timeout = if way == "time-out" {
            Duration::from_secs(1)
        } else {
            LONG
        };
        let mut sink = shell(script, dir.path(), timeout);
        let (given, stop) = ([change(1)], CancellationToken::new());
        let started = wait_until("the program runs", || pid.exists());
        match way {
            "time-out" => {
                // On a busy machine the time may be over before the program has begun.
                let begun = Instant::now();
                while !pid.exists() {
                    assert!(
                        begun.elapsed().as_secs() < LIMIT_S,
                        "it never begins in time"
                    );
                    let verdict = deliver_one(&mut sink, &given[0]).await;
                    assert_eq!(kind_of(&verdict), "refused", "{verdict:?}");
                    assert!(reason(&verdict).contains("time-out of 1s"), "{verdict:?}");
                }
            }
            "stop" => {
                let stopping = async {
                    started.await;
                    stop.cancel();
                };
                let (verdicts, ()) = tokio::join!(sink.send(&given, at(0), &stop), stopping);
                assert_eq!(verdicts, [Verdict::CutShort]);
            }
            _ => tokio::select! {
                verdicts = sink.send(&given, at(0), &stop) => panic!("{verdicts:?}"),
                () = started => {}
            },
        }
        wait_until("the grandchild is gone", || ended(&pid)).await;
    }
}

#[tokio::test]
async fn a_reason_quotes_one_short_escaped_line_without_secret_arguments() {
    let script = r"printf '\n  \033[31mno paper\r<0>FAKE\nsecond' >&2; exit 1";
    let verdict = deliver_one(&mut shell(script, Path::new("/"), LONG), &change(1)).await;
    assert_eq!(
        reason(&verdict),
        r"ended with 1; response: \u{1b}[31mno paper\u{d}<0>FAKE"
    );
    let script = "head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 1";
    let verdict = deliver_one(&mut shell(script, Path::new("/"), LONG), &change(1)).await;
    assert!(kind_of(&verdict) == "refused" && reason(&verdict).chars().count() <= 450);
    let argv = [
        "/bin/sh",
        "-c",
        "echo bad $1 >&2; exit 75",
        "x",
        "--token=CANARY/secret:1",
    ];
    let verdict = deliver_one(&mut build(&command(argv, LONG)), &change(1)).await;
    assert!(reason(&verdict).contains("bad") && !reason(&verdict).contains("CANARY"));
}

#[tokio::test]
async fn a_batch_is_one_run_and_a_change_that_is_refused_delays_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let batch = |script: &str| {
        let argv = [
            "/bin/sh",
            "-c",
            script,
            "sink",
            dir.path().to_str().unwrap(),
        ];
        build(&SinkKind::Command(command_settings(argv, 10, LONG)))
    };
    let runs = || {
        fs::read_to_string(dir.path().join("runs"))
            .unwrap()
            .lines()
            .count()
    };
    let script = "echo run >> \"$1/runs\"; lines=$(cat); \
         case \"$lines\" in *evt_0005*) exit 65;; *evt_0020*) exit 75;; esac; \
         printf '%s\\n' \"$lines\" >> \"$1/taken\"";
    let mut given = changes(6..=9);
    given[2].body = "{\r\n\"id\": 8}".into();
    assert!(all_done(&deliver(&mut batch(script), &given).await));
    assert_eq!(runs(), 1);
    let verdicts = deliver(&mut batch(script), &changes(1..=9)).await;
    for (index, verdict) in verdicts.iter().enumerate() {
        let expected = if index == 4 {
            "refused for good"
        } else {
            "done"
        };
        assert_eq!(kind_of(verdict), expected, "{index}: {verdict:?}");
    }
    let taken = fs::read_to_string(dir.path().join("taken")).unwrap();
    assert_eq!(taken.lines().count(), 12, "{taken}");
    let before = runs();
    let verdicts = deliver(&mut batch(script), &changes(18..=21)).await;
    assert!(verdicts.iter().all(is_fault), "{verdicts:?}");
    assert_eq!(runs(), before + 1, "a fault ends the batch");
}

#[tokio::test]
async fn a_batch_that_hangs_is_ended_once_and_its_changes_are_then_given_alone() {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo run >> \"$1/runs\"; exec sleep 600";
    let argv = [
        "/bin/sh",
        "-c",
        script,
        "sink",
        dir.path().to_str().unwrap(),
    ];
    let settings = command_settings(argv, 8, Duration::from_millis(300));
    let mut sink = build(&SinkKind::Command(settings));
    assert!(
        deliver(&mut sink, &changes(1..=8))
            .await
            .iter()
            .all(is_fault)
    );
    // On a busy machine the time may be over before a program has begun.
    let runs = fs::read_to_string(dir.path().join("runs")).unwrap_or_default();
    assert!(runs.lines().count() <= 1, "{runs}");
    let verdict = deliver_one(&mut sink, &change(1)).await;
    assert_eq!(kind_of(&verdict), "refused", "{verdict:?}");
}
