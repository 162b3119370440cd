//! The fourth step: what becomes of each record of a page, and in which gap it was found. Writes
//! nothing.
//!
//! A record that is stored for the first time is `created` unless it was there before. One that a
//! gap may have hidden counts as created, and so does an old one that its last change brought onto
//! the page. A record that is shown in an earlier version waits for the next page that shows it if a
//! server may lag: shown so again, or on a page with a new record, it is a change. An import brings
//! what was there before, and the workspace's own word replaces it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;
use shopmirror_core::contiguity::Relation;
use shopmirror_core::newest::{self, PageIds, ReusedId};
use shopmirror_core::record::{Fields, Kind, Record};

use super::compare::{Comparison, Finding, LATEST_READ_AT, StoredVersion};
use super::prove::{Role, Verdict, highest_id};
use super::{Ingest, Source};
use crate::store::error::StoreError;
use crate::store::gaps::OpenGaps;
use crate::store::pollers::PollerRow;
use crate::store::sql::Sql;

/// How long the data of one of the workspace's servers may lag behind that of another one.
const LONGEST_LAG: SignedDuration = SignedDuration::from_mins(10);

/// What becomes of the records of a page.
pub(super) struct Decisions<'a> {
    /// What has to be written, by the record's place on the page, the oldest record first: a page
    /// is newest first, and the log reads better the other way round.
    pub(super) writes: Vec<(usize, Write<'a>)>,
    /// The gaps in which some of them were found.
    pub(super) gaps: OpenGaps,
    /// The records whose state waits for the next page that shows them: by id, the row of the log
    /// of the earlier version that they were shown in.
    pub(super) waiting: BTreeMap<String, i64>,
    /// Whether the page shows nothing new.
    pub(super) is_unchanged: bool,
}

