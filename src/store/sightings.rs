//! What the workspace has shown of each record beside its text: the table `_sightings`.
//!
//! Which business showed it, when it was seen first and last, whether it is on the newest page of
//! its poller, how it was found, when it was found gone. The log does not say this, so it stands
//! here, and the columns of the mirror that begin with `_` follow from it. Both are written in the
//! transaction of the page.

use std::collections::HashSet;

use rusqlite::{Connection, named_params};
use shopmirror_core::record::{PollerId, Route};

use super::pollers::{PollerRow, head_json};
use super::sql::Sql;
use crate::store::mirror::RowFacts;

/// Notes a version of a record, the first one or another. A record on the newest page stays there,
/// and keeps when it was seen first.
const PUT: &str = "
    INSERT INTO _sightings (
        route, record_id, business, first_seen_at, last_seen_at, is_on_page, via, vanished_at
    ) VALUES (
        :route, :id, :business, :first_seen_at, :last_seen_at, :is_on_page, :via, :vanished_at
    )
    ON CONFLICT (route, record_id) DO UPDATE SET
        business = excluded.business,
        last_seen_at = excluded.last_seen_at,
        is_on_page = max(is_on_page, excluded.is_on_page),
        via = excluded.via,
        vanished_at = excluded.vanished_at";

const BEGIN_AGAIN: &str = "
    UPDATE _sightings
    SET first_seen_at = :at
    WHERE route = :route AND record_id = :id";

const SEEN_BY_POLL: &str = "
    UPDATE _sightings
    SET via = NULL, business = :business
    WHERE route = :route AND record_id = :id";

const IS_IMPORTED: &str = "
    SELECT EXISTS (
        SELECT 1
        FROM _sightings
        WHERE route = :route AND record_id = :id AND via = 'import'
    )";

const MOVED: &str = "
    UPDATE _sightings
    SET business = :business
    WHERE route = :route AND record_id = :id";

const MARK_VANISHED: &str = "
    UPDATE _sightings
    SET vanished_at = :at
    WHERE route = :route AND record_id = :id";

const LEFT_PAGE: &str = "
    UPDATE _sightings
    SET is_on_page = 0, last_seen_at = :at
    WHERE route = :route AND record_id IN (SELECT value FROM json_each(:left))";

const CAME_TO_PAGE: &str = "
    UPDATE _sightings
    SET is_on_page = 1, last_seen_at = :at
    WHERE route = :route AND record_id IN (SELECT value FROM json_each(:came))";

const FORGET: &str = "
    DELETE FROM _sightings
    WHERE route = :route AND record_id = :id";

/// Notes a version of a record.
pub(super) fn put(connection: &Connection, route: Route, facts: &RowFacts) -> rusqlite::Result<()> {
    let last_seen_at = match &facts.last_seen_at {
        Some(at) => at,
        None => &facts.changed_at,
    };
    let values = named_params! {
        ":route": route.as_str(),
        ":id": facts.id,
        ":business": facts.business,
        ":first_seen_at": facts.first_seen_at,
        ":last_seen_at": last_seen_at,
        ":is_on_page": facts.last_seen_at.is_none(),
        ":via": facts.via,
        ":vanished_at": facts.vanished_at,
    };
    connection.run(PUT, values)?;
    Ok(())
}

/// Lets a record count as first seen at a time: its id belonged to another one before.
pub(super) fn begin_again(
    connection: &Connection,
    route: Route,
    id: &str,
    at: &str,
) -> rusqlite::Result<()> {
    let values = named_params! { ":route": route.as_str(), ":id": id, ":at": at };
    connection.run(BEGIN_AGAIN, values)?;
    Ok(())
}

/// Notes that a poll has seen a record that a search had found.
pub(super) fn seen_by_poll(
    connection: &Connection,
    route: Route,
    id: &str,
    business: Option<&str>,
) -> rusqlite::Result<()> {
    let values = named_params! { ":route": route.as_str(), ":id": id, ":business": business };
    connection.run(SEEN_BY_POLL, values)?;
    Ok(())
}

/// Whether only an import has brought a record.
pub(super) fn is_imported(
    connection: &Connection,
    route: Route,
    id: &str,
) -> rusqlite::Result<bool> {
    let values = named_params! { ":route": route.as_str(), ":id": id };
    connection.value(IS_IMPORTED, values)
}

/// Notes that a record is in another business, though no page of it has shown it there.
pub(super) fn moved(
    connection: &Connection,
    route: Route,
    id: &str,
    business: Option<&str>,
) -> rusqlite::Result<()> {
    let values = named_params! { ":route": route.as_str(), ":id": id, ":business": business };
    connection.run(MOVED, values)?;
    Ok(())
}

/// Notes that a record is gone from its list.
pub(super) fn mark_vanished(
    connection: &Connection,
    route: Route,
    id: &str,
    at: &str,
) -> rusqlite::Result<()> {
    let values = named_params! { ":route": route.as_str(), ":id": id, ":at": at };
    connection.run(MARK_VANISHED, values)?;
    Ok(())
}

/// Removes what is noted of a record.
pub(super) fn forget(connection: &Connection, route: Route, id: &str) -> rusqlite::Result<()> {
    let values = named_params! { ":route": route.as_str(), ":id": id };
    connection.run(FORGET, values)?;
    Ok(())
}

/// The condition for what is noted of a record that the mirror does not have.
pub(super) fn is_absent_sql(route: Route) -> String {
    format!("route = '{route}' AND record_id NOT IN (SELECT id FROM \"{route}\")")
}

/// Removes what is noted of records that the mirror does not have.
pub(super) fn forget_absent(connection: &Connection, route: Route) -> rusqlite::Result<()> {
    let sql = format!("DELETE FROM _sightings WHERE {}", is_absent_sql(route));
    connection.run(&sql, [])?;
    Ok(())
}

/// Notes which records are no longer on the poller's newest page, and when it showed them last:
/// when the row `before` was the last one; and which are there now, after the row `now`. Returns
/// the records that left or came back.
pub(super) fn note(
    connection: &Connection,
    id: &PollerId,
    before: &PollerRow,
    now: &PollerRow,
) -> rusqlite::Result<Vec<String>> {
    if *before.head == *now.head {
        return Ok(Vec::new());
    }
    let route = id.route;
    let on_page: HashSet<&String> = now.head.iter().collect();
    let mut left = before.head.to_vec();
    left.retain(|record| !on_page.contains(record));
    let left = head_json(&left);
    let at = &before.last_success_at;
    let values = named_params! { ":left": left, ":at": at };
    let mut moved = connection.values::<String>(&left_page_sql(route), values)?;
    let values = named_params! { ":route": route.as_str(), ":left": left, ":at": at };
    connection.run(LEFT_PAGE, values)?;

    let head = named_params! { ":head": head_json(&now.head) };
    let came = connection.values::<String>(&on_page_sql(route), head)?;
    // Seldom: most pages show new records, and no old one again.
    if !came.is_empty() {
        let values = named_params! {
            ":route": route.as_str(),
            ":came": head_json(&came),
            ":at": now.last_success_at,
        };
        connection.run(CAME_TO_PAGE, values)?;
    }
    moved.extend(came);
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

/// The same as far as it was stored when the record changed, or came to the newest page or left it.
/// It depends on nothing else, so that what is made from it can be made again.
pub(super) fn stored_last_seen_sql(route: Route, row: &str) -> String {
    format!(
        "coalesce((SELECT s.last_seen_at FROM _sightings s \
         WHERE s.route = '{route}' AND s.record_id = {row}.id), \
         {row}._last_seen_at, {row}._changed_at)"
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
