//! Which records are gone from a list, as far as its pages show it.
//!
//! Pure: no I/O, no clock. A record that leaves the end of a page may still be in the list. One
//! that a page lacks although it shows what stood around it is **missing**; missing on two pages in
//! a row, it is a **confirmed** candidate. Whether the route's other businesses show it is for the
//! caller to find out before it counts as vanished.
//!
//! # The rule
//!
//! A page shows that a record is missing if it shows three unchanged records that stood below it
//! and, above all three, one that stood above it or was created later. Half of the page has to be
//! unchanged.
//!
//! - In a list by creation, unchanged records in another order end every claim.
//! - In any other list, a save that changes nothing brings a record to the front although it looks
//!   unchanged. A record that lies above one that stood above it counts as changed, and the
//!   unchanged records have to lie together, with nothing new or changed between them.
//!
//! ```text
//! the previous page showed 9 8 7 6 5 4 3, in a list by last change
//! 9 8 6 5 4 3      7 is missing: 6 5 4 stood below it, and 9 above
//! 4' 9 8 6 5 3     7 is missing
//! 9 8 7 6          nothing is missing: 5 4 3 may stand below the end of the page
//! 6 5 4 3          nothing is missing: the page may be older than 9 8 7
//! 10 6 5 4 3       9 8 7 are missing: 10 was created later
//! 9 6 8 5 4 3      nothing is missing for sure: 6 was saved, and lies between unchanged ones
//! ```

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::contiguity::{Contiguity, Order, Relation, Sighting, shown_places};

/// Unchanged records that have to be shown below the place of a missing one. Records of one second
/// may change places without an edit.
const UNCHANGED_BELOW: usize = 3;
/// Records of a list that are marked in [`A_DAY`] without a question. More are rather a filter, or a
/// key that may read less.
const MOST_A_DAY: usize = 10;
const A_DAY: SignedDuration = SignedDuration::from_hours(24);
/// Candidates of one list. More than a few pages of them are rather a filter too.
const MOST_CANDIDATES: usize = 300;

/// A record that may be gone from the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The record's id.
    pub id: String,
    /// How many records of the page that the next one is compared with stand above its place.
    pub above: usize,
    /// When the first page was read on which it was missing.
    pub since: Timestamp,
    /// Whether it was missing on two pages in a row.
    pub is_confirmed: bool,
}

/// What a poller knows of records that may be gone from its list; a part of its row.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Vanishing {
    candidates: Vec<Candidate>,
    /// When records of the list were marked as vanished within the last day.
    marked_at: Vec<Timestamp>,
}

/// A page that replaces the poller's previous one.
#[derive(Debug, Clone, Copy)]
pub struct SeenPage<'a> {
    /// When it was read.
    pub at: Timestamp,
    /// By what the list is ordered, as far as this page and the earlier ones show it.
    pub order: Order,
    /// What the page proved.
    pub contiguity: Contiguity,
    /// The ids of the previous page, which the sightings refer to.
    pub previous: &'a [String],
    /// The ids of this page.
    pub ids: &'a [&'a str],
    /// Its records, in the same order.
    pub sightings: &'a [Sighting],
    /// Whether it shows a record in an earlier version than the stored one, as a lagging server
    /// does.
    pub may_be_older: bool,
}

