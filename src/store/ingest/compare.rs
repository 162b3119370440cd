//! The second step: what each record of a page is beside the stored one. Reads only.
//!
//! A record whose text is the one that its poller saw last costs one digest. Any other one is
//! looked up in the log, whose latest version it is compared with by meaning.

use jiff::Timestamp;
use rusqlite::{Connection, named_params};
use serde::Deserialize;
use shopmirror_core::contiguity::{Relation, Sighting};
use shopmirror_core::record::{
    Fields, Kind, Page, Record, Route, field_text, parse_timestamp, same_record,
};

use super::memory::{Digest, Version};
use super::{IMPORT, Ingest, Source};
use crate::store::error::StoreError;
use crate::store::meta;
use crate::store::sql::Sql;

/// What each record of a page is beside the stored one, in the order of the page.
pub(super) struct Comparison {
    pub(super) records: Vec<Compared>,
    /// The same records for the contiguity rule.
    pub(super) sightings: Vec<Sighting>,
}

/// What one record is beside the stored one.
pub(super) struct Compared {
    pub(super) finding: Finding,
    /// How it relates to the poller's previous page.
    pub(super) relation: Relation,
    /// The digest of the text that was shown.
    pub(super) digest: Digest,
}

/// What one record is beside its latest version in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    /// It was never stored.
    New,
    /// It means the same as the version in this row of the log.
    Same(i64),
    /// The same, but only a search or an import has shown it before, or the list of another
    /// business: then it moved to this one without a change.
    SameAsFound(i64),
    /// It means something else, which none of its last 100 versions did.
    Changed(StoredVersion),
    /// It means the same as one of these, in this row of the log: it was changed back or is in the
    /// list again, or the server's data lags behind that of another one.
    Earlier(StoredVersion, i64),
    /// It means something else than a version that was stored since the page was requested. The
    /// next page decides which of the two is current.
    Undecided,
    /// It was forgotten, and stays so.
    Forgotten,
}

/// The latest version of a record in the log, and what the mirror says of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct StoredVersion {
    pub(super) seq: i64,
    pub(super) version: i64,
    pub(super) body: String,
    pub(super) kind: Kind,
    pub(super) observed_at: String,
    pub(super) via: Option<String>,
    pub(super) business: Option<String>,
    /// When a page showed it last; `None` while it is on a newest page.
    pub(super) last_seen_at: Option<String>,
}

impl StoredVersion {
    /// Whether the workspace has never shown the record: it was imported.
    pub(super) fn is_imported(&self) -> bool {
        self.kind == Kind::Baseline && self.via.as_deref() == Some(IMPORT)
    }

    /// When the workspace said that the record was created.
    pub(super) fn created_at(&self) -> Option<Timestamp> {
        parse_timestamp(field_text(&self.body, "created_at")?)
    }
}

impl Comparison {
    /// Whether the page shows a record that was never stored.
    pub(super) fn has_unstored_record(&self) -> bool {
        self.records
            .iter()
            .any(|compared| compared.finding == Finding::New)
    }

    /// Whether the page shows a record for the first time to its poller, which knows the log up to
    /// the row `head_seq`: one that was never stored, or that a search or another poller stored
    /// since the page before.
    pub(super) fn shows_new_record(&self, head_seq: i64) -> bool {
        self.records.iter().any(|compared| match compared.finding {
            Finding::New => true,
            Finding::Same(seq) | Finding::SameAsFound(seq) => {
                compared.relation == Relation::NotShown && seq > head_seq
            }
            _ => false,
        })
    }

    /// Whether the page shows a record that was never stored above those of the poller's last page.
    pub(super) fn shows_newer(&self) -> bool {
        for compared in &self.records {
            if compared.relation != Relation::NotShown {
                return false;
            }
            if compared.finding == Finding::New {
                return true;
            }
        }
        false
    }

    /// Whether the page shows the `count` records of the poller's last page again, in their order,
    /// and nothing else. They may have been read before a version that was stored meanwhile, so that
    /// the page proves no more than the last one did.
    pub(super) fn is_last_page(&self, count: usize) -> bool {
        let relations = self.records.iter().map(|compared| compared.relation);
        relations.eq((0..count).map(Relation::Unchanged))
    }
}

impl Compared {
    /// The version that the record is shown in, as far as the log has it.
    pub(super) fn version(&self) -> Option<Version> {
        match self.finding {
            Finding::Same(seq) | Finding::SameAsFound(seq) => Some(Version {
                seq,
                digest: self.digest,
            }),
            _ => None,
        }
    }
}

/// The latest version of a record. It starts from the log, so that a mirror row deleted by hand
/// does not make a record new.
pub(in crate::store) fn latest_version_sql(route: Route) -> String {
    format!(
        "SELECT c.seq, c.version, c.body, c.kind, c.observed_at, m._via AS via, m._business AS business,
            m._last_seen_at AS last_seen_at
         FROM changes c
         LEFT JOIN \"{route}\" m ON m.id = c.record_id
         WHERE c.route = '{route}' AND c.record_id = :id
         ORDER BY c.version DESC
         LIMIT 1"
    )
}

/// The versions of a record before one of them, the newest first. No server lags behind by 100
/// versions, and a record whose every page shows another value has a version for each page.
pub(in crate::store) const EARLIER_VERSIONS: &str = "
    SELECT seq, body
    FROM changes
    WHERE route = :route AND record_id = :id AND version < :version
    ORDER BY version DESC
    LIMIT 100";

/// When the latest version of a record was read.
pub(in crate::store) const LATEST_READ_AT: &str = "
    SELECT observed_at
    FROM changes
    WHERE route = :route AND record_id = :id
    ORDER BY version DESC
    LIMIT 1";

