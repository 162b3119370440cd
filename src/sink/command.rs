//! A program that is run for one change or for a batch of them, with the changes on its standard
//! input.
//!
//! There is no shell, no inherited environment and no data in an argument. Exit 0 acknowledges the
//! changes; 65 refuses them for good. The sink pauses on 75 and 69 (try again, unavailable), 126,
//! 127, a signal that tells the program to end, a program that cannot be started, and a batch that
//! takes too long: its changes are then given one by one. Any other code or signal, and one change
//! that takes too long, refuse the changes.

use std::ffi::OsString;
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
use super::{Sink, Verdict};
use crate::config::CommandSettings;
use crate::shape::Format;
use crate::text::duration;

/// The variables that a program gets. The environment of this process may hold a key.
const ENVIRONMENT: [&str; 5] = ["PATH", "HOME", "LANG", "LC_ALL", "TZ"];
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How much of standard error is kept.
const STDERR_BYTES: usize = 1024;

/// Signals that ask a program to end; they say nothing about the change.
const TOLD_TO_END: [i32; 3] = [
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
        let CommandSettings {
            argv,
            format,
            batch,
            timeout,
        } = settings.clone();
        let secrets = Secrets::new(argv.iter().skip(1).flat_map(|text| secrets_in(text)));
        Self {
            argv,
            secrets,
            format,
            batch,
            timeout,
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
        let kept = ENVIRONMENT
            .into_iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?)));
        tokio::process::Command::new(&self.argv[0])
            .args(&self.argv[1..])
            .env_clear()
            .env("PATH", OsString::from(DEFAULT_PATH))
            .envs(kept)
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
        let file = whole(&input).map_err(|error| {
            Verdict::fault(format!(
                "making the input of {program}: {error}; free some space"
            ))
        })?;
        // While the program runs, the file alone holds it.
        drop(input);
        let mut child = self.spawn(file).map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => "; install it, or correct the path",
                io::ErrorKind::PermissionDenied => {
                    "; allow this user to execute it, and under systemd name it in ExecPaths="
                }
                io::ErrorKind::WouldBlock => {
                    "; raise TasksMax= in the unit, or set `batch`, so that fewer programs run at once"
                }
                _ => "",
            };
            Verdict::fault(format!("starting {program}: {error}{hint}"))
        })?;
        let group = Group::of(&child);
        let mut stderr = child.stderr.take().expect("it is a pipe");
        let mut said = Vec::new();
        let listening = async {
            read_stderr(&mut stderr, &mut said).await;
            std::future::pending().await
        };
        let status = tokio::select! {
            biased;
            status = child.wait() => status,
            never = listening => never,
            () = tokio::time::sleep(self.timeout) => {
                let limit = duration::exact(self.timeout);
                let reason = format!("killed after its time-out of {limit}{}", quote(&said));
                let is_of_one = changes.len() == 1;
                return Err(if is_of_one { Verdict::refused(reason) } else { Verdict::fault(reason) });
            }
        };
        let status =
            status.map_err(|error| Verdict::fault(format!("waiting for {program}: {error}")))?;
        group.leave();
        let rest = read_stderr(&mut stderr, &mut said);
        let _ = tokio::time::timeout(STDERR_GRACE, rest).await;
        judge(status, &said)
    }

    /// Checks that the program can be run, without running it.
    async fn probe(&self) -> Result<String, String> {
        let program = Path::new(&self.argv[0]);
        let shown = program.display();
        if !program.is_file() {
            return Err(format!(
                "there is no program {shown}; install it, or correct `command`"
            ));
        }
        match rustix::fs::access(program, rustix::fs::Access::EXEC_OK) {
            Ok(()) => Ok(format!("{shown} can be run; it was not run")),
            Err(error) => Err(format!(
                "{shown} cannot be run: {error}; give this user the right to execute it"
            )),
        }
    }

    /// What would be run. The arguments are left out, because one may be a secret.
    fn preview(&self, change: &Change, _now: Timestamp) -> Result<Preview, Verdict> {
        let arguments = match self.argv.len() - 1 {
            0 => "no argument".to_owned(),
            1 => "1 argument (hidden)".to_owned(),
            many => format!("{many} arguments (hidden)"),
        };
        let how = format!(
            "run {} with {arguments}, and on its standard input:",
            self.argv[0]
        );
        Ok(Preview::of(how, self.input(change)?))
    }
}

/// What may be secret of an argument, as `--token=…` has it; options and paths are not.
fn secrets_in(argument: &str) -> impl Iterator<Item = String> {
    let value = argument.split_once('=').map(|(_, value)| value);
    let parts = [Some(argument), value].into_iter().flatten();
    let may_be = |part: &&str| may_be_secret(part) && !part.starts_with(['-', '/']);
    parts.filter(may_be).map(str::to_owned)
}

/// A file with this text and without a name. A pipe would end in the middle if this process were
/// killed, and the program would take the part for the whole.
fn whole(input: &str) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(input.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// Reads standard error to its end, and keeps the first bytes of it.
async fn read_stderr(stderr: &mut ChildStderr, said: &mut Vec<u8>) {
    let mut chunk = [0; STDERR_BYTES];
    while let Ok(length @ 1..) = stderr.read(&mut chunk).await {
        let room = STDERR_BYTES - said.len();
        said.extend_from_slice(&chunk[..length.min(room)]);
    }
}

fn judge(status: ExitStatus, said: &[u8]) -> Result<(), Verdict> {
    let said = quote(said);
    Err(match (status.code(), status.signal().unwrap_or_default()) {
        (Some(0), _) => return Ok(()),
        (Some(65), _) => Verdict::refused_for_good(format!("ended with 65, refused{said}")),
        (Some(code @ (69 | 75)), _) => {
            Verdict::fault(format!("ended with {code}, try again{said}"))
        }
        (Some(code @ (126 | 127)), _) => Verdict::fault(format!(
            "ended with {code}, a program it needs cannot be run{said}"
        )),
        (Some(code), _) => Verdict::refused(format!("ended with {code}{said}")),
        // A service manager that stops the service may send the signal to all of its processes.
        (None, signal) if TOLD_TO_END.contains(&signal) => {
            Verdict::fault(format!("ended by signal {signal}{said}"))
        }
        (None, signal) => Verdict::refused(format!("ended by signal {signal}{said}")),
    })
}

/// The first line that is not blank, as the end of a reason.
fn quote(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    match text.lines().map(str::trim).find(|line| !line.is_empty()) {
        Some(line) => format!(": {line}"),
        None => String::new(),
    }
}

/// The program's process group. It is killed when dropped, unless the program ended by itself.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(
            child
                .id()
                .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)),
        )
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
