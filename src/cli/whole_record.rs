//! One record as JSON, the same in each form of `records --json`: the fields as the workspace
//! sent them, then the columns that the mirror adds.
//!
//! A column of the mirror holds objects and arrays as text and ids as text. The log has the record's
//! exact text, which gives every field its own type.

use std::collections::BTreeMap;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::store::Reader;

/// The columns that the mirror adds: their names never show a field of the workspace.
const OF_THE_MIRROR: [&str; 6] =
    ["_business", "_first_seen_at", "_changed_at", "_last_seen_at", "_seq", "_via"];

/// A record's fields, each with its exact JSON text: a number keeps all of its digits.
pub(super) type WholeRecord = BTreeMap<String, Box<RawValue>>;

/// Replaces the columns of mirror rows by the fields as received.
///
/// # Errors
/// If the log cannot be read.
pub(super) fn as_received(
    reader: &Reader,
    rows: Vec<Map<String, Value>>,
) -> anyhow::Result<Vec<WholeRecord>> {
    let seqs: Vec<i64> = rows.iter().filter_map(seq_of).collect();
    let changes = reader.changes(&seqs)?;
    rows.into_iter()
        .map(|row| {
            let change = changes.iter().find(|change| Some(change.seq) == seq_of(&row));
            let body = change.and_then(|change| serde_json::from_str(&change.body).ok());
            Ok(joined(body, row)?)
        })
        .collect()
}

fn seq_of(row: &Map<String, Value>) -> Option<i64> {
    row.get("_seq")?.as_i64()
}

/// The received fields and the columns that the mirror adds. Without a body, all columns of the row.
fn joined(
    body: Option<WholeRecord>,
    row: Map<String, Value>,
) -> Result<WholeRecord, serde_json::Error> {
    let has_body = body.is_some();
    let mut whole = body.unwrap_or_default();
    for (name, value) in row {
        // A column of the workspace may have another name than its field, and hold a field that the
        // record no longer has. A field with the name of one of ours stays readable in the log.
        if !has_body || OF_THE_MIRROR.contains(&name.as_str()) {
            whole.insert(name, to_raw_value(&value)?);
        }
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn fields_keep_name_type_and_digits_and_the_mirror_adds_its_columns() {
        let digits = "340282366920938463463374607431768211456";
        for (body, row, wanted) in [
            (
                &*format!(r#"{{"id":{digits},"parts":["a"],"paid":true}}"#),
                r#"{"id":"7","parts":"[\"a\"]","paid":1,"_seq":3,"_business":null}"#,
                &*format!(
                    r#"{{"_business":null,"_seq":3,"id":{digits},"paid":true,"parts":["a"]}}"#
                ),
            ),
            (
                r#"{"_business":"odd","_own":true,"_SEQ":9,"id":7}"#,
                r#"{"id":"7","_own":1,"_SEQ_3":9,"_gone":null,"_seq":3,"_business":null}"#,
                r#"{"_SEQ":9,"_business":null,"_own":true,"_seq":3,"id":7}"#,
            ),
        ] {
            let whole = joined(serde_json::from_str(body).unwrap(), object(row)).unwrap();
            assert_eq!(serde_json::to_string(&whole).unwrap(), wanted);
        }
    }
}
