//! What a page proves about the time since the poller's previous page.
//!
//! Pure: no I/O, no clock. The store and the simulation decide by this one rule. It holds whether
//! the workspace orders a list by creation or by last change, and does not have to know which.
//!
//! # Words
//!
//! - A record is **unchanged** if the previous page showed it and it still means the same.
//! - If nothing was missed, an unchanged record has above it every record that was above it before,
//!   and below it only records that were below it. What contradicts this is **misplaced**. A save
//!   that changes nothing brings a record to the front although it looks unchanged: this is how it
//!   shows.
//! - The **anchor** is the unchanged record that speaks best for the page. The unchanged records
//!   from it down that are in their old order **support** it. It is **firm** if four of them come
//!   on each record that is misplaced.
//! - A **step** leads from the highest known id to the lowest new one, or from one new id to the
//!   next. A step is **wide** if it is far wider than usual (see [`UsualSteps`]): ids that no page
//!   showed lie in it. Ids that are no integers have no steps.
//!
//! # The rule
//!
//! The first row that fits decides. In the examples a page has twenty records, and ids follow one
//! another without a hole. The previous page showed 40 to 21; `40'` is record 40 after an edit.
//!
//! ```text
//! row | the page                              | verdict    | example, and why
//! ----+---------------------------------------+------------+------------------------------------
//!  1  | is the first one of its poller        | baseline   | 40..21; nothing was shown before
//!  2  | is short, and shows all of the        | complete   | 45 40'..21', of 50 requested: the
//!     | previous page                         |            | end of the list is still the end
//!  3  | has a firm anchor and no wide step    | contiguous | 59..41 40: every record that came
//!     |                                       |            | since is shown
//!  4  | has a firm anchor, which more than    | contiguous | 90 40..22: others use these ids;
//!     | nine tenths of the page support       |            | a burst would have moved more
//!  5  | has a firm anchor, which more than a  | contiguous | 97..81 40 39 38: what was created
//!     | tenth of the page supports, in a list |            | between 81 and 40 would stand
//!     | by creation whose ids never rise down |            | between them
//!     | a page                                |            |
//!  6  | has a firm anchor                     | suspect    | 99..81 40: others use these ids, or
//!     |                                       |            | 80..41 are lost and 40 was saved
//!  7  | begins at the id that follows the     | contiguous | 60..41: nothing fits between 41 and
//!     | highest known one, in a list by       |            | 40, and edits do not move a record
//!     | creation whose ids never rise         |            |
//!  8  | is short                              | suspect    | 79..71, of 50 requested: the server
//!     |                                       |            | shows fewer than it has
//!  9  | has new ids that follow the highest   | suspect    | 60..41: no record is missing, but
//!     | known one without a hole              |            | an edit may be
//! 10  | shares half of its records with the   | suspect    | 41 40'..22': some field changes in
//!     | previous page, and has no wide step   |            | every record
//! 11  | is any other                          | gap        | 80..61: 60..41 are lost
//! ```
//!
//! Short means: with fewer records than requested, and not ended early by the server, as far as the
//! lengths of the pages show (see [`PageLengths`]). A short page in row 3, 4 or 5 is complete.

mod bounds;
mod length;
mod order;
mod steps;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use bounds::{Bounds, Import};
pub use length::PageLengths;
pub use order::{ListOrder, Order};
pub use steps::UsualSteps;

use steps::NewIds;

/// Unchanged records in their old order that it takes to outweigh one misplaced record. Records
/// that leave a list, and records that change places without an edit, put a few others out of
/// place.
const SUPPORT_PER_MISPLACED: usize = 4;

/// What one page proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contiguity {
    /// The first page of a poller: there is nothing to compare it with.
    Baseline,
    /// The page is the whole list.
    Complete,
    /// Nothing was missed since the previous page.
    Contiguous,
    /// The page does not prove that nothing was missed, but there is reason to think so.
    Suspect,
    /// Records may have been missed.
    Gap,
    /// The page is older than the one before: it proves nothing and replaces nothing.
    Stale,
}

impl Contiguity {
    /// True unless records may have been missed.
    #[must_use]
    pub fn is_proven(self) -> bool {
        !matches!(self, Self::Suspect | Self::Gap)
    }
}

/// How a record of the new page relates to the poller's previous page. The number is its place on
/// that page, counted from 0 for the newest record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// It was on the previous page and still means the same.
    Unchanged(usize),
    /// It was on the previous page, but it changed since, or nothing shows that it did not.
    Changed(usize),
    /// It was not on the previous page, whether or not the mirror knows it.
    NotShown,
}

