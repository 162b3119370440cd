//! The views `report_*` and the indexes of the reports: made from the columns that the mirror has, and
//! rebuilt when columns or custom fields are added.
//!
//! A view gives numeric ids where ids are integers, times in the workspace's time zone and a column
//! for each defined custom field. It uses only columns that exist. A view of the same name that
//! another program or person made is left alone.

mod columns;
pub(in crate::store) mod indexes;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};

use crate::record::Route;
use crate::store::{log, meta};
use columns::{RouteColumns, ViewColumn, view_columns};

/// The row of `meta` that holds from what the views were made.
const MADE_FROM: &str = "views";
/// The row of `_meta` with the last row of the log when the views were looked at.
const LOOKED_AT: &str = "views_looked_at";
/// Stands in the text of each view that this program made.
const MARK: &str = "/* made by shopmirror */";

/// The name of a route's view.
pub(in crate::store) fn view_name(route: Route) -> String {
    format!("report_{route}")
}

/// Makes the views and the indexes again unless they are current; for a
/// transaction that the caller commits.
pub(in crate::store) fn refresh(connection: &Connection) -> rusqlite::Result<()> {
    let plan = Plan::of(connection)?;
    if plan.is_made(connection)? {
        return Ok(());
    }
    for (route, sql) in &plan.views {
        make_view(connection, *route, sql)?;
    }
    for sql in &plan.indexes {
        indexes::make(connection, sql)?;
    }
    meta::set(connection, MADE_FROM, &plan.digest())
}

/// Whether the log has twice as many rows as when the views were last looked at. Records tell the types of the
/// columns and how they name their job: the first ones most, later ones seldom.
pub(in crate::store) fn has_log_doubled(connection: &Connection) -> rusqlite::Result<bool> {
    let last_seq = log::last_seq(connection)?;
    let looked_at = meta::value(connection, LOOKED_AT)?.and_then(|seq| seq.parse().ok());
    if last_seq < looked_at.unwrap_or(0_i64).saturating_mul(2) {
        return Ok(false);
    }
    meta::set(connection, LOOKED_AT, &last_seq.to_string())?;
    Ok(true)
}

/// Whether the views are what this program would make of the columns and the custom fields.
pub(in crate::store) fn are_current(connection: &Connection) -> rusqlite::Result<bool> {
    Plan::of(connection)?.is_made(connection)
}

/// What is to be made.
struct Plan {
    views: Vec<(Route, String)>,
    indexes: Vec<String>,
}

impl Plan {
    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let routes = columns::read(connection)?;
        let views = routes.iter().map(|columns| (columns.route, view_sql(columns, &routes)));
        let (views, indexes) = (views.collect(), indexes::wanted(&routes));
        Ok(Self { views, indexes })
    }

    fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for text in self.views.iter().map(|(_, sql)| sql).chain(&self.indexes) {
            hash.update(text.as_bytes());
            hash.update([0]);
        }
        format!("{:x}", Bytes::copy_from_slice(&hash.finalize()))
    }

    fn is_made(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let made_from = meta::value(connection, MADE_FROM)?;
        Ok(made_from.is_some_and(|digest| digest == self.digest()))
    }
}

/// As [`refresh`], even if nothing is known to have changed: the tables were rebuilt.
pub(in crate::store) fn rebuild(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM _meta WHERE name = ?1", [MADE_FROM])?;
    refresh(connection)
}

fn make_view(connection: &Connection, route: Route, sql: &str) -> rusqlite::Result<()> {
    let name = view_name(route);
    let found: Option<String> = connection
        .query_row("SELECT sql FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE", [&name], |row| {
            row.get(0)
        })
        .optional()?;
    match found {
        Some(other) if !other.contains(MARK) => return Ok(()),
        Some(_) => connection.execute_batch(&format!("DROP VIEW {name}"))?,
        None => {}
    }
    connection.execute_batch(sql)
}

/// The text of a route's view.
fn view_sql(columns: &RouteColumns, all: &[RouteColumns]) -> String {
    let view = view_columns(columns, all);
    let list: Vec<String> = view.columns.iter().map(ViewColumn::typed).collect();
    format!(
        "CREATE VIEW {} AS {MARK} SELECT {} FROM \"{}\" r{}",
        view_name(columns.route),
        list.join(", "),
        columns.route,
        view.joins
    )
}
