//! Whether `X-RateLimit-Remaining` can be believed: some workspaces send 0 with every response.
//!
//! The header is disproved when every response of two minutes said 0, none was a 429, and in no
//! minute of them half of the limit was sent. A silence of more than two minutes begins them again.
//! From the next 429 or value above 0 on it counts again, for an hour at least.

/// How long every response has to say 0, in seconds.
const DISPROVED_AFTER_S: f64 = 120.0;
/// How far apart two responses may be that belong together, in seconds. A key of which nothing is
/// left is still used once a minute.
const LONGEST_SILENCE_S: f64 = 120.0;
/// How long the header counts after it was right, in seconds.
const COUNTS_FOR_S: f64 = 3600.0;

/// Judges the header by what responses say.
#[derive(Debug)]
pub(super) struct RemainingHeader {
    /// Since when every response says 0, in seconds.
    zero_since: Option<f64>,
    /// When the last response came, in seconds.
    last_at: f64,
    /// Until when it counts whatever it says, in seconds.
    counts_until: f64,
    is_disproved: bool,
}

impl Default for RemainingHeader {
    fn default() -> Self {
        Self {
            zero_since: None,
            last_at: f64::NEG_INFINITY,
            counts_until: f64::NEG_INFINITY,
            is_disproved: false,
        }
    }
}

impl RemainingHeader {
    /// Learns from a response at `at` seconds; `sent_part` is the part of the limit that was sent in
    /// the minute before it.
    pub(super) fn observe(&mut self, remaining: u32, refused: bool, sent_part: f64, at: f64) {
        // Nobody knows what the responses between would have said.
        if at - self.last_at > LONGEST_SILENCE_S {
            self.zero_since = None;
        }
        self.last_at = at;
        if refused || remaining > 0 {
            *self = Self {
                counts_until: at + COUNTS_FOR_S,
                ..Self::default()
            };
            return;
        }
        if sent_part >= 0.5 {
            // 0 may be what our own requests have left.
            self.zero_since = None;
            return;
        }
        let since = *self.zero_since.get_or_insert(at);
        if at - since >= DISPROVED_AFTER_S && at >= self.counts_until {
            self.is_disproved = true;
        }
    }

    /// Whether it says 0 although requests are left.
    pub(super) fn is_disproved(&self) -> bool {
        self.is_disproved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a header is disproved that says 0 every ten seconds from `from` to `to`.
    fn disproved(header: &mut RemainingHeader, from: u32, to: u32, sent_part: f64) -> bool {
        for at in (from..=to).step_by(10) {
            header.observe(0, false, sent_part, f64::from(at));
        }
        header.is_disproved()
    }

    #[test]
    fn two_minutes_of_zeros_disprove_it_unless_we_sent_half_of_the_limit() {
        let mut header = RemainingHeader::default();
        assert!(!disproved(&mut header, 0, 110, 0.1));
        assert!(disproved(&mut header, 120, 120, 0.1));
        assert!(!disproved(&mut RemainingHeader::default(), 0, 900, 0.5));
    }

    #[test]
    fn zeros_hours_apart_show_nothing() {
        let mut header = RemainingHeader::default();
        for hour in 0..5 {
            header.observe(0, false, 0.1, f64::from(hour * 3600));
            assert!(!header.is_disproved(), "{hour}");
        }
        assert!(disproved(&mut header, 15_000, 15_120, 0.1));
    }

    #[test]
    fn a_429_or_a_value_above_zero_makes_it_count_for_an_hour() {
        for (remaining, refused) in [(3, false), (0, true)] {
            let mut header = RemainingHeader::default();
            assert!(disproved(&mut header, 0, 130, 0.1));
            header.observe(remaining, refused, 0.1, 140.0);
            assert!(!disproved(&mut header, 150, 3730, 0.1));
            assert!(disproved(&mut header, 3740, 3740, 0.1));
        }
    }
}
