//! When a poller takes over from another: `businesses` was set, or emptied, and the same list goes
//! on under another name.
//!
//! The workspace default is one of its businesses. A new poller is judged by what the old one knew,
//! so that naming the business does not hide what was missed in between.

use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;

use super::diff::PageDiff;
use super::error::StoreError;
use super::known::KnownPoller;
use super::page_facts::PollFacts;
use super::pollers::{self, PollerRow};
use super::writer::Writer;
use crate::contiguity::{Contiguity, Proof};
use crate::record::PollerId;

/// Pollers that replace another all read their first page within this time of each other. A
/// business that is added later has no part in it.
const HANDOVER: SignedDuration = SignedDuration::from_hours(1);

/// The poller that a new one may take over from.
#[derive(Debug)]
pub(super) struct Predecessor {
    pub(super) poller: PollerId,
    pub(super) row: PollerRow,
    /// Whether both show the same list.
    pub(super) is_certain: bool,
}

/// Finds the poller that a new one takes over from, and loads what it knew.
pub(super) fn find(
    writer: &mut Writer,
    poller: &PollerId,
    facts: &PollFacts,
) -> Result<Option<Predecessor>, StoreError> {
    let rows = pollers::list(&writer.connection)?;
    let of_route = || rows.iter().filter(|row| row.route == poller.route.as_str());
    let found = match &poller.business {
        Some(name) => of_route().find(|row| row.business.is_none()).and_then(|row| {
            let mut others = of_route().filter(|row| row.business.is_some());
            let is_served = match &row.served_business {
                Some(served) if served == name => Some(true),
                Some(_) => None,
                None => others.all(|other| is_recent(other, facts.at)).then_some(false),
            };
            is_served.map(|is_certain| (row, is_certain))
        }),
        None => {
            let served = facts.served_business.as_deref();
            match served {
                Some(_) => {
                    of_route().find(|row| row.business.as_deref() == served).map(|row| (row, true))
                }
                None => of_route().max_by_key(|row| &row.last_success_at).map(|row| (row, false)),
            }
        }
    };
    let Some((row, is_certain)) = found else { return Ok(None) };
    let found = PollerId { route: poller.route, business: row.business.clone() };
    if !writer.known.contains_key(&found) {
        writer.known.insert(found.clone(), KnownPoller::new(row.clone()));
    }
    let row = writer.known[&found].row.clone();
    Ok(Some(Predecessor { poller: found, row, is_certain }))
}

fn is_recent(row: &PollerRow, now: Timestamp) -> bool {
    let first = row.first_polled_at.parse::<Timestamp>();
    first.is_ok_and(|first| now.duration_since(first) < HANDOVER)
}

impl Predecessor {
    /// Settles whether both show the same list, now that the page is compared with what the
    /// predecessor knew. When nothing shows it, the step is a suspect.
    pub(super) fn settle(mut self, diff: &PageDiff, proof: &mut Proof) -> Option<Self> {
        self.is_certain |= diff.sightings.iter().any(|sighting| sighting.relation.is_unchanged());
        if self.is_certain {
            return Some(self);
        }
        if diff.sightings.is_empty() {
            proof.contiguity = Contiguity::Baseline;
            return None;
        }
        proof.contiguity = Contiguity::Suspect;
        Some(self)
    }
}

/// Gives the new poller what the old one knew: its row goes, its open gaps are the new one's.
pub(super) fn take_over(
    connection: &Connection,
    poller: &PollerId,
    predecessor: &Predecessor,
) -> rusqlite::Result<()> {
    let (old, new) = (pollers::business_text(&predecessor.poller), pollers::business_text(poller));
    connection.execute(
        "UPDATE gaps SET business = ?3 WHERE route = ?1 AND business = ?2",
        (poller.route.as_str(), old, new),
    )?;
    pollers::remove(connection, &predecessor.poller)
}
