//! `sinks NAME release`: lets the changes of a held sink go, or drops them.

use std::process::ExitCode;

use serde_json::json;

use super::StoredSink;
use crate::cli::exit::{DATA, TRY_AGAIN, refuse};
use crate::cli::output;
use crate::deliver::unread;
use crate::store::GateState;

pub(super) fn run(sink: &StoredSink<'_>, skip: bool, json: bool) -> anyhow::Result<ExitCode> {
    let name = sink.name();
    if sink.row.gate != GateState::Held {
        return refuse(DATA, format!("sink {name} is not held: there is nothing to release"));
    }
    let last = sink.reader.last_seq()?;
    let count = wanted(sink, last)?;
    let mut operator = sink.operator()?;
    let is_done = match skip {
        true => operator.skip_held(name, (sink.row.position, last), count)?,
        false => operator.release_sink(name)?,
    };
    if !is_done {
        return refuse(
            TRY_AGAIN,
            format!("the changes of sink {name} have just changed: run the command again"),
        );
    }
    let woken = sink.wake()?;
    if json {
        return output::json(&json!({"sink": name, "changes": count, "skipped": skip}));
    }
    let changes = output::count(count, "change", "changes");
    let text = match (skip, woken) {
        (true, _) => format!("{changes} dropped; the log keeps them"),
        (false, true) => format!("{changes} will be delivered now"),
        (false, false) => format!("{changes} will be delivered when the daemon runs"),
    };
    output::text(&format!("{text}\n"))
}

/// How many changes up to the row `last` the sink asked for and has not received.
fn wanted(sink: &StoredSink<'_>, last: i64) -> anyhow::Result<i64> {
    let position = sink.row.position;
    Ok(match sink.config.sinks.get(sink.name()) {
        Some(settings) => unread(&sink.reader, &settings.filter, position, last)?,
        // Nothing says what a sink that is no longer configured asked for.
        None => (last - position).max(0),
    })
}
