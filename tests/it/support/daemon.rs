//! The real program in a folder of its own: its configuration, its processes, its store.
//!
//! Every process is killed when its handle is dropped; nothing of the caller's environment reaches
//! it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::{LIMIT_S, look_again, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_shopmirror");

/// What a process that ended left behind.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// The standard output as JSON; fails the test when it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A folder with a configuration, a key and, once the program ran, a store.
pub(crate) struct Place {
    dir: TempDir,
    head: String,
}

impl Place {
    /// A folder whose configuration polls `base_url` as fast as it can.
    pub(crate) fn new(base_url: &str, key: &str) -> Self {
        let place = Self {
            dir: tempfile::tempdir().unwrap(),
            head: format!("[workspace]\nbase_url = \"{base_url}\"\napi_key_file = \"api-key\"\n"),
        };
        place.write_key(key);
        place.configure("");
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path("mirror.db")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
    }

    pub(crate) fn write_key(&self, key: &str) {
        self.write("api-key", key);
    }

    /// Writes the usual configuration, every poller ten times a second, with `rest` behind it:
    /// keys of `[poll]` first, then further sections.
    pub(crate) fn configure(&self, rest: &str) {
        self.configure_all(&format!("{BUDGET}{EAGER}{rest}"));
    }

    /// Writes the configuration: where the workspace is, and `rest`.
    pub(crate) fn configure_all(&self, rest: &str) {
        self.write("shopmirror.toml", &format!("{}{rest}", self.head));
    }

    /// The text of a sink that appends to `NAME.ndjson`.
    pub(crate) fn file_sink(name: &str, rest: &str) -> String {
        format!("[sinks.{name}]\ntype = \"file\"\npath = \"{name}.ndjson\"\n{rest}\n")
    }

    /// The text of a sink that posts to `url`.
    pub(crate) fn webhook_sink(name: &str, url: &str, rest: &str) -> String {
        format!("[sinks.{name}]\ntype = \"webhook\"\nurl = \"{url}\"\n{rest}\n")
    }

    /// The lines of a file sink, as JSON.
    pub(crate) fn lines(&self, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(name)).unwrap_or_default();
        // A line being written has no end yet.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.bare(PROGRAM);
        command.args(args);
        command
    }

    fn bare(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env("NO_COLOR", "1")
            .env("TZ", "UTC")
            .env("TMPDIR", self.dir.path())
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs one command of the program to its end.
    pub(crate) async fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Ended {
        Self::ended(self.command(args)).await
    }

    /// As [`Self::run`], through a program that ends by becoming the arguments after its own.
    pub(crate) async fn run_by(&self, wrapper: &[&str], args: &[&str]) -> Ended {
        let config = self.path("shopmirror.toml");
        let mut command = self.bare(wrapper[0]);
        command
            .args(&wrapper[1..])
            .arg(PROGRAM)
            .arg("--config")
            .arg(config)
            .args(args);
        Self::ended(command).await
    }

    async fn ended(mut command: Command) -> Ended {
        let output = command.output();
        let output = tokio::time::timeout(Duration::from_secs(LIMIT_S), output);
        let output = output.await.expect("the command ends in time").unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended {
            code: output.status.code(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// Starts a command that goes on by itself; what it prints goes to `followed`.
    pub(crate) fn follow<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Followed {
        let path = self.path("followed");
        let file = fs::File::create(&path).unwrap();
        let mut command = self.command(args);
        Followed {
            child: command.stdout(file).stderr(Stdio::piped()).spawn().unwrap(),
            path,
        }
    }

    /// Starts the daemon; what it logs goes to `daemon.log`.
    pub(crate) fn daemon(&self) -> Daemon {
        self.spawn(self.command(["run"]))
    }

    /// Starts any other command as a process to be signalled; what it says goes to `daemon.log`.
    pub(crate) fn background<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Daemon {
        self.spawn(self.command(args))
    }

    /// As [`Self::daemon`], through a program that ends by becoming the arguments after its own.
    pub(crate) fn daemon_by(&self, wrapper: &[&str]) -> Daemon {
        let mut command = self.bare(wrapper[0]);
        command.args(&wrapper[1..]).args([PROGRAM, "run"]);
        self.spawn(command)
    }

    /// As [`Self::daemon`], with another standard error than the file of this folder's log.
    pub(crate) fn daemon_saying_to(&self, standard_error: impl Into<Stdio>) -> Daemon {
        let mut command = self.command(["run"]);
        let child = command
            .stdout(Stdio::null())
            .stderr(standard_error)
            .spawn()
            .unwrap();
        Daemon {
            child,
            log: self.path("daemon.log"),
        }
    }

    fn spawn(&self, mut command: Command) -> Daemon {
        let log = self.path("daemon.log");
        let file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        let child = command.stdout(Stdio::null()).stderr(file).spawn().unwrap();
        Daemon { child, log }
    }

    /// Starts the daemon and waits until it has begun its work.
    pub(crate) async fn started(&self) -> Daemon {
        let before = self.log().matches(" running ").count();
        let daemon = self.daemon();
        wait_until("the daemon runs", || {
            self.log().matches(" running ").count() > before
        })
        .await;
        daemon
    }

    /// Everything the daemons of this folder have logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("daemon.log")).unwrap_or_default()
    }

    pub(crate) async fn status(&self) -> Value {
        let ended = self.run(["status", "--json"]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.json()
    }

    /// Waits until the running daemon's status fulfils the condition, and returns it.
    pub(crate) async fn status_when(
        &self,
        what: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Value {
        let begun = Instant::now();
        loop {
            let said = self.run(["status", "--json"]).await;
            if said.code == Some(0) && condition(&said.json()) {
                return said.json();
            }
            assert!(
                begun.elapsed().as_secs() < LIMIT_S,
                "waited in vain until {what}: {said:?}\n{}",
                self.log()
            );
            look_again(begun, 60).await;
        }
    }

    /// The store, read as a report tool reads it; `None` while there is none.
    pub(crate) fn open(&self) -> Option<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(self.store(), flags).ok()?;
        connection.busy_timeout(Duration::from_secs(5)).ok()?;
        Some(connection)
    }

    /// The store for a program that writes beside the daemon: it waits for the lock as long as a
    /// busy machine needs.
    pub(crate) fn writer(&self) -> Connection {
        let connection = Connection::open(self.store()).unwrap();
        connection
            .busy_timeout(Duration::from_secs(LIMIT_S))
            .unwrap();
        connection
    }

    /// The rows of a query as JSON arrays; none while the store or the table is not there.
    pub(crate) fn rows(&self, sql: &str) -> Vec<Value> {
        self.open()
            .and_then(|connection| query(&connection, sql).ok())
            .unwrap_or_default()
    }

    /// The one number a query gives; -1 while the store or the table is not there.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.rows(sql)
            .first()
            .and_then(|row| row[0].as_i64())
            .unwrap_or(-1)
    }

    /// Whether every sink has got the log up to this row, but for what it refused.
    pub(crate) fn is_delivered(&self, last: i64) -> bool {
        self.number("SELECT min(position) FROM _sinks") >= last
            && self.number("SELECT count(*) FROM _queue WHERE state = 'ready'") == 0
    }

    /// Route, id, kind and version of every row of the log.
    pub(crate) fn changes(&self) -> Vec<Value> {
        self.rows("SELECT route, record_id, kind, version FROM changes ORDER BY seq")
    }

    /// Every file in the folder with its content.
    pub(crate) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files: Vec<_> = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), fs::read(&path).unwrap_or_default()))
            .collect();
        files.sort();
        files
    }
}

