//! The tables in the database: how they are created, and how they get columns for new fields.
//!
//! Missing tables are created, with the rows that they held; existing ones are never changed but
//! for columns that are added. What others changed shows in the server's own errors. Several
//! daemons may share one schema: each change of the tables is made under a lock that they share.

use shopmirror_core::record::Route;
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::derived;
use super::error::Doing;
use super::schema::{Schema, literal, quoted};
use crate::sink::Verdict;

/// The tables that all routes share.
const SHARED: [&str; 3] = ["changes", "positions", "columns"];
/// The columns of the log.
const CHANGES: &str = "
    workspace text NOT NULL,
    seq bigint NOT NULL,
    event_id text NOT NULL,
    route text NOT NULL,
    record_id text,
    kind text NOT NULL,
    version bigint NOT NULL,
    observed_at timestamptz NOT NULL,
    business text,
    body jsonb NOT NULL,
    exact text,
    PRIMARY KEY (workspace, seq)";
/// The last row of the log that each sink has stored. Rows were read by the rules `read_by`; while
/// they are read again by these, up to the row `read_after` of `read_route`.
const POSITIONS: &str = "
    workspace text NOT NULL,
    sink text NOT NULL,
    seq bigint NOT NULL,
    event_id text NOT NULL,
    saved_at timestamptz NOT NULL,
    read_by text,
    read_route text,
    read_after text,
    PRIMARY KEY (workspace, sink)";
/// The fields of each route that have a column in its table.
const COLUMNS: &str = r#"
    route text NOT NULL,
    field text NOT NULL,
    "column" text NOT NULL,
    PRIMARY KEY (route, field)"#;
/// The columns that the table of every route has.
const MIRROR: &str = "
    workspace text NOT NULL,
    id text NOT NULL,
    body jsonb NOT NULL,
    _business text,
    _first_seen_at timestamptz NOT NULL,
    _changed_at timestamptz NOT NULL,
    _vanished_at timestamptz,
    _seq bigint NOT NULL,
    PRIMARY KEY (workspace, id)";
/// The tables of `$1` that the schema `$2` does not have.
const MISSING_TABLES: &str = "
    SELECT name
    FROM unnest($1::text[]) AS name
    WHERE to_regclass(format('%I.%I', $2::text, name)) IS NULL";
/// A field past this many columns is stored in `body` only.
const MAX_COLUMNS: usize = 256;
/// Fields that get no column of their own: the names of ours, and those of PostgreSQL itself.
const RESERVED: [&str; 14] = [
    "workspace",
    "id",
    "body",
    "_business",
    "_first_seen_at",
    "_changed_at",
    "_vanished_at",
    "_seq",
    "tableoid",
    "xmin",
    "cmin",
    "xmax",
    "cmax",
    "ctid",
];

/// Creates the schema and the tables that are missing.
///
/// The log in the database has the text of every record, so that a table of a route is filled from
/// it. Without the log nothing that was stored counts: the positions go as well, and each sink
/// delivers again what it has.
pub(super) async fn create_missing(tx: &Transaction<'_>, schema: &Schema) -> Result<(), Verdict> {
    lock(tx, schema, Doing::MakingTables).await?;
    let failed = schema.failed(Doing::MakingTables);
    let mut names = SHARED.to_vec();
    names.extend(Route::ALL.map(Route::as_str));
    let rows = tx
        .query(MISSING_TABLES, &[&names, &schema.name])
        .await
        .map_err(&failed)?;
    let missing: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    create_schema(tx, schema).await?;
    create_shared(tx, schema, missing.contains(&"changes")).await?;
    for route in Route::ALL {
        if missing.contains(&route.as_str()) {
            create_mirror(tx, schema, route).await?;
        }
    }
    Ok(())
}

async fn create_schema(tx: &Transaction<'_>, schema: &Schema) -> Result<(), Verdict> {
    // Even IF NOT EXISTS asks for the right to create schemas.
    let is_missing = tx
        .query_one(
            "SELECT to_regnamespace(quote_ident($1)) IS NULL",
            &[&schema.name],
        )
        .await
        .map_err(schema.failed(Doing::MakingTables))?;
    if !is_missing.get::<_, bool>(0) {
        return Ok(());
    }
    let create = format!("CREATE SCHEMA {}", quoted(&schema.name));
    tx.batch_execute(&create)
        .await
        .map_err(schema.failed(Doing::MakingSchema))
}

