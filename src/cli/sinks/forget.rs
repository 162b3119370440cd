//! `sinks forget`: lets go of a sink that is no longer configured, so that the log need not be kept for
//! it.

use std::process::ExitCode;

use crate::cli::exit::{DATA, ExitError, USAGE};
use crate::cli::{completions, output};
use crate::config::Config;
use crate::store::{Operator, Reader, SinkState};
use clap_complete::ArgValueCandidates;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// The sink's name
    #[arg(add = ArgValueCandidates::new(completions::sinks))]
    name: String,
}

/// What `sinks forget --json` prints.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct ForgetSinkResult {
    /// The sink.
    sink: String,
    /// The changes that it never got.
    undelivered: i64,
    /// Its dead letters.
    dead: i64,
}

pub(super) fn run(config: &Config, args: &Args, json: bool) -> anyhow::Result<ExitCode> {
    let (path, name) = (&config.store.path, &args.name);
    let reader = Reader::open(path)?;
    let row = reader.sink(name)?;
    let (code, text) = match &row {
        None => {
            let names: Vec<String> = reader.sinks()?.into_iter().map(|sink| sink.name).collect();
            let names = names.join(", ");
            (USAGE, format!("there is no sink {name:?} in this store; the sinks are: {names}"))
        }
        Some(_) if config.sinks.contains_key(name) => (
            DATA,
            format!(
                "sink {name} is configured: remove [sinks.{name}] from the configuration and reload the daemon first"
            ),
        ),
        Some(row) if row.state != SinkState::Removed => (
            DATA,
            format!(
                "sink {name} is still in use by the daemon: reload the daemon, then run the command again"
            ),
        ),
        Some(row) => {
            let undelivered = reader.undelivered(row)?;
            if !Operator::open(path)?.forget_sink(name)? {
                let text =
                    format!("sink {name} was configured again meanwhile: nothing was changed");
                return Err(ExitError { code: DATA, text }.into());
            }
            if json {
                let (sink, dead) = (name.clone(), row.dead);
                output::json(&ForgetSinkResult { sink, undelivered, dead })?;
            } else {
                let changes = output::count(undelivered, "change", "changes");
                let letters = output::count(row.dead, "dead letter", "dead letters");
                output::text(&format!(
                    "{name} is forgotten, with {changes} that it never got and {letters}; a sink of this name begins anew\n"
                ))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
    };
    Err(ExitError { code, text }.into())
}
