//! Days of scheduled reports on virtual time: a real store, real files, no socket.

use std::path::Path;

use super::*;
use crate::config::{Base, Config};

const HOUR: u64 = 3600;

/// A running task and what it publishes.
struct Running {
    status: watch::Receiver<Vec<ScheduledReportStatus>>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<anyhow::Result<()>>,
    store: Store,
}

impl Running {
    /// Starts the task on the store of a folder at a time on the wall.
    fn start(dir: &Path, at: &str, rest: &str) -> Self {
        let text = format!(
            "[workspace]\nbase_url = \"http://127.0.0.1:9/api\"\ntime_zone = \"Europe/Berlin\"\n{rest}"
        );
        let base = Base { dir: dir.to_owned(), env_key: Some("key".into()), ..Base::default() };
        let config = Config::parse(&text, "shopmirror.toml", &base).unwrap();
        let store = Store::open(&config.store.path).unwrap();
        let status = watch::Sender::new(Vec::new());
        let (shown, stop) = (status.subscribe(), CancellationToken::new());
        let reports = ScheduledReports {
            settings: config.reports,
            zone: config.workspace.time_zone,
            clock: Clock::starting_at(at.parse().unwrap()),
            store: store.clone(),
            sinks: watch::Sender::new(SinkHandles::new()).subscribe(),
            status,
        };
        let task = tokio::spawn(reports.run(stop.clone()));
        Self { status: shown, stop, task, store }
    }

    async fn hours(&self, hours: u64) {
        tokio::time::sleep(Duration::from_secs(hours * HOUR)).await;
    }

    async fn made(&self) -> i64 {
        let runs = self.store.read(|reader| reader.report_runs()).await.unwrap();
        runs["mirror"].made
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
        self.store.close().await.unwrap();
    }
}

const NIGHTLY: &str = "[reports.schedule.mirror]\nreport = \"mirror\"\nat = \"02:30\"\nformat = \"csv\"\npath = \"mirror.csv\"\n";

#[tokio::test(start_paused = true)]
async fn each_day_has_one_report_also_when_the_clocks_change_and_the_daemon_restarts() {
    // Half past two does not exist on the 29th of March, and exists twice on the 25th of October.
    for (start, days) in [("2026-03-27T12:00:00Z", 4), ("2026-10-23T12:00:00Z", 4)] {
        let dir = tempfile::tempdir().unwrap();
        let running = Running::start(dir.path(), start, NIGHTLY);
        for day in 0..days {
            running.hours(1).await;
            assert_eq!(running.made().await, day, "{start}: too early");
            running.hours(23).await;
            assert_eq!(running.made().await, day + 1, "{start}: day {day}");
        }
        let text = std::fs::read_to_string(dir.path().join("mirror.csv")).unwrap();
        assert!(text.starts_with("route,"), "{text}");
        running.end().await;
        // A restart an hour later repeats nothing.
        let later: Timestamp = start.parse().unwrap();
        let later = later + jiff::SignedDuration::from_hours(24 * days + 1);
        let running = Running::start(dir.path(), &later.to_string(), NIGHTLY);
        running.hours(2).await;
        assert_eq!(running.made().await, days, "{start}");
        running.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_while_the_daemon_was_off_is_made_once_when_it_starts() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path(), "2026-05-04T10:00:00Z", NIGHTLY);
    running.hours(1).await;
    running.end().await;
    let running = Running::start(dir.path(), "2026-05-07T12:00:00Z", NIGHTLY);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(running.made().await, 1, "three were missed, the latest is made");
    let shown = running.status.borrow().clone();
    assert_eq!(shown[0].last_at.as_deref(), Some("2026-05-07T00:30:00.000000Z"));
    assert_eq!(shown[0].next_at, "2026-05-08T00:30:00.000000Z");
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_report_that_fails_is_told_and_tried_again_until_it_can_be_made() {
    let dir = tempfile::tempdir().unwrap();
    let rest = NIGHTLY.replace("mirror.csv", "absent/mirror.csv");
    let running = Running::start(dir.path(), "2026-05-04T00:29:00Z", &rest);
    tokio::time::sleep(Duration::from_secs(90)).await;
    let shown = running.status.borrow().clone();
    assert_eq!(shown[0].failures, 1, "{shown:?}");
    let why = shown[0].last_error.as_deref().unwrap();
    assert!(why.contains("absent/mirror.csv: No such file"), "{why}");
    assert!(why.ends_with("; create the folder"), "{why}");
    assert_eq!(shown[0].next_at, "2026-05-04T00:31:00.000000Z");
    // A restart does not begin anew.
    running.end().await;
    let running = Running::start(dir.path(), "2026-05-04T00:32:00Z", &rest);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(running.status.borrow()[0].failures, 2);
    std::fs::create_dir(dir.path().join("absent")).unwrap();
    running.hours(1).await;
    let shown = running.status.borrow().clone();
    assert_eq!((shown[0].failures, shown[0].last_error.as_deref()), (0, None), "{shown:?}");
    assert!(dir.path().join("absent/mirror.csv").exists());
    running.end().await;
}
