//! The tables in the database: how they are made, and how they get columns for new fields.
//!
//! What is missing is made, also with the rows that it held; what is there is never changed but for
//! columns that are added. What others changed is told by the server's own errors. Several daemons
//! may share one schema: each change of the tables is made under a lock that they share.

use shopmirror_core::record::Route;
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::error::Doing;
use super::session::{Schema, quoted};
use crate::sink::Verdict;

const CHANGES: &str = "workspace text NOT NULL, seq bigint NOT NULL, event_id text NOT NULL, \
     route text NOT NULL, record_id text, kind text NOT NULL, version bigint NOT NULL, \
     observed_at timestamptz NOT NULL, business text, body jsonb NOT NULL, exact text, \
     PRIMARY KEY (workspace, seq)";
const POSITIONS: &str = "workspace text NOT NULL, sink text NOT NULL, seq bigint NOT NULL, \
     event_id text NOT NULL, saved_at timestamptz NOT NULL, PRIMARY KEY (workspace, sink)";
const COLUMNS: &str = "route text NOT NULL, field text NOT NULL, \"column\" text NOT NULL, \
     PRIMARY KEY (route, field)";
const MIRROR: &str = "workspace text NOT NULL, id text NOT NULL, body jsonb NOT NULL, \
     _business text, _first_seen_at timestamptz NOT NULL, _changed_at timestamptz NOT NULL, \
     _seq bigint NOT NULL, PRIMARY KEY (workspace, id)";
/// A field past this many columns is kept in `body` only.
const MAX_COLUMNS: usize = 256;
/// Fields that get no column of their own: the names of ours, and those of PostgreSQL itself.
const RESERVED: [&str; 13] = [
    "workspace",
    "id",
    "body",
    "_business",
    "_first_seen_at",
    "_changed_at",
    "_seq",
    "tableoid",
    "xmin",
    "cmin",
    "xmax",
    "cmax",
    "ctid",
];

