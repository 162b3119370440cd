//! `dead`: lists what a sink has refused, sends it again or drops it.

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;
use clap_complete::ArgValueCandidates;
use serde::Serialize;

use super::exit::{DATA, ExitError, USAGE};
use super::output::{self, cell};
use super::runtime;
use super::{completions, moment};
use crate::config::Config;
use crate::control::{self, ControlRequest};
use crate::deliver::{Resend, Resent, resend};
use crate::record::Change;
use crate::store::{Operator, QueueRow, Reader, RowState, SinkRow, SinkState};

/// The most changes that are listed in each state.
const LISTED_MAX: usize = 10_000;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The sink's name
    #[arg(add = ArgValueCandidates::new(completions::sinks))]
    sink: String,
    #[command(subcommand)]
    action: Option<DeadAction>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum DeadAction {
    /// List the changes that the sink has refused, and those that wait for one of them (the default)
    List,
    /// Show one of them with its change
    Show {
        /// Its number in the log
        #[arg(add = ArgValueCandidates::new(completions::dead_letters))]
        seq: i64,
    },
    /// Deliver refused changes again now, under the same event ids
    Redrive {
        #[command(flatten)]
        which: DeadSelection,
        /// Also deliver versions of a record that are older than one the sink has received
        #[arg(long, conflicts_with = "notices")]
        all_versions: bool,
    },
    /// Drop dead letters; the changes stay in the log
    Drop(DeadSelection),
}

#[derive(Debug, Clone, Copy, clap::Args)]
#[group(required = true, multiple = false)]
struct DeadSelection {
    /// The number of one dead letter in the log
    #[arg(add = ArgValueCandidates::new(completions::dead_letters))]
    seq: Option<i64>,
    /// All dead letters of the sink
    #[arg(long)]
    all: bool,
    /// The alerts and reports that the sink refused for good
    #[arg(long)]
    notices: bool,
}

/// What `dead SINK drop --json` prints.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DropResult {
    /// How many dead letters were dropped.
    changes: usize,
    /// How many alerts and reports were dropped.
    notices: usize,
}

/// What `dead SINK redrive --json` prints.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RedriveResult {
    /// How many changes will be delivered again.
    changes: usize,
    /// How many alerts and reports will be sent again.
    notices: usize,
    /// How many changes will not, because the sink has a newer version of the record.
    superseded: usize,
}

/// What `dead SINK show --json` prints.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DeadLetter {
    /// The change.
    change: Change,
    /// What was tried.
    delivery: QueueRow,
}

pub(super) fn run(config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    let path = &config.store.path;
    let reader = Reader::open(path)?;
    let Some(sink) = reader.sink(&args.sink)? else {
        let names: Vec<String> = reader.sinks()?.into_iter().map(|sink| sink.name).collect();
        let text = format!(
            "there is no sink {:?} in this store; the sinks are: {}",
            args.sink,
            names.join(", ")
        );
        return Err(ExitError { code: USAGE, text }.into());
    };
    let json = args.json;
    match args.action.unwrap_or(DeadAction::List) {
        DeadAction::List => list(&reader, &sink, json),
        DeadAction::Show { seq } => show(&reader, &args.sink, seq, json),
        DeadAction::Redrive { which, .. } if which.notices => {
            let notices = Operator::open(path)?.revive_notices(&args.sink)?;
            let when = when(&sink, wake(path, &args.sink)?);
            let text = format!("{} will be sent again {when}", notices_text(notices));
            let result = RedriveResult { changes: 0, notices, superseded: 0 };
            conclude(notices, which, &result, json, &text)
        }
        DeadAction::Redrive { which, all_versions } => {
            send_again(config, &reader, &sink, which, all_versions, json)
        }
        DeadAction::Drop(which) if which.notices => {
            let notices = Operator::open(path)?.drop_notices(&args.sink)?;
            let text = format!("{} dropped", notices_text(notices));
            conclude(notices, which, &DropResult { changes: 0, notices }, json, &text)
        }
        DeadAction::Drop(which) => {
            let count = Operator::open(path)?.drop_dead(&args.sink, which.seq)?;
            wake(path, &args.sink)?;
            let letters = output::count(i64::try_from(count)?, "dead letter", "dead letters");
            let text = format!("{letters} dropped; the changes stay in the log");
            let result = DropResult { changes: count, notices: 0 };
            conclude(count, which, &result, json, &text)
        }
    }
}

