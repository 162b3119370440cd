//! One transaction: the rows of the log, the mirror's rows and the position, or nothing of them.
//!
//! A change that the database holds already is passed over, so that a crash between the commit and
//! the caller's own note of it repeats nothing. A number that belongs to another change means that
//! another store writes under the same name; then nothing is stored.

use shopmirror_core::reading::ReadRules;
use shopmirror_core::record::{Change, Route};
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::derived;
use super::error::Doing;
use super::schema::Schema;
use super::tables;
use crate::shape::as_text;
use crate::sink::Verdict;

/// What the database has of a sink: the last row of the log, and up to which row the mirror was read
/// by which rules.
pub(super) struct Position {
    pub(super) seq: i64,
    pub(super) read_by: Option<String>,
    pub(super) read_route: Option<String>,
    pub(super) read_after: Option<String>,
}

/// The position that the database has. Its row is locked until the transaction ends: a second
/// daemon of the same name waits.
pub(super) async fn lock_position(
    tx: &Transaction<'_>,
    schema: &Schema,
    workspace: &str,
    sink: &str,
) -> Result<Position, Verdict> {
    let positions = schema.table("positions");
    let lock = format!(
        "INSERT INTO {positions} (workspace, sink, seq, event_id, saved_at)
        VALUES ($1, $2, 0, '', now())
        ON CONFLICT (workspace, sink) DO UPDATE SET saved_at = excluded.saved_at
        RETURNING seq, read_by, read_route, read_after"
    );
    let names: [(&(dyn ToSql + Sync), Type); 2] = [(&workspace, Type::TEXT), (&sink, Type::TEXT)];
    let row = tx
        .query_typed_one(&lock, &names)
        .await
        .map_err(schema.failed(Doing::Storing))?;
    Ok(Position {
        seq: row.get(0),
        read_by: row.get(1),
        read_route: row.get(2),
        read_after: row.get(3),
    })
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
    rules: &ReadRules,
) -> Result<(), Verdict> {
    let seqs = append(tx, schema, workspace, rows).await?;
    tables::note_new_fields(tx, schema, workspace, &seqs).await?;
    for route in Route::ALL {
        if rows.is_empty() || rows.iter().any(|row| row.route == route) {
            update_mirror(tx, schema, workspace, route, &seqs).await?;
            derived::write(tx, schema, workspace, route, rules, rows).await?;
        }
    }
    erase_forgotten(tx, schema, workspace, &seqs).await?;
    match rows.last() {
        Some(last) => advance(tx, schema, workspace, sink, last).await,
        None => Ok(()),
    }
}

/// Brings the table of a route up to date with these changes of the log.
async fn update_mirror(
    tx: &Transaction<'_>,
    schema: &Schema,
    workspace: &str,
    route: Route,
    seqs: &[i64],
) -> Result<(), Verdict> {
    let failed = schema.failed(Doing::Storing);
    let values: [(&(dyn ToSql + Sync), Type); 2] =
        [(&workspace, Type::TEXT), (&seqs, Type::INT8_ARRAY)];
    let columns = tables::columns(tx, schema, route).await?;
    let changes = tables::changes_by_seq(schema);
    let upsert = tables::upsert(schema, route, &columns, &changes);
    tx.execute_typed(&upsert, &values).await.map_err(&failed)?;

    let log = schema.table("changes");
    let table = schema.table(route.as_str());
    let forget = format!(
        "DELETE FROM {table} m
        USING {log} f
        WHERE f.workspace = $1
            AND f.seq = ANY ($2)
            AND f.kind = 'forgotten'
            AND f.route = '{route}'
            AND m.workspace = f.workspace
            AND m.id = f.record_id"
    );
    tx.execute_typed(&forget, &values)
        .await
        .map(drop)
        .map_err(&failed)
}

/// Erases the text of every version of the records that these changes forget.
async fn erase_forgotten(
    tx: &Transaction<'_>,
    schema: &Schema,
    workspace: &str,
    seqs: &[i64],
) -> Result<(), Verdict> {
    let log = schema.table("changes");
    let erase = format!(
        "UPDATE {log} c
        SET body = f.body, exact = NULL
        FROM {log} f
        WHERE f.workspace = $1
            AND f.seq = ANY ($2)
            AND f.kind = 'forgotten'
            AND c.workspace = f.workspace
            AND c.route = f.route
            AND c.record_id = f.record_id"
    );
    let values: [(&(dyn ToSql + Sync), Type); 2] =
        [(&workspace, Type::TEXT), (&seqs, Type::INT8_ARRAY)];
    tx.execute_typed(&erase, &values)
        .await
        .map(drop)
        .map_err(schema.failed(Doing::Storing))
}

