//! `sinks NAME forget`: forgets a sink that is no longer configured, so that the log need not be kept for it.

use std::process::ExitCode;

use serde_json::json;

use super::StoredSink;
use crate::cli::exit::{DATA, ExitError};
use crate::cli::output;
use crate::store::SinkState;

pub(super) fn run(sink: &StoredSink<'_>, json: bool) -> anyhow::Result<ExitCode> {
    let (name, row) = (sink.name(), &sink.row);
    let undelivered = sink.reader.undelivered(row)?;
    let refused = if sink.config.sinks.contains_key(name) {
        Some(format!(
            "sink {name} is configured: remove [sinks.{name}] from the configuration and reload the daemon first"
        ))
    } else if row.state != SinkState::Removed {
        Some(format!(
            "sink {name} is still in use by the daemon: reload the daemon, then run the command again"
        ))
    } else if !sink.operator()?.forget_sink(name)? {
        Some(format!("sink {name} was configured again meanwhile: nothing was changed"))
    } else {
        None
    };
    if let Some(text) = refused {
        return Err(ExitError { code: DATA, text }.into());
    }
    if json {
        return output::json(&json!({"sink": name, "undelivered": undelivered, "dead": row.dead}));
    }
    let changes = output::count(undelivered, "change", "changes");
    let letters = output::count(row.dead, "dead letter", "dead letters");
    output::text(&format!(
        "{name} is forgotten, with {changes} that it never got and {letters}; a sink of this name begins anew\n"
    ))
}
