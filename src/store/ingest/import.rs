//! Importing older records from a file that the operator has.
//!
//! A file enters by the door of polls, [`super`], one part after the other, each in a transaction
//! of its own beside a running daemon. What it has is older than what a poll has shown: it replaces
//! only what an earlier import brought, and leaves out records that a poll may still show first. It
//! proves nothing and touches no poller.

use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::named_params;
use serde::{Deserialize, Serialize};
use shopmirror_core::clock::stamp;
use shopmirror_core::record::{Page, PollerId};

use super::classify::{Decisions, Write};
use super::compare::{Comparison, Finding};
use super::memory::Memory;
use super::{Found, Ingest, Reading, Source};
use super::{classify, commit, compare, list, prove, vanish};
use crate::store::error::StoreError;
use crate::store::identity::Identities;
use crate::store::maintenance;
use crate::store::meta::MetaKey;
use crate::store::operator::Operator;
use crate::store::pollers::PollerRow;
use crate::store::reader::Reader;
use crate::store::sql::Sql;
use crate::store::writer::ViewState;

/// A part of a file with older records of one list.
#[derive(Debug, Clone)]
pub struct Import {
    /// The list that the records belong to.
    pub list: PollerId,
    /// The records.
    pub page: Arc<Page>,
    /// Up to when the file shows its records; never later than the import.
    pub as_of: Timestamp,
    /// When they are imported.
    pub at: Timestamp,
    /// The field by which records name their job, if the configuration says it.
    pub job_link: Option<String>,
}

/// What an import stored, or would store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ImportOutcome {
    /// Records stored for the first time.
    pub stored: usize,
    /// Records that an earlier import stored otherwise.
    pub replaced: usize,
    /// Records that the mirror has already, or that were forgotten: they stay as they are.
    pub known: usize,
    /// Records that are not surely older than the last poll: left to polls, so that sinks get them.
    pub newer: usize,
    /// Stored records that were missing in a gap.
    pub repaired: usize,
}

/// The operator's word that every record of a list since a day was imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompleteImport {
    /// The route of the list.
    pub route: String,
    /// The business of the list; `None` is the workspace default.
    pub business: Option<String>,
    /// Since when every record was imported.
    pub since: Timestamp,
}

impl ImportOutcome {
    fn of(comparison: &Comparison, decisions: &Decisions<'_>) -> Self {
        let mut outcome = Self::default();
        let mut unknown = 0;
        for compared in &comparison.records {
            unknown += usize::from(compared.finding == Finding::New);
        }
        for (_, write) in &decisions.writes {
            match write {
                Write::InPlaceOfImport(_) => outcome.replaced += 1,
                _ => outcome.stored += 1,
            }
        }
        outcome.newer = unknown - outcome.stored;
        outcome.known = comparison.records.len() - unknown - outcome.replaced;
        outcome.repaired = usize::try_from(decisions.gaps.found()).unwrap_or(0);
        outcome
    }

    /// Adds what another part of the file stored.
    pub fn add(&mut self, other: &Self) {
        self.stored += other.stored;
        self.replaced += other.replaced;
        self.known += other.known;
        self.newer += other.newer;
        self.repaired += other.repaired;
    }
}

impl Operator {
    /// Imports a part of a file in one transaction, beside a running daemon or without one. With
    /// `dry_run` nothing is stored, and the outcome says what would be.
    ///
    /// # Errors
    /// Nothing of the part is stored.
    pub fn import(&mut self, import: &Import, dry_run: bool) -> Result<ImportOutcome, StoreError> {
        let reading = Reading {
            poller: import.list.clone(),
            page: Arc::clone(&import.page),
            at: import.at,
            asked_after: i64::MAX,
            source: Source::Import {
                as_of: import.as_of.min(import.at),
            },
        };
        let tx = self.write_tx()?;
        let mut memory = Memory::default();
        memory.load_route(&tx, reading.poller.route)?;
        let list = list::find(&tx, &memory, &reading)?;
        let identities = Identities::read(&tx)?;
        let ingest = Ingest {
            tx,
            reading: &reading,
            before: list.poller.as_ref().and_then(|id| memory.poller(id)),
            list: &list,
            memory: &memory,
            identities: &identities,
            ignored: &[],
        };
        let comparison = compare::compare(&ingest)?;
        let verdict = prove::prove(&ingest, &comparison);
        let decisions = classify::classify(&ingest, &comparison, &verdict)?;
        // A file does not say what is in the list now.
        let vanished = vanish::Vanished::default();
        let outcome = ImportOutcome::of(&comparison, &decisions);
        if dry_run {
            return Ok(outcome);
        }
        let found = Found {
            comparison: &comparison,
            verdict: &verdict,
            decisions: &decisions,
            vanished: &vanished,
        };
        let mut views = ViewState::new(import.job_link.clone());
        commit::commit(ingest, &found, &mut views)?;
        // Without a daemon nothing else empties it. The part is stored, whatever comes of this.
        if let Err(error) = maintenance::cut_wal(&self.connection) {
            tracing::warn!(%error, "the write-ahead log was not emptied: the next import tries");
        }
        Ok(outcome)
    }

    /// Notes the operator's word that every record of a list since a day was imported. An earlier
    /// word that reaches further back stands.
    ///
    /// # Errors
    /// Nothing is noted.
    pub fn note_complete_import(&mut self, mut import: CompleteImport) -> Result<(), StoreError> {
        let add = |stored: Option<Vec<CompleteImport>>| {
            let mut imports = Vec::new();
            for other in stored.unwrap_or_default() {
                if other.route == import.route && other.business == import.business {
                    import.since = import.since.min(other.since);
                } else {
                    imports.push(other);
                }
            }
            imports.push(import);
            imports
        };
        self.update_value(MetaKey::COMPLETE_IMPORTS, add)
    }
}

/// The newest record of a list that the workspace has shown, of those created before a time.
const NEWEST_SHOWN_BEFORE: &str = "
    SELECT id
    FROM {route}
    WHERE _via IS NULL
        AND _business IS :business
        AND _created_at < :at
    ORDER BY _created_at DESC
    LIMIT 1";

impl Reader {
    /// The id of the newest record of a list that the workspace has shown, of those that were
    /// created before `at`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn newest_shown_before(
        &self,
        list: &PollerRow,
        at: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        let sql = NEWEST_SHOWN_BEFORE.replace("{route}", &list.route);
        let values = named_params! { ":business": list.business, ":at": stamp(at) };
        let mut ids: Vec<String> = self.connection.values(&sql, values)?;
        Ok(ids.pop())
    }

    /// The lists of which every record since a day was imported, as the operator says.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn complete_imports(&self) -> Result<Vec<CompleteImport>, StoreError> {
        Ok(self.value(MetaKey::COMPLETE_IMPORTS)?.unwrap_or_default())
    }
}

impl CompleteImport {
    /// Whether it is of the list of this poller.
    #[must_use]
    pub fn is_of(&self, poller: &PollerRow) -> bool {
        self.route == poller.route && self.business == poller.business
    }
}
