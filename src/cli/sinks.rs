//! `sinks`: lists what each sink has received and is still owed; `sinks NAME VERB` acts on one of
//! them.

mod attempt;
mod dead;
mod manage;
mod replay;

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::Value;

use super::exit::{self, USAGE, refuse};
use super::output::{self, Output};
use super::runtime;
use super::status::{current, in_or_ago};
use crate::config::Config;
use crate::control::{self, ControlRequest};
use crate::status::WorkspaceStatus;
use crate::store::{Operator, Reader, SinkRow};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The sink; without a verb, only this sink is listed
    name: Option<String>,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Send one change, marked as a test, and report what became of it
    Test(attempt::Args),
    /// List the changes that the sink has refused, and those that wait for one of them
    Dead {
        /// Show this change whole
        seq: Option<i64>,
    },
    /// Send refused changes again now, under the same event ids
    Redrive {
        #[command(flatten)]
        which: dead::Selection,
        /// Also send versions of a record that are older than one the sink has received
        #[arg(long)]
        all_versions: bool,
    },
    /// Drop what the sink refused for good; the changes stay in the log
    Drop(dead::Selection),
    /// Send older changes of the log once more, under the same event ids; costs no request
    Replay(replay::Args),
    /// Let the changes of a held sink go
    Release {
        /// Drop the held changes instead; the log keeps them
        #[arg(long)]
        skip: bool,
    },
    /// Give the sink the name that the configuration has for it now; while no daemon runs
    Rename {
        /// The new name
        new: String,
    },
    /// Forget a sink that is no longer configured, with what it never got
    Forget,
}

pub(super) fn run(config: &Config, args: &Args, out: Output) -> anyhow::Result<ExitCode> {
    let (name, verb) = match (&args.name, &args.verb) {
        (name, None) => return list(config, name.as_deref(), out),
        (Some(name), Some(verb)) => (name, verb),
        (None, Some(_)) => {
            return refuse(
                USAGE,
                "name the sink before the verb, for example `shopmirror sinks erp test`",
            );
        }
    };
    if let Verb::Test(args) = verb {
        // It needs no store.
        return attempt::run(config, name, args, out);
    }
    let sink = &StoredSink::open(config, name)?;
    let done = match verb {
        Verb::Test(_) | Verb::Dead { seq: None } => return dead::list(sink, out),
        Verb::Dead { seq: Some(seq) } => return dead::show(sink, *seq, out),
        Verb::Redrive {
            which,
            all_versions,
        } => dead::redrive(sink, which, *all_versions),
        Verb::Drop(which) => dead::drop(sink, which),
        Verb::Replay(args) => replay::run(sink, args),
        Verb::Release { skip } => manage::release(sink, *skip),
        Verb::Rename { new } => manage::rename(sink, new),
        Verb::Forget => manage::forget(sink),
    };
    let (printed, text) = done?;
    out.done(&printed, &format!("{text}\n"))
}

/// What a verb did, for programs and for people.
type Done = (Value, String);

/// A sink of the store, for the verbs that read or change what it is owed.
struct StoredSink<'c> {
    config: &'c Config,
    reader: Reader,
    row: SinkRow,
}

impl<'c> StoredSink<'c> {
    fn open(config: &'c Config, name: &str) -> anyhow::Result<Self> {
        let reader = super::reader(config)?;
        match reader.sink(name)? {
            Some(row) => Ok(Self {
                config,
                reader,
                row,
            }),
            None => {
                let sinks = reader.sinks()?;
                let known: Vec<&str> = sinks.iter().map(|sink| sink.name.as_str()).collect();
                Err(unknown(name, &known))
            }
        }
    }

    fn name(&self) -> &str {
        &self.row.name
    }

    fn operator(&self) -> anyhow::Result<Operator> {
        Ok(Operator::open(&self.config.store.path)?)
    }

    /// Makes the daemon look at what the sinks are owed; returns whether a daemon runs.
    fn wake(&self) -> anyhow::Result<bool> {
        let path = &self.config.store.path;
        Ok(runtime()?
            .block_on(control::send(path, &ControlRequest::Wake))
            .is_ok())
    }
}

/// The error for a name that no sink has.
pub(super) fn unknown(name: &str, known: &[&str]) -> anyhow::Error {
    let text = match known {
        [] => format!("there is no sink {name:?}: no sink has been configured and started yet"),
        known => format!(
            "there is no sink {name:?}; the sinks are: {}",
            known.join(", ")
        ),
    };
    exit::error(USAGE, text)
}

fn list(config: &Config, name: Option<&str>, out: Output) -> anyhow::Result<ExitCode> {
    let mut status = current(config)?;
    if let Some(name) = name {
        let known: Vec<&str> = status.sinks.iter().map(|sink| sink.name.as_str()).collect();
        if !known.contains(&name) {
            return Err(unknown(name, &known));
        }
        status.sinks.retain(|sink| sink.name == name);
    }
    if out.json {
        output::json(&status.sinks)
    } else {
        table(&status, out)
    }
}

/// The table of the sinks, and what is to be said of replays and of sinks that are no longer
/// configured.
pub(super) fn table(status: &WorkspaceStatus, out: Output) -> anyhow::Result<ExitCode> {
    out.overview(&status.sink_table(&in_or_ago))?;
    for replay in status.sinks.iter().filter_map(|sink| sink.replay.as_ref()) {
        output::text(&format!("{}\n", output::plain(&replay::line(replay))))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::SINK_VERBS;

    #[test]
    fn no_sink_can_be_named_after_a_verb() {
        let command = Verb::augment_subcommands(clap::Command::new("sinks"));
        let verbs: BTreeSet<&str> = command
            .get_subcommands()
            .map(clap::Command::get_name)
            .chain(["help"])
            .collect();
        assert_eq!(verbs, BTreeSet::from(SINK_VERBS));
    }
}
