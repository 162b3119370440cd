//! What is known about an endpoint, and when it is tried again: pure.
//!
//! After a fault the sink pauses, and then tries changes one after the other until one is taken.
//! Each round tries twice as many as the one before, so that changes which always fail do not hold
//! up the others for long. A pause grows only if a change failed that had not failed before: one
//! bad change never costs more than a short pause.
//!
//! An endpoint that asks for a wait takes only a number of changes in a time. After the wait it gets
//! them one by one, a second apart. After some of them the time between two is halved, until the
//! endpoint asks again: then it is a second again, for twice as many.

use std::time::Duration;

use shopmirror_core::backoff::Backoff;

use crate::sink::Reason;

/// How long a failing endpoint is left alone, and the change that it was given.
pub(super) const PAUSE: Backoff = Backoff {
    base: Duration::from_secs(1),
    cap: Duration::from_secs(15 * 60),
};
/// The most changes tried in one round.
const MAX_PROBES: u32 = 16;

/// The time between two changes after a wait that the endpoint asked for.
const SPACING: Duration = Duration::from_secs(1);
/// A shorter time is none.
const NO_SPACING: Duration = Duration::from_millis(50);
/// The changes after which that time is halved, at first and at most.
const STEP: u32 = 30;
const MAX_STEP: u32 = 960;

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) reason: Reason,
    /// The wait that the endpoint asked for.
    pub(super) asked: Option<Duration>,
    /// The change had not failed before.
    pub(super) is_first: bool,
}

/// What is known about an endpoint. Times are those of [`shopmirror_core::clock::Moment::elapsed`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Health {
    /// Rounds that ended with a fault; 0 while the endpoint takes changes.
    rounds: u32,
    /// When the next round begins.
    until: Duration,
    /// Whether the endpoint asked for that pause, so that nothing ends it early.
    is_asked: bool,
    /// How many more changes this round tries.
    probes: u32,
    /// Whether a change failed in this round that had not failed before.
    is_fresh: bool,
    reason: Option<Reason>,
    /// The time between two changes; zero if they need not go one by one.
    spacing: Duration,
    /// How many more changes have this time between them, and how many had at the beginning.
    left: u32,
    step: u32,
    /// When the next change may go.
    next: Duration,
}

impl Health {
    /// Whether the endpoint took the last change, or was not tried yet.
    pub(super) fn is_well(&self) -> bool {
        self.rounds == 0
    }

    /// Whether it is tried again only after the wait that it asked for.
    pub(super) fn is_asked(&self) -> bool {
        !self.is_well() && self.is_asked
    }

    /// How much longer nothing is sent.
    pub(super) fn pause(&self, now: Duration) -> Option<Duration> {
        let left = self.until.saturating_sub(now);
        (!self.is_well() && !left.is_zero()).then_some(left)
    }

    /// Whether changes go one by one.
    pub(super) fn is_careful(&self) -> bool {
        !self.is_well() || !self.spacing.is_zero()
    }

    /// How much longer the next change waits because the endpoint asked for a wait a short time
    /// ago.
    pub(super) fn spacing(&self, now: Duration) -> Option<Duration> {
        let left = self.next.saturating_sub(now);
        (!self.spacing.is_zero() && !left.is_zero()).then_some(left)
    }

    /// Why the last attempt failed.
    pub(super) fn reason(&self) -> Option<&Reason> {
        self.reason.as_ref()
    }

    /// Ends a pause because an operator asks for it. A wait that the endpoint asked for
    /// continues.
    pub(super) fn end_pause(&mut self, now: Duration) {
        if !self.is_asked {
            self.until = now.min(self.until);
        }
    }

    /// Notes that the endpoint took a change or refused it; returns whether it had failed before.
    pub(super) fn responded(&mut self, now: Duration) -> bool {
        if self.is_asked() && self.pause(now).is_some() {
            // A call that began before the wait says nothing of it.
            return false;
        }
        let mut spacing = self.spacing;
        let mut left = self.left.saturating_sub(1);
        if left == 0 {
            spacing /= 2;
            if spacing < NO_SPACING {
                spacing = Duration::ZERO;
            }
            left = STEP;
        }
        let responded = Self {
            spacing,
            left,
            step: self.step,
            next: now + spacing,
            ..Self::default()
        };
        !std::mem::replace(self, responded).is_well()
    }

