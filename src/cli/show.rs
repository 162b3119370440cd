//! `show`: one record and the changes that led to it.

use std::process::ExitCode;

use serde_json::Value;

use super::exit::{DATA, Wrong};
use super::output::{self, cell};
use crate::config::Config;
use crate::record::Route;
use crate::store::Reader;

pub(super) fn run(config: &Config, route: Route, id: &str, json: bool) -> anyhow::Result<ExitCode> {
    let reader = Reader::open(&config.store.path)?;
    let Some(record) = reader.record(route, id)? else {
        let text = format!(
            "{route} {id:?} is not in the mirror; `shopmirror records {route}` lists the records"
        );
        return Err(Wrong { code: DATA, text }.into());
    };
    let history = reader.history(route, id)?;
    if json {
        return output::json(&serde_json::json!({ "record": record, "changes": history }));
    }
    let mut text = String::new();
    for (name, value) in &record {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        text.push_str(&format!("{:<20} {}\n", cell(name, 40), cell(&value, 400)));
    }
    text.push('\n');
    for change in &history {
        text.push_str(&format!(
            "{}  version {}  {}\n",
            change.observed_at, change.version, change.kind
        ));
        for field in change.changed() {
            let side =
                |value: Option<&str>| value.map_or_else(|| "(absent)".to_owned(), |v| cell(v, 80));
            text.push_str(&format!(
                "    {}: {} -> {}\n",
                cell(&field.name, 40),
                side(field.before),
                side(field.after)
            ));
        }
    }
    output::text(&text)?;
    Ok(ExitCode::SUCCESS)
}
