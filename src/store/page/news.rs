//! Decides whether a record that is stored for the first time is `created`, or was there before.

use crate::contiguity::Contiguity;
use crate::record::{Kind, Page, Record};
use crate::store::gaps::{GapPlace, OpenGaps};
use crate::store::known::KnownPoller;
use crate::store::pollers::PollerRow;

/// Decides of each record that is stored for the first time whether it is `created` or `baseline`.
pub(super) struct NewRecords<'a> {
    pub(super) contiguity: Contiguity,
    /// The highest id known before this page.
    pub(super) high_id: Option<i64>,
    pub(super) longer_page: Option<LongerPage>,
    /// The poller that this one may or may not take over from.
    pub(super) unsure: Option<&'a PollerRow>,
}

impl NewRecords<'_> {
    pub(super) fn kind(&self, place: usize, record: &Record, gaps: &mut OpenGaps) -> Kind {
        match (self.contiguity, self.unsure) {
            (Contiguity::Baseline, _) => return Kind::Baseline,
            (_, Some(row)) if !row.is_newer(record) => return Kind::Baseline,
            (Contiguity::Suspect | Contiguity::Gap, _) => return Kind::Created,
            _ => {}
        }
        let was_below =
            self.longer_page.as_ref().is_some_and(|longer| longer.was_below(place, record));
        let is_old = self.high_id.zip(record.id.as_integer()).is_some_and(|(high, id)| id <= high);
        // A record that a gap may have hidden counts as created.
        if (was_below || is_old) && gaps.credit(record) != GapPlace::Outside {
            return Kind::Created;
        }
        // An old record that was never shown and is now counts as created too: its last change brought it.
        if was_below { Kind::Baseline } else { Kind::Created }
    }
}

/// A page that is longer than the one before because the limit was raised: it shows records that
/// were there already, below the end of the shorter page.
pub(super) struct LongerPage {
    lowest_id: Option<i64>,
    oldest: Option<jiff::Timestamp>,
    last_shared: usize,
}

impl LongerPage {
    pub(super) fn of(known: &KnownPoller, page: &Page, limit: u32) -> Option<Self> {
        let before = known.row.page_limit;
        // A page that was not full was the whole list.
        let was_full = i64::try_from(known.len()).is_ok_and(|records| records >= before);
        if before >= i64::from(limit) || !was_full {
            return None;
        }
        let shared = || {
            let records = page.records().iter().enumerate();
            records.filter(|(_, record)| known.contains(record.id.as_str()))
        };
        let made = |(_, record): (usize, &Record)| record.created_at;
        Some(Self {
            lowest_id: known.lowest_id(),
            oldest: shared().map(made).min().flatten(),
            last_shared: shared().map(|(place, _)| place).max()?,
        })
    }

    /// By its id while ids are integers, else by when it was made, else by its place on the page.
    fn was_below(&self, place: usize, record: &Record) -> bool {
        if let Some((lowest, id)) = self.lowest_id.zip(record.id.as_integer()) {
            return id < lowest;
        }
        match self.oldest.zip(record.created_at) {
            Some((oldest, made)) => made <= oldest,
            None => place > self.last_shared,
        }
    }
}
