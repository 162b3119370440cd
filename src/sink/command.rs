//! A program that is run for one change or for a batch of them, with the changes on its standard
//! input.
//!
//! There is no shell, no inherited environment and no data in an argument. Exit 0 acknowledges the
//! changes; 65 refuses them for good. The sink pauses on 75 and 69 (try again, unavailable), 126,
//! 127, a signal that asks the program to end, a program that cannot be started, and a batch that
//! takes too long: its changes are then sent one by one. Any other code or signal, and one change
//! that takes too long, refuse the changes.

mod script;

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process_group};
use shopmirror_core::record::Change;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr};

use super::preview::Preview;
use super::reason::{Secrets, may_be_secret};
use super::{Reason, Sink, SinkError, Verdict};
use crate::config::CommandSettings;
use crate::shape::Format;
use crate::text::duration;

/// The variables that a program gets. The environment of this process may hold a key.
const ENVIRONMENT: [&str; 5] = ["PATH", "HOME", "LANG", "LC_ALL", "TZ"];
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How much of standard error is read.
const STDERR_BYTES: usize = 1024;

/// Signals that ask a program to end; they say nothing about the change.
const ENDING_SIGNALS: [i32; 3] = [
    Signal::HUP.as_raw(),
    Signal::INT.as_raw(),
    Signal::TERM.as_raw(),
];

/// How long standard error may stay open after the program has ended: a child may hold it open.
const STDERR_GRACE: Duration = Duration::from_millis(100);

/// One command.
pub(super) struct CommandSink {
    argv: Vec<String>,
    secrets: Secrets,
    format: Format,
    batch: usize,
    timeout: Duration,
}

impl CommandSink {
    pub(super) fn new(settings: &CommandSettings) -> Self {
        let mut secrets = Vec::new();
        for argument in &settings.argv[1..] {
            secrets.extend(secrets_in(argument));
        }
        Self {
            argv: settings.argv.clone(),
            secrets: Secrets::new(secrets),
            format: settings.format.clone(),
            batch: settings.batch,
            timeout: settings.timeout,
        }
    }

    /// What the program gets for one change, without the end of the line.
    fn input(&self, change: &Change) -> Result<String, Verdict> {
        let shaped = match &self.format {
            Format::Template { .. } => self.format.shape(change).map(|shaped| shaped.body),
            _ => self.format.line(change),
        };
        shaped.map_err(Verdict::refused)
    }

    fn spawn(&self, input: File) -> io::Result<Child> {
        let mut command = tokio::process::Command::new(&self.argv[0]);
        command.env_clear().env("PATH", DEFAULT_PATH);
        for name in ENVIRONMENT {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .args(&self.argv[1..])
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }
}

#[async_trait]
impl Sink for CommandSink {
    fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    fn batch(&self) -> usize {
        self.batch
    }

    async fn deliver(&mut self, changes: &[&Change], _now: Timestamp) -> Result<(), Verdict> {
        let program = &self.argv[0];
        let mut input = String::new();
        for change in changes {
            input += &self.input(change)?;
            input.push('\n');
        }
        let file = anonymous_file(&input).map_err(|error| {
            Verdict::fault(format!(
                "making the input of {program}: {error}; free some space"
            ))
        })?;
        // While the program runs, the file alone holds it.
        drop(input);
        let mut child = self.spawn(file).map_err(|error| {
            let hint = match script::problem(Path::new(program), &search_path()) {
                Some(problem) => format!("; {problem}"),
                None => start_hint(error.kind()).to_owned(),
            };
            Verdict::fault(format!("starting {program}: {error}{hint}"))
        })?;
        let group = Group::led_by(&child);
        let mut stderr = child.stderr.take().expect("it is a pipe");
        let mut stderr_text = Vec::new();
        let reading = async {
            read_stderr(&mut stderr, &mut stderr_text).await;
            std::future::pending().await
        };
        let ended = tokio::select! {
            biased;
            status = child.wait() => Some(status),
            never = reading => never,
            () = tokio::time::sleep(self.timeout) => None,
        };
        let Some(status) = ended else {
            let limit = duration::exact(self.timeout);
            let reason = with_quote(
                format!("killed after its time-out of {limit}"),
                &stderr_text,
            );
            return Err(if changes.len() == 1 {
                Verdict::refused_with(reason)
            } else {
                Verdict::fault_with(reason)
            });
        };
        let status =
            status.map_err(|error| Verdict::fault(format!("waiting for {program}: {error}")))?;
        group.leave();
        let rest = read_stderr(&mut stderr, &mut stderr_text);
        let _ = tokio::time::timeout(STDERR_GRACE, rest).await;
        judge(status, &stderr_text)
    }

