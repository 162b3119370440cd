//! What tables beside the mirror and the log hold of a record's text: errors and alerts that quote
//! what a receiver said, reports that wait, and the search terms of a backfill.

use std::collections::BTreeSet;

use rusqlite::{Connection, Transaction};
use serde_json::Value;

use crate::record::Route;

/// A shorter search term is a part of too many words to tell anything about one record, and the
/// longest text in which a search finds a customer: a name, an e-mail address or a number.
const TERM_MIN: usize = 4;
const SEARCHED_MAX: usize = 200;

/// What a waiting alert says in the place of a text that may have quoted the record.
const REMOVED: &str =
    "the details were removed together with a forgotten record; see `shopmirror status`";

/// Removes all of it in the caller's transaction. To be called while the log still holds the record.
pub(in crate::store) fn remove(
    tx: &Transaction<'_>,
    route: Route,
    id: &str,
) -> rusqlite::Result<()> {
    // A report that waits for its sink may name the record; the next one does not.
    tx.execute("DELETE FROM _queue WHERE lane = 0 AND seq IN (SELECT id FROM _notices WHERE kind = 'report')", [])?;
    tx.execute("UPDATE _queue SET last_error = NULL", [])?;
    tx.execute(
        "UPDATE _notices SET body = json_set(body, '$.text', ?1, '$.reasons', json_array()) \
         WHERE kind = 'alert' AND json_extract(body, '$.state') = 'begun'",
        [REMOVED],
    )?;
    tx.execute("UPDATE _replays SET last_error = NULL", [])?;
    tx.execute("UPDATE _sinks SET last_error = NULL, last_error_at = NULL", [])?;
    let said = texts(tx, route, id)?;
    for (business, term) in terms(tx)? {
        let wanted = letters(&term);
        let tells = wanted.chars().count() >= TERM_MIN;
        if tells && said.iter().any(|text| text.contains(&wanted)) {
            tx.prepare_cached("DELETE FROM _backfill_terms WHERE business = ?1 AND term = ?2")?
                .execute((business, term))?;
        }
    }
    Ok(())
}

fn terms(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.prepare_cached("SELECT business, term FROM _backfill_terms")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// The letters and digits of every text that can be searched in every version of the record.
fn texts(connection: &Connection, route: Route, id: &str) -> rusqlite::Result<BTreeSet<String>> {
    let mut statement = connection
        .prepare_cached("SELECT body FROM changes WHERE route = ?1 AND record_id = ?2")?;
    let mut rows = statement.query((route.as_str(), id))?;
    let mut texts = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let body = row.get_ref(0)?.as_str()?;
        match serde_json::from_str(body) {
            Ok(record) => collect(&record, &mut texts),
            // Half of a surrogate pair: the text as it is.
            Err(_) => drop(texts.insert(letters(body))),
        }
    }
    Ok(texts)
}

fn collect(value: &Value, texts: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if text.len() <= SEARCHED_MAX => drop(texts.insert(letters(text))),
        Value::Number(number) => drop(texts.insert(letters(&number.to_string()))),
        Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Value::Object(fields) => fields.values().for_each(|value| collect(value, texts)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// A text as a search compares it, however it is written.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
