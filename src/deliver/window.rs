//! What is under way between a sink's position and the last row that was read: pure.
//!
//! Changes are handed over in the order of the log and settled in any order. Invariants: every row up
//! to [`Window::mark`] is settled, unwanted or stored as an open delivery; of one record at most one
//! change is handed over and not settled, and a later one is never handed over before it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

/// A row after the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    /// It is not settled.
    Open,
    /// It was delivered while an earlier one was not.
    Delivered,
    /// It was refused while an earlier one was not settled.
    Refused,
    /// It waits for one that was refused or is stored, and is to be stored. It was not handed over.
    Behind,
    /// It was stored so that the mark can pass it.
    Aside,
}

/// A row after the mark, with the unwanted rows between it and the next one.
#[derive(Debug)]
struct Entry {
    row: Row,
    unwanted: usize,
    last_unwanted: i64,
}

impl Row {
    /// Whether the sink would get it again, or lose an attempt, if the mark stayed before it.
    fn was_answered(self) -> bool {
        matches!(self, Self::Delivered | Self::Refused)
    }
}

/// A row that has to be stored as a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aside {
    /// It is handed over, or is to be handed over next. It stays in the window, and no longer holds
    /// the mark back.
    UnderWay(i64),
    /// It waits for an earlier one of its record, and has left the window with all later ones of it.
    Waiting(i64),
}

/// The changes after a sink's position, by their numbers. `K` names what order is kept for; a change
/// without a name may pass any other.
#[derive(Debug)]
pub(super) struct Window<K> {
    read_to: i64,
    /// After the mark; the first one is open.
    rows: BTreeMap<i64, Entry>,
    answered_above: usize,
    /// Delivered changes that the mark has passed since [`Self::take_delivered`].
    passed: usize,
    /// Unwanted rows that the mark has passed since [`Self::take_unwanted`].
    unwanted: usize,
    keys: HashMap<i64, Option<K>>,
    /// For each record with a change that is handed over or ready: the later ones.
    waiting: HashMap<K, BTreeSet<i64>>,
    ready: BTreeSet<i64>,
}

impl<K: Clone + Eq + Hash> Window<K> {
    /// Nothing is known after `position`.
    pub(super) fn after(position: i64) -> Self {
        Self {
            read_to: position,
            rows: BTreeMap::new(),
            answered_above: 0,
            passed: 0,
            unwanted: 0,
            keys: HashMap::new(),
            waiting: HashMap::new(),
            ready: BTreeSet::new(),
        }
    }

    /// The last row of the log that is known.
    pub(super) fn read_to(&self) -> i64 {
        self.read_to
    }

    /// The highest number up to which nothing is left to do.
    pub(super) fn mark(&self) -> i64 {
        self.rows.first_key_value().map_or(self.read_to, |(first, _)| first - 1)
    }

    /// Changes that were delivered or refused before an earlier one was settled.
    pub(super) fn answered_above(&self) -> usize {
        self.answered_above
    }

    /// Delivered changes up to the mark that were not taken yet.
    pub(super) fn delivered_below(&self) -> usize {
        self.passed
    }

    /// Takes the number of delivered changes that the mark has passed since the last call.
    pub(super) fn take_delivered(&mut self) -> usize {
        std::mem::take(&mut self.passed)
    }

    /// Takes the number of unwanted rows that the mark has passed since the last call.
    pub(super) fn take_unwanted(&mut self) -> usize {
        std::mem::take(&mut self.unwanted)
    }

    /// Changes that can be handed over now.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Changes in the window that are not settled.
    pub(super) fn held(&self) -> usize {
        self.keys.len()
    }

    /// Whether a change can be handed over now.
    pub(super) fn is_ready(&self, seq: i64) -> bool {
        self.ready.contains(&seq)
    }

    /// The rows after the mark, in order; each with the number of unwanted rows after it, and the last
    /// of them.
    pub(super) fn rows(&self) -> impl Iterator<Item = (i64, Row, usize, i64)> {
        self.rows.iter().map(|(seq, entry)| (*seq, entry.row, entry.unwanted, entry.last_unwanted))
    }

    /// The next row of the log is unwanted.
    pub(super) fn pass(&mut self, seq: i64) {
        self.read_to = self.read_to.max(seq);
        match self.rows.last_entry() {
            Some(mut last) => {
                last.get_mut().unwanted += 1;
                last.get_mut().last_unwanted = seq;
            }
            None => self.unwanted += 1,
        }
    }

