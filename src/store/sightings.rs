//! Which records are on the newest page of their poller, and when the others were shown last: the
//! column `_last_seen_at` of the mirror.

use rusqlite::Connection;
use shopmirror_core::record::{PollerId, Route};

use super::pollers::{PollerRow, head_json};
use super::sql::Sql;
use crate::store::mirror::job_states;

/// Notes in the mirror which records are no longer on the poller's newest page, and when it showed
/// them last: when the row `before` was the last one.
pub(super) fn note(
    connection: &Connection,
    id: &PollerId,
    before: &PollerRow,
    head: &[String],
) -> rusqlite::Result<()> {
    if before.head == head {
        return Ok(());
    }
    let head = head_json(head);
    let left = left_page_sql(id.route);
    let values = (head_json(&before.head), &head, &before.last_success_at);
    let mut moved = connection.values::<String>(&left, values)?;
    moved.extend(connection.values(&on_page_sql(id.route), [&head])?);
    if id.route == Route::Jobs {
        job_states::refresh(connection, &moved)?;
    }
    Ok(())
}

fn left_page_sql(route: Route) -> String {
    format!(
        "UPDATE \"{route}\" SET _last_seen_at = ?3 WHERE id IN \
         (SELECT value FROM json_each(?1) EXCEPT SELECT value FROM json_each(?2)) RETURNING id"
    )
}

fn on_page_sql(route: Route) -> String {
    format!(
        "UPDATE \"{route}\" SET _last_seen_at = NULL \
         WHERE id IN (SELECT value FROM json_each(?1)) AND _last_seen_at IS NOT NULL RETURNING id"
    )
}
