//! `sinks NAME release`, `rename` and `forget`: releases the changes of a held sink, gives a sink
//! another name, and forgets one that is no longer configured, so that the log need not keep its
//! changes.

use serde_json::json;

use super::{Outcome, StoredSink};
use crate::cli::exit::{DATA, TRY_AGAIN, refuse};
use crate::cli::output;
use crate::deliver::unread;
use crate::store::{GateState, SinkState, holder};

/// Releases the changes of a held sink, or drops them.
pub(super) fn release(sink: &StoredSink<'_>, skip: bool) -> anyhow::Result<Outcome> {
    let name = sink.name();
    if sink.row.gate != GateState::Held {
        return refuse(
            DATA,
            format!("sink {name} is not held: there is nothing to release"),
        );
    }
    let last = sink.reader.last_seq()?;
    let count = held_changes(sink, last)?;
    let mut operator = sink.operator()?;
    let is_done = if skip {
        operator.skip_held(name, (sink.row.position, last), count)?
    } else {
        operator.release_sink(name)?
    };
    if !is_done {
        return refuse(
            TRY_AGAIN,
            format!("the changes of sink {name} have just changed: run the command again"),
        );
    }
    let is_woken = sink.wake()?;
    let changes = output::count(count, "change", "changes");
    let text = if skip {
        format!("{changes} dropped; the log keeps them")
    } else if is_woken {
        format!("{changes} will be delivered now")
    } else {
        format!("{changes} will be delivered when the daemon runs")
    };
    Ok((
        json!({"sink": name, "changes": count, "skipped": skip}),
        text,
    ))
}

/// The number of changes up to the row `last` that the sink asked for and has not received.
fn held_changes(sink: &StoredSink<'_>, last: i64) -> anyhow::Result<i64> {
    let position = sink.row.position;
    match sink.config.sinks.get(sink.name()) {
        Some(settings) => Ok(unread(&sink.reader, &settings.filter, position, last)?),
        // The filter of a sink that is no longer configured is unknown.
        None => Ok((last - position).max(0)),
    }
}

/// Gives a sink another name; its position and its waiting changes stay.
pub(super) fn rename(sink: &StoredSink<'_>, new: &str) -> anyhow::Result<Outcome> {
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

/// Forgets a sink with the changes that it never got.
pub(super) fn forget(sink: &StoredSink<'_>) -> anyhow::Result<Outcome> {
    let name = sink.name();
    let row = &sink.row;
    let undelivered = sink.reader.undelivered(row)?;
    if sink.config.sinks.contains_key(name) {
        let text = format!(
            "sink {name} is configured: remove [sinks.{name}] from the configuration and reload \
             the daemon first"
        );
        return refuse(DATA, text);
    }
    if row.state != SinkState::Removed || !sink.operator()?.forget_sink(name)? {
        let text = format!(
            "sink {name} is still in use by the daemon: reload the daemon, then run the command \
             again"
        );
        return refuse(DATA, text);
    }
    let changes = output::count(undelivered, "change", "changes");
    let letters = output::count(row.dead, "dead letter", "dead letters");
    let text = format!(
        "{name} is forgotten, with {changes} that it never got and {letters}; a sink of this name \
         begins anew"
    );
    Ok((
        json!({"sink": name, "undelivered": undelivered, "dead": row.dead}),
        text,
    ))
}
