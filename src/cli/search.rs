//! `search`: asks the workspace for customers, through the daemon or directly.

use std::process::ExitCode;

use serde_json::{Map, Value};

use super::direct::{DirectClient, ask_daemon, result_of};
use super::output;
use super::records::value_cell;
use super::runtime;
use crate::config::Config;
use crate::control::{ControlRequest, SearchRequest, SearchResult};
use crate::record::Kind;
use crate::store::Store;

/// The most customers that one search returns (contract, "Limits").
const RESULTS_MAX: usize = 25;

pub(super) fn run(
    config: &Config,
    term: &str,
    business: Option<String>,
    store: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let request = SearchRequest {
        term: term.to_owned(),
        business: business.or_else(|| config.workspace.businesses.first().cloned()),
        store: store.then_some(Kind::Created),
        backfill: false,
    };
    let result = runtime()?.block_on(async {
        match ask_daemon(config, &ControlRequest::Search(request.clone())).await? {
            Some(reply) => result_of(reply),
            None => search_directly(config, request).await,
        }
    })?;
    if json {
        return output::json(&result.records);
    }
    let found: Vec<Map<String, Value>> = result
        .records
        .iter()
        .filter_map(|record| serde_json::from_str(record.get()).ok())
        .collect();
    let shown = ["id", "name", "email", "mobile_country_code", "mobile_number", "created_at"];
    let rows = found
        .iter()
        .map(|record| shown.iter().map(|name| value_cell(record, name)).collect())
        .collect();
    output::table(&shown, rows, "no customers match")?;
    if found.len() >= RESULTS_MAX {
        output::aside(
            "a search returns at most 25 customers; there may be more: use a longer term",
        );
    }
    if let Some(found) = result.found {
        output::text(&format!("{} stored as new, {} as updated\n", found.created, found.updated))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn search_directly(config: &Config, request: SearchRequest) -> anyhow::Result<SearchResult> {
    let mut client = DirectClient::new(config)?;
    let store = match request.store {
        Some(_) => Some(Store::open(&config.store.path)?),
        None => None,
    };
    let result = client.search(store.as_ref(), request).await??;
    if let Some(store) = store {
        store.close().await?;
    }
    Ok(result)
}
