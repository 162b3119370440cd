//! Before the steps: which poller's list a page continues.
//!
//! A list belongs to the business that served it, whatever name it was requested by; where a
//! response names no business, to the name by which it was requested. So a list goes on when its
//! business gets a name in the configuration or becomes the default, and only the list of a business
//! that was never read begins with a baseline.

use rusqlite::Transaction;
use shopmirror_core::record::PollerId;

use super::memory::Memory;
use super::{Reading, Source};
use crate::store::pollers::{self, PollerRow};

/// The list that a page continues.
#[derive(Default)]
pub(super) struct List {
    /// The poller that read the list until now; `None` if none did.
    pub(super) poller: Option<PollerId>,
    /// The business whose list was requested by this name until now. Its poller is known by that
    /// business from now on.
    pub(super) set_aside: Option<String>,
    /// For a first page: the poller that may have read the list before, as no response names its
    /// business.
    pub(super) maybe: Option<PollerRow>,
}

/// Finds the list that was shown. What the pollers of its route saw last is in memory.
pub(super) fn find(
    tx: &Transaction<'_>,
    memory: &Memory,
    reading: &Reading,
) -> rusqlite::Result<List> {
    let poller = &reading.poller;
    let own = memory.poller(poller).map(|known| &known.row);
    let has_own = own.is_some();
    let own_list = List {
        poller: has_own.then(|| poller.clone()),
        ..List::default()
    };
    let served = match &reading.source {
        Source::Poll(poll) => poll.served_business.as_deref(),
        // A search and an import touch no poller.
        Source::Search(_) | Source::Import { .. } => return Ok(own_list),
    };
    if let Some(row) = own
        && (served.is_none() || row.served_business.as_deref() == served)
    {
        return Ok(own_list);
    }
    let served_before = own.and_then(|row| row.served_business.clone());
    let mut others = pollers::list(tx)?;
    others.retain(|row| row.route == poller.route.as_str() && row.business != poller.business);
    if let Some(row) = reader_of(&others, poller, served) {
        let id = PollerId {
            route: poller.route,
            business: row.business.clone(),
        };
        return Ok(List {
            poller: Some(id),
            set_aside: served_before,
            maybe: None,
        });
    }
    if has_own && served_before.is_none() {
        // No response has named its business until now.
        return Ok(own_list);
    }
    Ok(List {
        poller: None,
        set_aside: served_before,
        maybe: possible_reader(others, poller, served),
    })
}

/// The poller of another name that read this list until now.
fn reader_of<'a>(
    others: &'a [PollerRow],
    poller: &PollerId,
    served: Option<&str>,
) -> Option<&'a PollerRow> {
    let business = served.or(poller.business.as_deref())?;
    let is_served = |row: &&PollerRow| row.served_business.as_deref() == Some(business);
    let is_named = |row: &&PollerRow| {
        row.served_business.is_none() && row.business.as_deref() == Some(business)
    };
    others
        .iter()
        .find(is_served)
        .or_else(|| others.iter().find(is_named))
}

/// The poller of another name that may have read this list last: no response has named its business,
/// and one of the two names is the default's.
fn possible_reader(
    others: Vec<PollerRow>,
    poller: &PollerId,
    served: Option<&str>,
) -> Option<PollerRow> {
    let mut last: Option<PollerRow> = None;
    for row in others {
        let may_be_same = match (&poller.business, &row.business) {
            (Some(_), None) => row.served_business.is_none(),
            (None, _) => served.is_none(),
            (Some(_), Some(_)) => false,
        };
        let is_later = match &last {
            Some(last) => row.last_success_at >= last.last_success_at,
            None => true,
        };
        if may_be_same && is_later {
            last = Some(row);
        }
    }
    last
}
