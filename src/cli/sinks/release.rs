//! `sinks release`: lets the changes of a held sink go, or drops them.

use std::process::ExitCode;

use crate::cli::dead::wake;
use crate::cli::exit::{DATA, ExitError, TRY_AGAIN, USAGE};
use crate::cli::{completions, output};
use crate::config::Config;
use crate::deliver::unread;
use crate::store::{GateState, Operator, Reader, SinkRow};
use clap_complete::ArgValueCandidates;

/// How often it is tried to drop changes while the daemon moves the position.
const ATTEMPTS: usize = 10;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The sink's name
    #[arg(add = ArgValueCandidates::new(completions::sinks))]
    name: String,
    /// Drop the held changes instead; the log keeps them
    #[arg(long)]
    skip: bool,
}

/// What `sinks release --json` prints.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct ReleaseResult {
    /// The sink.
    sink: String,
    /// The changes that were held.
    changes: i64,
    /// True if they were dropped instead of being delivered.
    skipped: bool,
}

pub(super) fn run(config: &Config, args: &Args, json: bool) -> anyhow::Result<ExitCode> {
    let path = &config.store.path;
    let reader = Reader::open(path)?;
    let mut operator = Operator::open(path)?;
    let name = &args.name;
    let held = held(&reader, name)?;
    let (count, released) = if args.skip {
        skip(config, &reader, &mut operator, held)?
    } else {
        (wanted(config, &reader, &held, reader.last_seq()?)?, operator.release_sink(name)?)
    };
    if !released {
        let text = format!("the changes of sink {name} have just changed: run the command again");
        return Err(ExitError { code: TRY_AGAIN, text }.into());
    }
    let woken = wake(path, name)?;
    if json {
        output::json(&ReleaseResult { sink: name.clone(), changes: count, skipped: args.skip })?;
        return Ok(ExitCode::SUCCESS);
    }
    let changes = output::count(count, "change", "changes");
    let text = match (args.skip, woken) {
        (true, _) => format!("{changes} dropped; the log keeps them"),
        (false, true) => format!("{changes} will be delivered now"),
        (false, false) => format!("{changes} will be delivered when the daemon runs"),
    };
    output::text(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// The sink's row, if it is held.
fn held(reader: &Reader, name: &str) -> anyhow::Result<SinkRow> {
    let (code, text) = match reader.sink(name)? {
        Some(row) if row.gate == GateState::Held => return Ok(row),
        Some(_) => (DATA, format!("sink {name} is not held: there is nothing to release")),
        None => {
            let names: Vec<String> = reader.sinks()?.into_iter().map(|sink| sink.name).collect();
            let names = names.join(", ");
            (USAGE, format!("there is no sink {name:?} in this store; the sinks are: {names}"))
        }
    };
    Err(ExitError { code, text }.into())
}

/// How many changes up to the row `last` the sink asked for and has not received.
fn wanted(config: &Config, reader: &Reader, row: &SinkRow, last: i64) -> anyhow::Result<i64> {
    Ok(match config.sinks.get(&row.name) {
        Some(settings) => unread(reader, &settings.filter, row.position, last)?,
        // Nothing says what a sink that is no longer configured asked for.
        None => (last - row.position).max(0),
    })
}

/// Drops what is held; returns how many changes, and whether it was done.
fn skip(
    config: &Config,
    reader: &Reader,
    operator: &mut Operator,
    mut row: SinkRow,
) -> anyhow::Result<(i64, bool)> {
    for _ in 0..ATTEMPTS {
        let last = reader.last_seq()?;
        let count = wanted(config, reader, &row, last)?;
        if operator.skip_held(&row.name, (row.position, last), count)? {
            return Ok((count, true));
        }
        row = held(reader, &row.name)?;
    }
    Ok((0, false))
}
