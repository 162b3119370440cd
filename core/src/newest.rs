//! Whether the newest records of a list are gone and nothing newer is shown: they were deleted, or
//! the workspace was restored from a backup.
//!
//! A server that lags behind shows the same for a while, so that only time tells them apart. It lags
//! in all lists at once, and so does a restore.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// How long the newest records have to be gone.
const LONGEST_LAG: SignedDuration = SignedDuration::from_mins(10);

/// The newest records of a list that its pages do not show any more, with nothing newer in their
/// place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewestGone {
    /// Their ids, the newest first.
    pub ids: Vec<String>,
    /// When a page showed them last.
    pub shown_at: Timestamp,
    /// When the first page without them was read.
    pub since: Timestamp,
    /// Whether two pages in a row lack them, and ten minutes have passed.
    pub is_sure: bool,
}

/// A page of a list, beside the last one.
#[derive(Debug, Clone, Copy)]
pub struct NewestPage<'a> {
    /// The ids of the page that it is compared with, the newest first.
    pub before: &'a [String],
    /// When that one was read.
    pub before_at: Timestamp,
    /// The ids of the page.
    pub shown: &'a HashSet<&'a str>,
    /// Whether it shows a record for the first time above those of the page before.
    pub shows_newer: bool,
    /// When it was read.
    pub at: Timestamp,
}

impl NewestGone {
    /// What is gone after a page; `known` is what was gone before it.
    #[must_use]
    pub fn after_page(known: Option<&Self>, page: NewestPage<'_>) -> Option<Self> {
        if page.shown.is_empty() {
            return known.cloned();
        }
        if page.shows_newer {
            return None;
        }
        if let Some(known) = known {
            if known.ids.iter().any(|id| page.shown.contains(id.as_str())) {
                return None;
            }
            let has_passed = page.at.duration_since(known.since) >= LONGEST_LAG;
            return Some(Self {
                is_sure: known.is_sure || has_passed,
                ..known.clone()
            });
        }
        let mut ids = Vec::new();
        for id in page.before {
            if page.shown.contains(id.as_str()) {
                break;
            }
            ids.push(id.clone());
        }
        if ids.is_empty() {
            return None;
        }
        Some(Self {
            ids,
            shown_at: page.before_at,
            since: page.at,
            is_sure: false,
        })
    }

    /// Whether two lists may have lost their newest records at one time, because the workspace was
    /// restored. One that is deleted goes with its records in other lists, so that both have to lack
    /// several.
    #[must_use]
    pub fn may_be_one_restore(&self, other: &Self) -> bool {
        let are_several = self.ids.len() >= 2 && other.ids.len() >= 2;
        are_several && self.shown_at <= other.since && other.shown_at <= self.since
    }
}

/// A known id that is shown with another time of creation than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReusedId {
    /// The id, if it is an integer.
    pub id: Option<i64>,
    /// When the workspace says now that the record was created.
    pub created_at: Timestamp,
    /// When it said so before.
    pub created_at_before: Timestamp,
    /// When a page showed the record last.
    pub shown_at: Timestamp,
    /// Whether the list did not show it before this page, although it should have.
    pub was_missing: bool,
    /// Whether half of what the record says beside its times is something else.
    pub has_other_content: bool,
}

impl ReusedId {
    /// Whether the record can be another one: it was created after the last page that showed the
    /// id, and a correction of that time would have left most of it. Times are compared to the
    /// second.
    fn may_be_another(&self) -> bool {
        self.has_other_content
            && self.created_at.as_second() != self.created_at_before.as_second()
            && self.created_at.as_second() >= self.shown_at.as_second()
    }
}

/// The ids of a page on which ids may be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageIds {
    /// Whether the highest one is below the highest known one.
    pub has_lost_highest: bool,
    /// The highest one whose record is as it was before, or as it was some time ago; `None` if there
    /// is none, or if ids are no integers.
    pub highest_before: Option<i64>,
}

