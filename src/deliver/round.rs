//! Reads what one round of a sink's work hands over: deliveries that are due, then new changes.
//!
//! A round never holds two changes of one record, so that order per record is kept whatever a sink
//! does at once. A change whose record has an open delivery is parked behind it.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::filter::wants;
use super::health::Attempt;
use super::redrive::has_newer;
use super::room::{SMALL, large};
use crate::config::SinkFilter;
use crate::record::Change;
use crate::store::{DeliveryState, DueBy, PendingDelivery, Reader, StoreError};

/// Rows of the log read in one round.
const SCAN: usize = 512;
/// A round that holds this many bytes of records takes no further change, so that memory is bounded
/// by the largest record and not by the batch.
const ROUND_BYTES: usize = 1024 * 1024;

/// Why a revived delivery was not handed over.
const SUPERSEDED: &str = "not sent again, because the sink has a newer version of the record: add \
     --all-versions to send it all the same, or drop it";

/// What a round may hold.
pub(super) struct Limits<'a> {
    pub(super) sink: &'a str,
    /// The sink's position in the log.
    pub(super) position: i64,
    pub(super) filter: &'a SinkFilter,
    /// The most changes to read.
    pub(super) most: usize,
    pub(super) attempt: Attempt,
    /// Whether several changes of one record are read.
    pub(super) several: bool,
    /// Deliveries that are under way and must not be read.
    pub(super) under_way: &'a HashSet<i64>,
    pub(super) by: DueBy<'a>,
    /// Whether the sink has open deliveries.
    pub(super) any_open: bool,
    /// Only what is due is handed over.
    pub(super) only_due: bool,
    /// The last row of the log that may be handed over.
    pub(super) upto: i64,
    /// Bytes of large records for which there is room.
    pub(super) room: usize,
    /// Whether a large record ends the round before it if there is something to hand over.
    pub(super) ends_at_large: bool,
}

impl Limits<'_> {
    /// Whether the sink has a newer version of the record of a revived delivery, or is being given one.
    fn has_newer(&self, reader: &Reader, delivery: &PendingDelivery) -> Result<bool, StoreError> {
        // What is under way may be stored as parked, so that the position can pass it.
        let parked = |newer: &Change| {
            Ok(!self.under_way.contains(&newer.seq) && reader.has_delivery(self.sink, newer.seq)?)
        };
        let record = (delivery.route.as_str(), delivery.record_id.as_str());
        has_newer(reader, Some(self.filter), record, (delivery.seq, self.position), parked)
    }

    /// Whether a change is left to the next round, so that those before it need not wait for room.
    fn leaves(&self, change: &Change, round: &Round) -> bool {
        let may_end = self.ends_at_large && !self.attempt.compares() && !round.changes.is_empty();
        may_end && weight(change) > SMALL
    }

    fn standing(
        &self,
        reader: &Reader,
        seq: i64,
        record: Option<&(String, String)>,
    ) -> Result<Standing, StoreError> {
        let Some((route, id)) = record else { return Ok(Standing::Free) };
        if reader.is_erased(seq)? {
            return Ok(Standing::Erased);
        }
        let is_open = self.any_open && reader.has_open_delivery(self.sink, route, id)?;
        Ok(if is_open { Standing::Behind } else { Standing::Free })
    }
}

/// What the store says of the record of a new change.
enum Standing {
    /// Nothing of it is parked.
    Free,
    /// An earlier change of it is parked.
    Behind,
    /// It was forgotten, and this is one of its versions.
    Erased,
}

/// A row of the log after the position.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LogRow {
    /// The sink did not ask for it, nor for as many rows before it as make up this number.
    Unwanted(i64),
    /// Its record was forgotten. It is stored as a delivery, which counts it as skipped.
    Erased(PendingDelivery),
    /// It is parked: an earlier change of its record is not delivered yet.
    Behind(PendingDelivery),
    /// It is handed over: the next of the round's new changes.
    Handed,
    /// It is not handed over, and parked only if a later row was delivered.
    Spared(PendingDelivery),
    /// It was delivered before.
    Delivered,
    /// It was refused before.
    Refused(PendingDelivery),
}

