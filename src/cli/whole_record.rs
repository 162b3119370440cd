//! One record as JSON, the same in `records --json` and `show --json`: the fields as the workspace
//! sent them, then the columns that the mirror adds.
//!
//! A column of the mirror holds objects and arrays as text and ids as text. The log has the record's
//! exact text, which gives every field its own type.

use serde_json::{Map, Value};

use crate::store::{Reader, StoreError};

/// Replaces the columns of mirror rows by the fields as received.
///
/// # Errors
/// If the log cannot be read.
pub(super) fn as_received(
    reader: &Reader,
    rows: Vec<Map<String, Value>>,
) -> Result<Vec<Map<String, Value>>, StoreError> {
    let seqs: Vec<i64> = rows.iter().filter_map(seq_of).collect();
    let changes = reader.changes(&seqs)?;
    let whole = rows.into_iter().map(|row| {
        let change = changes.iter().find(|change| Some(change.seq) == seq_of(&row));
        let body = change.and_then(|change| serde_json::from_str(&change.body).ok());
        match body {
            Some(body) => joined(body, row),
            None => row,
        }
    });
    Ok(whole.collect())
}

fn seq_of(row: &Map<String, Value>) -> Option<i64> {
    row.get("_seq")?.as_i64()
}

/// The received fields, and those columns of the row that are the mirror's own.
fn joined(mut body: Map<String, Value>, row: Map<String, Value>) -> Map<String, Value> {
    let own = row.into_iter().filter(|(name, _)| name.starts_with('_'));
    for (name, value) in own {
        body.entry(name).or_insert(value);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn fields_keep_their_types_and_the_mirror_adds_its_columns() {
        let body = object(r#"{"id":7,"parts":["a"],"paid":true}"#);
        let row = object(r#"{"id":"7","parts":"[\"a\"]","paid":1,"_seq":3,"_business":null}"#);
        let whole = joined(body, row);
        let wanted = r#"{"id":7,"parts":["a"],"paid":true,"_seq":3,"_business":null}"#;
        assert_eq!(whole, object(wanted));
    }
}
