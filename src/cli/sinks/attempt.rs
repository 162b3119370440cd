//! `sinks test` and `sinks preview`: one change, sent and marked as a test, or only shown.
//!
//! The change is the newest of the log that the sink asked for, or the one that is named. It gets an
//! event id of its own, which begins with `test_`, so that no receiver takes it for the real one.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

use clap_complete::ArgValueCandidates;
use jiff::Timestamp;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::cli::exit::{DATA, ExitError, TRY_AGAIN, UNAVAILABLE, USAGE};
use crate::cli::{completions, output, runtime};
use crate::clock::stamp;
use crate::config::{Config, SinkKind, SinkSettings};
use crate::deliver::wants;
use crate::file_owner::folder_of;
use crate::record::{Change, Kind, TEST_ID};
use crate::sink::{self, Preview, Verdict};
use crate::store::{Reader, holder};
use crate::sysexits::IO;

/// How many of the latest changes are looked through for one that the sink asked for.
const LOOKED_THROUGH: i64 = 2000;
/// How many are read at once.
const CHUNK: i64 = 200;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The sink's name in the configuration
    #[arg(add = ArgValueCandidates::new(completions::sinks))]
    name: String,
    /// The number of a change in the log [default: the newest one that the sink asked for]
    #[arg(long)]
    seq: Option<i64>,
}

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct TestArgs {
    #[command(flatten)]
    change: Args,
    /// Only of an intake sink: create a real record in the other workspace
    #[arg(long)]
    create: bool,
}

/// What `sinks test --json` prints.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct SinkTestResult {
    /// The sink.
    sink: String,
    /// The event id that was sent; it begins with `test_`.
    event_id: String,
    /// What became of the change.
    verdict: TestVerdict,
    /// Why it was not accepted; null if it was.
    reason: Option<String>,
}

/// What became of a change that was sent as a test.
#[derive(Clone, Copy, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
enum TestVerdict {
    /// The sink accepted it.
    #[serde(rename = "accepted")]
    Accepted,
    /// The sink refused it; a delivery would be tried again.
    #[serde(rename = "refused")]
    Refused,
    /// The sink refused it; a delivery would become a dead letter at once.
    #[serde(rename = "refused for good")]
    RefusedForGood,
    /// The sink cannot be reached or does not work.
    #[serde(rename = "fault")]
    Fault,
    /// The endpoint says that it no longer exists (410).
    #[serde(rename = "gone")]
    Gone,
    /// Nothing was sent.
    #[serde(rename = "not tried")]
    NotTried,
}

impl TestVerdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::RefusedForGood => "refused for good",
            Self::Fault => "fault",
            Self::Gone => "gone",
            Self::NotTried => "not tried",
        }
    }
}

/// What `sinks preview --json` prints.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct SinkPreview {
    /// The sink.
    sink: String,
    /// The number of the change in the log; 0 for a change that was made up.
    seq: i64,
    /// Where the change would be sent, and how, without secret addresses.
    how: String,
    /// The headers as pairs of name and value; secret values are hidden.
    headers: Vec<(String, String)>,
    /// The body, the line or the mail.
    body: String,
}

/// Sends one marked change and reports what became of it.
pub(super) fn test(config: &Config, args: &TestArgs, json: bool) -> anyhow::Result<ExitCode> {
    let TestArgs { change: args, create } = args;
    let settings = settings(config, &args.name)?;
    if matches!(settings.kind, SinkKind::Intake(_)) && !create {
        let text = format!(
            "the other workspace cannot mark a record as a test, so this would create a real one: see it with \
             `shopmirror sinks preview {name}`, try the key with `shopmirror check --sink {name}`, or add --create",
            name = args.name
        );
        return Err(ExitError { code: USAGE, text }.into());
    }
    if *create && !matches!(settings.kind, SinkKind::Intake(_)) {
        let text = format!(
            "--create is only for sinks of type intake, and {name} has the type {kind}, which marks what it is given \
             as a test: leave --create out",
            name = args.name,
            kind = settings.kind.type_name()
        );
        return Err(ExitError { code: USAGE, text }.into());
    }
    if let SinkKind::File(file) = &settings.kind {
        ensure_own(&file.path)?;
        ensure_free(&args.name, &file.path, &config.store.path)?;
    }
    let now = Timestamp::now();
    let change = marked(chosen(config, settings, args.seq, now)?, now);
    let mut sink = sink::build_one(&args.name, &settings.kind)?;
    let given = [change];
    let verdict = runtime()?
        .block_on(sink.hand_over(&given, now, &CancellationToken::new()))
        .pop()
        .unwrap_or(Verdict::NotTried);
    let (code, verdict, reason) = match verdict {
        Verdict::Done => (ExitCode::SUCCESS, TestVerdict::Accepted, String::new()),
        Verdict::Refused { reason, for_good: false } => {
            (ExitCode::from(DATA), TestVerdict::Refused, reason)
        }
        Verdict::Refused { reason, .. } => {
            (ExitCode::from(DATA), TestVerdict::RefusedForGood, reason)
        }
        Verdict::Fault { reason, .. } => (ExitCode::from(UNAVAILABLE), TestVerdict::Fault, reason),
        Verdict::Gone { reason } => (ExitCode::from(UNAVAILABLE), TestVerdict::Gone, reason),
        Verdict::NotTried | Verdict::CutShort => {
            let advice = "run the command again".to_owned();
            (ExitCode::from(TRY_AGAIN), TestVerdict::NotTried, advice)
        }
    };
    let [change] = given;
    if json {
        output::json(&SinkTestResult {
            sink: args.name.clone(),
            event_id: change.event_id,
            verdict,
            reason: (!reason.is_empty()).then_some(reason),
        })?;
        return Ok(code);
    }
    let colon = if reason.is_empty() { "" } else { ": " };
    let line = format!("{}{colon}{reason}", verdict.as_str());
    output::text(&format!("{} {}\n", change.event_id, output::plain(&line)))?;
    Ok(code)
}

