//! The changes of a flow: what is read, under way, delivered and parked, and what is to be saved.
//!
//! Pure but for the store's types: it decides nothing about time and hands nothing over itself.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::deliver::room::SMALL;
use crate::deliver::round::{LogRow, Round, record_key, weight};
use crate::deliver::settle::RetrySchedule;
use crate::deliver::window::{Aside, Row, Window};
use crate::record::Change;
use crate::sink::Verdict;
use crate::store::{DeliveryState, PendingDelivery, SinkProgress};

/// What order is kept for; a sink that keeps the order of all changes has one key.
type Key = (String, String);

/// What is kept of a change until it is handed over.
pub(super) enum InHand {
    Whole(Change),
    /// Its bytes: it is read again when there is room for it.
    Large(usize),
}

impl InHand {
    fn of(change: Change) -> Self {
        match weight(&change) {
            bytes if bytes > SMALL => Self::Large(bytes),
            _ => Self::Whole(change),
        }
    }

    /// Its bytes that are in memory.
    fn weight(&self) -> usize {
        match self {
            Self::Whole(change) => weight(change),
            Self::Large(_) => 0,
        }
    }
}

/// A change in the window.
struct Item {
    /// Taken when it is handed over.
    change: Option<InHand>,
    /// As it is stored if it is parked.
    delivery: PendingDelivery,
    /// It has a row in `deliveries`.
    stored: bool,
}

/// The changes of a flow.
pub(super) struct Items {
    pub(super) window: Window<Key>,
    items: HashMap<i64, Item>,
    /// Bytes of the records that are read and not handed over.
    pub(super) bytes: usize,
    /// What is to be saved next, besides the position.
    pub(super) progress: SinkProgress,
    /// Deliveries to be stored as soon as the mark has passed them, by the number of their change: a
    /// row that is stored while the position is before it would be handed over twice.
    held: BTreeMap<i64, PendingDelivery>,
    /// Records of which a delivery was not stored when the last read began, or was parked since.
    parked: HashSet<Key>,
    /// Nothing further is handed over.
    pub(super) ending: bool,
    /// The verdicts since the first one that no single change answers for.
    pub(super) trouble: Vec<(i64, Verdict)>,
}

impl Items {
    pub(super) fn after(position: i64) -> Self {
        Self {
            window: Window::after(position),
            items: HashMap::new(),
            bytes: 0,
            progress: SinkProgress::default(),
            held: BTreeMap::new(),
            parked: HashSet::new(),
            ending: false,
            trouble: Vec::new(),
        }
    }

    /// What is read from now on knows of everything that was stored so far.
    pub(super) fn begin_to_read(&mut self) {
        let records = self.held.values().map(|d| (d.route.clone(), d.record_id.clone()));
        self.parked = records.collect();
    }

    /// Whether there is something to store but the position.
    pub(super) fn must_be_saved(&self) -> bool {
        let mark = self.window.mark();
        self.progress.must_be_saved()
            || self.held.first_key_value().is_some_and(|(s, _)| *s <= mark)
    }

    /// Deliveries that cannot be stored before the mark has passed them.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// The stored deliveries that are in the window.
    pub(super) fn stored(&self) -> HashSet<i64> {
        self.items.iter().filter(|(_, item)| item.stored).map(|(seq, _)| *seq).collect()
    }

    /// Takes in what was read.
    pub(super) fn take_in(&mut self, round: Round) {
        let mut handed = round.changes.into_iter().zip(round.deliveries);
        for (change, delivery) in handed.by_ref().take(round.due) {
            let (seq, key) = (change.seq, record_key(&change));
            self.insert(change, delivery, true);
            self.window.add_due(seq, key);
        }
        self.progress.skipped += count(round.vanished.len());
        self.progress.settled.extend(round.vanished);
        self.progress.put.extend(round.superseded);
        for (seq, row) in round.rows {
            match row {
                LogRow::Unwanted(_) | LogRow::Delivered => self.window.pass(seq),
                LogRow::Behind(delivery)
                | LogRow::Spared(delivery)
                | LogRow::Refused(delivery)
                | LogRow::Erased(delivery) => {
                    self.add_behind(seq, delivery);
                }
                LogRow::Handed => {
                    let Some((change, delivery)) = handed.next() else { return };
                    let key = record_key(&change);
                    if key.as_ref().is_some_and(|key| self.parked.contains(key)) {
                        self.add_behind(seq, waiting(delivery));
                    } else {
                        self.insert(change, delivery, false);
                        self.window.add(seq, key);
                    }
                }
            }
        }
    }

    fn add_behind(&mut self, seq: i64, delivery: PendingDelivery) {
        self.held.insert(seq, delivery);
        self.window.add_behind(seq);
    }

    fn insert(&mut self, change: Change, delivery: PendingDelivery, stored: bool) {
        let (seq, change) = (change.seq, InHand::of(change));
        self.bytes += change.weight();
        self.items.insert(seq, Item { change: Some(change), delivery, stored });
    }

    /// The change to hand over now.
    pub(super) fn hand_over(&mut self) -> Option<(i64, InHand)> {
        if self.ending {
            return None;
        }
        let seq = self.window.hand_over()?;
        let change = self.items.get_mut(&seq)?.change.take()?;
        self.bytes -= change.weight();
        Some((seq, change))
    }

