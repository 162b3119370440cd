//! The fields that a route ignores, and which of them change by themselves.
//!
//! A change of ignored fields alone is no change of the record. It may still be the trace of an edit
//! that moved the record to the front of its list, so the record proves nothing about contiguity. A
//! field that changes on nearly all records at once, page after page, changes without any edit; only
//! such a field is left out of the proof.

use std::collections::HashMap;

use rusqlite::Connection;

use super::meta;
use crate::record::{Route, field, same_meaning};

/// Pages in a row on which nearly all records must show the change.
const PAGES: u32 = 3;
/// On fewer records than this a page says nothing of a field.
const MIN_RECORDS: usize = 5;

/// The ignored fields of one route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct IgnoredFields {
    names: Vec<String>,
    /// Pages in a row on which nearly all records showed another value; by place in `names`.
    pages: Vec<u32>,
    moving: Vec<String>,
}

/// How often each ignored field differs between a page and the one before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct IgnoredChanges {
    /// Records that are on both pages.
    shared: usize,
    /// Records whose field differs, by place in [`IgnoredFields::names`].
    changed: Vec<usize>,
}

impl IgnoredFields {
    /// No field.
    pub(super) const NONE: Self = Self { names: Vec::new(), pages: Vec::new(), moving: Vec::new() };

    /// The fields with these names, of which those in `moving` are known to change by themselves.
    fn new(names: &[String], moving: &[String]) -> Self {
        let pages = names.iter().map(|name| if moving.contains(name) { PAGES } else { 0 });
        let mut fields = Self { pages: pages.collect(), names: names.to_vec(), moving: Vec::new() };
        fields.moving = fields.find_moving();
        fields
    }

    /// Every ignored field: what counts for nothing in deciding whether a record changed.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Those that change by themselves: what counts for nothing in the proof of contiguity.
    pub(super) fn moving(&self) -> &[String] {
        &self.moving
    }

    /// Learns from one page; returns true if [`Self::moving`] is another now.
    pub(super) fn observe(&mut self, changes: &IgnoredChanges) -> bool {
        if changes.shared < MIN_RECORDS {
            return false;
        }
        for (pages, &changed) in self.pages.iter_mut().zip(&changes.changed) {
            if changed * 10 >= changes.shared * 9 {
                *pages = pages.saturating_add(1);
            } else if changed > 0 {
                // Some records changed and others did not, as edits do it.
                *pages = 0;
            }
        }
        let moving = self.find_moving();
        let is_other = moving != self.moving;
        self.moving = moving;
        is_other
    }

    fn find_moving(&self) -> Vec<String> {
        let fields = self.names.iter().zip(&self.pages);
        fields.filter(|(_, pages)| **pages >= PAGES).map(|(name, _)| name.clone()).collect()
    }
}

impl IgnoredChanges {
    /// Counts a record that is on both pages, given both of its texts.
    pub(super) fn count(&mut self, fields: &IgnoredFields, before: &str, text: &str) {
        if fields.names.is_empty() {
            return;
        }
        self.shared += 1;
        self.changed.resize(fields.names.len(), 0);
        if before != text {
            for (count, name) in self.changed.iter_mut().zip(&fields.names) {
                *count += usize::from(differs(before, text, name));
            }
        }
    }
}

fn differs(before: &str, text: &str, name: &str) -> bool {
    match (field(before, name), field(text, name)) {
        (None, None) => false,
        (Some(before), Some(text)) => !same_meaning(before, text),
        _ => true,
    }
}

/// The ignored fields of every route, with what earlier processes learned of them.
pub(super) fn load(
    connection: &Connection,
    names: &HashMap<Route, Vec<String>>,
) -> rusqlite::Result<HashMap<Route, IgnoredFields>> {
    let mut all = HashMap::with_capacity(names.len());
    for (route, names) in names {
        let moving = meta::value(connection, &meta_name(*route))?;
        let moving: Vec<String> =
            moving.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        all.insert(*route, IgnoredFields::new(names, &moving));
    }
    Ok(all)
}

/// Keeps which fields of a route change by themselves for the next process.
pub(super) fn save(
    connection: &Connection,
    route: Route,
    fields: &IgnoredFields,
) -> rusqlite::Result<()> {
    let moving = serde_json::to_string(&fields.moving).expect("names are text");
    meta::set(connection, &meta_name(route), &moving)
}

fn meta_name(route: Route) -> String {
    format!("moving_fields:{route}")
}