/// What has to be written for one record.
#[derive(Debug, Clone, Copy)]
pub(super) enum Write<'a> {
    /// Its first version.
    First(Kind),
    /// The version after this one.
    Next(&'a StoredVersion),
    /// That it is there after all, with the text of this version: it was shown in another shape.
    Again(&'a StoredVersion),
    /// The version after this one, which is another record: the workspace uses the id again.
    Another(&'a StoredVersion),
    /// The version after this one, which an import has brought. It is a baseline as well: nobody
    /// knows what changed.
    InPlaceOfImport(&'a StoredVersion),
    /// That a poll has shown what only a search had found before, or another business.
    SeenByPoll,
}

impl Decisions<'_> {
    pub(super) fn created(&self) -> usize {
        let writes = self.writes.iter();
        writes
            .filter(|(_, write)| matches!(write, Write::First(_) | Write::Another(_)))
            .count()
    }

    /// Whether the workspace uses an id again.
    pub(super) fn has_reused_ids(&self) -> bool {
        let mut writes = self.writes.iter();
        writes.any(|(_, write)| matches!(write, Write::Another(_)))
    }

    pub(super) fn updated(&self) -> usize {
        let writes = self.writes.iter();
        writes
            .filter(|(_, write)| matches!(write, Write::Next(_) | Write::Again(_)))
            .count()
    }
}

/// Decides what becomes of each record.
pub(super) fn classify<'a>(
    ingest: &Ingest<'_>,
    comparison: &'a Comparison,
    verdict: &Verdict,
) -> Result<Decisions<'a>, StoreError> {
    let records = ingest.reading.page.records();
    let mut gaps = if comparison.has_unstored_record() {
        // By the name that the list had until now.
        let poller = ingest.list.poller.as_ref();
        OpenGaps::read(&ingest.tx, poller.unwrap_or(&ingest.reading.poller))?
    } else {
        OpenGaps::default()
    };
    let old_from = first_place_below(ingest, verdict);
    // A page that shows a record for the first time is not older than the one before.
    let may_lag = match ingest.before {
        Some(before) => !comparison.shows_new_record(before.row.head_seq),
        None => false,
    };
    let others = other_records(ingest, comparison);
    let mut waiting = still_waiting(ingest)?;
    let mut writes = Vec::new();
    for (place, compared) in comparison.records.iter().enumerate().rev() {
        let write = match (&compared.finding, verdict.role) {
            (Finding::Same(_) | Finding::Undecided | Finding::Forgotten, _) => continue,
            (finding, Role::Import) if !may_import(ingest, &records[place], finding) => continue,
            (Finding::New, _) => {
                let is_below = old_from.is_some_and(|from| place >= from);
                Write::First(kind(ingest, &records[place], is_below, &mut gaps))
            }
            // A search says nothing of what it has found before.
            (Finding::SameAsFound(_), Role::Search) => continue,
            // Nor may its text, which may have another shape, stand in the place of an import.
            (Finding::Changed(stored), Role::Search) if stored.is_imported() => continue,
            (Finding::Changed(stored), Role::Search) => {
                if has_fields_of(ingest, &records[place], &stored.body) {
                    Write::Next(stored)
                } else if stored.kind == Kind::Vanished {
                    Write::Again(stored)
                } else {
                    continue;
                }
            }
            (Finding::Earlier(stored, seq), _) => {
                let id = records[place].id.as_str();
                if may_lag
                    && !has_waited(ingest, id, *seq)
                    && is_recent(ingest, &stored.observed_at)
                {
                    waiting.insert(id.to_owned(), *seq);
                    continue;
                }
                Write::Next(stored)
            }
            (Finding::Changed(stored), _) if stored.is_imported() => Write::InPlaceOfImport(stored),
            (Finding::Changed(stored), _) if others.contains(&place) => Write::Another(stored),
            (Finding::Changed(stored), _) => Write::Next(stored),
            // What a server shows that lags behind may have moved on since.
            (Finding::SameAsFound(_), Role::Older { .. }) => continue,
            (Finding::SameAsFound(_), _) => Write::SeenByPoll,
        };
        writes.push((place, write));
    }
    let is_unchanged = match verdict.role {
        Role::Emptied => true,
        _ => ingest.before.is_some() && writes.is_empty() && verdict.proof.contiguity.is_proven(),
    };
    Ok(Decisions {
        writes,
        waiting,
        gaps,
        is_unchanged,
    })
}

/// Whether an import stores a record. What a poll has shown stands, and what a poll may still show
/// first is left to it, so that sinks get it as news.
fn may_import(ingest: &Ingest<'_>, record: &Record, finding: &Finding) -> bool {
    match finding {
        Finding::New => is_surely_old(ingest, record),
        Finding::Changed(stored) => stored.is_imported(),
        _ => false,
    }
}

/// Whether a record is surely older than the last page of each poller of its route: a file may
/// hold the records of all businesses. A business that is no longer read finds nothing new.
fn is_surely_old(ingest: &Ingest<'_>, record: &Record) -> bool {
    let page = &ingest.reading.page;
    let Some(own) = ingest.before else {
        return false;
    };
    if own.row.is_newer(page, record) {
        return false;
    }
    let route = ingest.reading.poller.route;
    for (_, row) in ingest.memory.of_route(route) {
        let of_route = ingest.memory.of_route(route).map(|(_, row)| row);
        if row.set_aside_at.is_some() || row.is_gone(of_route) {
            continue;
        }
        if !row.is_surely_older(page, record) {
            return false;
        }
    }
    true
}

