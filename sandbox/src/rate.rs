//! How many requests one key may make: a sliding 60 s window.
//!
//! Owns the accepted instants of a key and the rival that shares it. Invariant: in no 60 s span
//! are more requests accepted than the limit. Reckons in tokio's time, so that virtual time works.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The span the limit is for.
pub(super) const WINDOW: Duration = Duration::from_secs(60);

/// The fastest rival; each of its requests is reckoned singly.
const MAX_RIVAL: u32 = 6_000;

/// The window's answer to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Requests the key may still make now.
    pub(super) remaining: u32,
    /// How long to wait before the next one, when this one is refused.
    pub(super) refused: Option<Duration>,
}

/// Another client that uses the same key at an even pace.
#[derive(Debug, Clone)]
struct Rival {
    every: Duration,
    next: Instant,
}

/// The accepted requests of one key within the last 60 s.
#[derive(Debug, Clone, Default)]
pub(super) struct Window {
    accepted: VecDeque<Instant>,
    rival: Option<Rival>,
}

impl Window {
    /// Counts a request, or says how long it is too early. A refused request is not counted.
    pub(super) fn admit(&mut self, now: Instant, limit: u32) -> Verdict {
        self.let_rival(now, limit);
        self.forget(now);
        let used = u32::try_from(self.accepted.len()).unwrap_or(u32::MAX);
        if used < limit {
            self.accepted.push_back(now);
            return Verdict {
                remaining: limit - used - 1,
                refused: None,
            };
        }
        let over = (used - limit) as usize;
        let frees = self
            .accepted
            .get(over)
            .map_or(WINDOW, |first| *first + WINDOW - now);
        Verdict {
            remaining: 0,
            refused: Some(frees),
        }
    }

    /// Lets another client make `per_minute` requests on this key from now on; 0 ends it.
    pub(super) fn set_rival(&mut self, now: Instant, per_minute: u32) {
        let per_minute = per_minute.min(MAX_RIVAL);
        self.rival = (per_minute > 0).then(|| Rival {
            every: WINDOW / per_minute,
            next: now,
        });
    }

    fn let_rival(&mut self, now: Instant, limit: u32) {
        let Some(mut rival) = self.rival.take() else {
            return;
        };
        if let Some(past) = now.checked_sub(WINDOW) {
            // Requests further back have left the window; only the pace matters.
            while rival.next < past {
                rival.next += rival.every;
            }
        }
        while rival.next <= now {
            self.forget(rival.next);
            if self.accepted.len() < limit as usize {
                let place = self.accepted.partition_point(|at| *at <= rival.next);
                self.accepted.insert(place, rival.next);
            }
            rival.next += rival.every;
        }
        self.rival = Some(rival);
    }

    fn forget(&mut self, now: Instant) {
        while self
            .accepted
            .front()
            .is_some_and(|first| *first + WINDOW <= now)
        {
            self.accepted.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_in_every_sliding_minute() {
        let start = Instant::now();
        let mut window = Window::default();
        let mut accepted = Vec::new();
        for tenth in 0..3_000 {
            let now = start + Duration::from_millis(100 * tenth);
            let verdict = window.admit(now, 60);
            if verdict.refused.is_none() {
                accepted.push(now);
            }
        }
        assert_eq!(accepted.len(), 300);
        for (nth, at) in accepted.iter().enumerate().skip(60) {
            assert!(*at - accepted[nth - 60] >= WINDOW);
        }
    }

    #[test]
    fn a_refusal_says_when_the_next_request_passes() {
        let start = Instant::now();
        let mut window = Window::default();
        assert_eq!(
            window.admit(start, 2),
            Verdict {
                remaining: 1,
                refused: None
            }
        );
        assert_eq!(
            window.admit(start, 2),
            Verdict {
                remaining: 0,
                refused: None
            }
        );
        let at = start + Duration::from_secs(20);
        let wait = window.admit(at, 2).refused.unwrap();
        assert_eq!(wait, Duration::from_secs(40));
        assert_eq!(window.admit(at + wait, 2).refused, None);
    }

    #[test]
    fn a_rival_takes_its_share_of_the_key() {
        let start = Instant::now();
        let mut window = Window::default();
        window.set_rival(start, 30);
        let verdict = window.admit(start + Duration::from_secs(59), 60);
        assert_eq!(verdict.remaining, 60 - 30 - 1);
        window.set_rival(start, 0);
        let hours = start + Duration::from_secs(7200);
        assert_eq!(window.admit(hours, 60).remaining, 59);
    }
}
