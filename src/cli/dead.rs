//! `dead`: what a sink refused for good, and what to do with it.

use std::process::ExitCode;

use clap::Subcommand;

use super::exit::{DATA, USAGE, Wrong};
use super::output::{self, cell};
use super::runtime;
use crate::clock::stamp;
use crate::config::Config;
use crate::control::{self, ControlRequest};
use crate::store::{Operator, Reader, SinkRow};

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
    Redrive(Which),
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
        Action::Redrive(which) => {
            let now = stamp(jiff::Timestamp::now());
            let count = Operator::open(path)?.redrive(&args.sink, which.seq, &now)?;
            // Without a daemon they are sent when it starts.
            let woken = runtime()?.block_on(control::send(path, &ControlRequest::Wake)).is_ok();
            let when = match sink.state.as_str() {
                "disabled" => "when its url is mended and the daemon has reloaded",
                "removed" => "when the sink stands in the configuration again",
                _ if woken => "now",
                _ => "when the daemon runs",
            };
            let left = reader.sink(&args.sink)?.map_or(0, |sink| sink.dead);
            let more = match which.seq {
                None if left > 0 => {
                    format!("; {left} more are dead, run it again when these are sent")
                }
                _ => String::new(),
            };
            told(count, which, json, &format!("{count} change(s) will be sent again {when}{more}"))
        }
        Action::Drop(which) => {
            let count = Operator::open(path)?.drop_dead(&args.sink, which.seq)?;
            told(
                count,
                which,
                json,
                &format!("{count} change(s) forgotten; the log still has them"),
            )
        }
    }
}

fn told(count: usize, which: Which, json: bool, text: &str) -> anyhow::Result<ExitCode> {
    if count == 0
        && let Some(seq) = which.seq
    {
        return Err(
            Wrong { code: DATA, text: format!("change {seq} is not dead at this sink") }.into()
        );
    }
    if json {
        return output::json(&serde_json::json!({ "changes": count }));
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