    /// Notes a fault; `chance` is uniform in `0.0..1.0`.
    pub(super) fn failed(&mut self, fault: Fault, now: Duration, chance: f64) {
        let Fault {
            reason,
            asked,
            is_first,
        } = fault;
        self.reason = Some(reason);
        self.is_fresh |= is_first;
        if let Some(asked) = asked {
            self.rounds = self.rounds.max(1);
            self.until = self.until.max(now + asked);
            (self.is_asked, self.is_fresh, self.probes) = (true, false, 1);
            // Calls that were in flight beside the first that was refused say nothing new.
            if self.spacing.is_zero() {
                self.step = STEP;
            } else if self.spacing < SPACING || self.left < self.step {
                self.step = (2 * self.step).min(MAX_STEP);
            }
            self.spacing = SPACING;
            self.left = self.step;
            return;
        }
        // A call that began before the pause says nothing new.
        if self.pause(now).is_some() {
            return;
        }
        self.probes = self.probes.saturating_sub(1);
        if self.probes > 0 {
            return;
        }
        self.rounds += u32::from(self.is_well() || self.is_fresh);
        self.until = now + PAUSE.wait(self.rounds, chance, None);
        (self.is_asked, self.is_fresh) = (false, false);
        self.probes = (1 << (self.rounds - 1).min(16)).min(MAX_PROBES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(is_first: bool) -> Fault {
        Fault {
            reason: "answered 503".into(),
            asked: None,
            is_first,
        }
    }

    /// The pause after each of these faults, each made as soon as the one before allows it.
    fn pauses(faults: impl IntoIterator<Item = bool>) -> Vec<u64> {
        let (mut health, mut now) = (Health::default(), Duration::ZERO);
        let pause = |is_first| {
            health.failed(fault(is_first), now, 1.0);
            let pause = health.pause(now).unwrap_or_default();
            now += pause;
            pause.as_secs()
        };
        faults.into_iter().map(pause).collect()
    }

    #[test]
    fn each_round_tries_twice_as_many_changes_and_each_pause_is_twice_as_long() {
        assert_eq!(pauses([true; 8]), [1, 2, 0, 4, 0, 0, 0, 8]);
        let long: Vec<u64> = pauses([true; 300])
            .into_iter()
            .filter(|pause| *pause > 0)
            .collect();
        assert_eq!(long[..11], [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900]);
        assert_eq!(long.len(), 4 + (300 - 8) / 16);
    }

    #[test]
    fn one_change_that_always_fails_costs_a_second_each_time() {
        let faults = std::iter::once(true).chain(std::iter::repeat_n(false, 50));
        assert!(pauses(faults).iter().all(|pause| *pause == 1));
    }

    #[test]
    fn calls_that_began_before_a_pause_do_not_make_it_longer() {
        let mut health = Health::default();
        for _ in 0..16 {
            health.failed(fault(true), Duration::ZERO, 1.0);
        }
        assert_eq!(health.pause(Duration::ZERO), Some(Duration::from_secs(1)));
        assert!(health.responded(Duration::ZERO));
        assert!(health.is_well() && !health.is_careful());
    }

    /// How many requests a receiver refuses that takes one a second, and how long all changes take.
    fn limited(changes: u32, at_once: u32) -> (u32, u64) {
        let (mut health, mut now) = (Health::default(), Duration::ZERO);
        let (mut taken, mut refused, mut free_at) = (0, 0, Duration::ZERO);
        while taken < changes {
            now += health
                .pause(now)
                .or(health.spacing(now))
                .unwrap_or_default();
            for _ in 0..if health.is_careful() {
                1
            } else {
                at_once.min(changes - taken)
            } {
                if now >= free_at {
                    (taken, free_at) = (taken + 1, now + Duration::from_secs(1));
                    health.responded(now);
                } else {
                    refused += 1;
                    let asked = Some(Duration::from_secs(1));
                    health.failed(
                        Fault {
                            asked,
                            ..fault(true)
                        },
                        now,
                        1.0,
                    );
                }
            }
        }
        (refused, now.as_secs())
    }

    #[test]
    fn a_receiver_of_one_a_second_refuses_few_and_one_that_asked_once_is_soon_at_full_speed() {
        assert_eq!(limited(80, 4), (4, 79));
        assert!(limited(1_000, 4).0 <= 9, "{:?}", limited(1_000, 4));
        let (mut health, mut now) = (Health::default(), Duration::ZERO);
        health.failed(
            Fault {
                asked: Some(SPACING),
                ..fault(true)
            },
            now,
            1.0,
        );
        while health.is_careful() {
            now += health
                .pause(now)
                .or(health.spacing(now))
                .unwrap_or_default();
            health.responded(now);
        }
        assert!(now < Duration::from_secs(60), "{now:?}");
    }

    #[test]
    fn the_endpoint_is_not_tried_before_the_wait_that_it_asked_for() {
        let mut health = Health::default();
        let asked = Some(Duration::from_secs(600));
        health.failed(
            Fault {
                asked,
                ..fault(true)
            },
            Duration::ZERO,
            1.0,
        );
        health.end_pause(Duration::ZERO);
        assert!(!health.responded(Duration::ZERO));
        assert_eq!(
            health.pause(Duration::ZERO),
            asked,
            "not for a call that began before"
        );
        assert_eq!(health.pause(Duration::ZERO), asked, "not for an operator");
        assert_eq!(health.pause(Duration::from_secs(600)), None);
        health.failed(fault(false), Duration::from_secs(600), 1.0);
        let pause = health.pause(Duration::from_secs(600));
        assert_eq!(
            pause,
            Some(Duration::from_secs(1)),
            "the wait that was asked for counts as one"
        );
    }
}
