//! `sinks NAME release`: lets the changes of a held sink go, or drops them.

use std::process::ExitCode;

use serde_json::json;

use super::StoredSink;
use crate::cli::exit::{DATA, TRY_AGAIN, refuse};
use crate::cli::output;
use crate::deliver::unread;
use crate::store::GateState;

/// How often it is tried to drop changes while the daemon moves the position.
const ATTEMPTS: usize = 10;

pub(super) fn run(mut sink: StoredSink<'_>, skip: bool, json: bool) -> anyhow::Result<ExitCode> {
    let (count, released) = if skip {
        drop_held(&mut sink)?
    } else {
        ensure_held(&sink)?;
        (wanted(&sink, sink.reader.last_seq()?)?, sink.operator()?.release_sink(sink.name())?)
    };
    let name = sink.name();
    if !released {
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

fn ensure_held(sink: &StoredSink<'_>) -> anyhow::Result<()> {
    if sink.row.gate == GateState::Held {
        return Ok(());
    }
    refuse(DATA, format!("sink {} is not held: there is nothing to release", sink.name()))
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

/// Drops what is held; returns how many changes, and whether it was done.
fn drop_held(sink: &mut StoredSink<'_>) -> anyhow::Result<(i64, bool)> {
    let mut operator = sink.operator()?;
    for _ in 0..ATTEMPTS {
        ensure_held(sink)?;
        let last = sink.reader.last_seq()?;
        let count = wanted(sink, last)?;
        if operator.skip_held(sink.name(), (sink.row.position, last), count)? {
            return Ok((count, true));
        }
        *sink = StoredSink::open(sink.config, sink.name())?;
    }
    Ok((0, false))
}
