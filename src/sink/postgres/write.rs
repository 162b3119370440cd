//! One transaction: the rows of the log, the mirror's rows and the position, or nothing of them.
//!
//! A change that the database holds already is passed over, so that a crash between the commit and
//! the caller's own note of it repeats nothing. A number that belongs to another change means that
//! another store writes under the same name; then nothing is stored.

use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::error::{Doing, PostgresError};
use super::session::Schema;
use super::tables;
use crate::record::{Change, Route};

/// Under which names changes are stored.
#[derive(Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) workspace: &'a str,
    pub(super) sink: &'a str,
}

/// Stores the changes that the database does not hold yet. Fails if the position in the database is
/// lower than `expected`: then it lost what it had.
///
/// Without changes it tries each of the statements, and shows what the role may not do.
pub(super) async fn store(
    tx: &Transaction<'_>,
    schema: &Schema,
    owner: Owner<'_>,
    expected: i64,
    changes: &[&Change],
) -> Result<(), PostgresError> {
    let failed = schema.failed(Doing::Storing);
    let (log, positions) = (schema.table("changes"), schema.table("positions"));
    // The row is locked from here on: a second daemon of the same name waits.
    let hold = format!(
        "INSERT INTO {positions} (workspace, sink, seq, event_id, saved_at) \
         VALUES ($1, $2, 0, '', now()) ON CONFLICT (workspace, sink) \
         DO UPDATE SET saved_at = excluded.saved_at RETURNING seq"
    );
    let names: [(&(dyn ToSql + Sync), Type); 2] =
        [(&owner.workspace, Type::TEXT), (&owner.sink, Type::TEXT)];
    let held: i64 = tx.query_typed_one(&hold, &names).await.map_err(&failed)?.get(0);
    if held < expected {
        return Err(PostgresError::Lost(held));
    }
    let mut rows = changes.to_vec();
    rows.sort_by_key(|change| change.seq);
    let seqs = append(tx, schema, owner.workspace, &rows).await?;
    tables::grow(tx, schema, owner.workspace, &seqs).await?;
    let which: [(&(dyn ToSql + Sync), Type); 2] =
        [(&owner.workspace, Type::TEXT), (&seqs, Type::INT8_ARRAY)];
    let given = tables::given(schema);
    let is_asked = |route: &Route| rows.is_empty() || rows.iter().any(|row| row.route == *route);
    for route in Route::ALL.into_iter().filter(is_asked) {
        let columns = tables::columns(tx, schema, route).await?;
        let upsert = tables::upsert(schema, route, &columns, &given);
        tx.execute_typed(&upsert, &which).await.map_err(&failed)?;
        let forget = format!(
            "DELETE FROM {} m USING {log} f WHERE f.workspace = $1 AND f.seq = ANY ($2) \
             AND f.kind = 'forgotten' AND f.route = '{route}' \
             AND m.workspace = f.workspace AND m.id = f.record_id",
            schema.table(route.as_str())
        );
        tx.execute_typed(&forget, &which).await.map_err(&failed)?;
    }
    let erase = format!(
        "UPDATE {log} c SET body = f.body, exact = NULL FROM {log} f WHERE f.workspace = $1 \
         AND f.seq = ANY ($2) AND f.kind = 'forgotten' AND c.workspace = f.workspace \
         AND c.route = f.route AND c.record_id = f.record_id"
    );
    tx.execute_typed(&erase, &which).await.map_err(&failed)?;
    let Some(last) = rows.last() else { return Ok(()) };
    let advance = format!(
        "UPDATE {positions} SET seq = $3, event_id = $4 \
         WHERE workspace = $1 AND sink = $2 AND seq < $3"
    );
    let [workspace, sink] = names;
    let values = [workspace, sink, (&last.seq, Type::INT8), (&last.event_id, Type::TEXT)];
    tx.execute_typed(&advance, &values).await.map(drop).map_err(&failed)
}