/// Has refused changes sent again, and wakes the daemon.
fn send_again(
    config: &Config,
    reader: &Reader,
    sink: &SinkRow,
    which: DeadSelection,
    all_versions: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let path = &config.store.path;
    let filter = config.sinks.get(&sink.name).map(|settings| &settings.filter);
    let wanted = Resend { filter, seq: which.seq, all_versions };
    let Resent { changes: count, superseded } =
        resend(&mut Operator::open(path)?, reader, sink, &wanted)?;
    // Without a daemon they are sent when it starts.
    let woken = wake(path, &sink.name)?;
    let when = when(sink, woken);
    let mut text = format!("{} will be delivered again {when}", changes(count));
    if superseded > 0 {
        text.push_str(&format!(
            "; {} skipped, because the sink has a newer version of the record: add --all-versions to deliver them too",
            changes(superseded)
        ));
    }
    let left = reader.sink(&sink.name)?.map_or(0, |sink| sink.dead);
    let left = left - i64::try_from(superseded).unwrap_or(i64::MAX);
    if which.all && left > 0 {
        text.push_str(&format!("; {left} more are left: run this again after these are delivered"));
    }
    let result = RedriveResult { changes: count, notices: 0, superseded };
    conclude(count + superseded, which, &result, json, &text)
}

/// When what is due again is sent.
fn when(sink: &SinkRow, is_woken: bool) -> &'static str {
    match sink.state {
        SinkState::Disabled => "after its url is corrected and the daemon has reloaded",
        SinkState::Removed => "after the sink is in the configuration again",
        SinkState::Active if is_woken => "now",
        SinkState::Active => "when the daemon runs",
    }
}

/// Makes the daemon look at the sink's deliveries; returns whether one runs.
pub(super) fn wake(store: &Path, sink: &str) -> anyhow::Result<bool> {
    let request = ControlRequest::Wake { sink: Some(sink.to_owned()) };
    Ok(runtime()?.block_on(control::send(store, &request)).is_ok())
}

fn changes(count: usize) -> String {
    output::count(i64::try_from(count).unwrap_or(i64::MAX), "change", "changes")
}

fn notices_text(count: usize) -> String {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    output::count(count, "alert or report", "alerts or reports")
}

fn conclude<T: Serialize>(
    count: usize,
    which: DeadSelection,
    result: &T,
    json: bool,
    text: &str,
) -> anyhow::Result<ExitCode> {
    if count == 0
        && let Some(seq) = which.seq
    {
        return Err(ExitError {
            code: DATA,
            text: format!("change {seq} is not one that this sink has refused"),
        }
        .into());
    }
    if json {
        return output::json(result);
    }
    output::text(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn list(reader: &Reader, sink: &SinkRow, json: bool) -> anyhow::Result<ExitCode> {
    let states = [RowState::Dead, RowState::Retrying, RowState::Waiting];
    let dead = reader.exceptions(&sink.name, &states, LISTED_MAX)?;
    let letters = dead.iter().filter(|row| row.state == RowState::Dead).count();
    if letters == LISTED_MAX {
        output::aside(&format!("only the oldest {LISTED_MAX} of {} are listed", sink.dead));
    }
    if json {
        output::json(&dead)?;
        // The array holds changes only.
        if let Some(text) = refused_notices(reader, &sink.name)? {
            output::aside(&text);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Vec<String>> = dead
        .into_iter()
        .map(|d| {
            vec![
                d.seq.to_string(),
                d.route,
                cell(&d.record_id, 24),
                d.state.as_str().to_owned(),
                d.attempts.to_string(),
                moment::shown(&d.since),
                d.due_at.as_deref().map_or_else(|| "-".to_owned(), moment::shown),
                cell(d.last_error.as_deref().unwrap_or("-"), 80),
            ]
        })
        .collect();
    output::table(
        &["seq", "route", "record", "state", "attempts", "since", "next attempt", "last error"],
        &rows,
        "no refused changes",
    )?;
    if let Some(text) = refused_notices(reader, &sink.name)? {
        output::text(&format!("{text}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What to do about the alerts and reports that the sink refused for good; `None` if there are none.
fn refused_notices(reader: &Reader, name: &str) -> anyhow::Result<Option<String>> {
    let notices = reader.notice_counts(name)?;
    let why = notices.refused_error.as_deref().unwrap_or("no reason is known");
    let text = format!(
        "the sink refused {} of its alerts or reports for good: {}; send them again with `shopmirror dead {name} redrive --notices`, or drop them \
         with `shopmirror dead {name} drop --notices`",
        notices.refused,
        output::plain(why)
    );
    Ok((notices.refused > 0).then_some(text))
}

fn show(reader: &Reader, sink: &str, seq: i64, json: bool) -> anyhow::Result<ExitCode> {
    let delivery = reader.exception(sink, seq)?;
    let (Some(delivery), Some(change)) = (delivery, reader.changes(&[seq])?.pop()) else {
        return Err(ExitError {
            code: DATA,
            text: format!("change {seq} is not one that this sink has refused: see `shopmirror dead {sink} list`"),
        }
        .into());
    };
    let shown = DeadLetter { delivery, change };
    if json {
        return output::json(&shown);
    }
    output::text(&format!("{}\n", output::plain(&serde_json::to_string_pretty(&shown)?)))?;
    Ok(ExitCode::SUCCESS)
}
