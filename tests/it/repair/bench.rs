//! One sandbox, one configuration in a folder of its own, and the program run against them.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sandbox::{self, Options, Sandbox, Shop};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::Child;
use tokio_util::sync::CancellationToken;

const PROGRAM: &str = env!("CARGO_BIN_EXE_shopmirror");
/// How long anything may take before the test fails.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) struct Bench {
    pub(super) sandbox: Sandbox,
    dir: TempDir,
    stop: CancellationToken,
}

/// A daemon that is killed when the test ends early.
pub(super) struct Daemon(Child);

impl Daemon {
    pub(super) async fn stop(mut self) {
        let pid = self.0.id().expect("it has not been waited for").to_string();
        Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        let ended = tokio::time::timeout(LIMIT, self.0.wait()).await.unwrap().unwrap();
        assert!(ended.success(), "{ended}");
    }
}

impl Bench {
    /// A quiet shop that stands still, and a configuration with a file for a sink.
    pub(super) async fn start(requests_per_minute: u32, reserve: u32) -> Self {
        let sandbox = Sandbox::new(Options {
            seed: 7,
            shop: Shop::Quiet,
            requests_per_minute,
            ..Options::default()
        });
        sandbox.pause_growth(true);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(sandbox::serve(listener, sandbox.clone(), stop.clone()));
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("api-key"), sandbox.automation_key()).unwrap();
        let folder = dir.path().display();
        let config = format!(
            "[workspace]\nbase_url = \"http://{address}/api\"\napi_key_file = \"{folder}/api-key\"\n\
             [budget]\nrequests_per_minute = {requests_per_minute}\nreserve = {reserve}\n\
             [store]\npath = \"{folder}/mirror.db\"\n\
             [sinks.out]\ntype = \"file\"\npath = \"{folder}/out.ndjson\"\nstart = \"beginning\"\n"
        );
        std::fs::write(dir.path().join("config.toml"), config).unwrap();
        Self { sandbox, dir, stop }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn arguments<'a>(&self, words: &[&'a str]) -> Vec<std::borrow::Cow<'a, str>> {
        let config = self.path("config.toml").display().to_string();
        words.iter().map(|w| (*w).into()).chain(["--config".into(), config.into()]).collect()
    }

    /// Runs a command to its end; it must succeed. Returns what it printed.
    pub(super) fn output(&self, words: &[&str]) -> String {
        let arguments: Vec<String> = self.arguments(words).iter().map(|a| a.to_string()).collect();
        let ended = Command::new(PROGRAM).args(&arguments).output().unwrap();
        let complaint = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{words:?}: {} {complaint}", ended.status);
        String::from_utf8(ended.stdout).unwrap()
    }

    pub(super) async fn command(&self, words: &[&str]) -> String {
        tokio::task::block_in_place(|| self.output(words))
    }

    /// What a command prints as JSON.
    pub(super) fn json(&self, words: &[&str]) -> Value {
        let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
        let text = tokio::task::block_in_place(|| self.output(&words));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"))
    }

    pub(super) fn run_daemon(&self) -> Daemon {
        let arguments: Vec<String> =
            self.arguments(&["run"]).iter().map(|a| a.to_string()).collect();
        let log = std::fs::File::create(self.path("log")).unwrap();
        let child = tokio::process::Command::new(PROGRAM)
            .args(&arguments)
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Daemon(child)
    }

    /// Waits until the condition holds; tells the daemon's log when it never does.
    pub(super) async fn until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let limit = Instant::now() + LIMIT;
        while !condition() {
            if Instant::now() > limit {
                let log = std::fs::read_to_string(self.path("log")).unwrap_or_default();
                panic!("waited in vain until {what}; the log says:\n{log}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Searches the sandbox has answered.
    pub(super) fn searches(&self) -> usize {
        let requests = self.sandbox.requests();
        requests.log.iter().filter(|request| request.route == "search").count()
    }

    /// Every change the file sink was given.
    pub(super) fn delivered(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path("out.ndjson")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