/// The places of the records that are other ones than before under the same id.
fn other_records(ingest: &Ingest<'_>, comparison: &Comparison) -> Vec<usize> {
    let (Source::Poll(_), Some(before)) = (&ingest.reading.source, ingest.before) else {
        return Vec::new();
    };
    let page = &ingest.reading.page;
    let mut places = Vec::new();
    let mut ids = Vec::new();
    let mut highest_before = None;
    for (place, compared) in comparison.records.iter().enumerate() {
        let record = &page.records()[place];
        let stored = match &compared.finding {
            Finding::Changed(stored) if stored.is_imported() => continue,
            Finding::Changed(stored) => stored,
            Finding::Same(_) | Finding::SameAsFound(_) | Finding::Earlier(..) => {
                highest_before = highest_before.max(record.id.as_integer());
                continue;
            }
            Finding::New | Finding::Undecided | Finding::Forgotten => continue,
        };
        let is_on_last_page = compared.relation != Relation::NotShown;
        let shown_at = match (&stored.last_seen_at, is_on_last_page) {
            (Some(last_seen_at), false) => last_seen_at,
            _ => &before.row.last_success_at,
        };
        let (Some(created_at), Some(created_at_before), Ok(shown_at)) = (
            page.created_at(record),
            stored.created_at(),
            shown_at.parse::<Timestamp>(),
        ) else {
            continue;
        };
        places.push(place);
        ids.push(ReusedId {
            id: record.id.as_integer(),
            created_at,
            created_at_before,
            shown_at,
            was_missing: was_missing(&before.row, record, stored),
            has_other_content: has_other_content(&page.fields(record), &stored.body),
        });
    }
    let has_lost_highest = match (highest_id(page), before.row.high_id) {
        (Some(shown), Some(known)) => shown < known,
        _ => false,
    };
    let of_page = PageIds {
        has_lost_highest,
        highest_before,
    };
    let others = newest::other_records(&ids, of_page);
    let mut found = Vec::new();
    for (place, is_other) in places.into_iter().zip(others) {
        if is_other {
            found.push(place);
        }
    }
    found
}

/// Whether half of what a record says beside its times is something else.
fn has_other_content(shown: &Fields<'_>, stored: &str) -> bool {
    let stored = Fields::parse(stored).unwrap_or_default();
    let mut fields = 0;
    let mut others = 0;
    for (name, value) in shown.iter() {
        if ["id", "created_at", "updated_at"].contains(&name) {
            continue;
        }
        let before = stored.get(name).unwrap_or("null");
        fields += u32::from(value != "null" || before != "null");
        others += u32::from(value != before);
    }
    others > 0 && 2 * others >= fields
}

/// Whether a record that is shown was missing before: it is gone from the list, or may be.
fn was_missing(before: &PollerRow, record: &Record, stored: &StoredVersion) -> bool {
    let id = record.id.as_str();
    if stored.kind == Kind::Vanished {
        return true;
    }
    let mut candidates = before.vanishing.candidates().iter();
    if candidates.any(|candidate| candidate.id == id) {
        return true;
    }
    if let Some(gone) = &before.newest_gone {
        return gone.ids.iter().any(|gone| gone == id);
    }
    // After other ids were used again, those above them are still to come.
    match (record.id.as_integer(), before.high_id) {
        (Some(id), Some(high_id)) => id > high_id,
        _ => false,
    }
}

/// The records that wait and are not on this page. What can no longer come from a server that lags
/// waits for nothing.
fn still_waiting(ingest: &Ingest<'_>) -> rusqlite::Result<BTreeMap<String, i64>> {
    let (Source::Poll(_), Some(before)) = (&ingest.reading.source, ingest.before) else {
        return Ok(BTreeMap::new());
    };
    let mut waiting = before.row.waiting.clone();
    if waiting.is_empty() {
        return Ok(waiting);
    }
    for record in ingest.reading.page.records() {
        waiting.remove(record.id.as_str());
    }
    let connection: &Connection = &ingest.tx;
    let route = ingest.reading.poller.route.as_str();
    let mut settled = Vec::new();
    for id in waiting.keys() {
        let read_at: String = connection.value(LATEST_READ_AT, (route, id))?;
        if !is_recent(ingest, &read_at) {
            settled.push(id.clone());
        }
    }
    for id in settled {
        waiting.remove(&id);
    }
    Ok(waiting)
}

/// Whether a record was shown in this earlier version on the last page that showed it.
fn has_waited(ingest: &Ingest<'_>, id: &str, seq: i64) -> bool {
    match ingest.before {
        Some(before) => before.row.waiting.get(id) == Some(&seq),
        None => false,
    }
}

