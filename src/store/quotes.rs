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
pub(super) fn remove(tx: &Transaction<'_>, route: Route, id: &str) -> rusqlite::Result<()> {
    // A report that waits for its sink may name the record; the next one does not.
    tx.execute("DELETE FROM _notices WHERE kind = 'report'", [])?;
    tx.execute("UPDATE _notices SET last_error = NULL", [])?;
    tx.execute(
        "UPDATE _notices SET body = json_set(body, '$.text', ?1, '$.reasons', json_array()) \
         WHERE kind = 'alert' AND json_extract(body, '$.state') = 'begun'",
        [REMOVED],
    )?;
    tx.execute("UPDATE _replays SET last_error = NULL", [])?;
    tx.execute("UPDATE sinks SET last_error = NULL, last_error_at = NULL", [])?;
    let said = texts(tx, route, id)?;
    for (business, term) in terms(tx)? {
        let wanted = letters(&term);
        let tells = wanted.chars().count() >= TERM_MIN;
        if tells && said.iter().any(|text| text.contains(&wanted)) {
            tx.prepare_cached("DELETE FROM backfill_terms WHERE business = ?1 AND term = ?2")?
                .execute((business, term))?;
        }
    }
    Ok(())
}

fn terms(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.prepare_cached("SELECT business, term FROM backfill_terms")?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fixtures::{Poll, open, record};
    use crate::store::operate::Operator;

    #[tokio::test]
    async fn no_error_alert_report_or_search_term_keeps_a_word_of_a_forgotten_record() {
        let (dir, store) = open();
        let path = dir.path().join("mirror.db");
        Poll::USUAL.shows(&store, &[record(1, "Ana Quetzal-Före"), record(2, "Bo Else")]).await;
        Poll::USUAL.shows(&store, &[record(1, "Ana Renamed"), record(2, "Bo Else")]).await;
        store.close().await.unwrap();
        drop(store);
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch(
                r#"INSERT INTO sinks (name, type, state, position, delivered, created_at, last_error)
                     VALUES ('erp', 'webhook', 'active', 0, 0, '2026', 'down for Quetzal');
                   INSERT INTO _notices (sink, event_id, kind, about, version, made_at, body, attempts, last_error)
                     VALUES ('ops', 'a', 'alert', 'sink/erp', 1, '2026',
                             '{"state":"begun","title":"t","text":"down for Quetzal","reasons":["Quetzal"]}', 0, 'Quetzal'),
                            ('ops', 'o', 'alert', 'health', 2, '2026', '{"state":"over","text":"all is well"}', 0, NULL),
                            ('ops', 'r', 'report', 'late', 3, '2026', 'Quetzal owes 3', 0, NULL);
                   INSERT INTO backfill_terms (business, term, returned, asked_at)
                     VALUES ('', 'quetzal', 1, '2026'), ('7', 'ana quetzal-F', 1, '2026'), ('', 'FÖRE', 1, '2026'),
                            ('', 'renam', 1, '2026'), ('', 'else', 1, '2026'), ('', 'an', 1, '2026');"#,
            )
            .unwrap();
        drop(connection);
        Operator::open(&path).unwrap().forget(Route::Leads, "1", "2026").unwrap();
        let connection = Connection::open(&path).unwrap();
        let found = |sql: &str| -> Vec<String> {
            let mut statement = connection.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| row.get(0)).unwrap();
            rows.collect::<rusqlite::Result<_>>().unwrap()
        };
        assert_eq!(found("SELECT term FROM backfill_terms ORDER BY term"), ["an", "else"]);
        assert_eq!(found("SELECT name FROM sinks WHERE last_error IS NULL"), ["erp"]);
        assert_eq!(
            found("SELECT json_extract(body, '$.text') FROM _notices ORDER BY id"),
            [REMOVED, "all is well"]
        );
        let bytes = std::fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        for word in ["quetzal", "renam", "före"] {
            assert!(!text.contains(word), "{word} is still in the file");
        }
    }
}
