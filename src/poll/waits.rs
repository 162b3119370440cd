//! How long polling waits after refusals and after answers of somebody between.

use std::time::Duration;

/// The waits after refusals of one route in a row; the last one goes on.
pub(super) const ROUTE_REFUSED: [Duration; 5] = [
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(15 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(3600),
];

/// The waits between pings while the workspace refuses the key or the address.
pub(super) const PINGS_AFTER_REFUSAL: [Duration; 2] =
    [Duration::from_secs(60), Duration::from_secs(5 * 60)];

/// The waits while somebody between answers: it may pass within seconds, and nobody may notice.
pub(super) const BETWEEN: [Duration; 4] = [
    Duration::from_secs(15),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(120),
];

/// The wait when `before` came before it in a row, drawn from 10 % less to 10 % more; `chance` is
/// uniform in `0.0..1.0`.
pub(super) fn after(waits: &[Duration], before: usize, chance: f64) -> Duration {
    let last = waits.len() - 1;
    waits[before.min(last)].mul_f64(0.9 + 0.2 * chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_grows_to_the_last_one_and_is_drawn_around_it() {
        let wait = |before| after(&ROUTE_REFUSED, before, 0.5).as_secs() / 60;
        assert_eq!([0, 1, 2, 3, 4, 5].map(wait), [1, 5, 15, 30, 60, 60]);
        let wait = |before| after(&BETWEEN, before, 0.5).as_secs();
        assert_eq!([0, 1, 2, 3, 4].map(wait), [15, 30, 60, 120, 120]);
        assert!(after(&BETWEEN, 0, 0.0) < after(&BETWEEN, 0, 1.0));
    }
}
