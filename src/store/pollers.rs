//! What each poller knows: the table `_pollers`.
//!
//! What a poll that changed nothing tells stays in memory for a while, so that an unchanged page
//! costs no write.

use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;
use serde::Deserialize;
use shopmirror_core::contiguity::ListProfile;
use shopmirror_core::record::{CLOCK_SKEW, Page, PollerId, Record, Route};

use super::error::StoreError;
use super::meta;
use super::reader::Reader;
use super::sql::{self, Sql};

/// A poller whose list was not read for so long while another one's of the route was, is of a
/// business that is no longer configured.
const GONE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The business as the tables hold it: '' for the workspace default.
pub(super) fn business_text(id: &PollerId) -> &str {
    id.business.as_deref().unwrap_or("")
}

/// A poller's row.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
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
    #[serde(deserialize_with = "sql::json")]
    pub head: Vec<String>,
    /// The last row of the log when `head` was taken.
    pub head_seq: i64,
    /// What the pages have shown of how the list is ordered and how far apart its ids are.
    #[serde(rename = "list_profile", deserialize_with = "sql::json")]
    pub profile: ListProfile,
    /// Pages in a row that were older than the one before; only in memory.
    #[serde(skip)]
    pub stale_pages: u32,
}

impl PollerRow {
    /// Whether a record came after the poller's last page.
    pub(super) fn is_newer(&self, page: &Page, record: &Record) -> bool {
        if let (Some(high_id), Some(id)) = (self.high_id, record.id.as_integer()) {
            return id > high_id;
        }
        match (
            page.created_at(record),
            self.last_success_at.parse::<Timestamp>(),
        ) {
            (Some(created_at), Ok(read_at)) => created_at.duration_since(read_at) >= -CLOCK_SKEW,
            _ => false,
        }
    }

    /// Whether the row is of the business that this page is of, as far as both are known.
    pub(super) fn is_of(&self, served: Option<&str>) -> bool {
        served.is_some()
            && [&self.business, &self.served_business]
                .iter()
                .any(|own| own.as_deref() == served)
    }

    /// Whether the poller is of a business that is no longer configured, as the last reads of these
    /// pollers show.
    pub fn is_gone<'a>(&self, mut pollers: impl Iterator<Item = &'a Self>) -> bool {
        let read = |row: &Self| row.last_success_at.parse::<Timestamp>().ok();
        let is_later = |(own, other): (Timestamp, Timestamp)| other.duration_since(own) > GONE;
        pollers.any(|other| {
            other.route == self.route && read(self).zip(read(other)).is_some_and(is_later)
        })
    }

    /// Which poller the row is of; `None` when the route is not one this program knows.
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

pub(super) fn find_sql() -> String {
    format!("{SELECT} WHERE route = ?1 AND business = ?2")
}

pub(super) fn find(connection: &Connection, id: &PollerId) -> rusqlite::Result<Option<PollerRow>> {
    connection.row(&find_sql(), (id.route.as_str(), business_text(id)))
}

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

/// Writes a poller's row.
pub(super) fn save(
    connection: &Connection,
    id: &PollerId,
    row: &PollerRow,
) -> rusqlite::Result<()> {
    connection.run(
        "INSERT OR REPLACE INTO _pollers (route, business, first_polled_at, last_success_at, high_id, \
         learned, head, page_limit, head_seq, emptied_at, served_business, complete_since, list_profile) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        (
            id.route.as_str(),
            business_text(id),
            &row.first_polled_at,
            &row.last_success_at,
            row.high_id,
            &row.learned,
            head_json(&row.head),
            row.page_limit,
            row.head_seq,
            &row.emptied_at,
            &row.served_business,
            &row.complete_since,
            profile_json(&row.profile),
        ),
    )?;
    if let (None, Some(served)) = (&id.business, &row.served_business)
        && meta::value(connection, meta::DEFAULT_BUSINESS)?.as_ref() != Some(served)
    {
        meta::set(connection, meta::DEFAULT_BUSINESS, served)?;
    }
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
