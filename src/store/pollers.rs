//! What each poller knows: the table `_pollers`.
//!
//! What a poll that changed nothing tells stays in memory for a while, so that an unchanged page
//! costs no write.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, named_params};
use serde::{Deserialize, Deserializer};
use shopmirror_core::contiguity::ListProfile;
use shopmirror_core::newest::NewestGone;
use shopmirror_core::record::{CLOCK_SKEW, Page, PollerId, Record, Route};
use shopmirror_core::vanishing::Vanishing;

use super::error::StoreError;
use super::meta;
use super::reader::Reader;
use super::sql::{self, Sql};

/// A poller belongs to a business that is no longer configured if its list was not read for this
/// time, while the list of another one of the route was.
const GONE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The business as the tables hold it: '' for the workspace default.
pub(super) fn business_text(id: &PollerId) -> &str {
    id.business.as_deref().unwrap_or("")
}

/// A poller's row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct PollerRow {
    /// The route.
    pub route: String,
    /// The business; `None` is the workspace default.
    pub business: Option<String>,
    /// When its first page was stored.
    pub first_polled_at: String,
    /// Since when every created record was seen, but for gaps; `None` if the first page held the
    /// whole list.
    pub complete_since: Option<String>,
    /// When the last page was requested that was stored or found unchanged.
    pub last_success_at: String,
    /// Since when the route shows no record although it showed some before.
    pub emptied_at: Option<String>,
    /// The highest id while ids are integers.
    pub high_id: Option<i64>,
    /// Records asked for at the last page that was stored.
    pub page_limit: i64,
    /// What the schedule learned, as its own text.
    pub learned: Option<String>,
    /// The business of the response, as `X-Business` of the last page said.
    pub served_business: Option<String>,
    /// The ids of the last page that held records, in its order, without those that prove nothing.
    #[serde(deserialize_with = "shared_ids")]
    pub head: Arc<[String]>,
    /// The last row of the log when `head` was taken.
    pub head_seq: i64,
    /// What the pages have shown of how the list is ordered and how far apart its ids are.
    #[serde(rename = "list_profile", deserialize_with = "sql::json")]
    pub profile: ListProfile,
    /// Since when requests by its name lead to another business.
    pub set_aside_at: Option<String>,
    /// Pages in a row that may be older than the one before.
    pub older_pages: u32,
    /// Records whose state waits for the next page that shows them: by id, the row of the log of the
    /// earlier version that they were shown in.
    #[serde(deserialize_with = "sql::json")]
    pub waiting: BTreeMap<String, i64>,
    /// The records that may be gone from the list.
    #[serde(deserialize_with = "sql::json")]
    pub vanishing: Vanishing,
    /// When the last page was requested that was no gap and no suspect.
    pub proven_at: Option<String>,
    /// The newest records that the pages do not show any more, with nothing newer in their place.
    #[serde(deserialize_with = "sql::json")]
    pub newest_gone: Option<NewestGone>,
    /// When an id came with another record than before.
    pub ids_reused_at: Option<String>,
}

fn shared_ids<'de, D: Deserializer<'de>>(column: D) -> Result<Arc<[String]>, D::Error> {
    Ok(sql::json::<Vec<String>, D>(column)?.into())
}

impl PollerRow {
    /// Whether a record came after the poller's last page.
    pub(super) fn is_newer(&self, page: &Page, record: &Record) -> bool {
        if let (Some(high_id), Some(id)) = (self.high_id, record.id.as_integer()) {
            return id > high_id;
        }
        match (page.created_at(record), self.last_read_at()) {
            (Some(created_at), Some(read_at)) => created_at.duration_since(read_at) >= -CLOCK_SKEW,
            _ => false,
        }
    }

    /// Whether a record surely came before the poller's last page, as its id or its time shows. It
    /// may be a record of another list.
    pub(super) fn is_surely_older(&self, page: &Page, record: &Record) -> bool {
        if let (Some(high_id), Some(id)) = (self.high_id, record.id.as_integer())
            && id <= high_id
        {
            return true;
        }
        match (page.created_at(record), self.last_read_at()) {
            (Some(created_at), Some(read_at)) => created_at.duration_since(read_at) < -CLOCK_SKEW,
            _ => false,
        }
    }

    /// Whether the poller belongs to a business that is no longer configured, as the last reads of these
    /// pollers show.
    pub fn is_gone<'a>(&self, pollers: impl Iterator<Item = &'a Self>) -> bool {
        let Some(own) = self.last_read_at() else {
            return false;
        };
        for other in pollers {
            if other.route == self.route
                && let Some(read_at) = other.last_read_at()
                && read_at.duration_since(own) > GONE
            {
                return true;
            }
        }
        false
    }

    /// When the list was read last.
    pub(super) fn last_read_at(&self) -> Option<Timestamp> {
        self.last_success_at.parse().ok()
    }

    /// The poller that the row belongs to; `None` when the route is not one this program knows.
    #[must_use]
    pub fn id(&self) -> Option<PollerId> {
        let route: Route = self.route.parse().ok()?;
        Some(PollerId {
            route,
            business: self.business.clone(),
        })
    }
}