/// What one round hands over.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Round {
    /// The changes, each of another record: first those that were due, then new ones.
    pub(super) changes: Vec<Change>,
    /// For each change, how it is stored if it is parked.
    pub(super) deliveries: Vec<PendingDelivery>,
    /// How many of the changes were due.
    pub(super) due: usize,
    /// The rows of the log after the position, in order.
    pub(super) rows: Vec<(i64, LogRow)>,
    /// Deliveries whose change is no longer in the log, or whose record was forgotten.
    pub(super) vanished: Vec<PendingDelivery>,
    /// Revived deliveries that are dead again, because the sink has a newer version of their record.
    pub(super) superseded: Vec<PendingDelivery>,
    /// There is more to hand over than the round holds.
    pub(super) more: bool,
    /// More deliveries are due than the round holds.
    pub(super) more_due: bool,
    /// The round reaches the end of the log.
    pub(super) at_end: bool,
    /// When the next delivery becomes due.
    pub(super) next_due: Option<String>,
    /// More changes came at once than the sink is to get: nothing of the round is handed over.
    pub(super) flood: bool,
    /// Bytes of large records for which room must be taken first: nothing of the round is handed over.
    pub(super) lacks_room: Option<usize>,
    /// When the round was read.
    pub(super) now: String,
}

impl Round {
    pub(super) fn read(reader: &Reader, limits: &Limits<'_>) -> Result<Self, StoreError> {
        let mut round = Self { now: limits.by.now.to_owned(), ..Self::default() };
        let mut bytes = 0;
        if limits.any_open {
            bytes = round.read_due(reader, limits)?;
        }
        if !limits.only_due {
            round.read_new(reader, limits, bytes)?;
        }
        let large = large(&round.changes);
        if large > limits.room {
            return Ok(Self { lacks_room: Some(large), ..Self::default() });
        }
        reader.add_jobs(&mut round.changes)?;
        Ok(round)
    }

    /// How many of the changes are new.
    pub(super) fn fresh(&self) -> usize {
        self.deliveries.len() - self.due
    }

    fn read_due(&mut self, reader: &Reader, limits: &Limits<'_>) -> Result<usize, StoreError> {
        let most = limits.attempt.most(limits.most);
        // To compare, new changes are needed as well: all that is due may be to blame itself.
        let room = if limits.attempt.compares() { most.div_ceil(2) } else { most };
        let asked = room + 1 + limits.under_way.len();
        let mut due = reader.due_deliveries(limits.sink, &limits.by, asked)?;
        due.retain(|delivery| !limits.under_way.contains(&delivery.seq));
        self.more_due = due.len() > room;
        due.truncate(room);
        self.next_due = reader.next_due_delivery(limits.sink, limits.by.now)?;
        let mut records = HashSet::new();
        let mut bytes = 0;
        for delivery in due {
            let record = (delivery.route.clone(), delivery.record_id.clone());
            if reader.is_erased(delivery.seq)? {
                self.vanished.push(delivery);
                continue;
            }
            if delivery.only_if_newest && limits.has_newer(reader, &delivery)? {
                self.superseded.push(superseded(delivery));
                continue;
            }
            let full = bytes >= ROUND_BYTES && !limits.attempt.compares();
            if full || (!delivery.record_id.is_empty() && !records.insert(record)) {
                self.more_due = true;
                continue;
            }
            match reader.changes(&[delivery.seq])?.pop() {
                Some(change) if limits.leaves(&change, self) => self.more_due = true,
                Some(change) => {
                    bytes += weight(&change);
                    self.changes.push(change);
                    self.deliveries.push(delivery);
                }
                None => self.vanished.push(delivery),
            }
        }
        self.due = self.changes.len();
        self.more = self.more_due;
        Ok(bytes)
    }

