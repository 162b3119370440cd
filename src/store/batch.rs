//! Appending records: the log row and the mirror row of each, the same way for pages and searches.

use super::error::StoreError;
use super::log::{self, NewChange};
use super::mirror::{Fields, RowFacts};
use super::rebuild::first_observed;
use super::writer::Batch;
use crate::record::{Kind, Route};

/// One version of a record, ready to be written.
pub(super) struct NewVersion<'a> {
    pub(super) id: &'a str,
    pub(super) text: &'a str,
    pub(super) kind: Kind,
    pub(super) version: i64,
    /// The row of the version before; `None` for the first one.
    pub(super) before: Option<i64>,
    pub(super) business: Option<&'a str>,
    /// How the record was found; `None` for a poll.
    pub(super) via: Option<&'a str>,
    /// Whether a page shows the record; a search does not show until when it is one of the newest.
    pub(super) is_on_page: bool,
    /// The record is known, and its mirror row was deleted by hand.
    pub(super) is_missing: bool,
}

impl Batch<'_> {
    /// Writes the versions in the given order.
    pub(super) fn append(
        &mut self,
        route: Route,
        at: &str,
        versions: &[NewVersion<'_>],
    ) -> Result<(), StoreError> {
        let fields: Vec<Fields<'_>> = versions.iter().map(|v| Fields::of(v.text)).collect();
        self.has_new_columns |= self.mirror.grow(self.tx, &fields)?;
        for (version, fields) in versions.iter().zip(&fields) {
            let change = NewChange {
                route,
                record_id: version.id,
                kind: version.kind,
                version: version.version,
                observed_at: at,
                business: version.business,
                body: version.text,
            };
            let identity = self.identities.for_next(version.before);
            let seq = log::append(self.tx, identity, &change)?;
            let first_seen_at = match version.is_missing {
                true => Some(first_observed(self.tx, route, version.id)?),
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
                self.touched.note(self.tx, route, version.id)?;
            }
            self.mirror.put(self.tx, &facts, fields)?;
            self.touched.note(self.tx, route, version.id)?;
        }
        Ok(())
    }

    /// Writes a mirror row that was deleted by hand again, as the log row `seq` has it.
    pub(super) fn restore(
        &mut self,
        route: Route,
        (id, text): (&str, &str),
        business: Option<&str>,
        seq: i64,
    ) -> Result<(), StoreError> {
        let fields = Fields::of(text);
        self.has_new_columns |= self.mirror.grow(self.tx, std::slice::from_ref(&fields))?;
        let first_seen_at = &first_observed(self.tx, route, id)?;
        let at = &log::observed_at(self.tx, seq)?;
        self.mirror.put(
            self.tx,
            &RowFacts { id, business, first_seen_at, at, last_seen_at: None, seq, via: None },
            &fields,
        )?;
        Ok(self.touched.note(self.tx, route, id)?)
    }
}
