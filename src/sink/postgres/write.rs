//! One transaction: the rows of the log, the mirror's rows and the position, or nothing of them.
//!
//! A change that the database holds already is passed over, so that a crash between the commit and
//! the caller's own note of it repeats nothing. A number that belongs to another change means that
//! another store writes under the same name; then nothing is stored.

use shopmirror_core::record::{Change, Route};
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::error::Doing;
use super::session::Schema;
use super::tables;
use crate::shape::as_text;
use crate::sink::Verdict;

/// The position that the database has. Its row is locked from here on: a second daemon of the same
/// name waits.
pub(super) async fn hold(
    tx: &Transaction<'_>,
    schema: &Schema,
    workspace: &str,
    sink: &str,
) -> Result<i64, Verdict> {
    let hold = format!(
        "INSERT INTO {} (workspace, sink, seq, event_id, saved_at) \
         VALUES ($1, $2, 0, '', now()) ON CONFLICT (workspace, sink) \
         DO UPDATE SET saved_at = excluded.saved_at RETURNING seq",
        schema.table("positions")
    );
    let names: [(&(dyn ToSql + Sync), Type); 2] = [(&workspace, Type::TEXT), (&sink, Type::TEXT)];
    let held = tx.query_typed_one(&hold, &names).await;
    Ok(held.map_err(schema.failed(Doing::Storing))?.get(0))
}

/// Stores the changes, in the order of the log, that the database does not hold yet, and the
/// position.
///
/// Without changes it tries each of the statements, and shows what the role may not do.
pub(super) async fn store(
    tx: &Transaction<'_>,
    schema: &Schema,
    workspace: &str,
    sink: &str,
    rows: &[&Change],
) -> Result<(), Verdict> {
    let failed = schema.failed(Doing::Storing);
    let (log, positions) = (schema.table("changes"), schema.table("positions"));
    let seqs = append(tx, schema, workspace, rows).await?;
    tables::grow(tx, schema, workspace, &seqs).await?;
    let which: [(&(dyn ToSql + Sync), Type); 2] =
        [(&workspace, Type::TEXT), (&seqs, Type::INT8_ARRAY)];
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
    let Some(last) = rows.last() else {
        return Ok(());
    };
    let advance = format!(
        "UPDATE {positions} SET seq = $3, event_id = $4 \
         WHERE workspace = $1 AND sink = $2 AND seq < $3"
    );
    let values: [(&(dyn ToSql + Sync), Type); 4] = [
        (&workspace, Type::TEXT),
        (&sink, Type::TEXT),
        (&last.seq, Type::INT8),
        (&last.event_id, Type::TEXT),
    ];
    tx.execute_typed(&advance, &values)
        .await
        .map(drop)
        .map_err(&failed)
}

/// Adds changes to the log in the database, and gives their numbers.
async fn append(
    tx: &Transaction<'_>,
    schema: &Schema,
    workspace: &str,
    rows: &[&Change],
) -> Result<Vec<i64>, Verdict> {
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
    let bodies: Vec<String> = rows.iter().map(|row| as_text(&row.body)).collect();
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
    match tx
        .query_typed_opt(&compare, &values[..3])
        .await
        .map_err(&failed)?
    {
        None => Ok(seqs),
        Some(row) => Err(Verdict::fault(format!(
            "change {} in the database is that of another store, or of this one before a restore: \
             give this sink a `workspace` name that no store uses",
            row.get::<_, i64>(0)
        ))),
    }
}