impl Vanishing {
    /// The records that may be gone.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Learns from a page. `created_at` is asked when a record was created, by its id.
    ///
    /// # Errors
    /// What `created_at` returned; nothing is learned.
    pub fn read_page<E>(
        &mut self,
        page: &SeenPage<'_>,
        mut created_at: impl FnMut(&str) -> Result<Option<Timestamp>, E>,
    ) -> Result<(), E> {
        if !page.contiguity.is_proven() || page.ids.is_empty() {
            self.candidates.clear();
            return Ok(());
        }
        let unchanged = Unchanged::of(page);
        if page.order == Order::ByCreation && !unchanged.is_in_order {
            self.candidates.clear();
            return Ok(());
        }
        let may_claim = unchanged.is_in_order && unchanged.is_half() && !page.may_be_older;
        let mut candidates = Vec::new();
        for absent in self.absent(page, unchanged.lowest_place()) {
            let mut is_missing = false;
            if may_claim && unchanged.above_three_below(absent.place, None).is_some() {
                let created_at = created_at(absent.id)?;
                is_missing = match unchanged.above_three_below(absent.place, created_at) {
                    Some(above) => stood_above(above, absent.place) || is_newer(above, created_at),
                    None => false,
                };
            }
            let (since, is_confirmed) = match absent.candidate {
                Some(before) if !may_claim => (before.since, before.is_confirmed),
                Some(before) if is_missing => (before.since, true),
                None if is_missing => (page.at, false),
                _ => continue,
            };
            candidates.push(Candidate {
                id: absent.id.to_owned(),
                above: unchanged.new_place(absent.place),
                since,
                is_confirmed,
            });
        }
        candidates.truncate(MOST_CANDIDATES);
        self.candidates = candidates;
        Ok(())
    }

    /// The records that this page lacks and may show to be missing: those above the lowest one that
    /// is unchanged.
    fn absent<'a>(&'a self, page: &SeenPage<'a>, lowest_unchanged: usize) -> Vec<Absent<'a>> {
        let mut absent = Vec::new();
        if !self.candidates.is_empty() {
            let shown: HashSet<&str> = page.ids.iter().copied().collect();
            for candidate in &self.candidates {
                if shown.contains(candidate.id.as_str()) {
                    continue;
                }
                absent.push(Absent {
                    id: &candidate.id,
                    place: Place {
                        above: candidate.above,
                        below: candidate.above,
                    },
                    candidate: Some(candidate),
                });
            }
        }
        let is_shown = shown_places(page.previous.len(), page.sightings);
        for (place, is_shown) in is_shown.into_iter().enumerate().take(lowest_unchanged) {
            if !is_shown {
                absent.push(Absent {
                    id: &page.previous[place],
                    place: Place {
                        above: place,
                        below: place + 1,
                    },
                    candidate: None,
                });
            }
        }
        absent
    }

    /// Counts the places of the candidates without these places of the page, which the next page is
    /// not compared with. They are in ascending order.
    pub fn leave_out(&mut self, places: &[usize]) {
        for candidate in &mut self.candidates {
            candidate.above -= places.partition_point(|place| *place < candidate.above);
        }
    }

    /// Ends the candidates that were shown elsewhere; whether there was one.
    pub fn end(&mut self, is_shown: impl Fn(&Candidate) -> bool) -> bool {
        let before = self.candidates.len();
        self.candidates.retain(|candidate| !is_shown(candidate));
        self.candidates.len() < before
    }

    /// Ends every candidate.
    pub fn end_all(&mut self) {
        self.candidates.clear();
    }

    /// Takes the candidates that are confirmed by their list and, as `is_elsewhere_absent` says, by
    /// the pages of the other businesses.
    pub fn take_confirmed(
        &mut self,
        is_elsewhere_absent: impl Fn(&Candidate) -> bool,
    ) -> Vec<Candidate> {
        let mut confirmed = Vec::new();
        for candidate in std::mem::take(&mut self.candidates) {
            if candidate.is_confirmed && is_elsewhere_absent(&candidate) {
                confirmed.push(candidate);
            } else {
                self.candidates.push(candidate);
            }
        }
        confirmed
    }

    /// Counts this many records as marked now, unless they are more than are marked in a day without
    /// a question; whether they may be marked.
    pub fn may_mark(&mut self, count: usize, at: Timestamp) -> bool {
        self.marked_at
            .retain(|marked| at.duration_since(*marked).abs() < A_DAY);
        if self.marked_at.len() + count > MOST_A_DAY {
            return false;
        }
        self.marked_at.extend(std::iter::repeat_n(at, count));
        true
    }
}

