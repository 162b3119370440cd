//! `search`: lets the daemon search the workspace for customers.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use shopmirror_core::record::{Kind, Route, field_text};

use super::current::decode;
use super::direct::note_if_long;
use super::exit::{PERMISSION, TRY_AGAIN, UNAVAILABLE, refuse};
use super::output::{self, Output};
use super::record_line::{NAMING, RecordLine};
use super::runtime;
use crate::api::MAX_SEARCH_TERM;
use crate::config::Config;
use crate::control::{self, ControlError, ControlRequest, Refusal, SearchRequest, SearchResult};
use crate::recover::MAX_SHOWN;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The term, 1 to 100 characters
    #[arg(value_parser = term)]
    term: String,
    /// Search this business [default: the first that is configured, else the workspace's default]
    #[arg(long, value_name = "ID")]
    business: Option<String>,
    /// Store what is found, and forward new customers to the sinks
    #[arg(long)]
    store: bool,
}

/// A term that the workspace accepts (contract, "Search").
fn term(text: &str) -> Result<String, String> {
    let term = text.trim();
    match term.chars().count() {
        0 => Err("write at least one character".to_owned()),
        1..=MAX_SEARCH_TERM => Ok(term.to_owned()),
        length => Err(format!(
            "it has {length} characters: write at most {MAX_SEARCH_TERM}"
        )),
    }
}

pub(super) fn run(config: &Config, args: &Args, out: Output) -> anyhow::Result<ExitCode> {
    let first_business = config.workspace.businesses.first();
    let business = args.business.as_ref().or(first_business).cloned();
    let request = SearchRequest {
        term: args.term.clone(),
        business,
        store: args.store.then_some(Kind::Created),
        backfill: false,
    };
    let result = runtime()?.block_on(note_if_long(ask_daemon(config, request)))??;
    if out.json {
        return output::json(&result.records);
    }
    let found: Vec<RecordLine> = result
        .records
        .iter()
        .map(|record| line(record.get()))
        .collect();
    out.table(&found, NAMING, "no customers match")?;
    if found.len() >= MAX_SHOWN {
        output::print_note(
            "a search returns at most 25 customers; there may be more: use a longer term",
        );
    }
    if let Some(found) = result.found {
        output::text(&format!(
            "{} stored as new, {} as updated\n",
            found.created, found.updated
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Lets the daemon make a search. The inner error says whether and when it may be tried again.
pub(super) async fn ask_daemon(
    config: &Config,
    request: SearchRequest,
) -> anyhow::Result<Result<SearchResult, Refusal>> {
    match control::send(&config.store.path, &ControlRequest::Search(request)).await {
        Ok(reply) => decode(&reply),
        Err(error @ ControlError::NotRunning) => refuse(
            UNAVAILABLE,
            format!("{error}: start it, because searches go through it"),
        ),
        Err(error @ ControlError::NotPermitted) => refuse(PERMISSION, error.to_string()),
        Err(error) => {
            let retry_after = Some(Duration::from_secs(1));
            Ok(Err(Refusal {
                code: TRY_AGAIN,
                text: error.to_string(),
                retry_after,
            }))
        }
    }
}

/// A customer as the workspace sent it.
fn line(body: &str) -> RecordLine {
    let json = field_text(body, "id").unwrap_or_default();
    let id = match serde_json::from_str(json) {
        Ok(Value::String(id)) => id,
        Ok(id) => id.to_string(),
        Err(_) => String::new(),
    };
    RecordLine::new(Route::Customers, id, body.to_owned())
}
