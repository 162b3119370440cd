//! `sinks`: lists for each sink how much it has received and what waits for it; `sinks NAME VERB`
//! acts on one of them.

mod dead;
mod manage;
mod replay;
mod test_delivery;

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::Value;

use super::completions;
use super::current::{current, in_or_ago};
use super::exit::{self, USAGE, refuse};
use super::output::{self, Output};
use super::runtime;
use crate::config::Config;
use crate::control::{self, ControlRequest};
use crate::status::WorkspaceStatus;
use crate::store::{Operator, Reader, SinkRow};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The sink; without a verb, only this sink is listed
    #[arg(add = completions::sink_names())]
    name: Option<String>,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Send one change, marked as a test, and report what became of it
    #[command(override_usage = "shopmirror sinks NAME test [OPTIONS] [ROUTE ID]")]
    Test(test_delivery::Args),
    /// List the changes that the sink has refused, and those that wait for one of them
    #[command(override_usage = "shopmirror sinks NAME dead [OPTIONS] [SEQ]")]
    Dead {
        /// Show this change whole
        seq: Option<i64>,
    },
    /// Send refused changes again now, under the same event ids
    #[command(override_usage = "shopmirror sinks NAME redrive [OPTIONS] [SEQ]...")]
    Redrive {
        #[command(flatten)]
        which: dead::Selection,
        /// Also send versions of a record that are older than one the sink has received
        #[arg(long)]
        all_versions: bool,
    },
    /// Drop what the sink refused for good; the changes stay in the log
    #[command(override_usage = "shopmirror sinks NAME drop [OPTIONS] [SEQ]...")]
    Drop(dead::Selection),
    /// Send older changes of the log once more, under the same event ids; costs no request
    #[command(override_usage = "shopmirror sinks NAME replay [OPTIONS]")]
    Replay(replay::Args),
    /// Let the changes of a held sink go
    #[command(override_usage = "shopmirror sinks NAME release [OPTIONS]")]
    Release {
        /// Drop the held changes instead; the log keeps them
        #[arg(long)]
        skip: bool,
    },
    /// Give the sink the name that the configuration has for it now; while no daemon runs
    #[command(override_usage = "shopmirror sinks NAME rename [OPTIONS] NEW")]
    Rename {
        /// The new name
        new: String,
    },
    /// Forget a sink that is no longer configured, with what it never got
    #[command(override_usage = "shopmirror sinks NAME forget [OPTIONS]")]
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
        return test_delivery::run(config, name, args, out);
    }
    let sink = &StoredSink::open(config, name)?;
    let (printed, text) = match verb {
        Verb::Test(_) | Verb::Dead { seq: None } => return dead::list(sink, out),
        Verb::Dead { seq: Some(seq) } => return dead::show(sink, *seq, out),
        Verb::Redrive {
            which,
            all_versions,
        } => dead::redrive(sink, which, *all_versions)?,
        Verb::Drop(which) => dead::drop(sink, which)?,
        Verb::Replay(args) => replay::run(sink, args)?,
        Verb::Release { skip } => manage::release(sink, *skip)?,
        Verb::Rename { new } => manage::rename(sink, new)?,
        Verb::Forget => manage::forget(sink)?,
    };
    out.done(&printed, &format!("{text}\n"))
}

/// The outcome of a verb, for programs and for people.
type Outcome = (Value, String);

/// A sink of the store, for the verbs that read or change its deliveries.
struct StoredSink<'c> {
    config: &'c Config,
    reader: Reader,
    row: SinkRow,
}

impl<'c> StoredSink<'c> {
    fn open(config: &'c Config, name: &str) -> anyhow::Result<Self> {
        let reader = super::reader(config)?;
        let Some(row) = reader.sink(name)? else {
            let sinks = reader.sinks()?;
            let names: Vec<&str> = sinks.iter().map(|sink| sink.name.as_str()).collect();
            return Err(unknown(name, &names));
        };
        Ok(Self {
            config,
            reader,
            row,
        })
    }

    fn name(&self) -> &str {
        &self.row.name
    }

    fn operator(&self) -> anyhow::Result<Operator> {
        Ok(Operator::open(&self.config.store.path)?)
    }

    /// Makes the daemon check what waits for the sinks; returns whether a daemon runs.
    fn wake(&self) -> anyhow::Result<bool> {
        let reply = control::send(&self.config.store.path, &ControlRequest::Wake);
        Ok(runtime()?.block_on(reply).is_ok())
    }
}

/// The error for a name that no sink has.
pub(super) fn unknown(name: &str, sinks: &[&str]) -> anyhow::Error {
    let text = if sinks.is_empty() {
        format!("there is no sink {name:?}: no sink has been configured and started yet")
    } else {
        let sinks = sinks.join(", ");
        format!("there is no sink {name:?}; the sinks are: {sinks}")
    };
    exit::error(USAGE, text)
}

fn list(config: &Config, name: Option<&str>, out: Output) -> anyhow::Result<ExitCode> {
    let mut status = current(config)?;
    if let Some(name) = name {
        let names: Vec<&str> = status.sinks.iter().map(|sink| sink.name.as_str()).collect();
        if !names.contains(&name) {
            return Err(unknown(name, &names));
        }
        status.sinks.retain(|sink| sink.name == name);
    }
    if out.json {
        output::json(&status.sinks)
    } else {
        table(&status, out)
    }
}

/// The table of the sinks, with notes about replays and about sinks that are no longer configured.
pub(super) fn table(status: &WorkspaceStatus, out: Output) -> anyhow::Result<ExitCode> {
    out.overview(&status.sink_table(&in_or_ago))?;
    for sink in &status.sinks {
        if let Some(replay) = &sink.replay {
            let line = output::plain(&replay::line(replay));
            output::text(&format!("{line}\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;
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

    #[test]
    fn the_help_of_each_verb_shows_the_form_that_works() {
        let mut cli = Cli::command();
        cli.build();
        let sinks = cli.find_subcommand_mut("sinks").unwrap();
        for verb in sinks.get_subcommands_mut() {
            if verb.get_name() == "help" {
                continue;
            }
            let form = format!("Usage: shopmirror sinks NAME {} ", verb.get_name());
            let help = verb.render_help().to_string();
            assert!(help.contains(&form), "{help}");
        }
    }
}
