//! `show`: one record and the changes that led to it.

use std::process::ExitCode;

use serde_json::Value;

use super::exit::{DATA, ExitError};
use super::moment;
use super::output::{self, cell};
use super::route_name::RouteName;
use super::whole_record::{WholeRecord, as_received};
use crate::config::Config;
use crate::record::{Change, Route};
use crate::store::RecordHistory;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The record's route
    #[arg(value_parser = RouteName)]
    route: Route,
    /// The record's id
    id: String,
    #[command(flatten)]
    json: super::Json,
}

/// What `show --json` prints.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Shown<'h> {
    /// The newest versions of the record, the oldest of them first.
    changes: &'h [Change],
    /// Whether the log has older versions; `log --route ROUTE --id ID` lists them.
    has_older: bool,
    /// The record as it is now.
    #[cfg_attr(test, schemars(with = "Option<super::whole_record::RecordDocument>"))]
    record: Option<WholeRecord>,
}

pub(super) fn run(config: &Config, args: &Args) -> anyhow::Result<ExitCode> {
    let (route, id) = (args.route, args.id.as_str());
    let reader = super::reader(config)?;
    let Some(record) = reader.record(route, id)? else {
        let text = format!(
            "{route} {id:?} is not in the mirror; `shopmirror records {route}` lists the records"
        );
        return Err(ExitError { code: DATA, text }.into());
    };
    let RecordHistory { changes: history, has_older } = reader.history(route, id)?;
    if args.json.json {
        let record = as_received(&reader, vec![record])?.pop();
        return output::json(&Shown { record, changes: &history, has_older });
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
    if has_older {
        text.push_str(&format!(
            "only the newest {} versions are shown; `shopmirror log --route {route} --id {} --limit 1000` lists more\n\n",
            history.len(),
            cell(id, 40)
        ));
    }
    for change in &history {
        text.push_str(&format!(
            "{}  version {}  {}\n",
            moment::shown(&change.observed_at),
            change.version,
            change.kind
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
