//! Writing records: the log row and the mirror row of each, the same way for pages and searches.

use super::super::error::StoreError;
use super::super::gaps::OpenGaps;
use super::super::log::{self, NewChange};
use super::super::mirror::RowFacts;
use super::super::writer::Batch;
use super::compare::RecordDiff;
use super::kind::NewRecords;
use crate::record::{Fields, Kind, Page, Route};

/// Where the records to write were read.
pub(super) struct Source<'a> {
    pub(super) route: Route,
    pub(super) business: Option<&'a str>,
    pub(super) at: &'a str,
    /// How they were found; `None` for a poll.
    pub(super) via: Option<&'a str>,
    /// Whether it is the newest page of its poller. An older page does not show until when a record is one of the
    /// newest, and neither does a search.
    pub(super) is_newest: bool,
}

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
    via: Option<&'a str>,
}

/// Writes the records of a page that differ, the oldest first: a page is newest first, and the log reads
/// better the other way round.
pub(super) fn write(
    batch: &mut Batch<'_>,
    source: &Source<'_>,
    page: &Page,
    records: &[(usize, RecordDiff)],
    new: &NewRecords<'_>,
) -> Result<(), StoreError> {
    let mut open_gaps = OpenGaps::read(batch.tx, source.route, source.business)?;
    let mut versions = Vec::with_capacity(records.len());
    for (place, diff) in records.iter().rev() {
        let record = &page.records()[*place];
        let first = |kind| NewVersion {
            id: record.id.as_str(),
            text: page.text(record),
            fields: page.fields(record),
            kind,
            version: 1,
            before: None,
            business: source.business,
            via: source.via,
        };
        match diff {
            RecordDiff::New => versions.push(first(new.kind(*place, record, &mut open_gaps))),
            RecordDiff::Changed(stored) => {
                let (business, via) = match source.via {
                    None => (source.business, None),
                    // A search says neither whose a known record is nor how it was found first.
                    Some(_) => (stored.business.as_deref(), stored.via.as_deref()),
                };
                versions.push(NewVersion {
                    version: stored.version + 1,
                    before: Some(stored.seq),
                    business,
                    via,
                    ..first(Kind::Updated)
                });
            }
            RecordDiff::SeenByPoll => {
                batch.mirror.seen_by_poll(batch.tx, record.id.as_str(), source.business)?;
            }
        }
    }
    append(batch, source, &versions)?;
    Ok(open_gaps.save(batch.tx)?)
}

/// Writes the versions in the given order.
fn append(
    batch: &mut Batch<'_>,
    source: &Source<'_>,
    versions: &[NewVersion<'_>],
) -> Result<(), StoreError> {
    let Source { route, at, is_newest, .. } = *source;
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
        let facts = RowFacts {
            id: version.id,
            business: version.business,
            first_seen_at: at,
            at,
            last_seen_at: (!is_newest).then_some(at),
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
