//! The log of requests received, and the most any key made within 60 s.
//!
//! Bounded: drops the oldest entries and keeps the counts. Never holds a key's text.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;
use tokio::time::Instant;

use super::rate::WINDOW;

/// Requests remembered one by one.
const MAX_LOGGED: usize = 100_000;

/// One request received under `/api`.
#[derive(Debug, Clone, Serialize)]
pub struct Received {
    /// Seconds since the sandbox was made, on tokio's clock.
    pub elapsed_s: f64,
    /// Last path segment of the route.
    pub route: String,
    /// The key's name, `null` when it is missing or unknown.
    pub key: Option<String>,
    /// The business that answered.
    pub business: i64,
    /// The status answered.
    pub status: u16,
    /// The `X-Request-Id` answered.
    pub request_id: String,
    /// Whether a scripted fault took part.
    pub fault: bool,
}

/// What `GET /_sandbox/requests` tells.
#[derive(Debug, Clone, Serialize)]
pub struct Requests {
    /// All requests ever received.
    pub total: u64,
    /// The most requests received in any sliding 60 s, refused ones included, by key name.
    pub max_in_60s: BTreeMap<String, usize>,
    /// The latest requests, oldest first.
    pub log: Vec<Received>,
}

#[derive(Default)]
struct Pace {
    recent: VecDeque<Instant>,
    most: usize,
}

/// The log itself.
#[derive(Default)]
pub(super) struct Log {
    entries: VecDeque<Received>,
    total: u64,
    paces: BTreeMap<String, Pace>,
}

impl Log {
    /// Counts a request when it arrives, because its answer may come much later.
    pub(super) fn arrived(&mut self, key: Option<&str>, at: Instant) {
        self.total += 1;
        let name = key.unwrap_or("none");
        if !self.paces.contains_key(name) {
            self.paces.insert(name.to_owned(), Pace::default());
        }
        let Some(pace) = self.paces.get_mut(name) else {
            return;
        };
        while pace
            .recent
            .front()
            .is_some_and(|first| *first + WINDOW <= at)
        {
            pace.recent.pop_front();
        }
        if pace.recent.len() == MAX_LOGGED {
            pace.recent.pop_front();
        }
        pace.recent.push_back(at);
        pace.most = pace.most.max(pace.recent.len());
    }

    pub(super) fn answered(&mut self, received: Received) {
        if self.entries.len() == MAX_LOGGED {
            self.entries.pop_front();
        }
        self.entries.push_back(received);
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn told(&self) -> Requests {
        let most = |(name, pace): (&String, &Pace)| (name.clone(), pace.most);
        Requests {
            total: self.total,
            max_in_60s: self.paces.iter().map(most).collect(),
            log: self.entries.iter().cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_most_in_a_sliding_minute_is_kept() {
        let start = Instant::now();
        let mut log = Log::default();
        for second in [0, 1, 59, 60, 61, 200] {
            log.arrived(Some("main"), start + Duration::from_secs(second));
        }
        assert_eq!(log.told().max_in_60s["main"], 3);
        assert_eq!(log.total(), 6);
    }
}
