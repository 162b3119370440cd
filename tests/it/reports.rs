//! Reports: their numbers against those computed here from the sandbox's truth, in zones east and
//! west of UTC and over a change of the clock; a shop's own reports; hostile text in every format.

mod current_state;
mod exactness;
mod excel;
mod expected;
mod numbers;
mod own;
mod plans;
mod readings;
mod recipes;
pub(crate) mod scheduled;
mod truth;
mod unknown;
mod vanished;
mod words;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use shopmirror::config::ReportFormat;
use shopmirror::report::{Answer, CsvForm, rendered};
use shopmirror::store::{PageOutcome, PollFacts, Store};
use shopmirror_core::record::{Page, PollerId};

/// Stores the page that a poller has read at this time.
async fn store_page(
    store: &Store,
    poller: PollerId,
    page: Page,
    at: Timestamp,
    limit: u32,
    served_business: Option<&str>,
) -> PageOutcome {
    let facts = PollFacts {
        at,
        asked_after: store.seq(),
        limit,
        page_age: Duration::ZERO,
        served_business: served_business.map(str::to_owned),
    };
    store.store_page(poller, page, facts, None).await.unwrap()
}

/// A row of a report as JSON, with its columns by name.
fn named(document: &Value, row: &Value) -> Value {
    let columns = document["columns"].as_array().unwrap();
    let cells = columns.iter().zip(row.as_array().unwrap());
    cells
        .map(|(name, value)| (name.as_str().unwrap().to_owned(), value.clone()))
        .collect()
}

/// The rows of an answer, each with its columns by name.
fn rows_of(answer: &Answer) -> Vec<Value> {
    let json = rendered(answer, ReportFormat::Json, CsvForm::DATA)
        .unwrap()
        .into_bytes();
    let document: Value = serde_json::from_slice(&json).unwrap();
    document["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| named(&document, row))
        .collect()
}
