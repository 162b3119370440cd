//! A record on one line, in every listing for people: `records`, `find`, `search` and `forget`.

use serde::Serialize;
use serde_json::{Map, Value};
use shopmirror_core::record::{Change, Kind, Route};

use super::moment;
use super::output::{Column, cell};

/// A record of a listing. Its JSON has only the route and the id.
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
    /// Whether it is gone from its list.
    #[serde(skip)]
    pub(super) is_vanished: bool,
}

impl RecordLine {
    /// A record for which the time of its last change is unknown.
    pub(super) fn new(route: Route, id: String, body: String) -> Self {
        Self {
            route,
            id,
            body,
            changed_at: String::new(),
            is_vanished: false,
        }
    }
}

impl From<Change> for RecordLine {
    fn from(change: Change) -> Self {
        Self {
            is_vanished: change.kind == Kind::Vanished,
            route: change.route,
            id: change.record_id.unwrap_or_default(),
            body: change.body,
            changed_at: change.observed_at,
        }
    }
}

/// The columns by which a person recognises a record.
pub(super) const NAMING: &[Column<RecordLine>] = &[
    ("route", |record| record.route.to_string()),
    ("id", |record| cell(&record.id, 24)),
    ("contact", |record| contact(&record.body)),
    ("record", |record| {
        let title = title(&record.body);
        if record.is_vanished {
            return format!("{title} (gone from the list)");
        }
        title
    }),
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
    let country_code = text(&record, "mobile_country_code");
    let number = format!("{country_code} {}", text(&record, "mobile_number"));
    match (number.trim(), text(&record, "email")) {
        ("", "") => "-".to_owned(),
        ("", email) => cell(email, 40),
        (number, _) => cell(number, 40),
    }
}

/// A field that is a text; otherwise empty.
fn text<'r>(record: &'r Map<String, Value>, name: &str) -> &'r str {
    match record.get(name) {
        Some(Value::String(text)) => text,
        _ => "",
    }
}

/// The fields of a title, in their order.
const TITLE: [&str; 6] = [
    "name",
    "customer_name",
    "device_brand",
    "device_model",
    "status",
    "amount",
];

/// The fields by which a person recognises a record.
pub(super) fn title(body: &str) -> String {
    let record: Map<String, Value> = serde_json::from_str(body).unwrap_or_default();
    let mut words = Vec::new();
    for name in TITLE {
        match record.get(name) {
            Some(Value::String(text)) if !text.is_empty() => words.push(cell(text, 32)),
            Some(Value::Number(number)) => words.push(number.to_string()),
            _ => {}
        }
    }
    words.join(" · ")
}
