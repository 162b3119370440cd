//! What was spent on the key in the last hour, minute by minute. For people: it decides nothing.

use std::collections::VecDeque;
use std::time::Duration;

/// Minutes that are kept.
const MINUTES: u64 = 60;

/// One minute of the key.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BudgetMinute {
    /// Our own requests.
    pub own: u32,
    /// What the other clients spent, as far as responses let infer it.
    pub others: f64,
}

/// The minutes in which something was sent or heard.
#[derive(Debug, Default)]
pub(super) struct Hour {
    minutes: VecDeque<(u64, BudgetMinute)>,
}

impl Hour {
    /// Counts a request.
    pub(super) fn sent(&mut self, now: Duration) {
        self.minute(now).own += 1;
    }

    /// Takes over the estimate of the others, requests a minute.
    pub(super) fn heard(&mut self, others: f64, now: Duration) {
        self.minute(now).others = others;
    }

    /// The minutes up to now, the oldest first, at most an hour; those before the first request are
    /// left out, and those without one are empty.
    pub(super) fn minutes(&self, now: Duration) -> Vec<BudgetMinute> {
        let now = now.as_secs() / 60;
        let Some((first, _)) = self.minutes.front() else { return Vec::new() };
        let mut kept = self.minutes.iter().peekable();
        (*first.max(&(now + 1).saturating_sub(MINUTES))..=now)
            .map(|minute| {
                while kept.next_if(|(known, _)| *known < minute).is_some() {}
                kept.next_if(|(known, _)| *known == minute)
                    .map_or_else(Default::default, |(_, found)| *found)
            })
            .collect()
    }

    fn minute(&mut self, now: Duration) -> &mut BudgetMinute {
        let now = now.as_secs() / 60;
        if self.minutes.back().is_none_or(|(last, _)| *last < now) {
            self.minutes.push_back((now, BudgetMinute::default()));
        }
        while self.minutes.len() > MINUTES as usize {
            self.minutes.pop_front();
        }
        &mut self.minutes.back_mut().expect("one was added").1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hour_is_kept_minute_by_minute() {
        let at = |minute: u64| Duration::from_secs(minute * 60 + 7);
        let mut hour = Hour::default();
        assert_eq!(hour.minutes(at(0)), []);
        for minute in [3, 3, 5] {
            hour.sent(at(minute));
        }
        hour.heard(4.5, at(5));
        let minute = |own, others| BudgetMinute { own, others };
        assert_eq!(
            hour.minutes(at(6)),
            [minute(2, 0.0), minute(0, 0.0), minute(1, 4.5), minute(0, 0.0)]
        );
        let later = hour.minutes(at(64));
        assert_eq!((later.len(), later[0]), (60, minute(1, 4.5)));
        assert_eq!(hour.minutes(at(65)).len(), 60);
        for minute in 100..500 {
            hour.sent(at(minute));
        }
        assert_eq!(hour.minutes(at(499)), [minute(1, 0.0); 60]);
    }
}