/// Where a record stood on the previous page.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// How many records of the page stood above it.
    above: usize,
    /// The place of the first record of the page that stood below it.
    below: usize,
}

/// A record that the page lacks.
struct Absent<'a> {
    id: &'a str,
    place: Place,
    /// If it was missing on the previous page too.
    candidate: Option<&'a Candidate>,
}

/// The unchanged records of a page.
struct Unchanged<'a> {
    page: &'a [Sighting],
    /// Each with its place on this page and on the previous one, from the top down.
    records: Vec<(usize, usize)>,
    /// Whether they lie as they have to lie for a claim.
    is_in_order: bool,
}

impl<'a> Unchanged<'a> {
    fn of(page: &SeenPage<'a>) -> Self {
        match page.order {
            Order::ByCreation => Self::by_creation(page.sightings),
            Order::ByChange | Order::Unknown => Self::by_change(page.sightings),
        }
    }

    fn by_creation(page: &'a [Sighting]) -> Self {
        let mut records = Vec::with_capacity(page.len());
        for (at, record) in page.iter().enumerate() {
            if let Relation::Unchanged(place) = record.relation {
                records.push((at, place));
            }
        }
        Self {
            is_in_order: records.is_sorted_by_key(|(_, place)| place),
            page,
            records,
        }
    }

    fn by_change(page: &'a [Sighting]) -> Self {
        let mut records = Vec::with_capacity(page.len());
        let mut highest_below = usize::MAX;
        for (at, record) in page.iter().enumerate().rev() {
            let Some(place) = record.relation.place() else {
                continue;
            };
            let is_changed = !matches!(record.relation, Relation::Unchanged(_));
            if !is_changed && place < highest_below {
                records.push((at, place));
            }
            highest_below = highest_below.min(place);
        }
        records.reverse();
        let is_in_order = match (records.first(), records.last()) {
            (Some((first, _)), Some((last, _))) => last - first + 1 == records.len(),
            _ => false,
        };
        Self {
            page,
            records,
            is_in_order,
        }
    }

    fn is_half(&self) -> bool {
        self.records.len() * 2 >= self.page.len()
    }

    /// The place on the previous page of the lowest one; 0 if there is none.
    fn lowest_place(&self) -> usize {
        let places = self.records.iter().map(|(_, place)| *place);
        places.max().unwrap_or(0)
    }

    /// What lies above the lowest three that stood below this place; `None` if fewer did. Records
    /// that were created in the second of the absent one do not count: they may change places with
    /// it.
    fn above_three_below(
        &self,
        place: Place,
        created_at: Option<Timestamp>,
    ) -> Option<&'a [Sighting]> {
        let second = created_at.map(|at| at.as_second());
        let mut seen = 0;
        for (at, stood_at) in self.records.iter().rev() {
            let own_second = self.page[*at].created_at.map(|at| at.as_second());
            if *stood_at < place.below || (second.is_some() && own_second == second) {
                continue;
            }
            seen += 1;
            if seen == UNCHANGED_BELOW {
                return Some(&self.page[..*at]);
            }
        }
        None
    }

    /// Where on this page the record of a place would stand, as low as can be.
    fn new_place(&self, place: Place) -> usize {
        for (at, stood_at) in &self.records {
            if *stood_at >= place.below {
                return *at;
            }
        }
        self.page.len()
    }
}

/// Whether one of these records stood above a place of the previous page.
fn stood_above(records: &[Sighting], place: Place) -> bool {
    records
        .iter()
        .any(|record| record.relation.place().is_some_and(|at| at < place.above))
}

/// Whether one of these records was created later than another one, and the previous page did not
/// show it.
fn is_newer(records: &[Sighting], than: Option<Timestamp>) -> bool {
    let Some(than) = than else {
        return false;
    };
    records.iter().any(|record| {
        record.relation == Relation::NotShown && record.created_at.is_some_and(|at| at > than)
    })
}

#[cfg(test)]
mod tests;
