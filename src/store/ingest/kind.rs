//! Decides whether a record that is stored for the first time is `created`, or was there before.

use shopmirror_core::record::{Kind, Record};

use super::super::gaps::OpenGaps;
use super::super::pollers::PollerRow;

/// Which of the records that are stored for the first time were there before.
pub(super) enum NewRecords<'a> {
    /// Those that a page shows below the last record of the page before, if the configured limit
    /// grew since; `high_id` is the highest id known before the page.
    NextPage {
        high_id: Option<i64>,
        last_shared: Option<usize>,
    },
    /// Those that were there when another poller read the route last; all, if none did.
    FirstPage { read_before: Option<&'a PollerRow> },
    /// Of a search: those that were there when the poller read its last page. They are of the kind
    /// `old`.
    Found {
        last_page: Option<&'a PollerRow>,
        old: Kind,
    },
}

impl NewRecords<'_> {
    /// The kind of the record at `place` of the page. A record that a gap may have hidden counts as
    /// created, and so does an old one that its last change brought onto the page.
    pub(super) fn kind(&self, place: usize, record: &Record, gaps: &mut OpenGaps) -> Kind {
        let (is_old, kind) = match self {
            Self::FirstPage { read_before } => {
                let is_new = read_before.is_some_and(|before| before.is_newer(record));
                return if is_new {
                    Kind::Created
                } else {
                    Kind::Baseline
                };
            }
            Self::NextPage {
                high_id,
                last_shared,
            } => {
                let is_below = last_shared.is_some_and(|last| place > last);
                let is_known = high_id
                    .zip(record.id.as_integer())
                    .is_some_and(|(h, id)| id <= h);
                (
                    is_below || is_known,
                    if is_below {
                        Kind::Baseline
                    } else {
                        Kind::Created
                    },
                )
            }
            Self::Found { last_page, old } => {
                (!last_page.is_some_and(|row| row.is_newer(record)), *old)
            }
        };
        if is_old && !gaps.credit(record) {
            kind
        } else {
            Kind::Created
        }
    }
}