/// Which of these ids of one page are other records than before: ids that the workspace uses again
/// after it was restored.
///
/// A restored workspace counts on from the records that are left. So an id that it uses again lies
/// above that of every record that is as before.
#[must_use]
pub fn other_records(ids: &[ReusedId], page: PageIds) -> Vec<bool> {
    let mut candidates = Vec::with_capacity(ids.len());
    for id in ids {
        let lies_above = match (id.id, page.highest_before) {
            (Some(id), Some(highest)) => id > highest,
            _ => true,
        };
        candidates.push(id.may_be_another() && lies_above);
    }
    let are_several = candidates.iter().filter(|is_one| **is_one).count() >= 2;
    let mut others = Vec::with_capacity(ids.len());
    for (id, is_candidate) in ids.iter().zip(candidates) {
        let has_reason = id.was_missing || page.has_lost_highest || are_several;
        others.push(is_candidate && has_reason);
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn ids(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// What is gone after pages of these ids, one a minute; `+` means that a page shows a record for
    /// the first time.
    fn gone_after(pages: &[&str]) -> Option<NewestGone> {
        let before = ids(pages[0]);
        let mut gone = None;
        for (minute, page) in pages.iter().enumerate().skip(1) {
            let shown: HashSet<&str> = page.split_whitespace().filter(|id| *id != "+").collect();
            let page = NewestPage {
                before: &before,
                before_at: at(0),
                shown: &shown,
                shows_newer: page.contains('+'),
                at: at(60 * minute as i64),
            };
            gone = NewestGone::after_page(gone.as_ref(), page);
        }
        gone
    }

    #[test]
    fn the_newest_are_gone_if_pages_lack_them_for_ten_minutes_and_show_nothing_newer() {
        let mut pages = vec!["9 8 7 6"];
        pages.extend(["7 6 5 4"; 10]);
        let gone = gone_after(&pages).unwrap();
        assert_eq!(
            (gone.ids.clone(), gone.is_sure),
            (ids("9 8"), false),
            "nine minutes"
        );
        pages.push("7 6 5 4");
        assert!(gone_after(&pages).unwrap().is_sure);
    }

    #[test]
    fn a_newer_record_or_one_of_them_ends_it_and_an_empty_page_says_nothing() {
        assert_eq!(gone_after(&["9 8 7", "7 6 5", "10 + 7 6"]), None);
        assert_eq!(gone_after(&["9 8 7", "7 6 5", "8 7 6"]), None);
        assert!(gone_after(&["9 8 7", "7 6 5", ""]).is_some());
        assert_eq!(gone_after(&["9 8 7", "9 7 6"]), None, "not the newest");
        assert_eq!(gone_after(&["9 8 7", ""]), None);
    }

    #[test]
    fn two_lists_lost_their_newest_at_once_if_the_times_between_their_pages_overlap() {
        let gone = |shown_at, since| NewestGone {
            ids: ids("2 1"),
            shown_at: at(shown_at),
            since: at(since),
            is_sure: true,
        };
        assert!(gone(0, 10).may_be_one_restore(&gone(5, 15)));
        assert!(!gone(0, 10).may_be_one_restore(&gone(20, 30)));
        let one = NewestGone {
            ids: ids("1"),
            ..gone(0, 10)
        };
        assert!(
            !one.may_be_one_restore(&gone(5, 15)),
            "deleted with its records"
        );
    }

    #[test]
    fn an_id_is_another_record_if_it_was_created_later_and_something_else_speaks_for_it() {
        let reused = |created_at, was_missing| ReusedId {
            id: Some(7),
            has_other_content: true,
            created_at: at(created_at),
            created_at_before: at(100),
            shown_at: at(1_000),
            was_missing,
        };
        let later = reused(1_010, false);
        let lost = PageIds {
            has_lost_highest: true,
            highest_before: Some(6),
        };
        let others = |ids: &[ReusedId]| other_records(ids, PageIds::default());
        assert_eq!(others(&[later]), [false], "a correction");
        assert_eq!(other_records(&[later], lost), [true]);
        assert_eq!(others(&[reused(1_010, true)]), [true]);
        assert_eq!(others(&[later, later]), [true, true]);
        let earlier = reused(990, true);
        assert_eq!(other_records(&[earlier, later], lost), [false, true]);
        let fraction = Timestamp::from_millisecond(1_800_000_100_500).unwrap();
        let same_second = ReusedId {
            created_at: fraction,
            shown_at: at(50),
            ..later
        };
        assert_eq!(other_records(&[same_second], lost), [false]);
        let corrected = ReusedId {
            has_other_content: false,
            ..later
        };
        assert_eq!(other_records(&[corrected], lost), [false]);
        let below = PageIds {
            highest_before: Some(8),
            ..lost
        };
        assert_eq!(
            other_records(&[later, reused(1_010, true)], below),
            [false, false],
            "a record with a higher id is as before"
        );
    }
}
