//! The tables in the database: how they are created, and how they get columns for new fields.
//!
//! Missing tables are created, with the rows that they held; existing ones are never changed but
//! for columns that are added. What others changed shows in the server's own errors. Several
//! daemons may share one schema: each change of the tables is made under a lock that they share.

use std::collections::HashSet;

use shopmirror_core::record::Route;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Transaction};

use super::derived;
use super::error::Doing;
use super::schema::{Schema, literal, quoted};
use crate::sink::Verdict;
use crate::text::escape;

/// The tables that all routes share.
const SHARED: [&str; 4] = ["changes", "positions", "columns", "pending_columns"];
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
/// The fields that have no column yet, and since when records with them were stored: since the
/// earliest of these was observed.
const PENDING_COLUMNS: &str = "
    route text NOT NULL,
    field text NOT NULL,
    since timestamptz NOT NULL,
    PRIMARY KEY (route, field)";
/// How long a change of a table waits for others.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '2s'";
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
    let pending = schema.table("pending_columns");
    let create = format!(
        "CREATE TABLE IF NOT EXISTS {changes} ({CHANGES});
        CREATE TABLE IF NOT EXISTS {positions} ({POSITIONS});
        CREATE TABLE IF NOT EXISTS {columns} ({COLUMNS});
        CREATE TABLE IF NOT EXISTS {pending} ({PENDING_COLUMNS})"
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

/// Notes each new field of these changes of the log: it gets its column once they are stored.
pub(super) async fn note_new_fields(
    tx: &Transaction<'_>,
    schema: &Schema,
    workspace: &str,
    seqs: &[i64],
) -> Result<(), Verdict> {
    let mut reserved = derived::reserved();
    reserved.extend(RESERVED.map(str::to_owned));
    let values: [(&(dyn ToSql + Sync), Type); 3] = [
        (&workspace, Type::TEXT),
        (&seqs, Type::INT8_ARRAY),
        (&reserved, Type::TEXT_ARRAY),
    ];
    tx.execute_typed(&new_fields(schema), &values)
        .await
        .map(drop)
        .map_err(schema.failed(Doing::Storing))
}

/// Notes the fields that the changes `$2` of the workspace `$1` have and that have no column yet.
/// Those named in `$3` get none, nor do those past [`MAX_COLUMNS`] of a route.
fn new_fields(schema: &Schema) -> String {
    let changes = changes_by_seq(schema);
    let columns = schema.table("columns");
    let pending = schema.table("pending_columns");
    format!(
        r#"WITH found AS (
            SELECT c.route, k.field, min(c.observed_at) AS since
            FROM {changes}
            CROSS JOIN jsonb_object_keys(
                CASE jsonb_typeof(c.body) WHEN 'object' THEN c.body ELSE '{{}}' END
            ) AS k (field)
            WHERE c.record_id IS NOT NULL
                AND c.kind NOT IN ('gap', 'forgotten')
                AND octet_length(k.field) BETWEEN 1 AND 63
                AND k.field <> ALL ($3)
            GROUP BY c.route, k.field
        ),
        numbered AS (
            SELECT
                route,
                field,
                since,
                row_number() OVER (PARTITION BY route ORDER BY field)
                    + (SELECT count(*) FROM {columns} n WHERE n.route = found.route) AS place
            FROM found
            WHERE NOT EXISTS (
                SELECT
                FROM {columns} n
                WHERE n.route = found.route AND found.field IN (n.field, n."column")
            )
        )
        INSERT INTO {pending} AS p (route, field, since)
        SELECT route, field, since
        FROM numbered
        WHERE place <= {MAX_COLUMNS}
        ORDER BY route, field
        ON CONFLICT (route, field) DO UPDATE SET since = least(p.since, excluded.since)"#
    )
}

/// Adds the columns that were noted, and fills them. Each table is changed in a transaction of its
/// own that waits for others only shortly: a reader of the table would wait behind it.
///
/// Returns who keeps a table from being changed; its columns are added another time.
pub(super) async fn add_columns(
    client: &mut Client,
    schema: &Schema,
) -> Result<Option<String>, Verdict> {
    let pending = schema.table("pending_columns");
    let query = format!("SELECT DISTINCT route FROM {pending} ORDER BY route");
    let failed = schema.failed(Doing::AddingColumns);
    let rows = client.query_typed(&query, &[]).await.map_err(&failed)?;
    for row in rows {
        let route: &str = row.get(0);
        let Err(error) = add_columns_of(client, schema, route).await else {
            continue;
        };
        if error.code() != Some(&SqlState::LOCK_NOT_AVAILABLE) {
            return Err(failed(error));
        }
        let holder = holder(client, schema, route).await.map_err(&failed)?;
        return Ok(Some(format!(
            "{holder} keeps the table {route} from getting new columns"
        )));
    }
    Ok(None)
}

/// Adds and fills the columns of the table of one route.
async fn add_columns_of(client: &mut Client, schema: &Schema, route: &str) -> Result<(), Error> {
    let tx = client.transaction().await?;
    tx.batch_execute(LOCK_TIMEOUT).await?;
    let columns = schema.table("columns");
    let pending = schema.table("pending_columns");
    let table = schema.table(route);
    let route = literal(route);
    // Before the table: in this order everyone locks.
    let take = format!("DELETE FROM {pending} WHERE route = {route} RETURNING field, since::text");
    let fields = tx.query_typed(&take, &[]).await?;
    let query = format!("SELECT field FROM {columns} WHERE route = {route}");
    let mut known = HashSet::new();
    for row in tx.query_typed(&query, &[]).await? {
        known.insert(row.get::<_, String>(0));
    }
    for row in fields {
        let field: String = row.get(0);
        let since = literal(row.get(1));
        let column = quoted(&field);
        let text = literal(&field);
        if known.insert(field) {
            if known.len() > MAX_COLUMNS {
                continue;
            }
            let add = format!(
                r#"ALTER TABLE {table} ADD COLUMN {column} text;
                INSERT INTO {columns} (route, field, "column") VALUES ({route}, {text}, {text})"#
            );
            tx.batch_execute(&add).await?;
        }
        // What was stored before it had the column.
        let fill = format!(
            "UPDATE {table}
            SET {column} = body ->> {text}
            WHERE _changed_at >= {since}::timestamptz AND body ->> {text} IS NOT NULL"
        );
        tx.batch_execute(&fill).await?;
    }
    tx.commit().await
}

/// The session that has had a lock on the table of a route for the longest time.
async fn holder(client: &Client, schema: &Schema, route: &str) -> Result<String, Error> {
    let query = "
        SELECT a.pid, a.usename::text, a.application_name
        FROM pg_locks l
        JOIN pg_stat_activity a ON a.pid = l.pid
        WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND l.relation = to_regclass($1)
            AND l.granted
            AND l.pid <> pg_backend_pid()
        ORDER BY a.xact_start, a.backend_start
        LIMIT 1";
    let table = schema.table(route);
    let row = client
        .query_typed_opt(query, &[(&table, Type::TEXT)])
        .await?;
    let Some(row) = row else {
        return Ok("a session that has ended since".to_owned());
    };
    let pid: i32 = row.get(0);
    let user: Option<&str> = row.get(1);
    let program: Option<&str> = row.get(2);
    Ok(format!(
        "session {pid} of {:?} ({:?})",
        escape::cell(user.unwrap_or_default(), 63),
        escape::cell(program.unwrap_or_default(), 63)
    ))
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
