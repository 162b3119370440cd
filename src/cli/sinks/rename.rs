//! `sinks NAME rename NEW`: gives a sink another name, with what it has received and is owed.

use std::process::ExitCode;

use serde_json::json;

use super::StoredSink;
use crate::cli::exit::{DATA, TRY_AGAIN, USAGE, refuse};
use crate::cli::output;
use crate::store::holder;

pub(super) fn run(sink: &StoredSink<'_>, new: &str, json: bool) -> anyhow::Result<ExitCode> {
    let name = sink.name();
    let sinks = &sink.config.sinks;
    if new == name {
        return refuse(USAGE, format!("the sink is called {name} already: give it another name"));
    }
    if sinks.contains_key(name) || !sinks.contains_key(new) {
        return refuse(
            DATA,
            format!("change [sinks.{name}] to [sinks.{new}] in the configuration first"),
        );
    }
    if let Some(daemon) = holder(&sink.config.store.path) {
        return refuse(
            TRY_AGAIN,
            format!("process {daemon} uses the store: stop the daemon, and start it after this"),
        );
    }
    if !sink.operator()?.rename_sink(name, new)? {
        return refuse(
            DATA,
            format!(
                "sink {new} has received changes already, or is owed some: choose another name"
            ),
        );
    }
    if json {
        return output::json(&json!({"sink": new, "before": name}));
    }
    output::text(&format!("{name} is now {new}, with its position and all that it is owed\n"))
}
