//! Days of scheduled reports on virtual time: a real store, real files, no socket.

use std::path::Path;

use shopmirror_core::clock::Clock;
use tokio::sync::mpsc;

use super::*;
use crate::config::{Base, Config};
use crate::daemon::reload_requests;
use crate::daemon::shared::SharedState;
use crate::poll::BackgroundClient;
use crate::store::Store;

/// A running task and what it publishes.
struct Running {
    state: SharedState,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<anyhow::Result<()>>,
    store: Store,
    clock: Clock,
    clocks: Clocks,
}

impl Running {
    /// Starts the task on the store of a folder at a time on the wall, which is right.
    fn start(dir: &Path, at: &str, rest: &str) -> Self {
        let running = Self::start_unsure(dir, at, rest);
        running.learn_time(at);
        running
    }

    /// The first page tells the time.
    fn learn_time(&self, at: &str) {
        self.clocks.compare(at.parse().unwrap(), self.clock.now());
    }

    /// As [`Self::start`], before the first page.
    fn start_unsure(dir: &Path, at: &str, rest: &str) -> Self {
        let text = format!(
            "[workspace]\nbase_url = \"http://127.0.0.1:9/api\"\ntime_zone = \"Europe/Berlin\"\n{rest}"
        );
        let base = Base {
            dir: dir.to_owned(),
            env_key: Some("key".into()),
            ..Base::default()
        };
        let config = Config::parse(&text, "shopmirror.toml", &base).unwrap();
        let store = Store::open(&config.store.path).unwrap();
        let (state, stop) = (SharedState::default(), CancellationToken::new());
        let clock = Clock::starting_at(at.parse().unwrap());
        let clocks = Clocks::default();
        let (requests, _) = mpsc::channel(1);
        let scheduled = Scheduled {
            backup: config.backup,
            reports: config.reports,
            locale: config.workspace.own_locale(),
            zone: config.workspace.time_zone,
            clocks: clocks.clone(),
            daemon: DaemonHandle {
                store: store.clone(),
                clock: clock.clone(),
                background: BackgroundClient::new(requests.clone()),
                requests,
                reload: reload_requests().0,
                state: state.clone(),
            },
        };
        let task = tokio::spawn(scheduled.run(stop.clone()));
        Self {
            state,
            stop,
            task,
            store,
            clock,
            clocks,
        }
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
        self.store.close().await.unwrap();
    }
}

const NIGHTLY: &str = "[reports.schedule.mirror]\nreport = \"mirror\"\nat = \"02:30\"\nformat = \"csv\"\npath = \"mirror.csv\"\n";

#[tokio::test(start_paused = true)]
async fn a_report_that_fails_is_told_and_tried_again_until_it_can_be_made() {
    let dir = tempfile::tempdir().unwrap();
    let rest = NIGHTLY.replace("mirror.csv", "absent/mirror.csv");
    let running = Running::start(dir.path(), "2026-05-04T00:29:00Z", &rest);
    tokio::time::sleep(Duration::from_secs(90)).await;
    let shown = running.state.borrow().reports.clone();
    assert_eq!(shown[0].failures, 1, "{shown:?}");
    let why = shown[0].last_error.as_deref().unwrap();
    assert!(why.contains("absent/mirror.csv: No such file"), "{why}");
    assert!(why.ends_with("; create the folder"), "{why}");
    assert_eq!(shown[0].next_at, "2026-05-04T00:40:00.000000Z");
    // A restart does not begin again.
    running.end().await;
    let running = Running::start(dir.path(), "2026-05-04T00:41:00Z", &rest);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(running.state.borrow().reports[0].failures, 2);
    std::fs::create_dir(dir.path().join("absent")).unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let shown = running.state.borrow().reports.clone();
    assert_eq!(
        (shown[0].failures, shown[0].last_error.as_deref()),
        (0, None),
        "{shown:?}"
    );
    assert!(dir.path().join("absent/mirror.csv").exists());
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_ahead_puts_no_report_off_and_makes_none_early() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start_unsure(dir.path(), "2027-01-01T01:00:00Z", NIGHTLY);
    tokio::time::sleep(Duration::from_secs(300)).await;
    running.learn_time("2026-05-04T00:20:00Z");
    let report = dir.path().join("mirror.csv");
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(!report.exists(), "it is not due before 00:30");
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert!(report.exists(), "{:?}", running.state.borrow().reports);
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_report_without_its_reason_is_not_sent_and_counts_as_made() {
    let dir = tempfile::tempdir().unwrap();
    let late = "-- title = \"Late\"\nSELECT 2 AS days_late UNION ALL SELECT 5";
    std::fs::write(dir.path().join("late.sql"), late).unwrap();
    let mut rest = "[reports]\nfolder = \".\"\n".to_owned();
    for (name, report, only_if) in [
        // The store is empty.
        ("empty", "mirror", "rows"),
        ("rows", "late", "rows"),
        ("met", "late", "days_late > 3"),
        ("unmet", "late", "days_late > 5"),
        ("wrong", "late", "absent > 3"),
    ] {
        rest += &format!(
            "[reports.schedule.{name}]\nreport = \"{report}\"\nat = [\"02:30\", \"03:30\"]\n\
             format = \"csv\"\npath = \"{name}.csv\"\nonly_if = \"{only_if}\"\n"
        );
    }
    let running = Running::start(dir.path(), "2026-05-04T00:29:00Z", &rest);
    tokio::time::sleep(Duration::from_secs(90)).await;
    let shown = running.state.borrow().reports.clone();
    let of = |name: &str| shown.iter().find(|report| report.name == name).unwrap();
    for (name, is_sent) in [
        ("empty", false),
        ("rows", true),
        ("met", true),
        ("unmet", false),
    ] {
        let file = dir.path().join(format!("{name}.csv"));
        assert_eq!(file.exists(), is_sent, "{name}: {shown:?}");
        assert!(of(name).last_at.is_some(), "{name} counts as made");
        assert_eq!(of(name).next_at, "2026-05-04T01:30:00.000000Z", "{name}");
    }
    let whole = std::fs::read_to_string(dir.path().join("met.csv")).unwrap();
    assert!(whole.contains('2') && whole.contains('5'), "{whole}");
    let why = of("wrong").last_error.as_deref().unwrap();
    assert!(why.contains("only_if names the column \"absent\""), "{why}");
    running.end().await;
}
