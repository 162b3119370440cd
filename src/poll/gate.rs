//! What stops every poller at once: a refused key, a key of the wrong type, a wrong host.
//!
//! While closed, nothing is asked but a rare ping: after 1, 5, 15 and 30 minutes, then hourly. The
//! key file is looked at far more often, since that costs no request.

use std::time::Duration;

use crate::api::Class;

/// How often the key is read again while the gate is closed.
const KEY_LOOK: Duration = Duration::from_secs(2);
const PROBES: [Duration; 4] = [
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(15 * 60),
    Duration::from_secs(30 * 60),
];
const LATER_PROBES: Duration = Duration::from_secs(3600);

/// How long to ask nothing after `refusals` before this one, ten per cent more or less by chance.
pub(super) fn rest(refusals: usize, chance: f64) -> Duration {
    PROBES.get(refusals).copied().unwrap_or(LATER_PROBES).mul_f64(0.9 + 0.2 * chance)
}

/// Why every poller is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halt {
    /// 401
    KeyRefused,
    /// 403
    KeyWrongType,
    /// 412
    WrongHost,
}

impl Halt {
    pub(super) fn of(class: Class) -> Option<Self> {
        match class {
            Class::KeyRefused => Some(Self::KeyRefused),
            Class::KeyForbidden => Some(Self::KeyWrongType),
            Class::WrongHost => Some(Self::WrongHost),
            Class::RouteBroken | Class::Busy | Class::BadPage => None,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::KeyRefused => "key_refused",
            Self::KeyWrongType => "key_wrong_type",
            Self::WrongHost => "wrong_host",
        }
    }

    /// What the operator reads in `status`.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::KeyRefused => {
                "the workspace refuses the key (401): put the current key into the key file"
            }
            Self::KeyWrongType => {
                "the key may not poll (403): create an automation key and put it into the key file"
            }
            Self::WrongHost => {
                "the workspace is not served here (412): set base_url to its white-label address"
            }
        }
    }
}

/// A closed gate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closed {
    pub(super) halt: Halt,
    closed_by: usize,
    next_look: Duration,
    next_probe: Duration,
    probes: usize,
    probing: bool,
    /// Whether the probe under way went out with a key that has changed since.
    outdated: bool,
}

impl Closed {
    pub(super) fn probe_due(&self, now: Duration) -> bool {
        !self.probing && self.next_probe <= now
    }

    pub(super) fn next_probe(&self) -> Duration {
        self.next_probe
    }
}

/// Open, or closed with the reason.
#[derive(Debug, Default)]
pub(super) struct Gate(Option<Closed>);

impl Gate {
    pub(super) fn halt(&self) -> Option<Closed> {
        self.0
    }

    /// Closes the gate; false when it was closed for the same reason already.
    pub(super) fn close(&mut self, halt: Halt, poller: usize, now: Duration) -> bool {
        match &mut self.0 {
            Some(closed) if closed.halt == halt => false,
            Some(closed) => {
                closed.halt = halt;
                true
            }
            None => {
                self.0 = Some(Closed {
                    halt,
                    closed_by: poller,
                    next_look: now + KEY_LOOK,
                    next_probe: now + PROBES[0],
                    probes: 0,
                    probing: false,
                    outdated: false,
                });
                true
            }
        }
    }

    /// The poller whose answer closed the gate.
    pub(super) fn closed_by(&self) -> Option<usize> {
        self.0.map(|closed| closed.closed_by)
    }

    /// Opens the gate; true when it was closed.
    pub(super) fn open(&mut self) -> bool {
        self.0.take().is_some()
    }

    pub(super) fn probe_now(&mut self) {
        if let Some(closed) = &mut self.0 {
            closed.next_probe = Duration::ZERO;
            closed.outdated = closed.probing;
        }
    }

    pub(super) fn probe_started(&mut self) {
        if let Some(closed) = &mut self.0 {
            closed.probing = true;
        }
    }