impl Relation {
    /// The record's place on the previous page.
    pub(crate) fn place(self) -> Option<usize> {
        match self {
            Self::Unchanged(place) | Self::Changed(place) => Some(place),
            Self::NotShown => None,
        }
    }
}

/// One record of the new page, which is listed as it was read: newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// The record's id while it is an integer.
    pub id: Option<i64>,
    /// Its `created_at`, if that can be read.
    pub created_at: Option<Timestamp>,
    /// How it relates to the previous page.
    pub relation: Relation,
    /// Whether it is shown in a version that the log never had, with the `created_at` that it had
    /// before: it was edited since the previous page, and no older copy of it is shown.
    pub is_edited: bool,
}

impl Sighting {
    /// Whether two records were created in different seconds, as far as that is known. Records of
    /// one second say nothing about the order of a list.
    fn is_of_another_second(&self, other: &Self) -> bool {
        match (self.created_at, other.created_at) {
            (Some(own), Some(others)) => own.as_second() != others.as_second(),
            _ => false,
        }
    }
}

/// The page that the new one is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PreviousPage {
    /// Records on it.
    pub records: usize,
    /// Whether it held as many records as were requested, so that older ones may stand below it.
    pub is_full: bool,
    /// The highest id that the poller was ever shown, while ids are integers.
    pub high_id: Option<i64>,
    /// When the page was read.
    pub read_at: Option<Timestamp>,
}

/// What a page proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// The verdict.
    pub contiguity: Contiguity,
    /// Where missed records lie; empty when the verdict is neither a gap nor a suspect.
    pub bounds: Bounds,
}

/// What a poller has learned of its list from all its pages; a part of its row.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListProfile {
    /// How the workspace orders the list.
    pub order: ListOrder,
    /// How far apart its ids usually are.
    pub steps: UsualSteps,
    /// How long its pages are.
    pub lengths: PageLengths,
    /// The latest `created_at` that was shown.
    pub newest_created_at: Option<Timestamp>,
}

impl ListProfile {
    /// Decides what a page proves, and learns from it. `previous` is `None` for the first page of a
    /// poller; `limit` is how many records were requested. A page that replaces nothing, because it
    /// is older than the previous one, must not come here.
    pub fn read_page(
        &mut self,
        previous: Option<PreviousPage>,
        page: &[Sighting],
        limit: usize,
    ) -> Proof {
        self.read_shortened_page(previous, page, limit, 0)
    }

    /// As [`Self::read_page`], of a page of which the server showed `left_out` records more.
    pub fn read_shortened_page(
        &mut self,
        previous: Option<PreviousPage>,
        page: &[Sighting],
        limit: usize,
        left_out: usize,
    ) -> Proof {
        self.order.learn(page);
        let was_whole = self.lengths.is_whole();
        self.lengths.learn(previous, page, limit, left_out);
        let Some(mut previous) = previous else {
            self.steps = UsualSteps::from_first_page(page);
            self.note_newest(page);
            return Proof {
                contiguity: Contiguity::Baseline,
                bounds: Bounds::default(),
            };
        };
        // Where ids are integers, new records are never taken for older ones.
        if !was_whole && previous.high_id.is_some() {
            previous.is_full = true;
        }
        let proof = self.prove(previous, page);
        if proof.contiguity.is_proven()
            && let Some(new_ids) = NewIds::above(previous.high_id, page)
        {
            self.steps.learn(&new_ids);
        }
        self.note_newest(page);
        proof
    }

    fn note_newest(&mut self, page: &[Sighting]) {
        for record in page {
            self.newest_created_at = self.newest_created_at.max(record.created_at);
        }
    }

    /// The newest time of creation that was known when the previous page was read. A time that was
    /// still to come then is not one.
    fn newest_before(&self, previous: PreviousPage) -> Option<Timestamp> {
        let newest = self.newest_created_at?;
        match previous.read_at {
            Some(read_at) => Some(newest.min(read_at)),
            None => Some(newest),
        }
    }

    /// Decides by the table of this module's comment.
    fn prove(&self, previous: PreviousPage, page: &[Sighting]) -> Proof {
        let new_ids = NewIds::above(previous.high_id, page);
        let contiguity = self.verdict(previous, page, new_ids.as_ref());
        let bounds = if contiguity.is_proven() {
            Bounds::default()
        } else {
            Bounds::find(self, previous, page, new_ids.as_ref())
        };
        Proof { contiguity, bounds }
    }

