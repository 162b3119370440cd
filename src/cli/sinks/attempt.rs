//! `sinks NAME test`: sends one change, marked as a test, or only shows what would be sent.
//!
//! The change is the newest of the records that the sink asks for, or the one that is named. It gets an
//! event id of its own, which begins with `test_`, so that no receiver takes it for the real one.

use std::process::ExitCode;

use jiff::Timestamp;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::unknown;
use crate::cli::check::samples;
use crate::cli::exit::{self, DATA, TRY_AGAIN, UNAVAILABLE, USAGE, refuse};
use crate::cli::{output, runtime};
use crate::config::{Config, SinkKind, SinkSettings};
use crate::record::{Change, TEST_ID};
use crate::sink::{self, Preview, Sink, Verdict};
use crate::store::Reader;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The number of a change in the log [default: that of the newest record of the sink's routes]
    #[arg(long)]
    seq: Option<i64>,
    /// Print what would be sent, and send nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(
    config: &Config,
    name: &str,
    args: &Args,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let known = || unknown(name, &config.sinks.keys().map(String::as_str).collect::<Vec<_>>());
    let settings = config.sinks.get(name).ok_or_else(known)?;
    if !args.dry_run && matches!(settings.kind, SinkKind::Intake(_)) {
        let text = format!(
            "the other workspace cannot mark a record as a test, so this would create a real one: see it with \
             `shopmirror sinks {name} test --dry-run`, and try the key with `shopmirror check --sink {name}`"
        );
        return refuse(USAGE, text);
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

/// The change that is named, or that of the newest record, or one that is made up.
fn chosen(
    config: &Config,
    settings: &SinkSettings,
    seq: Option<i64>,
    now: Timestamp,
) -> anyhow::Result<Change> {
    let routes = &settings.filter.routes;
    let reader = match Reader::open(&config.store.path) {
        Ok(reader) => reader,
        // Without a store there is no log yet.
        Err(_) if seq.is_none() && !config.store.path.exists() => {
            return Ok(samples::newest_of(None, routes, now));
        }
        Err(error) => return Err(error.into()),
    };
    let Some(seq) = seq else { return Ok(samples::newest_of(Some(&reader), routes, now)) };
    let mut changes = reader.changes(&[seq])?;
    reader.add_jobs(&mut changes)?;
    let absent = || format!("there is no change {seq} in the log: see `shopmirror log`");
    changes.pop().ok_or_else(|| exit::error(DATA, absent()))
}

/// The change under an event id that marks it as a test.
fn marked(change: Change, now: Timestamp) -> Change {
    Change { event_id: format!("{TEST_ID}{}", now.as_nanosecond()), ..change }
}
