//! `records`: lists the records of one route.

use std::process::ExitCode;

use serde_json::{Map, Value};

use super::exit::{ExitError, USAGE};
use super::output::{self, cell};
use super::route_name::RouteName;
use super::whole_record::as_received;
use crate::config::Config;
use crate::record::Route;
use crate::store::RecordFilter;

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

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The route
    #[arg(value_parser = RouteName)]
    route: Route,
    /// Only records whose column has this value; can be repeated
    #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = pair)]
    wheres: Vec<(String, String)>,
    /// At most this many
    #[arg(long, default_value_t = 50)]
    limit: u32,
    #[command(flatten)]
    json: super::Json,
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write COLUMN=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn run(config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    let Args { route, wheres, limit, json } = args;
    let reader = super::reader(config)?;
    let columns = reader.columns(route)?;
    if let Some((unknown, _)) = wheres.iter().find(|(name, _)| !columns.contains(name)) {
        let text = format!("{route} has no column {unknown:?}; it has: {}", columns.join(", "));
        return Err(ExitError { code: USAGE, text }.into());
    }
    let found = reader.records(route, &RecordFilter { equals: wheres, limit: limit as usize })?;
    if json.json {
        return output::json(&as_received(&reader, found)?);
    }
    let is_used =
        |name: &str| found.iter().any(|record| record.get(name).is_some_and(|v| !v.is_null()));
    let shown: Vec<&str> = SHOWN
        .into_iter()
        .filter(|name| columns.iter().any(|c| c == name))
        .filter(|name| !["_via", "_business"].contains(name) || is_used(name))
        .collect();
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|record| shown.iter().map(|name| value_cell(record, name)).collect())
        .collect();
    output::table(&shown, &rows, "no records match")
}

/// One field of a record as a cell of a table.
pub(super) fn value_cell(record: &Map<String, Value>, name: &str) -> String {
    match record.get(name) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => cell(text, 32),
        Some(other) => cell(&other.to_string(), 32),
    }
}