/// Creates the log, the positions and the list of columns; `is_new_log` if there was no log.
async fn create_shared(
    tx: &Transaction<'_>,
    schema: &Schema,
    is_new_log: bool,
) -> Result<(), Verdict> {
    let failed = schema.failed(Doing::MakingTables);
    let changes = schema.table("changes");
    let positions = schema.table("positions");
    let columns = schema.table("columns");
    let create = format!(
        "CREATE TABLE IF NOT EXISTS {changes} ({CHANGES});
        CREATE TABLE IF NOT EXISTS {positions} ({POSITIONS});
        CREATE TABLE IF NOT EXISTS {columns} ({COLUMNS})"
    );
    tx.batch_execute(&create).await.map_err(&failed)?;
    if !is_new_log {
        return Ok(());
    }
    let begin_log = format!(
        "CREATE INDEX ON {changes} (workspace, route, record_id, version);
        CREATE INDEX ON {changes} (workspace, route, record_id) WHERE kind = 'forgotten';
        DELETE FROM {positions}"
    );
    tx.batch_execute(&begin_log).await.map_err(&failed)
}

/// Creates the table of a route, and fills it from the log.
async fn create_mirror(tx: &Transaction<'_>, schema: &Schema, route: Route) -> Result<(), Verdict> {
    let columns = columns(tx, schema, route).await?;
    let mut fields = String::new();
    for (_, column) in &columns {
        fields += &format!("{} text, ", quoted(column));
    }
    fields += &derived::definitions(route);
    let table = schema.table(route.as_str());
    let all_changes = format!("{} AS c", schema.table("changes"));
    let fill = upsert(schema, route, &columns, &all_changes);
    tx.batch_execute(&format!("CREATE TABLE {table} ({fields}{MIRROR}); {fill}"))
        .await
        .map_err(schema.failed(Doing::MakingTables))
}

/// The changes `c` of the log with the numbers in `$2`, of the workspace in `$1`.
///
/// Each is looked up by its key. As a condition, PostgreSQL reads the whole log for it until it has
/// statistics of the table.
pub(super) fn changes_by_seq(schema: &Schema) -> String {
    let changes = schema.table("changes");
    format!(
        "unnest($2) AS wanted (seq)
        CROSS JOIN LATERAL (
            SELECT *
            FROM {changes}
            WHERE workspace = $1 AND seq = wanted.seq
            LIMIT 1
        ) AS c"
    )
}

/// Adds a column for each new field of these changes of the log.
pub(super) async fn add_columns(
    tx: &Transaction<'_>,
    schema: &Schema,
    workspace: &str,
    seqs: &[i64],
) -> Result<(), Verdict> {
    let failed = schema.failed(Doing::AddingColumns);
    let query = new_fields(schema);
    let mut reserved = derived::reserved();
    reserved.extend(RESERVED.map(str::to_owned));
    let values: [(&(dyn ToSql + Sync), Type); 3] = [
        (&workspace, Type::TEXT),
        (&seqs, Type::INT8_ARRAY),
        (&reserved, Type::TEXT_ARRAY),
    ];
    let new = tx.query_typed(&query, &values).await.map_err(&failed)?;
    if new.is_empty() {
        return Ok(());
    }
    lock(tx, schema, Doing::AddingColumns).await?;
    // Another daemon may have added some.
    let new = tx.query_typed(&query, &values).await.map_err(&failed)?;
    let columns = schema.table("columns");
    let mut add = String::new();
    for row in new {
        let route: &str = row.get(0);
        let field: &str = row.get(1);
        let table = schema.table(route);
        let column = quoted(field);
        let route = literal(route);
        let field = literal(field);
        add += &format!(
            r#"ALTER TABLE {table} ADD COLUMN {column} text;
            INSERT INTO {columns} (route, field, "column") VALUES ({route}, {field}, {field});
            "#
        );
    }
    tx.batch_execute(&add).await.map_err(&failed)
}

