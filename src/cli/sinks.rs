//! `sinks`: what each sink has received and what is still to be delivered.

use std::process::ExitCode;

use super::current_status::current;
use super::output::{self, cell};
use crate::config::Config;
use crate::deliver::SinkStatus;

pub(super) fn run(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let status = current(config)?;
    if json { output::json(&status.sinks) } else { table(&status.sinks) }
}

/// The table of the sinks.
pub(super) fn table(sinks: &[SinkStatus]) -> anyhow::Result<ExitCode> {
    let rows: Vec<Vec<String>> = sinks
        .iter()
        .map(|sink| {
            vec![
                sink.name.clone(),
                sink.type_name.clone(),
                sink.state.to_string(),
                sink.delivered.to_string(),
                sink.behind.to_string(),
                sink.retrying.to_string(),
                sink.dead.to_string(),
                sink.last_error.as_deref().map_or_else(|| "-".to_owned(), |error| cell(error, 60)),
            ]
        })
        .collect();
    output::table(
        &["sink", "type", "state", "delivered", "behind", "retrying", "dead", "last fault"],
        &rows,
        "no sink has been opened yet: add [sinks.NAME] to the configuration",
    )
}
