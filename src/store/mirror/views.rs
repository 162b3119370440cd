//! The views `report_*` and the indexes of the reports: made from the columns that the mirror has,
//! and rebuilt when columns or custom fields are added.
//!
//! A view gives numeric ids where ids are integers, times in the workspace's time zone and a column
//! for each defined custom field. It uses only columns that exist. A view of the same name that
//! another program or person made is left alone.

mod columns;
pub(in crate::store) mod indexes;

use std::collections::HashMap;

use rusqlite::Connection;

use columns::{RouteColumns, view_columns};
pub use indexes::{compared, number_sql};

/// Stands in the text of each view that this program made.
const MARK: &str = "/* made by shopmirror */";

/// Creates the views and the indexes that are missing, or that differ from what this program makes
/// of the columns and the custom fields; for a transaction that the caller commits.
pub(in crate::store) fn refresh(connection: &Connection) -> rusqlite::Result<()> {
    for sql in outdated(connection)? {
        connection.execute_batch(&sql)?;
    }
    Ok(())
}

/// The statements that [`refresh`] runs.
pub(in crate::store) fn outdated(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let routes = columns::read(connection)?;
    let mut wanted = Vec::new();
    for columns in &routes {
        wanted.push(view_sql(columns, &routes));
    }
    wanted.extend(indexes::wanted(&routes));
    let made = made(connection)?;
    let mut outdated = Vec::new();
    for sql in wanted {
        let words: Vec<&str> = sql.splitn(4, ' ').collect();
        let [_, kind, name, _] = words[..] else {
            continue;
        };
        let Some((found_kind, found_sql)) = made.get(&name.to_lowercase()) else {
            outdated.push(sql);
            continue;
        };
        let is_same = *found_sql == sql;
        let is_other_kind = !found_kind.eq_ignore_ascii_case(kind);
        let is_by_others = kind == "VIEW" && !found_sql.contains(MARK);
        if !is_same && !is_other_kind && !is_by_others {
            outdated.push(format!("DROP {kind} {name}; {sql}"));
        }
    }
    Ok(outdated)
}

/// What the database has, by its name in lower case: the kind and the statement that made it.
fn made(connection: &Connection) -> rusqlite::Result<HashMap<String, (String, String)>> {
    let sql = "
        SELECT name, type, sql
        FROM sqlite_schema
        WHERE sql IS NOT NULL";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut made = HashMap::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get("name")?;
        made.insert(name.to_lowercase(), (row.get("type")?, row.get("sql")?));
    }
    Ok(made)
}

/// The text of a route's view.
fn view_sql(columns: &RouteColumns, all: &[RouteColumns]) -> String {
    let view = view_columns(columns, all);
    format!(
        "CREATE VIEW report_{route} AS {MARK} SELECT {} FROM \"{route}\" r{} \
         WHERE r._vanished_at IS NULL",
        view.columns.join(", "),
        view.joins,
        route = columns.route
    )
}
