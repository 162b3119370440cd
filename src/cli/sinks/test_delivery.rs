//! `sinks NAME test`: sends one change, marked as a test, or only shows it.
//!
//! The change is the newest of the records that the sink asks for, or that of a chosen record. It
//! gets an event id of its own, which begins with `test_`, so that no receiver takes it for the real
//! one.

use std::process::ExitCode;

use jiff::Timestamp;
use serde_json::json;
use shopmirror_core::record::{Change, Kind, Route, TEST_ID};
use tokio_util::sync::CancellationToken;

use super::unknown;
use crate::cli::check::{reports, samples};
use crate::cli::exit::{DATA, TRY_AGAIN, UNAVAILABLE, USAGE, refuse};
use crate::cli::output::{self, Output};
use crate::cli::runtime;
use crate::config::{Config, SinkKind};
use crate::deliver::wants;
use crate::report;
use crate::sink::{self, Preview, Sink, Verdict};
use crate::store::Reader;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Take a record of this route, also if the sink does not ask for it
    #[arg(requires = "id", value_parser = crate::cli::route())]
    route: Option<Route>,
    /// The id of the record
    id: Option<String>,
    /// Send this scheduled report, as it would be made now, also if it has no reason
    #[arg(long, value_name = "SCHEDULE", conflicts_with = "route")]
    report: Option<String>,
    /// Print what would be sent, and send nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(
    config: &Config,
    name: &str,
    args: &Args,
    out: Output,
) -> anyhow::Result<ExitCode> {
    let Some(settings) = config.sinks.get(name) else {
        let names: Vec<&str> = config.sinks.keys().map(String::as_str).collect();
        return Err(unknown(name, &names));
    };
    if !args.dry_run && matches!(settings.kind, SinkKind::Intake(_)) {
        let text = format!(
            "the other workspace cannot mark a record as a test, so this would create a real one: \
             see it with `shopmirror sinks {name} test --dry-run`, and try the key with \
             `shopmirror check --sink {name}`"
        );
        return refuse(USAGE, text);
    }
    let now = Timestamp::now();
    // Without a store there is no record yet.
    let reader = Reader::open(&config.store.path).ok();
    let change = match (args.route, &args.id, &args.report) {
        (_, _, Some(schedule)) => scheduled(config, schedule, now)?,
        (Some(route), Some(id), None) => chosen(config, route, id)?,
        _ => samples::newest_of(reader.as_ref(), &settings.filter.routes, now),
    };
    if args.route.is_some() && !wants(&settings.filter, &change) {
        output::print_note(&format!(
            "sink {name} does not ask for this change: its filter leaves it out"
        ));
    }
    let sink = sink::build_one(name, &settings.kind)?;
    if args.dry_run {
        preview(&*sink, name, &change, now, out)
    } else {
        send(sink, name, change, now, out)
    }
}

/// The newest change of a record.
fn chosen(config: &Config, route: Route, id: &str) -> anyhow::Result<Change> {
    let reader = Reader::open(&config.store.path)?;
    let mut changes = reader.history(route, id)?.changes;
    reader.add_jobs(&mut changes)?;
    match changes.pop() {
        Some(change) if change.kind != Kind::Forgotten => Ok(change),
        _ => refuse(
            DATA,
            format!("the mirror has no {route} {id}: see `shopmirror find`"),
        ),
    }
}

/// A scheduled report as it would be made now.
fn scheduled(config: &Config, schedule: &str, now: Timestamp) -> anyhow::Result<Change> {
    let schedules = &config.reports.schedule;
    let Some(settings) = schedules.get(schedule) else {
        let names: Vec<&str> = schedules.keys().map(String::as_str).collect();
        let text = format!(
            "there is no [reports.schedule.{schedule}]; the scheduled reports are: {}",
            names.join(", ")
        );
        return refuse(USAGE, text);
    };
    let answer = reports::made(config, settings, now)?;
    if let Some(only_if) = &settings.only_if
        && !report::has_reason(only_if, &answer)?
    {
        output::print_note("at its time it would not be sent now: it has no reason (`only_if`)");
    }
    let csv_form = report::CsvForm::DATA.with_notes(settings.notes);
    let body = report::notice_body(schedule, &answer, settings.format, csv_form)?;
    Ok(samples::change(Kind::Report, schedule, body, now))
}

/// Sends one change, marked as a test, and reports the outcome.
fn send(
    mut sink: Box<dyn Sink>,
    name: &str,
    change: Change,
    now: Timestamp,
    out: Output,
) -> anyhow::Result<ExitCode> {
    let event_id = format!("{TEST_ID}{}", now.as_nanosecond());
    let change = Change {
        event_id: event_id.clone(),
        ..change
    };
    let stop = CancellationToken::new();
    let mut verdicts = runtime()?.block_on(sink.send(&[change], now, &stop));
    let verdict = verdicts.pop().unwrap_or(Verdict::NotTried);
    let (code, verdict, reason) = match verdict {
        Verdict::Done => (0, "accepted", None),
        Verdict::Refused {
            reason,
            for_good: false,
        } => (DATA, "refused", Some(reason)),
        Verdict::Refused { reason, .. } => (DATA, "refused for good", Some(reason)),
        Verdict::Fault { reason, .. } => (UNAVAILABLE, "fault", Some(reason)),
        Verdict::Gone { reason } => (UNAVAILABLE, "gone", Some(reason)),
        Verdict::NotTried | Verdict::CutShort => {
            (TRY_AGAIN, "not tried", Some("run the command again".into()))
        }
    };
    let text = match &reason {
        Some(reason) => format!("{event_id} {verdict}: {}\n", reason.with_quotation()),
        None => format!("{event_id} {verdict}\n"),
    };
    out.done(
        &json!({
            "sink": name, "event_id": event_id, "verdict": verdict,
            "reason": reason.as_ref().map(|reason| &reason.text),
            "quotation": reason.as_ref().and_then(|reason| reason.quotation.as_ref()),
        }),
        &text,
    )?;
    Ok(ExitCode::from(code))
}

/// Shows the change as it would be sent, and sends nothing.
fn preview(
    sink: &dyn Sink,
    name: &str,
    change: &Change,
    now: Timestamp,
    out: Output,
) -> anyhow::Result<ExitCode> {
    let seq = change.seq;
    let Preview { how, headers, body } = match sink.preview(change, now) {
        Ok(preview) => preview,
        Err(Verdict::Refused { reason, .. } | Verdict::Fault { reason, .. }) => {
            let reason = reason.with_quotation();
            return refuse(DATA, format!("change {seq} cannot be sent: {reason}"));
        }
        Err(other) => anyhow::bail!("the change cannot be shown: {other:?}"),
    };
    let mut text = format!("{how}\n");
    for (name, value) in &headers {
        text += &format!("{name}: {value}\n");
    }
    text.push('\n');
    for line in body.lines() {
        text += &format!("{line}\n");
    }
    out.done(
        &json!({"sink": name, "seq": seq, "how": how, "headers": headers, "body": body}),
        &text,
    )
}
