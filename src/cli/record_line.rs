//! A record on one line, in every listing for people: what `records`, `find`, `search` and `forget`
//! show.

use serde::Serialize;
use serde_json::{Map, Value};
use shopmirror_core::record::{Change, Route};

use super::moment;
use super::output::{Column, cell};

/// A record of a listing. As JSON it is only said which one it is.
#[derive(Debug, Serialize)]
pub(super) struct RecordLine {
    /// Its route.
    pub(super) route: Route,
    /// Its id.
    pub(super) id: String,
    /// Its JSON text.
    #[serde(skip)]
    pub(super) body: String,
    /// When its latest state was first seen; empty if that is not known.
    #[serde(skip)]
    pub(super) changed_at: String,
}

impl RecordLine {
    /// A record of which nothing else is known.
    pub(super) fn new(route: Route, id: String, body: String) -> Self {
        Self {
            route,
            id,
            body,
            changed_at: String::new(),
        }
    }
}

impl From<Change> for RecordLine {
    fn from(change: Change) -> Self {
        let Change {
            route,
            record_id,
            body,
            observed_at: changed_at,
            ..
        } = change;
        Self {
            route,
            id: record_id.unwrap_or_default(),
            body,
            changed_at,
        }
    }
}

/// By what a person recognises a record.
pub(super) const NAMING: &[Column<RecordLine>] = &[
    ("route", |record| record.route.to_string()),
    ("id", |record| cell(&record.id, 24)),
    ("contact", |record| contact(&record.body)),
    ("record", |record| title(&record.body)),
];

/// As [`NAMING`], with the time of the last change.
pub(super) const COLUMNS: &[Column<RecordLine>] = &[
    NAMING[0],
    NAMING[1],
    NAMING[2],
    NAMING[3],
    ("changed", |record| moment::shown(&record.changed_at)),
];

/// The number or the e-mail address of a record.
fn contact(body: &str) -> String {
    let record: Map<String, Value> = serde_json::from_str(body).unwrap_or_default();
    let text = |name: &str| record.get(name).and_then(Value::as_str).unwrap_or_default();
    let number = format!("{} {}", text("mobile_country_code"), text("mobile_number"));
    match (number.trim(), text("email")) {
        ("", "") => "-".to_owned(),
        ("", email) => cell(email, 40),
        (number, _) => cell(number, 40),
    }
}

/// The fields by which a person recognises a record.
pub(super) fn title(body: &str) -> String {
    let record: Map<String, Value> = serde_json::from_str(body).unwrap_or_default();
    let words: Vec<String> = [
        "name",
        "customer_name",
        "device_brand",
        "device_model",
        "status",
        "amount",
    ]
    .into_iter()
    .filter_map(|name| match record.get(name)? {
        Value::String(text) if !text.is_empty() => Some(cell(text, 32)),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
    .collect();
    words.join(" · ")
}
