//! How the workspace orders a list: learned from its pages, since the contract says no more than
//! "newest first".
//!
//! An edit moves a record to the front of a list by last change, past records that stood above it,
//! and leaves it where it is in a list by creation. Order alone never proves that nothing was
//! missed.

use serde::{Deserialize, Serialize};

use super::{Relation, Sighting};

/// Pages that have to show that edited records stay, before a list counts as ordered by creation.
const PAGES: u32 = 3;
/// Unchanged records that have to stand above an edited record as before. A lagging server may
/// show an edited record a little below its place.
const RECORDS_ABOVE: usize = 10;

/// By what a list is ordered.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Order {
    /// No page has shown it yet. Lists that nobody edits never show it.
    #[default]
    Unknown,
    /// The record that was created last is first.
    ByCreation,
    /// The record that was saved last is first.
    ByChange,
}

/// What the pages of a list have shown of its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListOrder {
    /// By what the list is ordered. [`Order::ByChange`] is never taken back; [`Order::ByCreation`]
    /// is if an edited record passes another one after all.
    order: Order,
    /// Pages on which edited records stayed where they were.
    pages_by_creation: u32,
    /// Whether a page showed a record below one with a lower id, or an id that is no integer.
    id_rose: bool,
    /// Whether a page showed a record below one with an earlier `created_at`, or one without.
    created_at_rose: bool,
}

impl ListOrder {
    /// By what the list is ordered.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// Whether the list is ordered by creation and no page showed a record below one with a lower
    /// id.
    #[must_use]
    pub fn ids_never_rise(&self) -> bool {
        self.order == Order::ByCreation && !self.id_rose
    }

    /// Whether the list is ordered by creation and no page showed a record below one with an
    /// earlier `created_at`.
    #[must_use]
    pub fn created_at_never_rises(&self) -> bool {
        self.order == Order::ByCreation && !self.created_at_rose
    }

    /// Learns from a page that replaces the previous one.
    pub(super) fn learn(&mut self, page: &[Sighting]) {
        self.note_rises(page);
        if self.order == Order::ByChange || shows_another_order(page) {
            return;
        }
        let mut has_stayed = false;
        for (at, record) in page.iter().enumerate() {
            let Relation::Changed(place) = record.relation else {
                continue;
            };
            if !record.is_edited {
                continue;
            }
            let mut still_above = 0;
            for (other_at, other) in page.iter().enumerate() {
                let Relation::Unchanged(other_place) = other.relation else {
                    continue;
                };
                let stood_above = other_place < place;
                if !stood_above || !other.is_of_another_second(record) {
                    continue;
                }
                if other_at > at {
                    self.order = Order::ByChange;
                    return;
                }
                still_above += 1;
            }
            if still_above >= RECORDS_ABOVE {
                has_stayed = true;
            }
        }
        if has_stayed && self.order == Order::Unknown {
            self.pages_by_creation += 1;
            if self.pages_by_creation == PAGES {
                self.order = Order::ByCreation;
            }
        }
    }

    fn note_rises(&mut self, page: &[Sighting]) {
        for record in page {
            self.id_rose |= record.id.is_none();
            self.created_at_rose |= record.created_at.is_none();
        }
        for pair in page.windows(2) {
            self.id_rose |= pair[0].id < pair[1].id;
            self.created_at_rose |= pair[0].created_at < pair[1].created_at;
        }
    }
}

/// Whether unchanged records of different seconds stand in another order than before. Some of them
/// were saved again then, and where the others stand says nothing.
fn shows_another_order(page: &[Sighting]) -> bool {
    for (at, lower) in page.iter().enumerate() {
        let Relation::Unchanged(lower_place) = lower.relation else {
            continue;
        };
        for upper in &page[..at] {
            let Relation::Unchanged(upper_place) = upper.relation else {
                continue;
            };
            if upper_place > lower_place && upper.is_of_another_second(lower) {
                return true;
            }
        }
    }
    false
}