    /// A probe that failed for another passing reason keeps the reason the gate was closed for.
    pub(super) fn probe_failed(&mut self, halt: Option<Halt>, now: Duration, chance: f64) {
        if let Some(closed) = &mut self.0 {
            closed.probing = false;
            closed.halt = halt.unwrap_or(closed.halt);
            closed.probes += 1;
            if !std::mem::take(&mut closed.outdated) {
                closed.next_probe = now + rest(closed.probes, chance);
            }
        }
    }

    /// Whether the key is to be looked at now; if so, it is next after [`KEY_LOOK`].
    pub(super) fn take_look(&mut self, now: Duration) -> bool {
        let due = self.0.as_mut().filter(|closed| closed.next_look <= now);
        due.map(|closed| closed.next_look = now + KEY_LOOK).is_some()
    }

    /// When there is something to do next: look at the key, or probe. A fixed moment, so that it
    /// comes however often the dispatcher is asked something in between.
    pub(super) fn next_look(&self, now: Duration) -> Duration {
        match &self.0 {
            Some(closed) if !closed.probing && closed.next_probe > now => {
                closed.next_look.min(closed.next_probe)
            }
            Some(closed) => closed.next_look,
            None => now + KEY_LOOK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_key_costs_at_most_six_requests_in_the_first_hour_and_thirty_a_day() {
        for chance in [0.0, 0.5, 1.0] {
            let mut gate = Gate::default();
            assert!(gate.close(Halt::KeyRefused, 0, Duration::ZERO));
            let mut now = Duration::ZERO;
            let mut probes = Vec::new();
            while now < Duration::from_secs(86_400) {
                now = gate.next_look(now);
                gate.take_look(now);
                if gate.halt().unwrap().probe_due(now) {
                    gate.probe_started();
                    probes.push(now);
                    gate.probe_failed(Some(Halt::KeyRefused), now, chance);
                }
            }
            let first_hour = probes.iter().filter(|at| **at <= Duration::from_secs(3600)).count();
            // The poll that was refused is a request as well.
            assert!((4..=5).contains(&first_hour), "{first_hour}");
            assert!((20..30).contains(&probes.len()), "{}", probes.len());
        }
    }

    #[test]
    fn what_is_refused_rests_a_minute_at_first_and_an_hour_at_last() {
        let minutes: Vec<u64> = (0..6).map(|refusals| rest(refusals, 0.5).as_secs() / 60).collect();
        assert_eq!(minutes, [1, 5, 15, 30, 60, 60]);
        assert!(rest(0, 0.0) < rest(0, 1.0));
    }

    #[test]
    fn a_look_at_the_key_comes_however_often_it_is_asked_for() {
        let mut gate = Gate::default();
        gate.close(Halt::KeyRefused, 0, Duration::ZERO);
        let looks = (0..100)
            .map(|tenth| Duration::from_millis(tenth * 100))
            .filter(|now| gate.next_look(*now) <= *now && gate.take_look(*now))
            .count();
        assert_eq!(looks, 4, "one every two seconds of ten, the first after two");
    }

    #[test]
    fn a_key_that_changes_while_the_old_one_is_tried_is_tried_next() {
        let mut gate = Gate::default();
        gate.close(Halt::KeyRefused, 0, Duration::ZERO);
        let now = PROBES[0];
        gate.probe_started();
        gate.probe_now();
        gate.probe_failed(Some(Halt::KeyRefused), now, 0.5);
        assert!(gate.halt().unwrap().probe_due(now));
        gate.probe_started();
        gate.probe_failed(Some(Halt::KeyRefused), now, 0.5);
        assert!(!gate.halt().unwrap().probe_due(now));
    }

    #[test]
    fn it_is_told_once_for_each_reason() {
        let mut gate = Gate::default();
        assert!(gate.close(Halt::KeyRefused, 0, Duration::ZERO));
        assert!(!gate.close(Halt::KeyRefused, 0, Duration::ZERO));
        assert!(gate.close(Halt::WrongHost, 0, Duration::ZERO));
        assert!(gate.open());
        assert!(!gate.open());
    }
}
