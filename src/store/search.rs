//! Storing what a customer search found, in one transaction or not at all.
//!
//! Such records have `_via = 'search'` in the mirror until a poll shows them. They prove nothing
//! about contiguity, and no poller's state is touched. A record that lies in a gap is counted there
//! and counts as created, and so does one that is newer than the poller's last page. What was stored after the
//! search was sent is newer than its response and stays.

use std::collections::HashSet;

use jiff::Timestamp;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::batch::NewVersion;
use super::diff::{self, LatestState};
use super::error::StoreError;
use super::gaps::{GapPlace, OpenGaps};
use super::log;
use super::mirror::Fields;
use super::pollers;
use super::writer::Writer;
use crate::record::{Kind, Page, PollerId, Route, same_record_except};

/// A customer search and its response.
#[derive(Debug, Clone)]
pub struct Search {
    /// The business that was searched; `None` is the workspace default.
    pub business: Option<String>,
    /// The response.
    pub page: Page,
    /// The kind of change for a customer that is stored for the first time and that no gap can have
    /// hidden: `created` or `baseline`.
    pub kind: Kind,
    /// When the response was read.
    pub at: Timestamp,
    /// The last row of the log when the search was sent; later rows are newer than its response.
    pub asked_after: i64,
    /// The search term if it belongs to a backfill, which can be resumed.
    pub backfill_term: Option<String>,
}

/// What storing a search changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchOutcome {
    /// Customers stored for the first time.
    pub created: usize,
    /// Customers whose meaning changed.
    pub updated: usize,
}

/// What has to be written for one record that a search found.
enum FoundRecord {
    New,
    Changed {
        version: i64,
        before: i64,
        via: Option<String>,
        business: Option<String>,
        is_missing: bool,
    },
}

/// Stores a search; see [`super::Store::store_found`].
pub(super) fn store(writer: &mut Writer, search: &Search) -> Result<SearchOutcome, StoreError> {
    writer.refuse_replaced_file()?;
    writer.until_not_overtaken(|writer| compare_and_store(writer, search))
}

fn compare_and_store(writer: &mut Writer, search: &Search) -> Result<SearchOutcome, StoreError> {
    let (records, seen) = compare(writer, search)?;
    let created = records.iter().filter(|(_, r)| matches!(r, FoundRecord::New)).count();
    let outcome = SearchOutcome { created, updated: records.len() - created };
    if records.is_empty() && search.backfill_term.is_none() {
        return Ok(outcome);
    }
    write(writer, search, &records, seen)?;
    if outcome.updated > 0 {
        // The pages in memory no longer say what is stored.
        writer.route_was_written(Route::Customers, None);
    }
    Ok(outcome)
}

/// What has to be written, and the last row of the log that this rests on.
fn compare(
    writer: &Writer,
    search: &Search,
) -> Result<(Vec<(usize, FoundRecord)>, i64), StoreError> {
    let (page, ignored) = (&search.page, writer.ignored(Route::Customers).names());
    let snapshot = writer.connection.unchecked_transaction()?;
    let seen = log::last_seq(&snapshot)?;
    let mut statement = snapshot.prepare_cached(&diff::latest_version_sql(Route::Customers))?;
    let mut records = Vec::new();
    for (place, record) in page.records().iter().enumerate() {
        let text = page.text(record);
        let Some(latest) = diff::find(&mut statement, record.id.as_str())? else {
            records.push((place, FoundRecord::New));
            continue;
        };
        let stored = &latest.stored;
        let is_decided = latest.kind != Kind::Forgotten && stored.seq <= search.asked_after;
        if is_decided
            && !same_record_except(&stored.body, text, ignored)
            && same_fields(&stored.body, text)
        {
            let (version, before) = (stored.version + 1, stored.seq);
            let LatestState { via, business, in_mirror, .. } = latest;
            let is_missing = !in_mirror;
            let changed = FoundRecord::Changed { version, before, via, business, is_missing };
            records.push((place, changed));
        }
    }
    Ok((records, seen))
}

/// Whether a record is shown with the fields it is known by. Absent values are null and their field
/// is present (contract, "Data conventions"). A record with other fields is shown in another shape
/// than a poll shows it in, which says nothing about what changed.
fn same_fields(known: &str, text: &str) -> bool {
    let names = |text: &str| -> HashSet<String> {
        Fields::of(text).0.into_iter().map(|(name, _)| name.into_owned()).collect()
    };
    names(known) == names(text)
}

fn write(
    writer: &mut Writer,
    search: &Search,
    records: &[(usize, FoundRecord)],
    seen: i64,
) -> Result<(), StoreError> {
    let route = Route::Customers;
    let stamp = crate::clock::stamp(search.at);
    let page = &search.page;
    let key = PollerId { route, business: search.business.clone() };
    let poller = match writer.known.get(&key) {
        Some(known) => Some(known.row.clone()),
        None => pollers::find(&writer.connection, &key)?,
    };
    writer.in_batch(route, seen, |batch| {
        let mut open_gaps = OpenGaps::read(batch.tx, route, search.business.as_deref())?;
        let mut versions = Vec::with_capacity(records.len());
        for (place, found) in records.iter().rev() {
            let record = &page.records()[*place];
            let (id, text) = (record.id.as_str(), page.text(record));
            versions.push(match found {
                FoundRecord::New => {
                    let newer = poller.as_ref().is_some_and(|row| row.is_newer(record));
                    let kind = match open_gaps.credit(record) {
                        GapPlace::Outside if !newer => search.kind,
                        // What a gap may have hidden is `created`, and so is what no poll has shown yet.
                        _ => Kind::Created,
                    };
                    let business = search.business.as_deref();
                    NewVersion {
                        id,
                        text,
                        kind,
                        version: 1,
                        before: None,
                        business,
                        via: Some("search"),
                        is_on_page: false,
                        is_missing: false,
                    }
                }
                FoundRecord::Changed { version, before, via, business, is_missing } => NewVersion {
                    id,
                    text,
                    kind: Kind::Updated,
                    version: *version,
                    before: Some(*before),
                    business: business.as_deref(),
                    via: via.as_deref(),
                    is_on_page: false,
                    is_missing: *is_missing,
                },
            });
        }
        batch.append(route, &stamp, &versions)?;
        open_gaps.save(batch.tx)?;
        if let Some(term) = &search.backfill_term {
            note_term(batch.tx, search, term, &stamp)?;
        }
        Ok(())
    })
}

fn note_term(tx: &Connection, search: &Search, term: &str, at: &str) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO _backfill_terms (business, term, returned, asked_at) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (business, term) DO UPDATE SET returned = excluded.returned, asked_at = excluded.asked_at",
    )?
    .execute((
        search.business.as_deref().unwrap_or(""),
        term,
        i64::try_from(search.page.records().len()).unwrap_or(i64::MAX),
        at,
    ))?;
    Ok(())
}

#[cfg(test)]
mod tests;
