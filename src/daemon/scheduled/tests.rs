//! Days of scheduled reports on virtual time: a real store, real files, no socket.

use std::path::Path;

use super::*;
use crate::config::{Base, Config};

/// A running task and what it publishes.
struct Running {
    state: SharedState,
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
        let (state, stop) = (SharedState::default(), CancellationToken::new());
        let scheduled = Scheduled {
            backup: config.backup,
            reports: config.reports,
            zone: config.workspace.time_zone,
            clock: Clock::starting_at(at.parse().unwrap()),
            clocks: Clocks::default(),
            store: store.clone(),
            state: state.clone(),
        };
        let task = tokio::spawn(scheduled.run(stop.clone()));
        Self { state, stop, task, store }
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
    // A restart does not begin anew.
    running.end().await;
    let running = Running::start(dir.path(), "2026-05-04T00:41:00Z", &rest);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(running.state.borrow().reports[0].failures, 2);
    std::fs::create_dir(dir.path().join("absent")).unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let shown = running.state.borrow().reports.clone();
    assert_eq!((shown[0].failures, shown[0].last_error.as_deref()), (0, None), "{shown:?}");
    assert!(dir.path().join("absent/mirror.csv").exists());
    running.end().await;
}
