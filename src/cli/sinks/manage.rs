//! `sinks NAME release`, `rename` and `forget`: lets the changes of a held sink go, gives a sink
//! another name, and forgets one that is no longer configured, so that the log need not be kept for
//! it.

use serde_json::json;

use super::{Done, StoredSink};
use crate::cli::exit::{DATA, TRY_AGAIN, refuse};
use crate::cli::output;
use crate::deliver::unread;
use crate::store::{GateState, SinkState, holder};

/// Lets the changes of a held sink go, or drops them.
pub(super) fn release(sink: &StoredSink<'_>, skip: bool) -> anyhow::Result<Done> {
    let name = sink.name();
    if sink.row.gate != GateState::Held {
        return refuse(
            DATA,
            format!("sink {name} is not held: there is nothing to release"),
        );
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
    let changes = output::count(count, "change", "changes");
    let text = match (skip, woken) {
        (true, _) => format!("{changes} dropped; the log keeps them"),
        (false, true) => format!("{changes} will be delivered now"),
        (false, false) => format!("{changes} will be delivered when the daemon runs"),
    };
    Ok((
        json!({"sink": name, "changes": count, "skipped": skip}),
        text,
    ))
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

/// Gives a sink another name, with what it has received and is owed.
pub(super) fn rename(sink: &StoredSink<'_>, new: &str) -> anyhow::Result<Done> {
    let name = sink.name();
    let sinks = &sink.config.sinks;
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
    let text = format!("{name} is now {new}, with its position and all that it is owed");
    Ok((json!({"sink": new, "before": name}), text))
}

/// Forgets a sink with what it never got.
pub(super) fn forget(sink: &StoredSink<'_>) -> anyhow::Result<Done> {
    let (name, row) = (sink.name(), &sink.row);
    let undelivered = sink.reader.undelivered(row)?;
    let refused = if sink.config.sinks.contains_key(name) {
        Some(format!(
            "sink {name} is configured: remove [sinks.{name}] from the configuration and reload the daemon first"
        ))
    } else if row.state != SinkState::Removed || !sink.operator()?.forget_sink(name)? {
        Some(format!(
            "sink {name} is still in use by the daemon: reload the daemon, then run the command again"
        ))
    } else {
        None
    };
    if let Some(text) = refused {
        return refuse(DATA, text);
    }
    let changes = output::count(undelivered, "change", "changes");
    let letters = output::count(row.dead, "dead letter", "dead letters");
    let text = format!(
        "{name} is forgotten, with {changes} that it never got and {letters}; a sink of this name begins anew"
    );
    Ok((
        json!({"sink": name, "undelivered": undelivered, "dead": row.dead}),
        text,
    ))
}
