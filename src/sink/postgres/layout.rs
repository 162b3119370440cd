//! The tables in the database: what they must look like, how they are made, how they grow.
//!
//! A table that exists is used only if it has our columns; a table of another program is never
//! changed. Columns for new fields are only added. What others removed of our tables is rebuilt. Several daemons may share one schema: each change
//! of the tables is made under a lock that they share.

mod catalogue;
mod columns;
mod repair;

use std::collections::{HashMap, HashSet};

use tokio_postgres::{Client, Transaction};

use super::trouble::Trouble;
use crate::record::Route;
use catalogue::Found;
pub(super) use columns::Columns;

const LOOKING: &str = "looking at the tables";
const MAKING: &str = "making the tables";

/// A column that a table must have, with its type.
type Required = (&'static str, &'static str);

const CHANGES: [Required; 11] = [
    ("workspace", "text"),
    ("seq", "bigint"),
    ("event_id", "text"),
    ("route", "text"),
    ("record_id", "text"),
    ("kind", "text"),
    ("version", "bigint"),
    ("observed_at", "timestamp with time zone"),
    ("business", "text"),
    ("body", "jsonb"),
    ("exact", "text"),
];
const POSITIONS: [Required; 5] = [
    ("workspace", "text"),
    ("sink", "text"),
    ("seq", "bigint"),
    ("event_id", "text"),
    ("saved_at", "timestamp with time zone"),
];
const COLUMNS: [Required; 3] = [("route", "text"), ("field", "text"), ("column", "text")];
pub(super) const MIRROR: [Required; 7] = [
    ("workspace", "text"),
    ("id", "text"),
    ("body", "jsonb"),
    ("_business", "text"),
    ("_first_seen_at", "timestamp with time zone"),
    ("_changed_at", "timestamp with time zone"),
    ("_seq", "bigint"),
];
/// Columns that may be NULL.
const OPTIONAL: [&str; 4] = ["record_id", "business", "_business", "exact"];

/// Every table: its name, its columns and what follows them.
fn tables() -> Vec<(&'static str, &'static [Required], &'static str)> {
    let mut tables: Vec<(&'static str, &'static [Required], &'static str)> = vec![
        ("changes", &CHANGES, "PRIMARY KEY (workspace, seq)"),
        ("positions", &POSITIONS, "PRIMARY KEY (workspace, sink)"),
        ("columns", &COLUMNS, "PRIMARY KEY (route, field)"),
    ];
    let mirrors =
        Route::ALL.map(|route| (route.as_str(), MIRROR.as_slice(), "PRIMARY KEY (workspace, id)"));
    tables.extend(mirrors);
    tables
}

/// An identifier in quotes.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as an SQL literal, whatever the server's settings.
pub(super) fn literal(text: &str) -> String {
    let quotes = text.replace('\'', "''");
    if quotes.contains('\\') {
        format!("E'{}'", quotes.replace('\\', "\\\\"))
    } else {
        format!("'{quotes}'")
    }
}

/// The tables of one schema, as they are in the database.
pub(super) struct Layout {
    pub(super) schema: String,
    columns: HashMap<Route, Columns>,
    /// Tables of routes that cannot be written, with what is wrong.
    broken: HashMap<Route, String>,
}

impl Layout {
    /// Checks the tables, and makes what is missing of them: tables, and columns that held fields.
    pub(super) async fn prepare(client: &mut Client, schema: &str) -> Result<Self, Trouble> {
        let mut found = Found::look(client, schema).await?;
        let mut columns = repair::known(client, schema, &found).await?;
        if !found.is_complete(&columns) {
            if !found.missing.is_empty() {
                ensure_allowed(client, schema).await?;
            }
            let tx = client.transaction().await.map_err(|e| Trouble::of_tables(MAKING, &e))?;
            lock(&tx, schema).await?;
            // Another daemon may have made some.
            found = Found::look(tx.client(), schema).await?;
            columns = repair::known(tx.client(), schema, &found).await?;
            repair::repair(&tx, schema, &found, &columns).await?;
            tx.commit().await.map_err(|e| Trouble::of_tables(MAKING, &e))?;
        }
        Ok(Self { schema: schema.to_owned(), columns, broken: found.broken })
    }

    /// What is wrong with the table of a route, if it cannot be written.
    pub(super) fn broken(&self, route: Route) -> Option<&String> {
        self.broken.get(&route)
    }

    pub(super) fn columns(&self, route: Route) -> &Columns {
        &self.columns[&route]
    }