    /// Takes the second of the new changes out of the round, if there is one. The first stays, since it
    /// is the one that failed.
    fn spare(&mut self) -> bool {
        let second = self.due + 1;
        if second >= self.changes.len() {
            return false;
        }
        let change = self.changes.remove(second);
        let delivery = self.deliveries.remove(second);
        if let Ok(place) = self.rows.binary_search_by_key(&change.seq, |(seq, _)| *seq) {
            self.rows[place].1 = LogRow::Spared(delivery);
        }
        true
    }

    fn read_new(
        &mut self,
        reader: &Reader,
        limits: &Limits<'_>,
        mut bytes: usize,
    ) -> Result<(), StoreError> {
        let most = limits.attempt.most(limits.most);
        let comparing = limits.attempt.compares();
        let mut in_round: HashSet<(String, String)> =
            self.changes.iter().filter_map(record_key).collect();
        let mut full = false;
        let mut met = 0;
        let mut failure = None;
        let shown = reader.scan_after(limits.position, SCAN, |change| {
            let seq = change.seq;
            if seq > limits.upto {
                full = true;
                return ControlFlow::Break(());
            }
            if !wants(limits.filter, &change) {
                self.rows.push((seq, LogRow::Unwanted(1)));
                return ControlFlow::Continue(());
            }
            let key = record_key(&change);
            let open = match limits.standing(reader, seq, key.as_ref()) {
                Ok(Standing::Free) => false,
                Ok(Standing::Behind) => true,
                Ok(Standing::Erased) => {
                    let erased = parked(&change, DeliveryState::Waiting, limits.by.now);
                    self.rows.push((seq, LogRow::Erased(erased)));
                    return ControlFlow::Continue(());
                }
                Err(error) => {
                    failure = Some(error);
                    return ControlFlow::Break(());
                }
            };
            let in_hand = !limits.several && key.as_ref().is_some_and(|key| in_round.contains(key));
            // While comparing, a later version of a record is parked so that others are tried.
            if open || (in_hand && comparing) {
                let behind = parked(&change, DeliveryState::Waiting, limits.by.now);
                self.rows.push((seq, LogRow::Behind(behind)));
                return ControlFlow::Continue(());
            }
            // Few changes are compared, one by one: their size must not keep others out.
            let room = self.changes.len() < most && (bytes < ROUND_BYTES || comparing);
            if comparing && !room && met < limits.attempt.reach(limits.most) && self.spare() {
                // Its place is taken by a change further on.
            } else if !room || in_hand || limits.leaves(&change, self) {
                full = true;
                return ControlFlow::Break(());
            }
            met += 1;
            if !limits.several {
                in_round.extend(key);
            }
            bytes += weight(&change);
            self.rows.push((seq, LogRow::Handed));
            self.deliveries.push(parked(&change, DeliveryState::Retrying, limits.by.now));
            self.changes.push(change);
            ControlFlow::Continue(())
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        self.at_end = !full && shown < SCAN;
        self.more |= !self.at_end;
        Ok(())
    }
}

/// A revived delivery that stays a dead letter.
fn superseded(delivery: PendingDelivery) -> PendingDelivery {
    PendingDelivery {
        state: DeliveryState::Dead,
        attempts: 0,
        next_attempt_at: None,
        last_error: Some(SUPERSEDED.to_owned()),
        ..delivery
    }
}

/// A delivery of `change` that was not attempted yet.
pub(super) fn parked(change: &Change, state: DeliveryState, now: &str) -> PendingDelivery {
    let next_attempt_at = (state == DeliveryState::Retrying).then(|| now.to_owned());
    PendingDelivery {
        seq: change.seq,
        route: change.route.as_str().to_owned(),
        record_id: change.record_id.clone().unwrap_or_default(),
        state,
        attempts: 0,
        next_attempt_at,
        last_error: None,
        since: now.to_owned(),
        only_if_newest: false,
    }
}

pub(super) fn weight(change: &Change) -> usize {
    change.body.len() + change.before.as_ref().map_or(0, String::len)
}

/// What order is kept for: a gap belongs to no record and may pass any change.
pub(super) fn record_key(change: &Change) -> Option<(String, String)> {
    Some((change.route.as_str().to_owned(), change.record_id.clone()?))
}