/// As fast as the configuration can ask; keys of `[poll]` may follow.
pub(crate) const EAGER: &str = "[poll]\nmin_interval = \"500ms\"\nmax_interval = \"500ms\"\n";

/// More than the tests ask for, so that the pace is what they set.
pub(crate) const BUDGET: &str = "[budget]\nrequests_per_minute = 60000\nreserve = 0\n";

fn query(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<Value>> {
    use rusqlite::types::ValueRef;
    let mut statement = connection.prepare(sql)?;
    let width = statement.column_count();
    let rows = statement.query_map([], |row| {
        (0..width)
            .map(|index| {
                Ok(match row.get_ref(index)? {
                    ValueRef::Null => Value::Null,
                    ValueRef::Integer(integer) => integer.into(),
                    ValueRef::Real(real) => real.into(),
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                        String::from_utf8_lossy(bytes).into_owned().into()
                    }
                })
            })
            .collect::<rusqlite::Result<Vec<Value>>>()
            .map(Value::from)
    })?;
    rows.collect()
}

fn send(child: &Child, signal: Signal) {
    let pid = child.id().expect("it has not been waited for");
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// A command that goes on until it is dropped.
pub(crate) struct Followed {
    child: Child,
    path: PathBuf,
}

impl Followed {
    /// The whole lines it has printed.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.path).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(str::to_owned).collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.child, signal);
    }

    /// Waits until it ends; returns its exit code and what it said beside its lines.
    pub(crate) async fn ended(self) -> (Option<i32>, String) {
        let output = self.child.wait_with_output();
        let output = tokio::time::timeout(Duration::from_secs(LIMIT_S), output);
        let output = output.await.expect("the command ends in time").unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    }
}

/// A running daemon.
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it has not been waited for")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.child, signal);
    }

    pub(crate) async fn wait(&mut self) -> ExitStatus {
        let ended = tokio::time::timeout(Duration::from_secs(LIMIT_S), self.child.wait()).await;
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        ended
            .unwrap_or_else(|_| panic!("the daemon does not end:\n{said}"))
            .unwrap()
    }

    /// Ends it as the service manager does.
    pub(crate) async fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.wait().await;
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        assert!(status.success(), "{status}\n{said}");
    }

    /// Ends it as a power failure does.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}