    /// Checks that the program can be run, without running it.
    async fn probe(&self) -> Result<String, SinkError> {
        let program = Path::new(&self.argv[0]);
        let shown = program.display();
        if !program.is_file() {
            return Err(SinkError::new(format!(
                "there is no program {shown}; install it, or correct `command`"
            )));
        }
        if let Err(error) = rustix::fs::access(program, rustix::fs::Access::EXEC_OK) {
            return Err(SinkError::new(format!(
                "{shown} cannot be run: {error}; give this user the right to execute it"
            )));
        }
        match script::problem(program, &search_path()) {
            Some(problem) => Err(SinkError::new(format!("{shown} cannot be run: {problem}"))),
            None => Ok(format!("{shown} can be run; it was not run")),
        }
    }

    /// What would be run. The arguments are left out, because one may be a secret.
    fn preview(&self, change: &Change, _now: Timestamp) -> Result<Preview, Verdict> {
        let arguments = match self.argv.len() - 1 {
            0 => "no argument".to_owned(),
            1 => "1 argument (hidden)".to_owned(),
            count => format!("{count} arguments (hidden)"),
        };
        let how = format!(
            "run {} with {arguments}, and on its standard input:",
            self.argv[0]
        );
        Ok(Preview::new(how, self.input(change)?))
    }
}

/// Where a program is looked for by its name, as the command gets it.
fn search_path() -> String {
    std::env::var("PATH").unwrap_or_else(|_| DEFAULT_PATH.to_owned())
}

/// What to do about a program that cannot be started; may be empty.
fn start_hint(error: io::ErrorKind) -> &'static str {
    match error {
        io::ErrorKind::NotFound => "; install it, or correct the path",
        io::ErrorKind::PermissionDenied => {
            "; allow this user to execute it, and under systemd name it in ExecPaths="
        }
        io::ErrorKind::WouldBlock => {
            "; raise TasksMax= in the unit, or set `batch`, so that fewer programs run at once"
        }
        _ => "",
    }
}

/// The parts of an argument that may be secret, as in `--token=…`; options and paths are not.
fn secrets_in(argument: &str) -> Vec<String> {
    let mut parts = vec![argument];
    if let Some((_, value)) = argument.split_once('=') {
        parts.push(value);
    }
    parts.retain(|part| may_be_secret(part) && !part.starts_with(['-', '/']));
    parts.into_iter().map(str::to_owned).collect()
}

/// An anonymous file that holds the input. A pipe would end in the middle if this process were
/// killed, and the program would take the part for the whole.
fn anonymous_file(input: &str) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(input.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// Reads standard error to its end; `text` takes the first bytes of it.
async fn read_stderr(stderr: &mut ChildStderr, text: &mut Vec<u8>) {
    let mut chunk = [0; STDERR_BYTES];
    while let Ok(length @ 1..) = stderr.read(&mut chunk).await {
        let room = STDERR_BYTES - text.len();
        text.extend_from_slice(&chunk[..length.min(room)]);
    }
}

fn judge(status: ExitStatus, stderr: &[u8]) -> Result<(), Verdict> {
    let Some(code) = status.code() else {
        let signal = status.signal().unwrap_or_default();
        let reason = with_quote(format!("ended by signal {signal}"), stderr);
        // A service manager that stops the service may send the signal to all of its processes.
        return Err(if ENDING_SIGNALS.contains(&signal) {
            Verdict::fault_with(reason)
        } else {
            Verdict::refused_with(reason)
        });
    };
    let meaning = match code {
        0 => return Ok(()),
        65 => ", refused",
        69 | 75 => ", try again",
        126 | 127 => ", a program it needs cannot be run",
        _ => "",
    };
    let reason = with_quote(format!("ended with {code}{meaning}"), stderr);
    Err(match code {
        65 => Verdict::refused_for_good_with(reason),
        69 | 75 | 126 | 127 => Verdict::fault_with(reason),
        _ => Verdict::refused_with(reason),
    })
}

/// A reason with the first line of standard error that is not blank.
fn with_quote(text: String, stderr: &[u8]) -> Reason {
    let mut quotation = None;
    for line in String::from_utf8_lossy(stderr).lines() {
        let line = line.trim();
        if !line.is_empty() {
            quotation = Some(line.to_owned());
            break;
        }
    }
    Reason { text, quotation }
}

/// The program's process group. It is killed when dropped, unless [`Self::leave`] is called.
struct Group(Option<Pid>);

impl Group {
    fn led_by(child: &Child) -> Self {
        match child.id().map(i32::try_from) {
            Some(Ok(id)) => Self(Pid::from_raw(id)),
            _ => Self(None),
        }
    }

    /// Lets the group live: the program has ended, and its id may belong to another process.
    fn leave(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It fails only if no process of the group is left.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
