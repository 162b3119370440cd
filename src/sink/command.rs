//! A program that is run for one change or for a batch of them, with the changes on its standard input.
//!
//! There is no shell, no inherited environment and no data in an argument. Exit 0 acknowledges the
//! changes; 65 refuses them for good. The sink pauses on 75 and 69 (try again, unavailable), 126, 127,
//! a signal that tells the program to end, and a program that cannot be started. Any other code or
//! signal and a time-out refuse the changes. What is refused together is handed over again in halves,
//! until a change that is refused stands alone: it does not hold up the others.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr};
use tokio_util::sync::CancellationToken;

use super::preview::Preview;
use super::reason::{Secrets, may_be_secret};
use super::{Sink, Verdict};
use crate::config::CommandSettings;
use crate::duration;
use crate::record::Change;
use crate::shape::Format;

/// The variables that a program gets. The environment of this process may hold a key.
const ENVIRONMENT: [&str; 5] = ["PATH", "HOME", "LANG", "LC_ALL", "TZ"];
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How much of standard error is kept.
const STDERR_BYTES: usize = 1024;

/// Signals that ask a program to end; they say nothing about the change.
const TOLD_TO_END: [i32; 3] = [Signal::HUP.as_raw(), Signal::INT.as_raw(), Signal::TERM.as_raw()];

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
        let CommandSettings { argv, format, batch, timeout } = settings.clone();
        let secrets = Secrets::new(argv.iter().skip(1).flat_map(|text| secrets_in(text)));
        Self { argv, secrets, format, batch, timeout }
    }

    /// What the program gets for one change, without the end of the line.
    fn input(&self, change: &Change) -> Result<String, Verdict> {
        let shaped = match &self.format {
            Format::Template { .. } => self.format.shape(change).map(|shaped| shaped.body),
            _ => self.format.line(change),
        };
        shaped.map_err(Verdict::refused)
    }

    /// Runs the program with this on its standard input. While it runs, the file alone holds the input.
    async fn run(&self, input: String, stop: &CancellationToken) -> Run {
        let file = whole(&input);
        drop(input);
        let input = match file {
            Ok(input) => input,
            Err(error) => {
                let program = &self.argv[0];
                return Run::ended(Verdict::fault(format!(
                    "making the input of {program}: {error}"
                )));
            }
        };
        let mut child = match self.spawn(input) {
            Ok(child) => child,
            Err(error) => {
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
                return Run::ended(Verdict::fault(format!(
                    "starting {}: {error}{hint}",
                    self.argv[0]
                )));
            }
        };
        let group = Group::of(&child);
        let mut said = Vec::new();
        let ended = {
            let run = pin!(wait_with_stderr(&mut child, &mut said));
            tokio::select! {
                biased;
                ended = run => Some(ended),
                () = stop.cancelled() => None,
                () = tokio::time::sleep(self.timeout) => {
                    Some(Err(NoStatus::TimedOut))
                }
            }
        };
        match ended {
            Some(Ok((status, mut stderr))) => {
                group.leave();
                let rest = async { while read_stderr(&mut stderr, &mut said).await {} };
                let _ = tokio::time::timeout(STDERR_GRACE, rest).await;
                Run::ended(judge(status, &said))
            }
            Some(Err(NoStatus::TimedOut)) => {
                group.kill(&mut child).await;
                let limit = duration::exact(self.timeout);
                let reason = format!("killed after its time-out of {limit}{}", quote(&said));
                Run { verdict: Verdict::refused(reason), timed_out: true }
            }
            Some(Err(NoStatus::Unknown(error))) => {
                group.kill(&mut child).await;
                Run::ended(Verdict::fault(format!("waiting for {}: {error}", self.argv[0])))
            }
            None => {
                group.kill(&mut child).await;
                Run::ended(Verdict::CutShort)
            }
        }
    }

    fn spawn(&self, input: File) -> io::Result<Child> {
        let kept = ENVIRONMENT.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
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

    async fn deliver(
        &mut self,
        changes: &[Change],
        _now: Timestamp,
        stop: &CancellationToken,
    ) -> Vec<Verdict> {
        let mut verdicts = vec![Verdict::NotTried; changes.len()];
        let mut lines = vec![String::new(); changes.len()];
        for (index, change) in changes.iter().enumerate() {
            match self.input(change) {
                Ok(line) => lines[index] = line + "\n",
                Err(verdict) => verdicts[index] = verdict,
            }
        }
        let mut time_outs = 0;
        // The next part last.
        let starts = (0..changes.len()).step_by(self.batch).rev();
        let mut parts: Vec<(usize, usize)> =
            starts.map(|start| (start, changes.len().min(start + self.batch))).collect();
        while let Some((start, end)) = parts.pop() {
            let input = lines[start..end].concat();
            if input.is_empty() {
                continue;
            }
            let Run { verdict, timed_out } = self.run(input, stop).await;
            time_outs += u32::from(timed_out);
            let verdict = match verdict {
                Verdict::Refused { reason, .. }
                    if timed_out && time_outs > most_time_outs(changes.len().min(self.batch)) =>
                {
                    Verdict::fault(format!("{reason}, for several changes in turn"))
                }
                Verdict::Refused { .. } if end - start > 1 => {
                    let middle = start + (end - start) / 2;
                    parts.extend([(middle, end), (start, middle)]);
                    continue;
                }
                verdict => verdict,
            };
            let open = verdicts[start..end].iter_mut().filter(|one| **one == Verdict::NotTried);
            open.for_each(|one| *one = verdict.clone());
            if matches!(verdict, Verdict::Fault { .. } | Verdict::CutShort) {
                break;
            }
        }
        verdicts
    }

    /// Checks that the program can be run, without running it.
    async fn probe(&self) -> Result<String, String> {
        let program = Path::new(&self.argv[0]);
        match program.metadata() {
            Err(error) => Err(format!(
                "the program {} cannot be found: {error}; install it, or correct `command`",
                program.display()
            )),
            Ok(metadata) if !metadata.is_file() => {
                Err(format!("{} is not a program; correct `command`", program.display()))
            }
            Ok(_) => match rustix::fs::access(program, rustix::fs::Access::EXEC_OK) {
                Ok(()) => Ok(format!("{} can be run; it was not run", program.display())),
                Err(error) => Err(format!(
                    "{} cannot be run: {error}; give this user the right to execute it",
                    program.display()
                )),
            },
        }
    }

    /// What would be run. The arguments are left out, because one may be a secret.
    fn preview(&self, change: &Change, _now: Timestamp) -> Result<Preview, Verdict> {
        let arguments = match self.argv.len() - 1 {
            0 => "no argument".to_owned(),
            1 => "1 argument (hidden)".to_owned(),
            many => format!("{many} arguments (hidden)"),
        };
        let how = format!("run {} with {arguments}, and on its standard input:", self.argv[0]);
        Ok(Preview::of(how, self.input(change)?))
    }
}

