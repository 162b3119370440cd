//! What intake remembers of submissions: the delivery log, what is parked in it, and the keys
//! that make a repeat a replay.
//!
//! Bounded: the oldest deliveries and the oldest keys are forgotten first.

use std::collections::{HashMap, VecDeque};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Submission;
use super::field::Destination;

const MOST_DELIVERIES: usize = 5_000;
const MOST_KEYS: usize = 50_000;

/// A record that intake made or found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::sandbox) struct Made {
    pub(in crate::sandbox) object: Destination,
    pub(in crate::sandbox) id: u64,
}

/// One request to an intake route and what became of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::sandbox) struct Delivery {
    pub(in crate::sandbox) id: u64,
    pub(in crate::sandbox) request_id: String,
    pub(in crate::sandbox) at: Timestamp,
    /// The key's name.
    pub(in crate::sandbox) key: String,
    /// The route, with the adapter's name for receivers.
    pub(in crate::sandbox) route: String,
    /// The HTTP status answered.
    pub(in crate::sandbox) http: u16,
    /// `completed`, `duplicate`, `received`, or the error's code.
    pub(in crate::sandbox) outcome: String,
    pub(in crate::sandbox) made: Option<Made>,
    /// What a retry submits; absent when the payload could not be read.
    pub(in crate::sandbox) submission: Option<Submission>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Remembered {
    pub(super) request_id: String,
    pub(super) made: Option<Made>,
}

/// The log and the keys.
#[derive(Debug, Default)]
pub(in crate::sandbox) struct Ledger {
    deliveries: VecDeque<Delivery>,
    next: u64,
    replays: HashMap<(u32, String), Remembered>,
    order: VecDeque<(u32, String)>,
}

/// The ledger as the state file keeps it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::sandbox) struct Kept {
    deliveries: VecDeque<Delivery>,
    next: u64,
    replays: Vec<((u32, String), Remembered)>,
}

impl Ledger {
    /// Logs a delivery under the next number.
    pub(super) fn log(&mut self, mut delivery: Delivery) {
        self.next += 1;
        delivery.id = self.next;
        if self.deliveries.len() == MOST_DELIVERIES {
            self.deliveries.pop_front();
        }
        self.deliveries.push_back(delivery);
    }

    pub(in crate::sandbox) fn deliveries(&self) -> impl Iterator<Item = &Delivery> {
        self.deliveries.iter()
    }

    pub(super) fn delivery_mut(&mut self, id: u64) -> Option<&mut Delivery> {
        self.deliveries.iter_mut().find(|delivery| delivery.id == id)
    }

    pub(super) fn remembered(&self, integration: u32, key: &str) -> Option<&Remembered> {
        self.replays.get(&(integration, key.to_owned()))
    }

    /// Remembers what a key stands for; of a parked submission, the record once it is there.
    pub(super) fn remember(&mut self, integration: u32, key: &str, what: Remembered) {
        let place = (integration, key.to_owned());
        if self.replays.insert(place.clone(), what).is_none() {
            self.order.push_back(place);
        }
        while self.order.len() > MOST_KEYS {
            if let Some(oldest) = self.order.pop_front() {
                self.replays.remove(&oldest);
            }
        }
    }

    pub(in crate::sandbox) fn keep(&self) -> Kept {
        let replay =
            |place: &(u32, String)| Some((place.clone(), self.replays.get(place)?.clone()));
        Kept {
            deliveries: self.deliveries.clone(),
            next: self.next,
            replays: self.order.iter().filter_map(replay).collect(),
        }
    }

    pub(in crate::sandbox) fn restore(kept: Kept) -> Self {
        let mut ledger = Self { deliveries: kept.deliveries, next: kept.next, ..Self::default() };
        for ((integration, key), what) in kept.replays {
            ledger.remember(integration, &key, what);
        }
        ledger
    }
}