    /// Adds a column for each field of `names` that has none. Returns whether the columns of the
    /// table that are known here have changed.
    pub(super) async fn grow(
        &mut self,
        client: &mut Client,
        route: Route,
        names: &HashSet<String>,
    ) -> Result<bool, Trouble> {
        let known = self.columns(route);
        if names.iter().all(|name| known.holds(name)) || known.is_full() {
            return Ok(false);
        }
        let doing = format!("adding columns to the table {route}");
        let failed = |error| Trouble::of_tables(&doing, &error);
        let tx = client.transaction().await.map_err(failed)?;
        lock(&tx, &self.schema).await?;
        // Another daemon may have added some.
        let mut columns = Columns::load(tx.client(), &self.schema, route).await?;
        columns.avoid(Found::look(tx.client(), &self.schema).await?.foreign_columns(route));
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort();
        let table = format!("{}.{}", quoted(&self.schema), quoted(route.as_str()));
        for name in sorted {
            let Some(column) = columns.name(name) else { continue };
            let add =
                format!("ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {} text", quoted(&column));
            tx.batch_execute(&add).await.map_err(failed)?;
            let note = format!(
                "INSERT INTO {}.columns (route, field, \"column\") VALUES ($1, $2, $3)",
                quoted(&self.schema)
            );
            tx.execute(&note, &[&route.as_str(), name, &column]).await.map_err(failed)?;
        }
        tx.commit().await.map_err(failed)?;
        self.columns.insert(route, columns);
        Ok(true)
    }
}

/// Whether all tables are there. Fails if one belongs to another program, if the role may not make
/// those that are missing, or if it may not write to them.
pub(super) async fn look(client: &Client, schema: &str) -> Result<bool, Trouble> {
    let found = Found::look(client, schema).await?;
    if let Some((route, what)) = found.broken.iter().next() {
        return Err(Trouble::Server(Trouble::table(schema, *route, what).to_string()));
    }
    if !found.missing.is_empty() {
        ensure_allowed(client, schema).await?;
        return Ok(false);
    }
    let schema = quoted(schema);
    for (name, ..) in tables() {
        let table = format!("{schema}.{}", quoted(name));
        let may_write = "SELECT has_table_privilege($1, 'INSERT') AND has_table_privilege($1, 'UPDATE') \
             AND has_table_privilege($1, 'SELECT') AND has_table_privilege($1, 'DELETE'), current_user::text";
        let row = client.query_one(may_write, &[&table]).await;
        let row = row.map_err(|e| Trouble::of(LOOKING, &e))?;
        if !row.get::<_, bool>(0) {
            let role = quoted(&row.get::<_, String>(1));
            return Err(Trouble::Server(format!(
                "the role {role} may not write to {table}: run GRANT SELECT, INSERT, UPDATE, DELETE \
                 ON ALL TABLES IN SCHEMA {schema} TO {role}"
            )));
        }
    }
    Ok(true)
}

/// Fails with the remedy if the role may not make tables in the schema.
async fn ensure_allowed(client: &Client, schema: &str) -> Result<(), Trouble> {
    let row = client
        .query_one(
            "SELECT current_user::text, n.oid IS NOT NULL, CASE WHEN n.oid IS NULL \
             THEN has_database_privilege(current_database(), 'CREATE') \
             ELSE has_schema_privilege(n.oid, 'CREATE') AND has_schema_privilege(n.oid, 'USAGE') END \
             FROM (SELECT 1) AS one LEFT JOIN pg_namespace n ON n.nspname = $1",
            &[&schema],
        )
        .await
        .map_err(|e| Trouble::of(LOOKING, &e))?;
    let (role, exists, allowed): (String, bool, bool) = (row.get(0), row.get(1), row.get(2));
    if allowed {
        return Ok(());
    }
    let (name, role) = (quoted(schema), quoted(&role));
    let run = if exists {
        format!("GRANT USAGE, CREATE ON SCHEMA {name} TO {role}")
    } else {
        format!("CREATE SCHEMA {name} AUTHORIZATION {role}")
    };
    Err(Trouble::Server(format!(
        "the role {role} may not make tables in schema {name}: as an administrator of the database \
         run {run}"
    )))
}

/// Keeps other daemons from changing the tables of this schema until the transaction ends.
async fn lock(tx: &Transaction<'_>, schema: &str) -> Result<(), Trouble> {
    let key = format!("shopmirror tables {schema}");
    tx.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", &[&key])
        .await
        .map(|_| ())
        .map_err(|e| Trouble::of("waiting for the lock on the tables", &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_are_quoted() {
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal(r"a\'b"), r"E'a\\''b'");
    }
}
