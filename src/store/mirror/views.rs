//! The views `report_*` and the indexes of the reports: made from the columns that the mirror has,
//! and rebuilt when columns or custom fields are added.
//!
//! A view gives numeric ids where ids are integers, times in the workspace's time zone and a column
//! for each defined custom field. It uses only columns that exist. A view of the same name that
//! another program or person made is left alone.

mod columns;
pub(in crate::store) mod indexes;

use rusqlite::{Connection, OptionalExtension};

pub use columns::amount_sql;
use columns::{RouteColumns, view_columns};

/// Stands in the text of each view that this program made.
const MARK: &str = "/* made by shopmirror */";

/// Makes the views and the indexes that are not as this program makes them of the columns and the
/// custom fields; for a transaction that the caller commits.
pub(in crate::store) fn refresh(connection: &Connection) -> rusqlite::Result<()> {
    outdated(connection)?
        .iter()
        .try_for_each(|sql| connection.execute_batch(sql))
}

/// The statements that [`refresh`] runs.
pub(in crate::store) fn outdated(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let routes = columns::read(connection)?;
    let views = routes.iter().map(|columns| view_sql(columns, &routes));
    let mut find = connection
        .prepare_cached("SELECT type, sql FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE")?;
    let mut outdated = Vec::new();
    for sql in views.chain(indexes::wanted(&routes)) {
        let words: Vec<&str> = sql.splitn(4, ' ').collect();
        let [_, kind, name, _] = words[..] else {
            continue;
        };
        let found: Option<(String, String)> = find
            .query_row([name], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match found {
            None => outdated.push(sql),
            Some((_, same)) if same == sql => {}
            Some((other, _)) if !other.eq_ignore_ascii_case(kind) => {}
            Some((_, by_others)) if kind == "VIEW" && !by_others.contains(MARK) => {}
            Some(_) => outdated.push(format!("DROP {kind} {name}; {sql}")),
        }
    }
    Ok(outdated)
}

/// The text of a route's view.
fn view_sql(columns: &RouteColumns, all: &[RouteColumns]) -> String {
    let view = view_columns(columns, all);
    format!(
        "CREATE VIEW report_{route} AS {MARK} SELECT {} FROM \"{route}\" r{}",
        view.columns.join(", "),
        view.joins,
        route = columns.route
    )
}
