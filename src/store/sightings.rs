//! Which records are on the newest page of their poller, and when the others were shown last: the
//! column `_last_seen_at` of the mirror.

use std::collections::HashSet;

use rusqlite::{Connection, named_params};
use shopmirror_core::record::{PollerId, Route};

use super::pollers::{PollerRow, head_json};
use super::sql::Sql;

/// Notes in the mirror which records are no longer on the poller's newest page, and when it showed
/// them last: when the row `before` was the last one. Returns the records that left or came back.
pub(super) fn note(
    connection: &Connection,
    id: &PollerId,
    before: &PollerRow,
    head: &[String],
) -> rusqlite::Result<Vec<String>> {
    if *before.head == *head {
        return Ok(Vec::new());
    }
    let on_page: HashSet<&String> = head.iter().collect();
    let mut left = before.head.to_vec();
    left.retain(|record| !on_page.contains(record));
    let left = named_params! { ":left": head_json(&left), ":at": &before.last_success_at };
    let mut moved = connection.values::<String>(&left_page_sql(id.route), left)?;
    let shown = named_params! { ":head": head_json(head) };
    moved.extend(connection.values(&on_page_sql(id.route), shown)?);
    Ok(moved)
}

/// When a page showed a record last, as SQL: `row` is its row in the table of the route.
pub(super) fn last_seen_sql(route: Route, row: &str) -> String {
    format!(
        "coalesce({row}._last_seen_at, \
         (SELECT p.last_success_at FROM _pollers p \
         WHERE p.route = '{route}' AND p.business = coalesce({row}._business, '')), \
         {row}._changed_at)"
    )
}

fn left_page_sql(route: Route) -> String {
    format!(
        "UPDATE \"{route}\"
         SET _last_seen_at = :at
         WHERE id IN (SELECT value FROM json_each(:left))
         RETURNING id"
    )
}

fn on_page_sql(route: Route) -> String {
    format!(
        "UPDATE \"{route}\"
         SET _last_seen_at = NULL
         WHERE id IN (SELECT value FROM json_each(:head)) AND _last_seen_at IS NOT NULL
         RETURNING id"
    )
}
