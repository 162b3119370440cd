//! Whether a page that is not full is the whole list, and how many records the server shows at most.
//!
//! A proxy that drops the query makes a server show fewer records than requested. Its pages are not
//! full then, although older records stand below them. A length that may be such a limit proves
//! nothing by itself.

use serde::{Deserialize, Serialize};

use super::{PreviousPage, Relation, Sighting};

/// A server's limit is a round number: a multiple of this, unless it was found.
const ROUND: usize = 5;
/// Pages in a row that have to end early at one length, before that length is the server's limit.
const PAGES: u32 = 3;

/// What the lengths of a list's pages have shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PageLengths {
    /// Records of the last page as it was received.
    records: usize,
    /// How many of these were left out.
    #[serde(default)]
    left_out: usize,
    /// Whether the last page was the whole list.
    is_whole: bool,
    /// Pages of this length, with none of another between them, at which records left at the end
    /// while others came.
    pages_cut: u32,
    /// The most records that the server shows, where this is less than was requested.
    server_limit: Option<usize>,
}

impl PageLengths {
    /// The most records that the server shows, where it was found to be less than was requested.
    #[must_use]
    pub fn server_limit(&self) -> Option<usize> {
        self.server_limit
    }

    /// Whether the last page was the whole list.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// How many records of the last page were left out, because no store can hold their id.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Whether the server may have ended the last page, so that older records stand below it.
    #[must_use]
    pub fn may_be_cut(&self) -> bool {
        !self.is_whole && self.may_be_limit(self.records)
    }

    /// Learns from a page. `previous` is `None` for the first page of a poller; `limit` is how many
    /// records were requested, `left_out` how many the server showed that are not in `page`.
    pub(super) fn learn(
        &mut self,
        previous: Option<PreviousPage>,
        page: &[Sighting],
        limit: usize,
        left_out: usize,
    ) {
        let records = page.len() + left_out;
        self.left_out = left_out;
        if self.server_limit.is_some_and(|found| records > found) {
            self.server_limit = None;
        }
        let has_same_length = previous.is_some() && records == self.records;
        if !has_same_length {
            self.pages_cut = 0;
        }
        let is_short = records < limit;
        let shows_end = previous.is_some_and(|previous| shows_end_of(previous, page));
        if is_short && has_same_length && !shows_end && shows_others(page) {
            self.pages_cut = self.pages_cut.saturating_add(1);
            if self.pages_cut >= PAGES {
                self.server_limit = Some(records);
            }
        }
        let continues_whole_list = shows_end && (self.is_whole || !has_same_length);
        self.is_whole = is_short && (!self.may_be_limit(records) || continues_whole_list);
        self.records = records;
    }

    /// Whether a server may have ended a page at this length.
    fn may_be_limit(&self, records: usize) -> bool {
        let is_round = records > 0 && records.is_multiple_of(ROUND);
        is_round || self.server_limit == Some(records)
    }
}

/// Whether a page shows every record of the previous page that stood below the lowest unchanged one
/// of this page; every record of it if none is unchanged.
///
/// A save that changes nothing brings the last record of a page to the front. So the lowest one is
/// looked for on this page.
fn shows_end_of(previous: PreviousPage, page: &[Sighting]) -> bool {
    let mut end = 0;
    for record in page.iter().rev() {
        if let Relation::Unchanged(place) = record.relation {
            end = place + 1;
            break;
        }
    }
    let mut shown = 0;
    for record in page {
        if record.relation.place().is_some_and(|place| place >= end) {
            shown += 1;
        }
    }
    end + shown == previous.records
}

/// Whether a page shows records that the previous one did not show.
fn shows_others(page: &[Sighting]) -> bool {
    page.iter()
        .any(|record| record.relation == Relation::NotShown)
}