/// One change that hangs causes one time-out for each halving of the batch, and one for itself.
fn most_time_outs(changes: usize) -> u32 {
    changes.next_power_of_two().ilog2() + 1
}

/// What may be secret of an argument, as `--token=…` has it; options and paths are not.
fn secrets_in(argument: &str) -> impl Iterator<Item = String> {
    let value = argument.split_once('=').map(|(_, value)| value);
    let parts = [Some(argument), value].into_iter().flatten();
    let may_be = |part: &&str| may_be_secret(part) && !part.starts_with(['-', '/']);
    parts.filter(may_be).map(str::to_owned)
}

/// What one run of the program came to.
struct Run {
    verdict: Verdict,
    /// It was killed because it took too long.
    timed_out: bool,
}

impl Run {
    fn ended(verdict: Verdict) -> Self {
        Self { verdict, timed_out: false }
    }
}

/// Why a run has no exit status.
enum NoStatus {
    TimedOut,
    Unknown(io::Error),
}

/// A file in memory with this text. A pipe would end in the middle if this process were killed, and
/// the program would take the part for the whole.
fn whole(input: &str) -> io::Result<File> {
    let name = "shopmirror-change";
    // A kernel before 6.3 does not know the second flag, and a hardened one wants it.
    let file = match memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => memfd_create(name, MemfdFlags::CLOEXEC)?,
        made => made?,
    };
    let mut file = File::from(file);
    file.write_all(input.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// Reads the program's standard error until it ends; the last output may be left.
async fn wait_with_stderr(
    child: &mut Child,
    said: &mut Vec<u8>,
) -> Result<(ExitStatus, Option<ChildStderr>), NoStatus> {
    let mut stderr = child.stderr.take();
    let status = loop {
        tokio::select! {
            status = child.wait() => break status.map_err(NoStatus::Unknown)?,
            open = read_stderr(&mut stderr, said), if stderr.is_some() => if !open { stderr = None },
        }
    };
    Ok((status, stderr))
}

/// Reads once, keeps the first bytes of all and drops the others; false at the end.
async fn read_stderr(stderr: &mut Option<ChildStderr>, said: &mut Vec<u8>) -> bool {
    let Some(stderr) = stderr else { return false };
    let mut chunk = [0; STDERR_BYTES];
    match stderr.read(&mut chunk).await {
        Ok(0) | Err(_) => false,
        Ok(length) => {
            let room = STDERR_BYTES - said.len();
            said.extend_from_slice(&chunk[..length.min(room)]);
            true
        }
    }
}

fn judge(status: ExitStatus, said: &[u8]) -> Verdict {
    let said = quote(said);
    match (status.code(), status.signal()) {
        (Some(0), _) => Verdict::Done,
        (Some(65), _) => Verdict::refused_for_good(format!("ended with 65, refused{said}")),
        (Some(code @ (69 | 75)), _) => {
            Verdict::fault(format!("ended with {code}, try again{said}"))
        }
        (Some(code @ (126 | 127)), _) => {
            Verdict::fault(format!("ended with {code}, a program it needs cannot be run{said}"))
        }
        (Some(code), _) => Verdict::refused(format!("ended with {code}{said}")),
        // A service manager that stops the service may send the signal to all of its processes.
        (None, Some(signal)) if TOLD_TO_END.contains(&signal) => {
            Verdict::fault(format!("ended by signal {signal}{said}"))
        }
        (None, Some(signal)) => Verdict::refused(format!("ended by signal {signal}{said}")),
        (None, None) => Verdict::refused(format!("ended without a code{said}")),
    }
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
        Self(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)))
    }

    /// Lets the group live: the program has ended, and its id may belong to another process.
    fn leave(mut self) {
        self.0 = None;
    }

    async fn kill(self, child: &mut Child) {
        drop(self);
        // After SIGKILL this wait is short. It removes the ended process.
        let _ = child.wait().await;
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
