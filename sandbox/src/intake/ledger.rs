//! What intake remembers of submissions: the delivery log, what is parked in it, and the keys
//! that make a repeat a replay.
//!
//! Bounded: the oldest deliveries and the oldest keys are forgotten first.

use std::collections::{HashMap, VecDeque};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Submission;
use super::field::Destination;

const MAX_DELIVERIES: usize = 5_000;
/// The most bytes of submitted data in the log.
const MAX_BYTES: usize = 64 * 1024 * 1024;
const MAX_KEYS: usize = 50_000;

/// A record that intake made or found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Made {
    pub(crate) object: Destination,
    pub(crate) id: u64,
}

/// One request to an intake route and its outcome.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Delivery {
    pub(crate) id: u64,
    pub(crate) request_id: String,
    pub(crate) at: Timestamp,
    /// The key's name.
    pub(crate) key: String,
    /// The route, with the adapter's name for receivers.
    pub(crate) route: String,
    /// The HTTP status answered.
    pub(crate) http: u16,
    /// `completed`, `duplicate`, `received`, or the error's code.
    pub(crate) outcome: String,
    pub(crate) made: Option<Made>,
    /// What a retry submits; absent when the payload could not be read.
    pub(crate) submission: Option<Submission>,
}

impl Delivery {
    /// Whether it was received, and has no record so far.
    pub(crate) fn is_parked(&self) -> bool {
        self.made.is_none() && self.http == 202
    }

    /// Roughly its size in memory, which a retry does not change.
    fn bytes(&self) -> usize {
        let data = self
            .submission
            .iter()
            .flat_map(|submission| &submission.data);
        data.map(|(name, value)| name.len() + weight(value)).sum()
    }
}

fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| name.len() + weight(value))
            .sum(),
        _ => size_of::<Value>(),
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Remembered {
    pub(crate) request_id: String,
    pub(crate) made: Option<Made>,
    /// The business of the original answer; absent in files of older versions.
    #[serde(default)]
    pub(crate) business: Option<i64>,
}

/// The log and the keys.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    deliveries: VecDeque<Delivery>,
    bytes: usize,
    next: u64,
    replays: HashMap<(u32, String), Remembered>,
    order: VecDeque<(u32, String)>,
}

/// The ledger as the state file keeps it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Kept {
    deliveries: VecDeque<Delivery>,
    next: u64,
    replays: Vec<((u32, String), Remembered)>,
}

impl Ledger {
    /// Logs a delivery under the next number.
    pub(crate) fn log(&mut self, mut delivery: Delivery) {
        self.next += 1;
        delivery.id = self.next;
        self.bytes += delivery.bytes();
        self.deliveries.push_back(delivery);
        while self.deliveries.len() > MAX_DELIVERIES || self.bytes > MAX_BYTES {
            let Some(oldest) = self.deliveries.pop_front() else {
                return;
            };
            self.bytes -= oldest.bytes();
        }
    }

    pub(crate) fn deliveries(&self) -> impl Iterator<Item = &Delivery> {
        self.deliveries.iter()
    }

    pub(crate) fn delivery_mut(&mut self, id: u64) -> Option<&mut Delivery> {
        self.deliveries
            .iter_mut()
            .find(|delivery| delivery.id == id)
    }

    pub(crate) fn remembered(&self, integration: u32, key: &str) -> Option<&Remembered> {
        self.replays.get(&(integration, key.to_owned()))
    }

    /// Remembers the answer of a key; for a parked submission, the record once it exists.
    pub(crate) fn remember(&mut self, integration: u32, key: &str, what: Remembered) {
        let place = (integration, key.to_owned());
        if self.replays.insert(place.clone(), what).is_none() {
            self.order.push_back(place);
        }
        while self.order.len() > MAX_KEYS {
            if let Some(oldest) = self.order.pop_front() {
                self.replays.remove(&oldest);
            }
        }
    }

    pub(crate) fn keep(&self) -> Kept {
        let replay =
            |place: &(u32, String)| Some((place.clone(), self.replays.get(place)?.clone()));
        Kept {
            deliveries: self.deliveries.clone(),
            next: self.next,
            replays: self.order.iter().filter_map(replay).collect(),
        }
    }

    pub(crate) fn restore(kept: Kept) -> Self {
        let bytes = kept.deliveries.iter().map(Delivery::bytes).sum();
        let (deliveries, next) = (kept.deliveries, kept.next);
        let mut ledger = Self {
            deliveries,
            bytes,
            next,
            ..Self::default()
        };
        for ((integration, key), what) in kept.replays {
            ledger.remember(integration, &key, what);
        }
        ledger
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::How;
    use crate::keys::Provider;

    fn delivery(bytes: usize) -> Delivery {
        let data = [("comment".to_owned(), "x".repeat(bytes).into())]
            .into_iter()
            .collect();
        let submission = Submission {
            integration: 1,
            provider: Provider::RestApi,
            route: "leads".to_owned(),
            how: How::Strict,
            data,
            form_id: None,
            destination: None,
            business: 1,
            idempotency_key: None,
        };
        Delivery {
            id: 0,
            request_id: String::new(),
            at: Timestamp::UNIX_EPOCH,
            key: String::new(),
            route: "leads".to_owned(),
            http: 201,
            outcome: String::new(),
            made: None,
            submission: Some(submission),
        }
    }

    #[test]
    fn the_log_is_bounded_in_number_and_in_bytes_and_forgets_the_oldest() {
        let mut ledger = Ledger::default();
        for _ in 0..MAX_DELIVERIES + 3 {
            ledger.log(delivery(1));
        }
        assert_eq!(ledger.deliveries.len(), MAX_DELIVERIES);
        assert_eq!(ledger.deliveries[0].id, 4);
        ledger.log(delivery(MAX_BYTES - 100));
        assert!(ledger.deliveries.len() < 20 && ledger.bytes <= MAX_BYTES);
    }

    #[test]
    fn the_oldest_key_is_forgotten_first() {
        let mut ledger = Ledger::default();
        for nth in 0..=MAX_KEYS {
            let what = Remembered {
                request_id: nth.to_string(),
                made: None,
                business: None,
            };
            ledger.remember(1, &nth.to_string(), what);
        }
        assert!(ledger.remembered(1, "0").is_none());
        assert!(ledger.remembered(1, "1").is_some());
    }
}
