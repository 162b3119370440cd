//! `sinks NAME test`: sends one change, marked as a test, or only shows what would be sent.
//!
//! The change is the newest of the log that the sink asked for, or the one that is named. It gets an
//! event id of its own, which begins with `test_`, so that no receiver takes it for the real one.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::unknown;
use crate::cli::check::samples;
use crate::cli::exit::{DATA, ExitError, TRY_AGAIN, UNAVAILABLE, USAGE, refuse};
use crate::cli::{output, runtime};
use crate::config::{Config, SinkKind, SinkSettings};
use crate::deliver::wants;
use crate::file_owner::folder_of;
use crate::record::{Change, Route, TEST_ID};
use crate::sink::{self, Preview, Sink, Verdict};
use crate::store::{Reader, holder};
use crate::sysexits::IO;

/// How many of the latest changes are looked through for one that the sink asked for.
const LOOKED_THROUGH: i64 = 2000;
/// How many are read at once.
const CHUNK: i64 = 200;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The number of a change in the log [default: the newest one that the sink asked for]
    #[arg(long)]
    seq: Option<i64>,
    /// Print what would be sent, and send nothing
    #[arg(long, conflicts_with = "create")]
    dry_run: bool,
    /// Only of an intake sink: create a real record in the other workspace
    #[arg(long)]
    create: bool,
}

pub(super) fn run(
    config: &Config,
    name: &str,
    args: &Args,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let known = || unknown(name, &config.sinks.keys().map(String::as_str).collect::<Vec<_>>());
    let settings = config.sinks.get(name).ok_or_else(known)?;
    if !args.dry_run {
        ensure_sendable(config, name, settings, args.create)?;
    }
    let now = Timestamp::now();
    let change = chosen(config, settings, args.seq, now)?;
    let sink = sink::build_one(name, &settings.kind)?;
    if args.dry_run {
        preview(&*sink, name, &change, now, json)
    } else {
        send(sink, name, change, now, json)
    }
}

/// Refuses what would be taken for a real record, or for a file of the daemon.
fn ensure_sendable(
    config: &Config,
    name: &str,
    settings: &SinkSettings,
    create: bool,
) -> anyhow::Result<()> {
    let refused = match (&settings.kind, create) {
        (SinkKind::Intake(_), false) => Some(format!(
            "the other workspace cannot mark a record as a test, so this would create a real one: see it with \
             `shopmirror sinks {name} test --dry-run`, try the key with `shopmirror check --sink {name}`, or add --create"
        )),
        (SinkKind::Intake(_), true) | (_, false) => None,
        (_, true) => Some(format!(
            "--create is only for sinks of type intake, and {name} has the type {}, which marks what it is given as \
             a test: leave --create out",
            settings.type_name
        )),
    };
    if let Some(text) = refused {
        return refuse(USAGE, text);
    }
    if let SinkKind::File(file) = &settings.kind {
        ensure_own(&file.path)?;
        ensure_free(name, &file.path, &config.store.path)?;
    }
    Ok(())
}

/// Sends one change, marked, and reports what became of it.
fn send(
    mut sink: Box<dyn Sink>,
    name: &str,
    change: Change,
    now: Timestamp,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let change = marked(change, now);
    let event_id = change.event_id.clone();
    let verdict = runtime()?
        .block_on(sink.hand_over(&[change], now, &CancellationToken::new()))
        .pop()
        .unwrap_or(Verdict::NotTried);
    let (code, verdict, reason) = match verdict {
        Verdict::Done => (0, "accepted", None),
        Verdict::Refused { reason, for_good: false } => (DATA, "refused", Some(reason)),
        Verdict::Refused { reason, .. } => (DATA, "refused for good", Some(reason)),
        Verdict::Fault { reason, .. } => (UNAVAILABLE, "fault", Some(reason)),
        Verdict::Gone { reason } => (UNAVAILABLE, "gone", Some(reason)),
        Verdict::NotTried | Verdict::CutShort => {
            (TRY_AGAIN, "not tried", Some("run the command again".to_owned()))
        }
    };
    let because = reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
    output::done(
        json,
        &json!({"sink": name, "event_id": event_id, "verdict": verdict, "reason": reason}),
        &format!("{event_id} {verdict}{because}\n"),
    )?;
    Ok(ExitCode::from(code))
}

