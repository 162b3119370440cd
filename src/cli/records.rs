//! `records`: the records of a route; with an id, one record and its history.

use std::process::ExitCode;

use serde_json::Value;

use super::exit::{DATA, USAGE, refuse};
use super::log;
use super::output::{self, Output, cell};
use super::record_line::{COLUMNS, RecordLine};
use crate::config::Config;
use crate::record::Route;
use crate::store::{Reader, RecordHistory};

/// Records that are listed unless `--limit` is given.
const LISTED: usize = 50;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The route
    #[arg(value_parser = super::route())]
    route: Route,
    /// Show the record with this id, and its history
    id: Option<String>,
    /// Only records whose column has this value; can be repeated
    #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = pair, conflicts_with = "id")]
    wheres: Vec<(String, String)>,
    /// At most this many, the last changed first [default: 50]
    #[arg(long, conflicts_with = "id")]
    limit: Option<u32>,
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn run(config: &Config, args: &Args, out: Output) -> anyhow::Result<ExitCode> {
    let reader = super::reader(config)?;
    match &args.id {
        Some(id) => one(&reader, args.route, id, out),
        None => list(&reader, args, out),
    }
}

fn list(reader: &Reader, args: &Args, out: Output) -> anyhow::Result<ExitCode> {
    let Args { route, wheres, limit, .. } = args;
    let columns = reader.columns(*route)?;
    if let Some((unknown, _)) = wheres.iter().find(|(name, _)| !columns.contains(name)) {
        return refuse(
            USAGE,
            format!("{route} has no column {unknown:?}; it has: {}", columns.join(", ")),
        );
    }
    let limit = limit.map_or(LISTED, |limit| limit as usize);
    let changes = reader.changes(&reader.newest(*route, wheres, limit)?)?;
    if out.json {
        return output::json(&changes);
    }
    let lines: Vec<RecordLine> = changes.into_iter().map(RecordLine::from).collect();
    out.table(&lines, COLUMNS, "no records match")
}

/// One record and the changes that led to it.
fn one(reader: &Reader, route: Route, id: &str, out: Output) -> anyhow::Result<ExitCode> {
    let Some(record) = reader.record(route, id)? else {
        return refuse(
            DATA,
            format!(
                "{route} {id:?} is not in the mirror; `shopmirror records {route}` lists the records"
            ),
        );
    };
    let history = reader.history(route, id)?;
    if out.json {
        return output::json(&history);
    }
    let RecordHistory { changes: history, has_older } = history;
    let mut text = String::new();
    for (name, value) in &record {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        text.push_str(&format!("{:<20} {}\n", cell(name, 40), cell(&value, 400)));
    }
    text.push('\n');
    if has_older {
        text.push_str(&format!(
            "only the newest {} versions are shown; the table `changes` of the database has all\n\n",
            history.len()
        ));
    }
    for change in &history {
        text.push_str(&log::line(change));
    }
    output::text(&text)
}
