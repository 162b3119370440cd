//! The columns of a mirror table that reports calculate with: `_FIELD` for each field that a reader
//! reads, and `_unreadable`.
//!
//! They have a type, and every table has them, whatever the workspace sends. They follow from the
//! record and the rules of its fields.

use jiff::civil::Date;
use rusqlite::types::Value;
use shopmirror_core::clock::stamp;
use shopmirror_core::reading::{FieldKind, ReadValue, RecordReading, fields_of};
use shopmirror_core::record::Route;

/// The list of the fields whose values cannot be read.
const UNREADABLE: &str = "_unreadable";
/// What a payment is: `payment`, `refund` or `void`; NULL if it may be a payment or a refund.
const KIND: &str = "_kind";

/// The derived columns of a route, each with its type.
pub(in crate::store) fn columns(route: Route) -> Vec<(String, &'static str)> {
    let mut columns = Vec::new();
    for field in fields_of(route) {
        let name = format!("_{}", field.name);
        match field.kind {
            FieldKind::Instant | FieldKind::Day => columns.push((name, "TEXT")),
            FieldKind::Amount => {
                let sign = format!("{name}_sign");
                columns.push((name, "REAL"));
                columns.push((sign, "INTEGER"));
            }
        }
    }
    if route == Route::Payments {
        columns.push((KIND.to_owned(), "TEXT"));
    }
    columns.push((UNREADABLE.to_owned(), "TEXT"));
    columns
}

/// The names of the derived columns of a route.
pub(in crate::store) fn names(route: Route) -> Vec<String> {
    let columns = columns(route);
    columns.into_iter().map(|(name, _)| name).collect()
}

/// The value of each derived column, from one record as read.
pub(in crate::store) fn cells(route: Route, read: &RecordReading) -> Vec<Value> {
    let mut cells = Vec::with_capacity(2 * read.fields.len() + 2);
    let mut unreadable = Vec::new();
    for (field, reading) in fields_of(route).iter().zip(&read.fields) {
        cells.push(cell(reading.value));
        if field.kind == FieldKind::Amount {
            cells.push(reading.sign.into());
        }
        if reading.is_unreadable {
            unreadable.push(reading.field);
        }
    }
    if route == Route::Payments {
        cells.push(match read.kind {
            Some(kind) => kind.to_string().into(),
            None => Value::Null,
        });
    }
    if unreadable.is_empty() {
        cells.push(Value::Null);
    } else {
        let list = serde_json::to_string(&unreadable).expect("names are text");
        cells.push(list.into());
    }
    cells
}

fn cell(value: Option<ReadValue>) -> Value {
    match value {
        None => Value::Null,
        Some(ReadValue::Amount(amount)) => amount.into(),
        Some(ReadValue::Instant(at)) => stamp(at).into(),
        Some(ReadValue::Day(day)) => day_text(day).into(),
    }
}

fn day_text(day: Date) -> String {
    day.strftime("%Y-%m-%d").to_string()
}