/// Adds changes to the log in the database, and gives their numbers.
async fn append(
    tx: &Transaction<'_>,
    schema: &Schema,
    workspace: &str,
    rows: &[&Change],
) -> Result<Vec<i64>, PostgresError> {
    let failed = schema.failed(Doing::Storing);
    let log = schema.table("changes");
    let seqs: Vec<i64> = rows.iter().map(|row| row.seq).collect();
    let event_ids: Vec<&str> = rows.iter().map(|row| row.event_id.as_str()).collect();
    let routes: Vec<&str> = rows.iter().map(|row| row.route.as_str()).collect();
    let record_ids: Vec<Option<&str>> = rows.iter().map(|row| row.record_id.as_deref()).collect();
    let kinds: Vec<&str> = rows.iter().map(|row| row.kind.as_str()).collect();
    let versions: Vec<i64> = rows.iter().map(|row| row.version).collect();
    let times: Vec<&str> = rows.iter().map(|row| row.observed_at.as_str()).collect();
    let businesses: Vec<Option<&str>> = rows.iter().map(|row| row.business.as_deref()).collect();
    let bodies: Vec<String> = rows.iter().map(|row| storable(&row.body)).collect();
    let exact: Vec<Option<&str>> = rows
        .iter()
        .zip(&bodies)
        .map(|(row, body)| (row.body != *body).then_some(row.body.as_str()))
        .collect();
    let insert = format!(
        "INSERT INTO {log} (workspace, seq, event_id, route, record_id, kind, version, \
         observed_at, business, body, exact) SELECT $1, seq, event_id, route, record_id, kind, \
         version, observed_at::timestamptz, business, body::jsonb, exact \
         FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11) AS given (seq, event_id, route, \
         record_id, kind, version, observed_at, business, body, exact) \
         ON CONFLICT (workspace, seq) DO NOTHING"
    );
    let values: [(&(dyn ToSql + Sync), Type); 11] = [
        (&workspace, Type::TEXT),
        (&seqs, Type::INT8_ARRAY),
        (&event_ids, Type::TEXT_ARRAY),
        (&routes, Type::TEXT_ARRAY),
        (&record_ids, Type::TEXT_ARRAY),
        (&kinds, Type::TEXT_ARRAY),
        (&versions, Type::INT8_ARRAY),
        (&times, Type::TEXT_ARRAY),
        (&businesses, Type::TEXT_ARRAY),
        (&bodies, Type::TEXT_ARRAY),
        (&exact, Type::TEXT_ARRAY),
    ];
    tx.execute_typed(&insert, &values).await.map_err(&failed)?;
    let compare = format!(
        "SELECT given.seq FROM unnest($2, $3) AS given (seq, event_id) CROSS JOIN LATERAL \
         (SELECT event_id FROM {log} WHERE workspace = $1 AND seq = given.seq LIMIT 1) AS c \
         WHERE c.event_id <> given.event_id ORDER BY given.seq LIMIT 1"
    );
    match tx.query_typed_opt(&compare, &values[..3]).await.map_err(&failed)? {
        None => Ok(seqs),
        Some(row) => Err(PostgresError::Server(format!(
            "change {} in the database is that of another store, or of this one before a restore: \
             give this sink a `workspace` name that no store uses",
            row.get::<_, i64>(0)
        ))),
    }
}

/// The text of a record as one that `jsonb` holds: a NUL character and half of a surrogate pair
/// become U+FFFD.
fn storable(json: &str) -> String {
    let mut held = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escapes) = rest.split_at(at);
        // The code unit of the escape `\uXXXX` at this place.
        let unit = |at: usize| {
            let digits = escapes.get(at..at + 6)?.strip_prefix("\\u")?;
            u16::from_str_radix(digits, 16).ok()
        };
        let (text, length) = match (unit(0), unit(6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (&escapes[..12], 12),
            (Some(0 | 0xd800..=0xdfff), _) => ("\\ufffd", 6),
            // A backslash and what it escapes.
            _ => escapes.get(..2).map_or((escapes, escapes.len()), |pair| (pair, 2)),
        };
        held.push_str(before);
        held.push_str(text);
        rest = &escapes[length..];
    }
    held + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_jsonb_cannot_hold_is_replaced_and_nothing_else() {
        for (json, held) in [
            (r#"{"a\u0000":"\u0000x"}"#, r#"{"a\ufffd":"\ufffdx"}"#),
            (r#""\\\u0000\\u0000""#, r#""\\\ufffd\\u0000""#),
            (r#""\ud800""#, r#""\ufffd""#),
            (r#""\ud800\ud800\udc00""#, r#""\ufffd\ud800\udc00""#),
            (r#""\uDC00a\uD83D\n""#, r#""\ufffda\ufffd\n""#),
        ] {
            assert_eq!(storable(json), held, "{json}");
        }
        let fine = r#"{"id":1,"note":"a \" \\u0000 é 😀 \ud83d\ude00 \n \u00e9"}"#;
        assert_eq!(storable(fine), fine);
    }
}
