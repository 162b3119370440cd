//! `metadata`: describes the database for Datasette.

use std::process::ExitCode;

use serde_json::{Map, Value, json};

use super::output;
use crate::config::Config;
use crate::record::Route;
use crate::store::Reader;

pub(super) fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let reader = Reader::open(&config.store.path)?;
    let mut tables: Map<String, Value> = Map::new();
    for about in reader.descriptions()? {
        let is_shop = about.name.starts_with("report_")
            || Route::ALL.iter().any(|route| route.as_str() == about.name);
        let table = tables.entry(about.name).or_insert_with(|| {
            if is_shop { json!({"columns": {}}) } else { json!({"columns": {}, "hidden": true}) }
        });
        if about.column_name.is_empty() {
            table["description"] = about.about.into();
        } else {
            table["columns"][about.column_name] = about.about.into();
        }
    }
    // Datasette calls a database by its file's name without the ending.
    let name = config.store.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    output::json(&json!({
        "title": "shopmirror",
        "description": "The local mirror of the shop's workspace. The views report_* are made for reports.",
        "databases": { name: { "tables": tables } },
    }))
}
