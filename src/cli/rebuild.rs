//! `rebuild`: makes the mirror tables again from the log.

use std::process::ExitCode;

use super::output;
use super::progress::RowBar;
use super::search_index;
use crate::config::Config;
use crate::store;

/// What `rebuild --json` prints.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RebuildResult {
    /// The records of all mirror tables.
    records: usize,
}

pub(super) fn run(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let bar = RowBar::new();
    let records = store::rebuild(&config.store.path, &mut |done, total| bar.at(done, total))?;
    drop(bar);
    search_index::follow(&config.store.path);
    if json {
        return output::json(&RebuildResult { records });
    }
    let text = match records {
        1 => "rebuilt the mirror from the log: 1 record\n".to_owned(),
        _ => format!("rebuilt the mirror from the log: {records} records\n"),
    };
    output::text(&text)?;
    Ok(ExitCode::SUCCESS)
}