    /// The next row of the log is to be stored behind an earlier change of its record.
    pub(super) fn add_behind(&mut self, seq: i64) {
        self.read_to = self.read_to.max(seq);
        self.rows.insert(seq, Entry { row: Row::Behind, unwanted: 0, last_unwanted: seq });
        self.settle_rows();
    }

    /// The next row of the log is to be handed over.
    pub(super) fn add(&mut self, seq: i64, key: Option<K>) {
        self.read_to = self.read_to.max(seq);
        self.rows.insert(seq, Entry { row: Row::Open, unwanted: 0, last_unwanted: seq });
        self.add_due(seq, key);
    }

    /// A change that the mark has passed is to be handed over.
    pub(super) fn add_due(&mut self, seq: i64, key: Option<K>) {
        match key.as_ref().and_then(|key| self.waiting.get_mut(key)) {
            Some(waiting) => {
                waiting.insert(seq);
            }
            None => {
                self.ready.insert(seq);
                if let Some(key) = &key {
                    self.waiting.insert(key.clone(), BTreeSet::new());
                }
            }
        }
        self.keys.insert(seq, key);
    }

    /// The change to hand over now.
    pub(super) fn hand_over(&mut self) -> Option<i64> {
        self.ready.pop_first()
    }

    /// A change that was handed over is delivered.
    pub(super) fn delivered(&mut self, seq: i64) {
        match self.rows.get_mut(&seq) {
            Some(entry) if entry.row == Row::Open => {
                entry.row = Row::Delivered;
                self.answered_above += 1;
            }
            // It was due or set aside: the mark had passed it.
            _ => self.passed += 1,
        }
        self.release(seq);
        self.settle_rows();
    }

    /// A change that was handed over is refused. Returns the later ones of its record, which leave
    /// the window and have to be stored behind it.
    pub(super) fn refused(&mut self, seq: i64) -> Vec<i64> {
        let key = self.keys.remove(&seq).flatten();
        let behind = key.and_then(|key| self.waiting.remove(&key));
        let behind: Vec<i64> = behind.into_iter().flatten().collect();
        if let Some(entry) = self.rows.get_mut(&seq) {
            entry.row = Row::Refused;
            self.answered_above += 1;
        }
        for seq in &behind {
            self.keys.remove(seq);
            self.set_row(*seq, Row::Behind);
        }
        self.settle_rows();
        behind
    }

    /// Moves the mark up to the last change that was answered. Returns the rows that held it back, and
    /// those that wait for one of them.
    pub(super) fn set_aside(&mut self) -> Vec<Aside> {
        let last = self.rows.iter().rev().find(|(_, entry)| entry.row.was_answered());
        let Some(last) = last.map(|(seq, _)| *seq) else { return Vec::new() };
        let open: Vec<i64> = self
            .rows
            .range(..last)
            .filter(|(_, entry)| entry.row == Row::Open)
            .map(|(s, _)| *s)
            .collect();
        let mut aside = Vec::with_capacity(open.len());
        for seq in open {
            let key = self.keys.get(&seq).and_then(Option::as_ref);
            let waiting = key.and_then(|key| self.waiting.get_mut(key));
            // None of its record may pass it in the window while it waits in the store.
            let later = waiting.filter(|waiting| waiting.contains(&seq));
            let later = later.map(|waiting| waiting.split_off(&seq)).unwrap_or_default();
            for seq in &later {
                self.keys.remove(seq);
                self.set_row(*seq, Row::Behind);
                aside.push(Aside::Waiting(*seq));
            }
            let is_open = self.rows.get(&seq).is_some_and(|entry| entry.row == Row::Open);
            if is_open {
                self.set_row(seq, Row::Aside);
                aside.push(Aside::UnderWay(seq));
            }
        }
        self.settle_rows();
        aside
    }

    fn set_row(&mut self, seq: i64, row: Row) {
        if let Some(entry) = self.rows.get_mut(&seq) {
            entry.row = row;
        }
    }

    fn release(&mut self, seq: i64) {
        let Some(Some(key)) = self.keys.remove(&seq) else { return };
        match self.waiting.get_mut(&key).and_then(BTreeSet::pop_first) {
            Some(next) => {
                self.ready.insert(next);
            }
            None => {
                self.waiting.remove(&key);
            }
        }
    }

    fn settle_rows(&mut self) {
        while let Some(first) = self.rows.first_entry()
            && first.get().row != Row::Open
        {
            let Entry { row, unwanted, .. } = first.remove();
            self.unwanted += unwanted;
            self.answered_above -= usize::from(row.was_answered());
            self.passed += usize::from(row == Row::Delivered);
        }
    }
}

#[cfg(test)]
mod tests;
