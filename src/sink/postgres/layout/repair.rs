//! Makes again what is missing: tables, and columns that others dropped or renamed.
//!
//! The log in the database has the text of every record, so that a table of a route is filled from
//! it. Without the log nothing that was stored counts: the positions go as well, and each sink
//! delivers again what it has.

use std::collections::HashMap;

use tokio_postgres::{Client, Transaction};

use super::catalogue::Found;
use super::{Columns, OPTIONAL, literal, quoted, tables};
use crate::record::Route;
use crate::sink::postgres::trouble::Trouble;

/// Which column holds which field, as far as the database says.
pub(super) async fn known(
    client: &Client,
    schema: &str,
    found: &Found,
) -> Result<HashMap<Route, Columns>, Trouble> {
    let mut columns = HashMap::new();
    let is_there = !found.missing.contains(&"columns");
    for route in Route::ALL {
        let of_route =
            if is_there { Columns::load(client, schema, route).await? } else { Columns::default() };
        columns.insert(route, of_route);
    }
    Ok(columns)
}

/// Makes the tables and columns that are missing, with what they held.
pub(super) async fn repair(
    tx: &Transaction<'_>,
    schema: &str,
    found: &Found,
    columns: &HashMap<Route, Columns>,
) -> Result<(), Trouble> {
    for name in &found.missing {
        make(tx, schema, name).await?;
    }
    let is_new = |name: &str| found.missing.contains(&name);
    if is_new("changes") && !is_new("positions") {
        let forget = format!("DELETE FROM {}.positions", quoted(schema));
        run(tx, "looking at the positions", &forget).await?;
    }
    for route in Route::ALL {
        let of_route = &columns[&route];
        let table = format!("{}.{}", quoted(schema), quoted(route.as_str()));
        let doing = format!("making the table {schema}.{route} again");
        if is_new(route.as_str()) {
            for (_, column) in of_route.pairs() {
                let add = format!("ALTER TABLE {table} ADD COLUMN {} text", quoted(column));
                run(tx, &doing, &add).await?;
            }
            if !is_new("changes") {
                // The settings of the session are for statements that look for a few rows.
                let fill = of_route.refill(schema, route);
                run(tx, &doing, &format!("SET LOCAL enable_seqscan = on; {fill}")).await?;
            }
            continue;
        }
        let lost = found.lost(route, of_route);
        if lost.is_empty() {
            continue;
        }
        let mut sets = Vec::new();
        for (field, column) in lost {
            let column = quoted(column);
            run(tx, &doing, &format!("ALTER TABLE {table} ADD COLUMN {column} text")).await?;
            sets.push(format!("{column} = body ->> {}", literal(field)));
        }
        run(tx, &doing, &format!("UPDATE {table} SET {}", sets.join(", "))).await?;
    }
    Ok(())
}

async fn run(tx: &Transaction<'_>, doing: &str, sql: &str) -> Result<(), Trouble> {
    tx.batch_execute(sql).await.map_err(|e| Trouble::of_tables(doing, &e))
}

async fn make(tx: &Transaction<'_>, schema: &str, name: &str) -> Result<(), Trouble> {
    let doing = format!("making the table {schema}.{name}");
    let failed = |error| Trouble::of_tables(&doing, &error);
    let there = tx
        .query_opt("SELECT 1 FROM pg_namespace WHERE nspname = $1", &[&schema])
        .await
        .map_err(failed)?;
    // Even IF NOT EXISTS asks for the right to create schemas.
    if there.is_none() {
        tx.batch_execute(&format!("CREATE SCHEMA {}", quoted(schema))).await.map_err(failed)?;
    }
    tx.batch_execute(&definition(schema, name)).await.map_err(failed)
}

/// The statements that make a table.
fn definition(schema: &str, name: &str) -> String {
    let (_, required, key) =
        tables().into_iter().find(|(table, ..)| *table == name).expect("it is one of ours");
    let columns: String = required
        .iter()
        .map(|(column, kind)| {
            let not_null = if OPTIONAL.contains(column) { "" } else { " NOT NULL" };
            format!("{} {kind}{not_null}, ", quoted(column))
        })
        .collect();
    let schema = quoted(schema);
    let mut sql = format!("CREATE TABLE {schema}.{} ({columns}{key});", quoted(name));
    if name == "changes" {
        sql.push_str(&format!(
            "CREATE INDEX changes_record ON {schema}.changes (workspace, route, record_id, version);\
             CREATE INDEX changes_forgotten ON {schema}.changes (workspace, route, record_id) \
             WHERE kind = 'forgotten';"
        ));
    }
    sql
}