/// Whether a version was first read so short a time ago that a server may still lag behind it.
fn is_recent(ingest: &Ingest<'_>, read_at: &str) -> bool {
    match read_at.parse::<Timestamp>() {
        Ok(read_at) => ingest.reading.at.duration_since(read_at) < LONGEST_LAG,
        Err(_) => false,
    }
}

/// The first place of the page that lies below the last record of the page before, if that one was
/// shorter and not the whole list: more records were requested, or the server shows more.
fn first_place_below(ingest: &Ingest<'_>, verdict: &Verdict) -> Option<usize> {
    let (Source::Poll(poll), Some(before)) = (&ingest.reading.source, ingest.before) else {
        return None;
    };
    let records = ingest.reading.page.records();
    let lengths = &before.row.profile.lengths;
    let more_requested = i64::from(poll.limit) > before.row.page_limit && !lengths.is_whole();
    let more_shown = records.len() > before.row.head.len() && lengths.may_be_cut();
    if !(more_requested || more_shown) || !verdict.proof.contiguity.is_proven() {
        return None;
    }
    let last_shared = records
        .iter()
        .rposition(|record| before.shown.contains_key(record.id.as_str()))?;
    Some(last_shared + 1)
}

/// The kind of a record that is stored for the first time; `is_below` if it lies below the records
/// of the page before.
fn kind(ingest: &Ingest<'_>, record: &Record, is_below: bool, gaps: &mut OpenGaps) -> Kind {
    let page = &ingest.reading.page;
    let is_newer = is_newer(ingest, record);
    let (is_old, kind_if_old) = match (&ingest.reading.source, ingest.before) {
        // A poller's first page shows what was there before, but for what came after another poller
        // read the list last.
        (Source::Poll(_), None) if is_newer => return Kind::Created,
        (Source::Poll(_), None) => return Kind::Baseline,
        (Source::Poll(_), Some(_)) if is_below => (true, Kind::Baseline),
        (Source::Poll(_), Some(before)) => (has_passed(before.row.high_id, record), Kind::Created),
        (Source::Search(search), _) => (!is_newer, search.kind),
        (Source::Import { .. }, _) => {
            gaps.credit(page, record);
            return Kind::Baseline;
        }
    };
    if is_old && !gaps.credit(page, record) {
        kind_if_old
    } else {
        Kind::Created
    }
}

/// Whether a record came after the last page of its poller.
fn is_newer(ingest: &Ingest<'_>, record: &Record) -> bool {
    match ingest.last_row() {
        Some(row) => row.is_newer(&ingest.reading.page, record),
        None => false,
    }
}

/// Whether a record's id is not above the highest one that its poller was ever shown.
fn has_passed(high_id: Option<i64>, record: &Record) -> bool {
    match (high_id, record.id.as_integer()) {
        (Some(high_id), Some(id)) => id <= high_id,
        _ => false,
    }
}

/// Whether a record is shown with the fields of its stored version. Absent values are null and their
/// field is present (contract, "Data conventions"). A record with other fields is shown in another
/// shape than a poll shows it in, which says nothing about what changed.
fn has_fields_of(ingest: &Ingest<'_>, record: &Record, stored: &str) -> bool {
    let shown = ingest.reading.page.fields(record);
    let Some(stored) = Fields::parse(stored) else {
        return false;
    };
    stored.len() == shown.len() && stored.iter().all(|(name, _)| shown.get(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_says_nothing_beside_its_times_says_nothing_else() {
        let has_other = |shown, stored| has_other_content(&Fields::parse(shown).unwrap(), stored);
        let stored = r#"{"id":1,"created_at":"2026-01-01"}"#;
        assert!(!has_other(r#"{"id":1,"created_at":"2026-01-02"}"#, stored));
        assert!(!has_other(r#"{"id":1,"name":null}"#, stored));
        assert!(has_other(r#"{"id":1,"name":"Ann"}"#, stored));
    }
}