/// Compares a page with the store.
pub(super) fn compare(ingest: &Ingest<'_>) -> Result<Comparison, StoreError> {
    let page = &ingest.reading.page;
    let latest_version = latest_version_sql(ingest.reading.poller.route);
    let mut records = Vec::with_capacity(page.records().len());
    let mut sightings = Vec::with_capacity(page.records().len());
    for record in page.records() {
        let compared = compare_record(ingest, record, &latest_version)?;
        sightings.push(sighting(page, record, &compared));
        records.push(compared);
    }
    Ok(Comparison { records, sightings })
}

fn compare_record(
    ingest: &Ingest<'_>,
    record: &Record,
    latest_version: &str,
) -> Result<Compared, StoreError> {
    let text = ingest.reading.page.text(record);
    let digest = ingest.memory.digest(text);
    let previous = match (&ingest.reading.source, ingest.before) {
        (Source::Poll(_), Some(before)) => before.shown.get(record.id.as_str()),
        _ => None,
    };
    let finding = match previous.and_then(|shown| shown.version) {
        Some(version) if version.digest == digest => Finding::Same(version.seq),
        _ => look_up(ingest, record, latest_version)?,
    };
    let relation = match (previous, ingest.before) {
        (Some(shown), Some(before)) => match finding {
            // The previous page showed an earlier version, whether or not its server lagged.
            _ if before.row.waiting.contains_key(record.id.as_str()) => {
                Relation::Changed(shown.place)
            }
            // A version that was stored since the previous page shows that the record changed, even
            // if it changed back.
            Finding::Same(seq) | Finding::SameAsFound(seq) if seq <= before.row.head_seq => {
                Relation::Unchanged(shown.place)
            }
            _ => Relation::Changed(shown.place),
        },
        _ => Relation::NotShown,
    };
    Ok(Compared {
        finding,
        relation,
        digest,
    })
}

fn sighting(page: &Page, record: &Record, compared: &Compared) -> Sighting {
    let created_at = page.created_at(record);
    let is_edited = match &compared.finding {
        // What differs from an import was not changed for that reason.
        Finding::Changed(stored) if !stored.is_imported() => created_at == stored.created_at(),
        _ => false,
    };
    Sighting {
        id: record.id.as_integer(),
        created_at,
        relation: compared.relation,
        is_edited,
    }
}

/// Compares a record with its latest version in the log.
fn look_up(
    ingest: &Ingest<'_>,
    record: &Record,
    latest_version: &str,
) -> Result<Finding, StoreError> {
    let page = &ingest.reading.page;
    let connection: &Connection = &ingest.tx;
    let stored: Option<StoredVersion> = connection.row(latest_version, [record.id.as_str()])?;
    let Some(stored) = stored else {
        return Ok(Finding::New);
    };
    if stored.kind == Kind::Forgotten {
        return Ok(Finding::Forgotten);
    }
    // One that is gone from the list is shown again: that is a change, whatever is shown.
    if stored.kind != Kind::Vanished && means_the_same(&stored.body, page, record, ingest.ignored) {
        if stored.via.is_some() || is_of_another_business(ingest, &stored)? {
            return Ok(Finding::SameAsFound(stored.seq));
        }
        return Ok(Finding::Same(stored.seq));
    }
    // An import is never newer than a page.
    if stored.seq > ingest.reading.asked_after && !stored.is_imported() {
        return Ok(Finding::Undecided);
    }
    // Sinks got nothing of what earlier imports said, so a poll that shows it is no change.
    if let Source::Poll(_) = ingest.reading.source
        && !stored.is_imported()
        && let Some(seq) = earlier_version(ingest, record, &stored)?
    {
        return Ok(Finding::Earlier(stored, seq));
    }
    Ok(Finding::Changed(stored))
}

/// Whether the mirror has a record as one of another business than the one whose list shows it, as
/// far as their names are known.
fn is_of_another_business(ingest: &Ingest<'_>, stored: &StoredVersion) -> rusqlite::Result<bool> {
    let Source::Poll(poll) = &ingest.reading.source else {
        return Ok(false);
    };
    let own = &ingest.reading.poller.business;
    if stored.business == *own {
        return Ok(false);
    }
    let default = meta::value(&ingest.tx, meta::DEFAULT_BUSINESS)?;
    let stored = stored.business.as_ref().or(default.as_ref());
    let shown = poll.served_business.as_ref().or(own.as_ref());
    match (stored, shown) {
        (Some(stored), Some(shown)) => Ok(stored != shown),
        _ => Ok(false),
    }
}

/// The row of the log of the newest earlier version that means the same as what is shown.
fn earlier_version(
    ingest: &Ingest<'_>,
    record: &Record,
    stored: &StoredVersion,
) -> Result<Option<i64>, StoreError> {
    let page = &ingest.reading.page;
    let mut statement = ingest.tx.prepare_cached(EARLIER_VERSIONS)?;
    let mut versions = statement.query(named_params! {
        ":route": ingest.reading.poller.route.as_str(),
        ":id": record.id.as_str(),
        ":version": stored.version,
    })?;
    while let Some(version) = versions.next()? {
        let body: String = version.get("body")?;
        if means_the_same(&body, page, record, ingest.ignored) {
            return Ok(Some(version.get("seq")?));
        }
    }
    Ok(None)
}

fn means_the_same(stored: &str, page: &Page, record: &Record, ignored: &[String]) -> bool {
    if stored == page.text(record) {
        return true;
    }
    match Fields::parse(stored) {
        Some(fields) => same_record(&fields, &page.fields(record), ignored),
        None => false,
    }
}