/// Moves the position to this change; never back.
async fn advance(
    tx: &Transaction<'_>,
    schema: &Schema,
    workspace: &str,
    sink: &str,
    last: &Change,
) -> Result<(), Verdict> {
    let positions = schema.table("positions");
    let advance = format!(
        "UPDATE {positions}
        SET seq = $3, event_id = $4
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
        .map_err(schema.failed(Doing::Storing))
}

/// The columns of the rows that are added to the log.
#[derive(Default)]
struct LogColumns<'a> {
    seqs: Vec<i64>,
    event_ids: Vec<&'a str>,
    routes: Vec<&'a str>,
    record_ids: Vec<Option<&'a str>>,
    kinds: Vec<&'a str>,
    versions: Vec<i64>,
    times: Vec<&'a str>,
    businesses: Vec<Option<&'a str>>,
    bodies: Vec<String>,
    /// The texts that `jsonb` cannot hold as they are.
    exact: Vec<Option<&'a str>>,
}

impl<'a> LogColumns<'a> {
    fn from_changes(changes: &[&'a Change]) -> Self {
        let mut columns = Self::default();
        for change in changes {
            let body = as_text(&change.body);
            let is_exact = body == change.body;
            columns.seqs.push(change.seq);
            columns.event_ids.push(&change.event_id);
            columns.routes.push(change.route.as_str());
            columns.record_ids.push(change.record_id.as_deref());
            columns.kinds.push(change.kind.as_str());
            columns.versions.push(change.version);
            columns.times.push(&change.observed_at);
            columns.businesses.push(change.business.as_deref());
            columns.bodies.push(body);
            columns
                .exact
                .push(if is_exact { None } else { Some(&change.body) });
        }
        columns
    }
}

/// Adds changes to the log in the database, and returns their numbers.
async fn append(
    tx: &Transaction<'_>,
    schema: &Schema,
    workspace: &str,
    rows: &[&Change],
) -> Result<Vec<i64>, Verdict> {
    let failed = schema.failed(Doing::Storing);
    let log = schema.table("changes");
    let columns = LogColumns::from_changes(rows);
    let insert = format!(
        "INSERT INTO {log} (
            workspace, seq, event_id, route, record_id, kind, version, observed_at, business,
            body, exact
        )
        SELECT
            $1, seq, event_id, route, record_id, kind, version, observed_at::timestamptz, business,
            body::jsonb, exact
        FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11) AS added (
            seq, event_id, route, record_id, kind, version, observed_at, business, body, exact
        )
        ON CONFLICT (workspace, seq) DO NOTHING"
    );
    let values: [(&(dyn ToSql + Sync), Type); 11] = [
        (&workspace, Type::TEXT),
        (&columns.seqs, Type::INT8_ARRAY),
        (&columns.event_ids, Type::TEXT_ARRAY),
        (&columns.routes, Type::TEXT_ARRAY),
        (&columns.record_ids, Type::TEXT_ARRAY),
        (&columns.kinds, Type::TEXT_ARRAY),
        (&columns.versions, Type::INT8_ARRAY),
        (&columns.times, Type::TEXT_ARRAY),
        (&columns.businesses, Type::TEXT_ARRAY),
        (&columns.bodies, Type::TEXT_ARRAY),
        (&columns.exact, Type::TEXT_ARRAY),
    ];
    tx.execute_typed(&insert, &values).await.map_err(&failed)?;

    // The first row that was there already and belongs to another change.
    let compare = format!(
        "SELECT added.seq
        FROM unnest($2, $3) AS added (seq, event_id)
        CROSS JOIN LATERAL (
            SELECT event_id
            FROM {log}
            WHERE workspace = $1 AND seq = added.seq
            LIMIT 1
        ) AS c
        WHERE c.event_id <> added.event_id
        ORDER BY added.seq
        LIMIT 1"
    );
    let foreign = tx
        .query_typed_opt(&compare, &values[..3])
        .await
        .map_err(&failed)?;
    match foreign {
        None => Ok(columns.seqs),
        Some(row) => Err(Verdict::fault(format!(
            "change {} in the database is that of another store, or of this one before a restore: \
             give this sink a `workspace` name that no store uses",
            row.get::<_, i64>(0)
        ))),
    }
}