    fn verdict(
        &self,
        previous: PreviousPage,
        page: &[Sighting],
        new_ids: Option<&NewIds>,
    ) -> Contiguity {
        let is_short = self.lengths.is_whole();
        let nothing_missed = if is_short {
            Contiguity::Complete
        } else {
            Contiguity::Contiguous
        };
        let widest_step = new_ids.map(NewIds::widest_step);
        let has_wide_step = match widest_step {
            Some(step) => self.steps.is_wide(step),
            None => false,
        };
        let shared = count_shared(page);
        let anchor = find_anchor(previous, page);

        if is_short && shared == previous.records {
            return Contiguity::Complete; // row 2
        }
        if let Some(anchor) = anchor
            && anchor.is_firm()
        {
            let support = anchor.support;
            if !has_wide_step {
                return nothing_missed; // row 3
            }
            if support * 10 > page.len() * 9 {
                return nothing_missed; // row 4
            }
            if support * 10 > page.len() && self.order.ids_never_rise() {
                return nothing_missed; // row 5
            }
            return Contiguity::Suspect; // row 6
        }
        if self.order.ids_never_rise() && new_ids.is_some_and(|ids| ids.begin_at_known(page)) {
            return nothing_missed; // row 7
        }
        if is_short {
            return Contiguity::Suspect; // row 8
        }
        if widest_step == Some(1) {
            return Contiguity::Suspect; // row 9
        }
        if shared * 2 >= page.len() && !has_wide_step {
            return Contiguity::Suspect; // row 10
        }
        Contiguity::Gap // row 11
    }
}

/// The unchanged record that speaks best for a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Anchor {
    /// Unchanged records from it down that are in their old order.
    support: usize,
    /// Records that cannot lie where they lie if nothing was missed.
    misplaced: usize,
}

impl Anchor {
    fn is_firm(self) -> bool {
        self.misplaced * SUPPORT_PER_MISPLACED <= self.support
    }

    fn is_better_than(self, other: Self) -> bool {
        // a - b > c - d, without negative numbers.
        self.support + other.misplaced * SUPPORT_PER_MISPLACED
            > other.support + self.misplaced * SUPPORT_PER_MISPLACED
    }
}

/// The best anchor of a page; `None` if no record of it is unchanged.
fn find_anchor(previous: PreviousPage, page: &[Sighting]) -> Option<Anchor> {
    let absent_above = count_absent_above(previous, page);
    // A longer page shows older records below those of the previous page, unless that one was the
    // whole list. New ids are not older.
    let mut older = 0;
    if previous.is_full {
        older = page.len().saturating_sub(previous.records);
    }
    let mut best: Option<Anchor> = None;
    for (at, record) in page.iter().enumerate().rev() {
        let Relation::Unchanged(place) = record.relation else {
            continue;
        };
        let mut support = 1;
        let mut lowest_place = place;
        let mut strange_below: usize = 0;
        let mut new_below = 0;
        for below in &page[at + 1..] {
            match below.relation.place() {
                Some(place_below) if place_below > place => {}
                _ if previous.high_id.is_some() && below.id > previous.high_id => new_below += 1,
                _ => strange_below += 1,
            }
            if let Relation::Unchanged(place_below) = below.relation
                && place_below > lowest_place
            {
                support += 1;
                lowest_place = place_below;
            }
        }
        let anchor = Anchor {
            support,
            misplaced: absent_above[place] + new_below + strange_below.saturating_sub(older),
        };
        if best.is_none_or(|best| anchor.is_better_than(best)) {
            best = Some(anchor);
        }
    }
    best
}

/// How many records of a page the previous one showed, changed or not.
fn count_shared(page: &[Sighting]) -> usize {
    let mut shared = 0;
    for record in page {
        if record.relation.place().is_some() {
            shared += 1;
        }
    }
    shared
}

/// For each place of the previous page, which has so many records, whether the new page shows its
/// record.
pub(crate) fn shown_places(records: usize, page: &[Sighting]) -> Vec<bool> {
    let mut is_shown = vec![false; records];
    for record in page {
        if let Some(place) = record.relation.place() {
            is_shown[place] = true;
        }
    }
    is_shown
}

/// For each place of the previous page, how many records above it the new page lacks.
fn count_absent_above(previous: PreviousPage, page: &[Sighting]) -> Vec<usize> {
    let mut absent_above = Vec::with_capacity(previous.records);
    let mut absent = 0;
    for is_shown in shown_places(previous.records, page) {
        absent_above.push(absent);
        if !is_shown {
            absent += 1;
        }
    }
    absent_above
}

#[cfg(test)]
mod tests;
