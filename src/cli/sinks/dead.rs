//! `sinks NAME dead`, `redrive` and `drop`: lists the changes that a sink has refused, sends them
//! again, or drops them.

use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;
use shopmirror_core::record::Change;

use super::{Outcome, StoredSink};
use crate::cli::exit::{self, DATA, refuse};
use crate::cli::moment;
use crate::cli::output::{self, Output, cell};
use crate::deliver::{Resend, Resent, resend};
use crate::store::{QueueRow, RowState, SinkState};

/// The most changes that are listed in each state.
const LISTED_MAX: usize = 10_000;

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct Selection {
    /// The numbers of refused changes in the log
    #[arg(value_name = "SEQ")]
    seqs: Vec<i64>,
    /// Everything that the sink has refused, alerts and reports too
    #[arg(long)]
    all: bool,
}

impl Selection {
    /// The changes that are chosen by their numbers, each of which the sink must have refused.
    fn named(&self, sink: &StoredSink<'_>) -> anyhow::Result<Vec<QueueRow>> {
        let mut rows = Vec::new();
        for &seq in &self.seqs {
            match sink.reader.exception(sink.name(), seq)? {
                Some(row) => rows.push(row),
                None => return Err(not_refused(sink, seq)),
            }
        }
        Ok(rows)
    }

    /// Each chosen change, or `None` for all of them.
    fn choices(&self) -> Vec<Option<i64>> {
        if self.all {
            vec![None]
        } else {
            self.seqs.iter().copied().map(Some).collect()
        }
    }
}

fn not_refused(sink: &StoredSink<'_>, seq: i64) -> anyhow::Error {
    let text = format!(
        "change {seq} is not one that this sink has refused: see `shopmirror sinks {} dead`",
        sink.name()
    );
    exit::error(DATA, text)
}

/// Makes refused changes due again, and wakes the daemon.
pub(super) fn redrive(
    sink: &StoredSink<'_>,
    which: &Selection,
    all_versions: bool,
) -> anyhow::Result<Outcome> {
    which.named(sink)?;
    let mut operator = sink.operator()?;
    let settings = sink.config.sinks.get(sink.name());
    let filter = settings.map(|settings| &settings.filter);
    let mut sent = 0;
    let mut superseded = 0;
    for seq in which.choices() {
        let request = Resend {
            filter,
            seq,
            all_versions,
        };
        let resent: Resent = resend(&mut operator, &sink.reader, &sink.row, &request)?;
        sent += resent.changes;
        superseded += resent.superseded;
    }
    let notices = if which.all {
        operator.revive_notices(sink.name())?
    } else {
        0
    };
    // Without a daemon they are sent when it starts.
    let is_woken = sink.wake()?;
    let when = match sink.row.state {
        SinkState::Disabled => "after its url is corrected and the daemon has reloaded",
        SinkState::Removed => "after the sink is in the configuration again",
        SinkState::Active if is_woken => "now",
        SinkState::Active => "when the daemon runs",
    };
    let mut text = format!("{} will be sent again {when}", things(sent, notices));
    if superseded > 0 {
        text.push_str(&format!(
            "; {} skipped, because the sink has a newer version of the record: add --all-versions \
             to send them too",
            things(superseded, 0)
        ));
    }
    let left = sink.reader.sink(sink.name())?.map_or(0, |row| row.dead);
    let left = left - i64::try_from(superseded).unwrap_or(i64::MAX);
    if which.all && left > 0 {
        text.push_str(&format!(
            "; {left} more are left: run this again after these are sent"
        ));
    }
    Ok((
        json!({"changes": sent, "notices": notices, "superseded": superseded}),
        text,
    ))
}

/// Drops what the sink refused for good.
pub(super) fn drop(sink: &StoredSink<'_>, which: &Selection) -> anyhow::Result<Outcome> {
    for row in which.named(sink)? {
        if row.state != RowState::Dead {
            let text = format!(
                "change {} is still tried again: it can be dropped after the last attempt, when \
                 it is dead",
                row.seq
            );
            return refuse(DATA, text);
        }
    }
    let mut operator = sink.operator()?;
    let mut dropped = 0;
    for seq in which.choices() {
        dropped += operator.drop_dead(sink.name(), seq)?;
    }
    let notices = if which.all {
        operator.drop_notices(sink.name())?
    } else {
        0
    };
    sink.wake()?;
    let text = format!(
        "{} dropped; the log keeps the changes",
        things(dropped, notices)
    );
    Ok((json!({"changes": dropped, "notices": notices}), text))
}

/// A number of changes, and of alerts and reports if there are any.
fn things(changes: usize, notices: usize) -> String {
    let changes = output::count(changes, "change", "changes");
    if notices == 0 {
        return changes;
    }
    let notices = output::count(notices, "alert or report", "alerts and reports");
    format!("{changes} and {notices}")
}

pub(super) fn list(sink: &StoredSink<'_>, out: Output) -> anyhow::Result<ExitCode> {
    let states = [RowState::Dead, RowState::Retrying, RowState::Waiting];
    let refused = sink.reader.exceptions(sink.name(), &states, LISTED_MAX)?;
    let dead_rows = refused.iter().filter(|row| row.state == RowState::Dead);
    let dead = dead_rows.count();
    if dead == LISTED_MAX {
        output::print_note(&format!(
            "only the oldest {LISTED_MAX} of {} are listed",
            sink.row.dead
        ));
    }
    out.table(
        &refused,
        &[
            ("seq", |row| row.seq.to_string()),
            ("route", |row| row.route.clone()),
            ("record", |row| cell(&row.record_id, 24)),
            ("state", |row| row.state.as_str().to_owned()),
            ("attempts", |row| row.attempts.to_string()),
            ("next try", |row| {
                moment::shown(row.due_at.as_deref().unwrap_or("-"))
            }),
            ("last error", |row| {
                cell(row.last_error.as_deref().unwrap_or("-"), 80)
            }),
            ("response", |row| {
                cell(row.last_error_quotation.as_deref().unwrap_or("-"), 80)
            }),
            ("since", |row| moment::shown(&row.since)),
        ],
        "no refused changes",
    )?;
    let notices = sink.reader.notice_counts(sink.name())?;
    if notices.refused > 0 {
        let name = sink.name();
        let refused = notices.refused;
        let why = notices.refused_error.as_deref();
        let why = why.unwrap_or("no reason is known");
        // A note, because the JSON lists changes only.
        output::print_note(&format!(
            "the sink also refused {refused} of its alerts or reports for good: {why}; send them \
             again with `shopmirror sinks {name} redrive --all`, or drop them and every refused \
             change with `shopmirror sinks {name} drop --all`"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// A refused change as JSON: a struct, because `json!` would lose digits of numbers.
#[derive(Serialize)]
struct RefusedChange {
    change: Change,
    delivery: QueueRow,
}

pub(super) fn show(sink: &StoredSink<'_>, seq: i64, out: Output) -> anyhow::Result<ExitCode> {
    let delivery = sink.reader.exception(sink.name(), seq)?;
    let (Some(delivery), Some(change)) = (delivery, sink.reader.changes(&[seq])?.pop()) else {
        return Err(not_refused(sink, seq));
    };
    let shown = RefusedChange { change, delivery };
    out.done(
        &shown,
        &format!("{}\n", serde_json::to_string_pretty(&shown)?),
    )
}