    /// Takes in what became of a change that was handed over.
    pub(super) fn landed(&mut self, seq: i64, verdict: Verdict, schedule: &RetrySchedule<'_>) {
        let trouble = !matches!(verdict, Verdict::Done | Verdict::Refused { .. });
        if trouble || !self.trouble.is_empty() {
            self.ending = true;
            self.trouble.push((seq, verdict));
            return;
        }
        let Some(item) = self.items.remove(&seq) else { return };
        match verdict {
            Verdict::Refused { reason, for_good } => {
                let delivery = if for_good {
                    schedule.refused_for_good(item.delivery, &reason)
                } else {
                    schedule.refused(item.delivery, &reason, None)
                };
                self.refused(seq, delivery, item.stored);
            }
            _ => {
                if item.stored {
                    self.progress.settled.push(item.delivery);
                }
                self.window.delivered(seq);
            }
        }
    }

    /// A change is parked, and the later ones of its record behind it.
    fn refused(&mut self, seq: i64, delivery: PendingDelivery, stored: bool) {
        self.parked.insert((delivery.route.clone(), delivery.record_id.clone()));
        for behind in self.window.refused(seq) {
            self.park_behind(behind);
        }
        if stored {
            self.progress.put.push(delivery);
        } else {
            self.held.insert(seq, delivery);
        }
    }

    /// A change that was not handed over leaves the window, and is stored behind another one.
    fn park_behind(&mut self, seq: i64) {
        let Some(item) = self.items.remove(&seq) else { return };
        self.bytes -= item.change.as_ref().map_or(0, InHand::weight);
        self.parked.insert((item.delivery.route.clone(), item.delivery.record_id.clone()));
        if !item.stored {
            self.held.insert(seq, waiting(item.delivery));
        }
    }

    /// Stores the slow changes that hold the position back, so that it can pass them.
    pub(super) fn set_aside(&mut self) {
        for aside in self.window.set_aside() {
            match aside {
                Aside::UnderWay(seq) => {
                    if let Some(item) = self.items.get_mut(&seq) {
                        item.stored = true;
                        self.progress.put.push(item.delivery.clone());
                    }
                }
                Aside::Waiting(seq) => self.park_behind(seq),
            }
        }
    }

    /// What is to be saved now, and how many delivered changes are in it.
    pub(super) fn take_progress(&mut self, at: String) -> (SinkProgress, usize) {
        let delivered = self.window.take_delivered();
        let mut progress = std::mem::take(&mut self.progress);
        let above = self.held.split_off(&(self.window.mark() + 1));
        progress.put.extend(std::mem::replace(&mut self.held, above).into_values());
        progress.delivered = count(delivered);
        progress.filtered = count(self.window.take_unwanted());
        progress.position = Some(self.window.mark());
        progress.at = at;
        (progress, delivered)
    }

    /// As [`Self::take_progress`] when nothing is under way any more.
    pub(super) fn take_last_progress(&mut self, at: String) -> (SinkProgress, usize) {
        self.set_aside();
        self.take_progress(at)
    }

    /// The end of a flow as a round: the rows after the mark, and the verdicts on those that are not
    /// settled. Everything else was taken by [`Self::take_progress`].
    pub(super) fn into_round(mut self, now: String) -> (Round, Vec<(usize, Verdict)>) {
        let tried: BTreeMap<i64, usize> =
            self.trouble.iter().enumerate().map(|(place, (seq, _))| (*seq, place)).collect();
        let mut round = Round { now, more: true, ..Round::default() };
        for (seq, row, unwanted, last_unwanted) in self.window.rows() {
            let held = self.held.remove(&seq);
            let row = match (row, self.items.get(&seq)) {
                (Row::Delivered, _) => LogRow::Delivered,
                (Row::Refused, _) => match held {
                    Some(delivery) => LogRow::Refused(delivery),
                    None => break,
                },
                (Row::Behind, _) => match held {
                    Some(delivery) => LogRow::Behind(delivery),
                    None => break,
                },
                (Row::Open, _) if tried.contains_key(&seq) => LogRow::Handed,
                (Row::Open, Some(item)) if self.window.is_ready(seq) => {
                    LogRow::Spared(item.delivery.clone())
                }
                (Row::Open, Some(item)) => LogRow::Spared(waiting(item.delivery.clone())),
                (Row::Open, None) | (Row::Aside, _) => break,
            };
            round.rows.push((seq, row));
            if unwanted > 0 {
                round.rows.push((last_unwanted, LogRow::Unwanted(count(unwanted))));
            }
        }
        let mut place_of = HashMap::new();
        for stored in [true, false] {
            for seq in tried.keys() {
                if self.items.get(seq).is_some_and(|item| item.stored == stored)
                    && let Some(item) = self.items.remove(seq)
                {
                    place_of.insert(*seq, round.deliveries.len());
                    round.deliveries.push(item.delivery);
                    round.due += usize::from(stored);
                }
            }
        }
        let verdicts = std::mem::take(&mut self.trouble).into_iter();
        let tried = verdicts.filter_map(|(seq, verdict)| Some((*place_of.get(&seq)?, verdict)));
        (round, tried.collect())
    }
}

/// A delivery that waits for an earlier change of its record.
fn waiting(delivery: PendingDelivery) -> PendingDelivery {
    PendingDelivery { state: DeliveryState::Waiting, next_attempt_at: None, ..delivery }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