/// Shows what would be sent, and sends nothing.
fn preview(
    sink: &dyn Sink,
    name: &str,
    change: &Change,
    now: Timestamp,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let seq = change.seq;
    let Preview { how, headers, body } = match sink.preview(change, now) {
        Ok(preview) => preview,
        Err(Verdict::Refused { reason, .. } | Verdict::Fault { reason, .. }) => {
            return refuse(DATA, format!("change {seq} cannot be sent: {reason}"));
        }
        Err(other) => anyhow::bail!("the change cannot be shown: {other:?}"),
    };
    let head: String = headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    let lines: String = body.lines().map(|line| format!("{line}\n")).collect();
    output::done(
        json,
        &json!({"sink": name, "seq": seq, "how": how, "headers": headers, "body": body}),
        &format!("{how}\n{head}\n{lines}"),
    )
}

/// The change that is named, or the newest that the sink asked for, or one that is made up.
fn chosen(
    config: &Config,
    settings: &SinkSettings,
    seq: Option<i64>,
    now: Timestamp,
) -> anyhow::Result<Change> {
    let reader = match Reader::open(&config.store.path) {
        Ok(reader) => reader,
        // Without a store there is no log yet.
        Err(_) if seq.is_none() && !config.store.path.exists() => {
            return Ok(made_up(settings, now));
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(seq) = seq {
        let mut changes = reader.changes(&[seq])?;
        reader.add_jobs(&mut changes)?;
        return changes.pop().ok_or_else(|| {
            let text = format!("there is no change {seq} in the log: see `shopmirror log`");
            ExitError { code: DATA, text }.into()
        });
    }
    let filter = &settings.filter;
    let last = reader.last_seq()?;
    let mut end = last;
    while end > 0 && end > last - LOOKED_THROUGH {
        let seqs: Vec<i64> = ((end - CHUNK + 1).max(1)..=end).collect();
        let mut changes = reader.changes(&seqs)?;
        changes.sort_by_key(|change| change.seq);
        let wanted = changes.into_iter().rev().find(|change| wants(filter, change));
        if let Some(mut change) = wanted {
            reader.add_jobs(std::slice::from_mut(&mut change))?;
            return Ok(change);
        }
        end -= CHUNK;
    }
    Ok(made_up(settings, now))
}

/// A change of a record that does not exist, for a log that has none.
fn made_up(settings: &SinkSettings, now: Timestamp) -> Change {
    let route = settings.filter.routes.first().copied().unwrap_or(Route::Leads);
    marked(samples::made_up(route, now), now)
}

/// The change under an event id that marks it as a test.
fn marked(change: Change, now: Timestamp) -> Change {
    Change { event_id: format!("{TEST_ID}{}", now.as_nanosecond()), ..change }
}

/// The file of a sink that the daemon writes is locked by it: no other process may write there.
fn ensure_free(name: &str, path: &Path, store: &Path) -> anyhow::Result<()> {
    let is_locked = File::open(path)
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)));
    let Some(daemon) = holder(store).filter(|_| is_locked) else { return Ok(()) };
    refuse(
        TRY_AGAIN,
        format!(
            "the daemon, process {daemon}, writes {}, and no other process may: run `shopmirror check --sink {name}` \
         instead, or stop the daemon for this test",
            path.display()
        ),
    )
}

/// A file that this command would create for another user could not be written by the daemon.
fn ensure_own(path: &Path) -> anyhow::Result<()> {
    let owner = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.uid());
    let me = rustix::process::geteuid().as_raw();
    if path.exists() || owner(folder_of(path)).is_ok_and(|owner| owner == me) {
        return Ok(());
    }
    refuse(
        IO,
        format!(
            "{} does not exist, and the file would belong to the wrong user: run this command as the user of the service",
            path.display()
        ),
    )
}