/// Shows what would be sent, and sends nothing.
pub(super) fn preview(config: &Config, args: &Args, json: bool) -> anyhow::Result<ExitCode> {
    let settings = settings(config, &args.name)?;
    let now = Timestamp::now();
    let change = chosen(config, settings, args.seq, now)?;
    let sink = sink::build_one(&args.name, &settings.kind)?;
    // A sink that was built inside the runtime may need it to be dropped.
    let Preview { how, headers, body } = match sink.preview(&change, now) {
        Ok(preview) => preview,
        Err(Verdict::Refused { reason, .. } | Verdict::Fault { reason, .. }) => {
            let text = format!("change {} cannot be sent: {reason}", change.seq);
            return Err(ExitError { code: DATA, text }.into());
        }
        Err(other) => anyhow::bail!("the change cannot be shown: {other:?}"),
    };
    if json {
        let (sink, seq) = (args.name.clone(), change.seq);
        return output::json(&SinkPreview { sink, seq, how, headers, body });
    }
    let mut text = format!("{}\n", output::plain(&how));
    for (name, value) in headers {
        text.push_str(&format!("{name}: {}\n", output::plain(&value)));
    }
    text.push('\n');
    for line in body.lines() {
        text.push_str(&format!("{}\n", output::plain(line)));
    }
    output::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn settings<'c>(config: &'c Config, name: &str) -> anyhow::Result<&'c SinkSettings> {
    config.sinks.get(name).ok_or_else(|| {
        let names: Vec<&str> = config.sinks.keys().map(String::as_str).collect();
        let text = match names.as_slice() {
            [] => format!("there is no sink {name:?}: the configuration has no sinks"),
            names => format!("there is no sink {name:?}; the sinks are: {}", names.join(", ")),
        };
        ExitError { code: USAGE, text }.into()
    })
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
    let filter = &settings.filter;
    let route = filter.routes.first().copied().unwrap_or(crate::record::Route::Leads);
    let time = stamp(now);
    let body = json!({
        "id": "test", "name": "Test of shopmirror", "customer_name": "Test of shopmirror",
        "status": "Test", "status_stage": "open", "created_at": time, "amount": 1,
        "email": "test@example.com", "mobile_number": "5550100", "device_brand": "Test",
    });
    Change {
        seq: 0,
        event_id: format!("{TEST_ID}{}", now.as_nanosecond()),
        route,
        record_id: Some("test".to_owned()),
        kind: Kind::Created,
        version: 1,
        observed_at: time,
        business: None,
        body: body.to_string(),
        before: None,
        job: None,
    }
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
    let text = format!(
        "the daemon, process {daemon}, writes {}, and no other process may: run `shopmirror check --sink {name}` \
         instead, or stop the daemon for this test",
        path.display()
    );
    Err(ExitError { code: TRY_AGAIN, text }.into())
}

/// A file that this command would create for another user could not be written by the daemon.
fn ensure_own(path: &Path) -> anyhow::Result<()> {
    let owner = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.uid());
    let me = rustix::process::geteuid().as_raw();
    if path.exists() || owner(folder_of(path)).is_ok_and(|owner| owner == me) {
        return Ok(());
    }
    let text = format!(
        "{} does not exist, and the file would belong to the wrong user: run this command as the user of the service",
        path.display()
    );
    Err(ExitError { code: IO, text }.into())
}
