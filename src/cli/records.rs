//! `records`: lists the records of one route.

use std::process::ExitCode;

use serde_json::{Map, Value};

use super::exit::{USAGE, Wrong};
use super::output::{self, cell};
use crate::config::Config;
use crate::record::Route;
use crate::store::{Reader, RecordFilter};

/// The columns of the table, those that exist; the contract names them.
const SHOWN: [&str; 12] = [
    "id",
    "name",
    "customer_name",
    "status",
    "status_stage",
    "device_brand",
    "assigned_to",
    "amount",
    "created_at",
    "_via",
    "_changed_at",
    "_business",
];

pub(super) fn run(
    config: &Config,
    route: Route,
    wheres: Vec<(String, String)>,
    limit: usize,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let reader = Reader::open(&config.store.path)?;
    let columns = reader.columns(route)?;
    if let Some((unknown, _)) = wheres.iter().find(|(name, _)| !columns.contains(name)) {
        let text = format!("{route} has no column {unknown:?}; it has: {}", columns.join(", "));
        return Err(Wrong { code: USAGE, text }.into());
    }
    let found = reader.records(route, &RecordFilter { equals: wheres, limit })?;
    if json {
        return output::json(&found);
    }
    let is_used =
        |name: &str| found.iter().any(|record| record.get(name).is_some_and(|v| !v.is_null()));
    let shown: Vec<&str> = SHOWN
        .into_iter()
        .filter(|name| columns.iter().any(|c| c == name))
        .filter(|name| !["_via", "_business"].contains(name) || is_used(name))
        .collect();
    let rows = found
        .iter()
        .map(|record| shown.iter().map(|name| value_cell(record, name)).collect())
        .collect();
    output::table(&shown, rows, "no records match")
}

/// One field of a record as a cell of a table.
pub(super) fn value_cell(record: &Map<String, Value>, name: &str) -> String {
    match record.get(name) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => cell(text, 32),
        Some(other) => cell(&other.to_string(), 32),
    }
}