/// A text as an SQL literal, whatever the server's settings.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Makes the schema and the tables that are missing.
///
/// The log in the database has the text of every record, so that a table of a route is filled from
/// it. Without the log nothing that was stored counts: the positions go as well, and each sink
/// delivers again what it has.
pub(super) async fn make(tx: &Transaction<'_>, schema: &Schema) -> Result<(), Verdict> {
    lock(tx, schema, Doing::MakingTables).await?;
    let routes = Route::ALL.map(Route::as_str);
    let names: Vec<&str> = ["changes", "positions", "columns"]
        .into_iter()
        .chain(routes)
        .collect();
    let failed = schema.failed(Doing::MakingTables);
    let missing = tx
        .query(
            "SELECT name FROM unnest($1::text[]) AS name \
             WHERE to_regclass(format('%I.%I', $2::text, name)) IS NULL",
            &[&names, &schema.name],
        )
        .await
        .map_err(&failed)?;
    let missing: Vec<&str> = missing.iter().map(|row| row.get(0)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let is_missing = "SELECT to_regnamespace(quote_ident($1)) IS NULL";
    // Even IF NOT EXISTS asks for the right to create schemas.
    if tx
        .query_one(is_missing, &[&schema.name])
        .await
        .map_err(&failed)?
        .get(0)
    {
        let create = format!("CREATE SCHEMA {}", quoted(&schema.name));
        tx.batch_execute(&create)
            .await
            .map_err(schema.failed(Doing::MakingSchema))?;
    }
    let (changes, positions) = (schema.table("changes"), schema.table("positions"));
    let shared = format!(
        "CREATE TABLE IF NOT EXISTS {changes} ({CHANGES}); \
         CREATE TABLE IF NOT EXISTS {positions} ({POSITIONS}); \
         CREATE TABLE IF NOT EXISTS {} ({COLUMNS})",
        schema.table("columns")
    );
    tx.batch_execute(&shared).await.map_err(&failed)?;
    if missing.contains(&"changes") {
        let of_log = format!(
            "CREATE INDEX ON {changes} (workspace, route, record_id, version); \
             CREATE INDEX ON {changes} (workspace, route, record_id) WHERE kind = 'forgotten'; \
             DELETE FROM {positions}"
        );
        tx.batch_execute(&of_log).await.map_err(&failed)?;
    }
    for route in Route::ALL
        .into_iter()
        .filter(|route| missing.contains(&route.as_str()))
    {
        let columns = columns(tx, schema, route).await?;
        let own: String = columns
            .iter()
            .map(|(_, column)| format!("{} text, ", quoted(column)))
            .collect();
        let fill = upsert(schema, route, &columns, &format!("{changes} AS c"));
        let make = format!(
            "CREATE TABLE {} ({own}{MIRROR}); {fill}",
            schema.table(route.as_str())
        );
        tx.batch_execute(&make).await.map_err(&failed)?;
    }
    Ok(())
}

/// The changes `c` of the log with the numbers in `$2`, of the workspace in `$1`.
///
/// Each is looked up by its key. As a condition, PostgreSQL reads the whole log for it until it has
/// statistics of the table.
pub(super) fn given(schema: &Schema) -> String {
    format!(
        "unnest($2) AS given (number) CROSS JOIN LATERAL \
         (SELECT * FROM {} WHERE workspace = $1 AND seq = given.number LIMIT 1) AS c",
        schema.table("changes")
    )
}

/// Adds a column for each new field of these changes of the log.
pub(super) async fn grow(
    tx: &Transaction<'_>,
    schema: &Schema,
    workspace: &str,
    seqs: &[i64],
) -> Result<(), Verdict> {
    let (given, columns) = (given(schema), schema.table("columns"));
    let look = format!(
        "SELECT route, field FROM (SELECT route, field, row_number() OVER \
         (PARTITION BY route ORDER BY field) + (SELECT count(*) FROM {columns} n \
         WHERE n.route = found.route) AS place FROM (SELECT DISTINCT c.route, k.field \
         FROM {given} CROSS JOIN jsonb_object_keys(CASE jsonb_typeof(c.body) \
         WHEN 'object' THEN c.body ELSE '{{}}' END) AS k (field) \
         WHERE c.record_id IS NOT NULL AND c.kind NOT IN ('gap', 'forgotten') AND octet_length(k.field) BETWEEN 1 AND 63 \
         AND k.field <> ALL ($3)) AS found WHERE NOT EXISTS (SELECT FROM {columns} n \
         WHERE n.route = found.route AND found.field IN (n.field, n.\"column\"))) AS new \
         WHERE place <= {MAX_COLUMNS}"
    );
    let reserved = RESERVED.as_slice();
    let values: [(&(dyn ToSql + Sync), Type); 3] = [
        (&workspace, Type::TEXT),
        (&seqs, Type::INT8_ARRAY),
        (&reserved, Type::TEXT_ARRAY),
    ];
    let failed = schema.failed(Doing::AddingColumns);
    if tx
        .query_typed(&look, &values)
        .await
        .map_err(&failed)?
        .is_empty()
    {
        return Ok(());
    }
    lock(tx, schema, Doing::AddingColumns).await?;
    // Another daemon may have added some.
    let new = tx.query_typed(&look, &values).await.map_err(&failed)?;
    let add = new.iter().map(|row| {
        let (route, field): (&str, &str) = (row.get(0), row.get(1));
        let (table, column) = (schema.table(route), quoted(field));
        let (route, field) = (literal(route), literal(field));
        format!(
            "ALTER TABLE {table} ADD COLUMN {column} text; \
             INSERT INTO {columns} (route, field, \"column\") VALUES ({route}, {field}, {field}); "
        )
    });
    tx.batch_execute(&add.collect::<String>())
        .await
        .map_err(&failed)
}

/// The fields of a route that have a column, with its name.
pub(super) async fn columns(
    tx: &Transaction<'_>,
    schema: &Schema,
    route: Route,
) -> Result<Vec<(String, String)>, Verdict> {
    let look = format!(
        "SELECT field, \"column\" FROM {} WHERE route = $1 ORDER BY field",
        schema.table("columns")
    );
    let rows = tx
        .query_typed(&look, &[(&route.as_str(), Type::TEXT)])
        .await;
    let rows = rows.map_err(schema.failed(Doing::Storing))?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// The statement that brings the mirror table of a route up to date with the changes `c` of the log
/// that `from` gives.
///
/// A later change is never replaced by an earlier one, and a forgotten record stays away.
pub(super) fn upsert(
    schema: &Schema,
    route: Route,
    columns: &[(String, String)],
    from: &str,
) -> String {
    let (table, changes) = (schema.table(route.as_str()), schema.table("changes"));
    let (mut names, mut values, mut sets) = (String::new(), String::new(), String::new());
    for (field, column) in columns {
        let column = quoted(column);
        names += &format!(", {column}");
        values += &format!(", c.body ->> {}", literal(field));
        sets += &format!(", {column} = excluded.{column}");
    }
    // The rows of every statement are locked in the same order, so that no two wait for each other.
    format!(
        "INSERT INTO {table} AS m \
         (workspace, id, body, _business, _first_seen_at, _changed_at, _seq{names}) \
         SELECT c.workspace, c.record_id, c.body, c.business, (SELECT min(o.observed_at) \
         FROM {changes} o WHERE o.workspace = c.workspace AND o.route = c.route \
         AND o.record_id = c.record_id), c.observed_at, c.seq{values} \
         FROM (SELECT DISTINCT ON (c.workspace, c.record_id) c.* FROM {from} \
         WHERE c.route = '{route}' AND c.record_id IS NOT NULL \
         AND c.kind NOT IN ('gap', 'forgotten') \
         ORDER BY c.workspace, c.record_id, c.seq DESC) AS c \
         WHERE NOT EXISTS (SELECT FROM {changes} f WHERE f.workspace = c.workspace \
         AND f.route = c.route AND f.record_id = c.record_id AND f.kind = 'forgotten') \
         ON CONFLICT (workspace, id) DO UPDATE SET body = excluded.body, \
         _business = excluded._business, _changed_at = excluded._changed_at, \
         _seq = excluded._seq{sets} WHERE excluded._seq >= m._seq"
    )
}

/// Keeps other daemons from changing the tables of this schema until the transaction ends.
async fn lock(tx: &Transaction<'_>, schema: &Schema, doing: Doing) -> Result<(), Verdict> {
    let key = format!("shopmirror tables {}", schema.name);
    tx.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))",
        &[&key],
    )
    .await
    .map(drop)
    .map_err(schema.failed(doing))
}