const SELECT: &str = "SELECT *, nullif(business, '') AS business FROM _pollers";

pub(super) fn list(connection: &Connection) -> rusqlite::Result<Vec<PollerRow>> {
    connection.rows(
        &format!("{SELECT} ORDER BY route, business LIMIT 10000"),
        [],
    )
}

pub(super) fn head_json(head: &[String]) -> String {
    serde_json::to_string(head).expect("ids are text")
}

fn profile_json(profile: &ListProfile) -> String {
    serde_json::to_string(profile).expect("a profile holds words and numbers")
}

fn waiting_json(waiting: &BTreeMap<String, i64>) -> String {
    serde_json::to_string(waiting).expect("ids and numbers")
}

fn vanishing_json(vanishing: &Vanishing) -> String {
    serde_json::to_string(vanishing).expect("ids, numbers and times")
}

fn newest_gone_json(gone: &Option<NewestGone>) -> String {
    serde_json::to_string(gone).expect("ids and times")
}

/// Writes a poller's row in place of the one before.
const SAVE: &str = "
    INSERT OR REPLACE INTO _pollers (
        route, business, first_polled_at, complete_since, last_success_at, high_id, page_limit,
        head, head_seq, learned, emptied_at, served_business, set_aside_at, older_pages, waiting,
        list_profile, vanishing, proven_at, newest_gone, ids_reused_at
    ) VALUES (
        :route, :business, :first_polled_at, :complete_since, :last_success_at, :high_id, :page_limit,
        :head, :head_seq, :learned, :emptied_at, :served_business, :set_aside_at, :older_pages,
        :waiting, :list_profile, :vanishing, :proven_at, :newest_gone,
        :ids_reused_at
    )";

/// Writes a poller's row.
pub(super) fn save(
    connection: &Connection,
    id: &PollerId,
    row: &PollerRow,
) -> rusqlite::Result<()> {
    connection.run(
        SAVE,
        named_params! {
            ":route": id.route.as_str(),
            ":business": business_text(id),
            ":first_polled_at": row.first_polled_at,
            ":complete_since": row.complete_since,
            ":last_success_at": row.last_success_at,
            ":high_id": row.high_id,
            ":page_limit": row.page_limit,
            ":head": head_json(&row.head),
            ":head_seq": row.head_seq,
            ":learned": row.learned,
            ":emptied_at": row.emptied_at,
            ":served_business": row.served_business,
            ":set_aside_at": row.set_aside_at,
            ":older_pages": row.older_pages,
            ":list_profile": profile_json(&row.profile),
            ":waiting": waiting_json(&row.waiting),
            ":vanishing": vanishing_json(&row.vanishing),
            ":proven_at": row.proven_at,
            ":newest_gone": newest_gone_json(&row.newest_gone),
            ":ids_reused_at": row.ids_reused_at,
        },
    )?;
    if let (None, Some(served)) = (&id.business, &row.served_business)
        && meta::value(connection, meta::DEFAULT_BUSINESS)?.as_ref() != Some(served)
    {
        meta::set(connection, meta::DEFAULT_BUSINESS, served)?;
    }
    Ok(())
}

/// Lets a poller be known by another name of the same route, with its gaps and what is withheld.
pub(super) fn rename(
    connection: &Connection,
    from: &PollerId,
    to: &PollerId,
) -> rusqlite::Result<()> {
    for table in ["_pollers", "gaps", "_withheld"] {
        connection.run(
            &format!(
                "UPDATE OR REPLACE {table}
                 SET business = :to
                 WHERE route = :route AND business = :from"
            ),
            named_params! {
                ":route": from.route.as_str(),
                ":from": business_text(from),
                ":to": business_text(to),
            },
        )?;
    }
    Ok(())
}

/// Notes since when requests by a poller's name lead to another business.
pub(super) fn set_aside(
    connection: &Connection,
    poller: &PollerId,
    at: &str,
) -> rusqlite::Result<()> {
    connection.run(
        "UPDATE _pollers SET set_aside_at = :at WHERE route = :route AND business = :business",
        named_params! {
            ":route": poller.route.as_str(),
            ":business": business_text(poller),
            ":at": at,
        },
    )?;
    Ok(())
}

impl Reader {
    /// The stored state of each poller.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn pollers(&self) -> Result<Vec<PollerRow>, StoreError> {
        Ok(list(&self.connection)?)
    }
}
