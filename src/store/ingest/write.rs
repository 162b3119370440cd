//! Writing records: the log row and the mirror row of each, the same way for pages and searches.

use rusqlite::Connection;

use super::super::error::StoreError;
use super::super::gaps::OpenGaps;
use super::super::log::{self, NewChange};
use super::super::mirror::RowFacts;
use super::super::writer::Batch;
use super::Search;
use super::compare::{RecordDiff, StoredVersion};
use super::kind::NewRecords;
use crate::record::{Fields, Kind, Page, PollerId, Route};

/// One version of a record, ready to be written.
struct NewVersion<'a> {
    id: &'a str,
    text: &'a str,
    fields: Fields<'a>,
    kind: Kind,
    version: i64,
    /// The row of the version before; `None` for the first one.
    before: Option<i64>,
    business: Option<&'a str>,
    /// How the record was found; `None` for a poll.
    via: Option<&'a str>,
    /// Whether a page shows the record; a search does not show until when it is one of the newest.
    is_on_page: bool,
    /// The record is known, and its mirror row was deleted by hand.
    is_missing: bool,
}

/// Writes the records of a poll's page that differ, the oldest first: a page is newest first, and the
/// log reads better the other way round. `is_newest` is false for a page that is older than the one before.
pub(super) fn write_page(
    batch: &mut Batch<'_>,
    poller: &PollerId,
    page: &Page,
    at: &str,
    records: &[(usize, RecordDiff)],
    new: &NewRecords<'_>,
    is_newest: bool,
) -> Result<(), StoreError> {
    let business = poller.business.as_deref();
    let mut open_gaps = OpenGaps::read(batch.tx, poller.route, business)?;
    let mut versions = Vec::with_capacity(records.len());
    for (place, diff) in records.iter().rev() {
        let record = &page.records()[*place];
        let version = |kind, version, before, is_missing| NewVersion {
            id: record.id.as_str(),
            text: page.text(record),
            fields: page.fields(record),
            kind,
            version,
            before,
            business,
            via: None,
            is_on_page: is_newest,
            is_missing,
        };
        match diff {
            RecordDiff::New => {
                versions.push(version(new.kind(*place, record, &mut open_gaps), 1, None, false));
            }
            RecordDiff::Changed(stored) => versions.push(version(
                Kind::Updated,
                stored.version + 1,
                Some(stored.seq),
                !stored.in_mirror,
            )),
            RecordDiff::SeenByPoll => {
                batch.mirror.seen_by_poll(batch.tx, record.id.as_str(), business)?;
            }
            RecordDiff::Restored(stored) => restore(batch, poller, record.id.as_str(), stored)?,
        }
    }
    append(batch, poller.route, at, &versions)?;
    Ok(open_gaps.save(batch.tx)?)
}

/// Writes the customers that a search has found, the oldest first, and notes its term.
pub(super) fn write_found(
    batch: &mut Batch<'_>,
    search: &Search,
    records: &[(usize, RecordDiff)],
    new: &NewRecords<'_>,
) -> Result<(), StoreError> {
    let (route, page) = (Route::Customers, &search.page);
    let at = crate::clock::stamp(search.at);
    let mut open_gaps = OpenGaps::read(batch.tx, route, search.business.as_deref())?;
    let mut versions = Vec::with_capacity(records.len());
    for (place, diff) in records.iter().rev() {
        let record = &page.records()[*place];
        let found = NewVersion {
            id: record.id.as_str(),
            text: page.text(record),
            fields: page.fields(record),
            kind: Kind::Updated,
            version: 1,
            before: None,
            business: search.business.as_deref(),
            via: Some("search"),
            is_on_page: false,
            is_missing: false,
        };
        versions.push(match diff {
            RecordDiff::Changed(stored) => NewVersion {
                version: stored.version + 1,
                before: Some(stored.seq),
                business: stored.business.as_deref(),
                via: stored.via.as_deref(),
                is_missing: !stored.in_mirror,
                ..found
            },
            _ => NewVersion { kind: new.kind(*place, record, &mut open_gaps), ..found },
        });
    }
    append(batch, route, &at, &versions)?;
    open_gaps.save(batch.tx)?;
    match &search.backfill_term {
        Some(term) => Ok(note_term(batch.tx, search, term, &at)?),
        None => Ok(()),
    }
}

/// Writes the versions in the given order.
fn append(
    batch: &mut Batch<'_>,
    route: Route,
    at: &str,
    versions: &[NewVersion<'_>],
) -> Result<(), StoreError> {
    batch.has_new_columns |= batch.mirror.grow(batch.tx, versions.iter().map(|v| &v.fields))?;
    for version in versions {
        let change = NewChange {
            route,
            record_id: version.id,
            kind: version.kind,
            version: version.version,
            observed_at: at,
            business: version.business,
            body: version.text,
        };
        let identity = batch.identities.for_next(version.before);
        let seq = log::append(batch.tx, identity, &change)?;
        let first_seen_at = match version.is_missing {
            true => Some(log::first_observed(batch.tx, route, version.id)?),
            false => None,
        };
        let facts = RowFacts {
            id: version.id,
            business: version.business,
            first_seen_at: first_seen_at.as_deref().unwrap_or(at),
            at,
            last_seen_at: (!version.is_on_page).then_some(at),
            seq,
            via: version.via,
        };
        // An update may name another job than before.
        if version.version > 1 && route != Route::Jobs {
            batch.touched.note(batch.tx, route, version.id)?;
        }
        batch.mirror.put(batch.tx, &facts, &version.fields)?;
        batch.touched.note(batch.tx, route, version.id)?;
    }
    Ok(())
}

/// Writes a mirror row that was deleted by hand again, as the log has it.
fn restore(
    batch: &mut Batch<'_>,
    poller: &PollerId,
    id: &str,
    stored: &StoredVersion,
) -> Result<(), StoreError> {
    let PollerId { route, business } = poller;
    let fields = &Fields::of(&stored.body).unwrap_or_default();
    batch.has_new_columns |= batch.mirror.grow(batch.tx, std::iter::once(fields))?;
    let facts = RowFacts {
        id,
        business: business.as_deref(),
        first_seen_at: &log::first_observed(batch.tx, *route, id)?,
        at: &log::observed_at(batch.tx, stored.seq)?,
        last_seen_at: None,
        seq: stored.seq,
        via: None,
    };
    batch.mirror.put(batch.tx, &facts, fields)?;
    Ok(batch.touched.note(batch.tx, *route, id)?)
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
