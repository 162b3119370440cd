//! `dead`: what a sink refused for good, and what to do with it.

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;

use super::exit::{DATA, USAGE, Wrong};
use super::output::{self, cell};
use super::runtime;
use crate::clock::stamp;
use crate::config::Config;
use crate::control::{self, ControlRequest};
use crate::deliver::{Redrive, Redriven, redrive};
use crate::store::{Operator, Reader, SinkRow, SinkState};

/// Dead letters listed at most.
const MOST: usize = 10_000;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The sink's name
    sink: String,
    #[command(subcommand)]
    action: Option<Action>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List them (the default)
    List,
    /// Show one, with the change itself
    Show {
        /// Its number in the log
        seq: i64,
    },
    /// Send them again, under the same event ids
    Redrive {
        #[command(flatten)]
        which: Which,
        /// Also send a version of a record after the sink got a newer one
        #[arg(long)]
        all_versions: bool,
    },
    /// Forget them; the changes stay in the log
    Drop(Which),
}

#[derive(Debug, Clone, Copy, clap::Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// One, by its number in the log
    seq: Option<i64>,
    /// All of them
    #[arg(long)]
    all: bool,
}

pub(super) fn run(config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    let path = &config.store.path;
    let reader = Reader::open(path)?;
    let Some(sink) = reader.sink(&args.sink)? else {
        let names: Vec<String> = reader.sinks()?.into_iter().map(|sink| sink.name).collect();
        let text = format!(
            "there is no sink {:?} in this store; there are: {}",
            args.sink,
            names.join(", ")
        );
        return Err(Wrong { code: USAGE, text }.into());
    };
    let json = args.json;
    match args.action.unwrap_or(Action::List) {
        Action::List => list(&reader, &sink, json),
        Action::Show { seq } => show(&reader, &args.sink, seq, json),
        Action::Redrive { which, all_versions } => {
            send_again(config, &reader, &sink, which, all_versions, json)
        }
        Action::Drop(which) => {
            let count = Operator::open(path)?.drop_dead(&args.sink, which.seq)?;
            wake(path, &args.sink)?;
            let text = format!("{} dropped; the log still has them", changes(count));
            told(count, which, &json!({ "changes": count }), json, &text)
        }
    }
}

/// Makes dead letters due again, and wakes the daemon.
fn send_again(
    config: &Config,
    reader: &Reader,
    sink: &SinkRow,
    which: Which,
    all_versions: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let path = &config.store.path;
    let filter = config.sinks.get(&sink.name).map(|settings| &settings.filter);
    let wanted = Redrive { filter, seq: which.seq, all_versions };
    let now = stamp(jiff::Timestamp::now());
    let Redriven { changes: count, superseded } =
        redrive(&mut Operator::open(path)?, reader, sink, &wanted, &now)?;
    // Without a daemon they are sent when it starts.
    let woken = wake(path, &sink.name)?;
    let when = match sink.state {
        SinkState::Disabled => "after its url is corrected and the daemon has reloaded",
        SinkState::Removed => "when the sink is in the configuration again",
        SinkState::Active if woken => "now",
        SinkState::Active => "when the daemon runs",
    };
    let mut text = format!("{} will be sent again {when}", changes(count));
    if superseded > 0 {
        text.push_str(&format!(
            "; {} skipped, because the sink has a newer version of the record: add --all-versions to send them too",
            changes(superseded)
        ));
    }
    let left = reader.sink(&sink.name)?.map_or(0, |sink| sink.dead);
    let left = left - i64::try_from(superseded).unwrap_or(i64::MAX);
    if which.all && left > 0 {
        text.push_str(&format!("; {left} more are dead: run it again when these are sent"));
    }
    let result = json!({ "changes": count, "superseded": superseded });
    told(count + superseded, which, &result, json, &text)
}

/// Makes the daemon look at the sink's deliveries; returns whether one runs.
fn wake(store: &Path, sink: &str) -> anyhow::Result<bool> {
    let request = ControlRequest::Wake { sink: Some(sink.to_owned()) };
    Ok(runtime()?.block_on(control::send(store, &request)).is_ok())
}

fn changes(count: usize) -> String {
    if count == 1 { "1 change".to_owned() } else { format!("{count} changes") }
}

fn told(
    count: usize,
    which: Which,
    result: &serde_json::Value,
    json: bool,
    text: &str,
) -> anyhow::Result<ExitCode> {
    if count == 0
        && let Some(seq) = which.seq
    {
        return Err(
            Wrong { code: DATA, text: format!("change {seq} is not dead at this sink") }.into()
        );
    }
    if json {
        return output::json(result);
    }
    output::text(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn list(reader: &Reader, sink: &SinkRow, json: bool) -> anyhow::Result<ExitCode> {
    let dead = reader.dead_letters(&sink.name, MOST)?;
    if dead.len() == MOST {
        output::aside(&format!("the oldest {MOST} of {} are shown", sink.dead));
    }
    if json {
        return output::json(&dead);
    }
    let rows = dead
        .into_iter()
        .map(|d| {
            vec![
                d.seq.to_string(),
                d.route,
                cell(&d.record_id, 24),
                d.attempts.to_string(),
                d.since,
                cell(d.last_error.as_deref().unwrap_or("-"), 80),
            ]
        })
        .collect();
    output::table(&["seq", "route", "record", "attempts", "since", "why"], rows, "nothing is dead")
}

fn show(reader: &Reader, sink: &str, seq: i64, json: bool) -> anyhow::Result<ExitCode> {
    let delivery = reader.dead_letter(sink, seq)?;
    let (Some(delivery), Some(change)) = (delivery, reader.changes(&[seq])?.pop()) else {
        return Err(
            Wrong { code: DATA, text: format!("change {seq} is not dead at this sink") }.into()
        );
    };
    let shown =
        serde_json::json!({ "delivery": delivery, "change": serde_json::to_value(&change)? });
    if json {
        return output::json(&shown);
    }
    output::text(&format!("{}\n", output::plain(&serde_json::to_string_pretty(&shown)?)))?;
    Ok(ExitCode::SUCCESS)
}