/// The fields, with their routes, that the changes `$2` of the workspace `$1` have and that have no
/// column yet. Those named in `$3` get none, nor do those past [`MAX_COLUMNS`] of a route.
fn new_fields(schema: &Schema) -> String {
    let changes = changes_by_seq(schema);
    let columns = schema.table("columns");
    format!(
        r#"WITH found AS (
            SELECT DISTINCT c.route, k.field
            FROM {changes}
            CROSS JOIN jsonb_object_keys(
                CASE jsonb_typeof(c.body) WHEN 'object' THEN c.body ELSE '{{}}' END
            ) AS k (field)
            WHERE c.record_id IS NOT NULL
                AND c.kind NOT IN ('gap', 'forgotten')
                AND octet_length(k.field) BETWEEN 1 AND 63
                AND k.field <> ALL ($3)
        ),
        numbered AS (
            SELECT
                route,
                field,
                row_number() OVER (PARTITION BY route ORDER BY field)
                    + (SELECT count(*) FROM {columns} n WHERE n.route = found.route) AS place
            FROM found
            WHERE NOT EXISTS (
                SELECT
                FROM {columns} n
                WHERE n.route = found.route AND found.field IN (n.field, n."column")
            )
        )
        SELECT route, field
        FROM numbered
        WHERE place <= {MAX_COLUMNS}"#
    )
}

/// The fields of a route that have a column, with its name.
pub(super) async fn columns(
    tx: &Transaction<'_>,
    schema: &Schema,
    route: Route,
) -> Result<Vec<(String, String)>, Verdict> {
    let columns = schema.table("columns");
    let query = format!(r#"SELECT field, "column" FROM {columns} WHERE route = $1 ORDER BY field"#);
    let rows = tx
        .query_typed(&query, &[(&route.as_str(), Type::TEXT)])
        .await
        .map_err(schema.failed(Doing::Storing))?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// The statement that brings the mirror table of a route up to date with the changes `c` of the log
/// that `from` names.
///
/// A later change is never replaced by an earlier one, and a forgotten record stays away. An id that
/// the workspace uses again was first seen when it was `created` last. The rows
/// of every statement are locked in the same order, so that no two wait for each other.
pub(super) fn upsert(
    schema: &Schema,
    route: Route,
    columns: &[(String, String)],
    from: &str,
) -> String {
    let table = schema.table(route.as_str());
    let changes = schema.table("changes");
    let mut names = String::new();
    let mut values = String::new();
    let mut updates = String::new();
    for (field, column) in columns {
        let column = quoted(column);
        names += &format!(", {column}");
        values += &format!(", c.body ->> {}", literal(field));
        updates += &format!(", {column} = excluded.{column}");
    }
    format!(
        "INSERT INTO {table} AS m
            (
                workspace, id, body, _business, _first_seen_at, _changed_at, _vanished_at,
                _seq{names}
            )
        SELECT
            c.workspace,
            c.record_id,
            c.body,
            c.business,
            (
                SELECT coalesce(
                    max(o.observed_at) FILTER (WHERE o.kind = 'created'),
                    min(o.observed_at)
                )
                FROM {changes} o
                WHERE o.workspace = c.workspace
                    AND o.route = c.route
                    AND o.record_id = c.record_id
            ),
            c.observed_at,
            CASE WHEN c.kind = 'vanished' THEN c.observed_at END,
            c.seq{values}
        FROM (
            SELECT DISTINCT ON (c.workspace, c.record_id) c.*
            FROM {from}
            WHERE c.route = '{route}'
                AND c.record_id IS NOT NULL
                AND c.kind NOT IN ('gap', 'forgotten')
            ORDER BY c.workspace, c.record_id, c.seq DESC
        ) AS c
        WHERE NOT EXISTS (
            SELECT
            FROM {changes} f
            WHERE f.workspace = c.workspace
                AND f.route = c.route
                AND f.record_id = c.record_id
                AND f.kind = 'forgotten'
        )
        ON CONFLICT (workspace, id) DO UPDATE SET
            body = excluded.body,
            _business = excluded._business,
            _first_seen_at = coalesce(
                (
                    SELECT max(o.observed_at)
                    FROM {changes} o
                    WHERE o.workspace = excluded.workspace
                        AND o.route = '{route}'
                        AND o.record_id = excluded.id
                        AND o.kind = 'created'
                ),
                m._first_seen_at
            ),
            _changed_at = excluded._changed_at,
            _vanished_at = excluded._vanished_at,
            _seq = excluded._seq{updates}
        WHERE excluded._seq >= m._seq"
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
