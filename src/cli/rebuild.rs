//! `rebuild`: makes the mirror tables again from the log.

use std::process::ExitCode;

use serde_json::json;

use super::output;
use crate::config::Config;
use crate::store::{self, Rebuilt};

pub(super) fn run(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let Rebuilt { records } = store::rebuild(&config.store.path)?;
    if json {
        return output::json(&json!({ "records": records }));
    }
    let text = match records {
        1 => "rebuilt the mirror from the log: 1 record\n".to_owned(),
        _ => format!("rebuilt the mirror from the log: {records} records\n"),
    };
    output::text(&text)?;
    Ok(ExitCode::SUCCESS)
}
