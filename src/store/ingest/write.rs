//! Writing records: the log row and the mirror row of each, the same way for pages and searches.

use shopmirror_core::record::{Fields, Kind, Page, Route};

use super::super::error::StoreError;
use super::super::gaps::OpenGaps;
use super::super::log::{self, NewChange};
use super::super::mirror::{RowFacts, job_states};
use super::super::writer::Batch;
use super::compare::RecordDiff;
use super::kind::NewRecords;

/// Where the records to write were read.
pub(super) struct Source<'a> {
    pub(super) route: Route,
    pub(super) business: Option<&'a str>,
    pub(super) at: &'a str,
    /// How they were found; `None` for a poll.
    pub(super) via: Option<&'a str>,
    /// Whether it is the newest page of its poller. An older page does not show until when a record
    /// is one of the newest, and neither does a search.
    pub(super) is_newest: bool,
}

/// Writes the records of a page that differ, the oldest first: a page is newest first, and the log
/// reads better the other way round.
pub(super) fn write(
    batch: &mut Batch<'_>,
    source: &Source<'_>,
    page: &Page,
    records: &[(usize, RecordDiff)],
    new: &NewRecords<'_>,
) -> Result<(), StoreError> {
    let Source {
        route,
        at,
        is_newest,
        ..
    } = *source;
    let mut open_gaps = OpenGaps::read(batch.tx, route, source.business)?;
    let shown: Vec<Fields<'_>> = records
        .iter()
        .map(|(place, _)| page.fields(&page.records()[*place]))
        .collect();
    batch.has_new_columns |= batch.mirror.grow(batch.tx, shown.iter())?;
    for ((place, diff), fields) in records.iter().zip(&shown).rev() {
        let record = &page.records()[*place];
        let id = record.id.as_str();
        let (kind, before, business, via) = match (diff, source.via) {
            (RecordDiff::SeenByPoll, _) => {
                batch.mirror.seen_by_poll(batch.tx, id, source.business)?;
                continue;
            }
            (RecordDiff::New, via) => (
                new.kind(*place, record, &mut open_gaps),
                None,
                source.business,
                via,
            ),
            (RecordDiff::Changed(stored), None) => {
                (Kind::Updated, Some(stored), source.business, None)
            }
            // A search says neither whose a known record is nor how it was found first.
            (RecordDiff::Changed(stored), Some(_)) => {
                let (business, via) = (stored.business.as_deref(), stored.via.as_deref());
                (Kind::Updated, Some(stored), business, via)
            }
        };
        let change = NewChange {
            route,
            record_id: id,
            kind,
            version: before.map_or(1, |before| before.version + 1),
            observed_at: at,
            business,
            body: page.text(record),
        };
        let identity = batch.identities.for_next(before.map(|before| before.seq));
        let seq = log::append(batch.tx, identity, &change)?;
        let facts = RowFacts {
            id: id.to_owned(),
            business: business.map(str::to_owned),
            first_seen_at: at.to_owned(),
            changed_at: at.to_owned(),
            last_seen_at: (!is_newest).then(|| at.to_owned()),
            seq,
            via: via.map(str::to_owned),
        };
        // An update may name another job than before.
        if before.is_some() && route != Route::Jobs {
            batch
                .touched
                .extend(job_states::job_of(batch.tx, route, id)?);
        }
        batch.mirror.put(batch.tx, &facts, fields)?;
        batch
            .touched
            .extend(job_states::job_of(batch.tx, route, id)?);
    }
    Ok(open_gaps.save(batch.tx)?)
}
