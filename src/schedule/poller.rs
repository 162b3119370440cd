//! What the schedule knows of one poller: its settings, what it learned, where it stands.
//!
//! Times are seconds on the monotonic clock; the wall clock only chooses the hour of the week.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::burst::Burst;
use super::overflow;
use super::profile::{HOUR_S, Profile};
use super::rate::{Arrivals, Level, Memory, Rate};
use super::{Observation, PollerSettings};

/// The longest interval worth reckoning with, in seconds.
pub(super) const LONGEST_S: f64 = 7.0 * 86_400.0;
/// New records, as a part of the page, from which on the page is asked for again at once.
const CHASE_NEW: f64 = 0.6;
/// Known records, as a part of the page, below which overlap is thin.
const CHASE_OVERLAP: f64 = 0.4;

/// The part by which a shape may drift before its bound is reckoned anew.
const BOUND_DRIFT: f64 = 0.02;

/// The intervals in force, in seconds; renewed after each observation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// Before this the page cannot overflow (bound or burst, the smaller).
    pub(super) safe: f64,
    /// When the index reaches the threshold.
    pub(super) index: f64,
    /// Arrivals a second, for comparing indices.
    pub(super) rate: f64,
}

/// One poller.
#[derive(Debug, Clone)]
pub(super) struct Poller {
    pub(super) settings: PollerSettings,
    pub(super) rate: Rate,
    pub(super) burst: Burst,
    /// When the newest page that was read was asked for; the start before any.
    pub(super) read_at: f64,
    read_wall: Option<Timestamp>,
    pub(super) in_flight: Option<f64>,
    pub(super) last_started: f64,
    pub(super) not_before: f64,
    pub(super) chase: bool,
    /// When it is due before anything was read.
    pub(super) first_due: Option<f64>,
    /// When it is due next under a fixed interval.
    pub(super) fixed_due: f64,
    pub(super) plan: Plan,
    /// The shape of a posterior and the cheap safe mean under it, kept since both change slowly.
    bound: (f64, f64),
}

/// What survives a restart.
#[derive(Debug, Serialize, Deserialize)]
struct Learned {
    version: u32,
    /// Unix seconds of the newest page.
    read: Option<i64>,
    slow: (f64, f64),
    fast: (f64, f64),
    /// Arrivals an hour that the profile expected at the last read: what the memories are against.
    #[serde(default)]
    profile: Option<f64>,
    burst: (f64, f64),
    mean: (f64, f64),
    hours: Vec<(usize, f64, f64)>,
}

const LEARNED_VERSION: u32 = 1;

impl Poller {
    pub(super) fn new(settings: PollerSettings, now: f64, first_due: f64) -> Self {
        Self {
            settings,
            rate: Rate::new(),
            burst: Burst::default(),
            read_at: now,
            read_wall: None,
            in_flight: None,
            last_started: f64::NEG_INFINITY,
            not_before: f64::NEG_INFINITY,
            chase: false,
            first_due: Some(first_due),
            fixed_due: first_due,
            plan: Plan { safe: LONGEST_S, index: LONGEST_S, rate: 0.0 },
            bound: (0.0, 0.0),
        }
    }

    /// Learns from a page that was asked for at `started`.
    pub(super) fn read(&mut self, page: Option<&Observation>, started: f64, wall: Timestamp) {
        let span = (started - self.read_at).clamp(0.0, LONGEST_S);
        let first = self.read_wall.is_none();
        self.chase = false;
        if let Some(page) = page.filter(|_| first) {
            if let Some(window) = page.window.filter(|window| !window.is_zero()) {
                self.rate.profile.first_page(f64::from(page.records), window.as_secs_f64());
            }
        } else if span > 0.0 {
            let expected =
                self.rate.slow_level().factor * self.rate.profile.expected_before(wall, span);
            let arrivals = page.map_or(Arrivals::Count(0.0), |page| self.arrivals(page));
            let count = self.rate.observe(arrivals, wall, span);
            self.burst.observe(count, expected, span);
            self.chase = page.is_some_and(|page| self.is_thin(page));
        }
        self.read_at = self.read_at.max(started);
        self.read_wall = Some(wall);
        self.first_due = None;
    }

    fn arrivals(&self, page: &Observation) -> Arrivals {
        let new = f64::from(page.new);
        if page.contiguous || page.new < self.settings.limit {
            Arrivals::Count(new)
        } else {
            Arrivals::AtLeast { count: new, window: page.window.map(|window| window.as_secs_f64()) }
        }
    }

    /// Whether so much of the page was new that the next one may not join it.
    fn is_thin(&self, page: &Observation) -> bool {
        let limit = f64::from(self.settings.limit);
        f64::from(page.new) >= CHASE_NEW * limit && f64::from(page.overlap) < CHASE_OVERLAP * limit
    }

    /// Renews the intervals in force.
    pub(super) fn renew(&mut self, threshold: f64, wall: Timestamp) {
        let shape = self.rate.slow_level().shape;
        if (shape - self.bound.0).abs() > BOUND_DRIFT * shape {
            let capacity = overflow::capacity(self.settings.limit);
            self.bound = (shape, overflow::safe_mean_bound(shape, capacity, overflow::RISK));
        }
        let cost = threshold / self.settings.weight.max(1e-9);
        let longest = self.settings.max_interval.as_secs_f64().min(LONGEST_S);
        self.plan = Plan {
            safe: self.safe_interval(wall, false).min(self.burst_interval(wall)),
            index: self.rate.time_to_wait(cost, wall, longest),
            rate: self.rate.now(wall),
        };
    }

    /// The longest interval from `wall` on with an overflow less likely than the accepted risk,
    /// under the slow and under the fast memory. Where it cannot matter, for being beyond
    /// `max_interval`, a cheap lower bound does unless `exact` is asked for.
    pub(super) fn safe_interval(&self, wall: Timestamp, exact: bool) -> f64 {
        let capacity = overflow::capacity(self.settings.limit);
        let matters = self.settings.every.unwrap_or(self.settings.max_interval).as_secs_f64() * 1.2;
        let interval = |level: Level, cheap: f64| {
            let time = |mean: f64| self.rate.time_to_expect(mean / level.factor, wall, LONGEST_S);
            let bound = time(cheap);
            if exact || bound < matters {
                time(overflow::safe_mean(level.shape, capacity, overflow::RISK))
            } else {
                bound
            }
        };
        let slow = interval(self.rate.slow_level(), self.bound.1);
        self.rate.fast_level().map_or(slow, |fast| {
            let cheap = overflow::safe_mean_bound(fast.shape, capacity, overflow::RISK);
            slow.min(interval(fast, cheap))
        })
    }

    /// The longest interval that survives the largest burst known if it comes no faster than it did.
    pub(super) fn burst_interval(&self, wall: Timestamp) -> f64 {
        self.burst.safe_interval(self.settings.limit, self.rate.now(wall))
    }

    /// Before this it must not be asked, whatever it would be worth.
    pub(super) fn ready_at(&self) -> f64 {
        let spaced = self.last_started + self.settings.min_interval.as_secs_f64();
        spaced.max(self.not_before)
    }

    /// When it is worth asking.
    pub(super) fn due_at(&self) -> f64 {
        if let Some(due) = self.first_due {
            due
        } else if self.settings.every.is_some() {
            self.fixed_due
        } else if self.chase {
            self.read_at
        } else {
            let interval = self.plan.index.max(self.settings.min_interval.as_secs_f64());
            self.read_at + interval.min(self.settings.max_interval.as_secs_f64())
        }
    }

    /// Whether it is due at one time, neither sooner when a slot is free nor later.
    pub(super) fn is_timed(&self) -> bool {
        self.first_due.is_some() || self.chase || self.settings.every.is_some()
    }

    /// When it must have been asked so that nothing is lost, or for good order's sake.
    pub(super) fn deadline(&self) -> f64 {
        if self.is_timed() {
            self.due_at()
        } else {
            // Twice the longest interval is nobody's plan: it keeps the quiet from starving.
            let patience = 2.0 * self.settings.max_interval.as_secs_f64();
            self.read_at + self.plan.safe.min(patience)
        }
    }

    /// Weight times arrivals a second, now or in the busy hours.
    pub(super) fn pull(&self, busy: bool) -> f64 {
        let rate =
            if busy { self.rate.profile.busy_rate().max(self.plan.rate) } else { self.plan.rate };
        self.settings.weight.max(1e-9) * rate
    }

    /// The Whittle index where slots are `slot` seconds apart: what waiting for one more costs.
    pub(super) fn index(&self, now: f64, slot: f64) -> f64 {
        let age = (now - self.read_at).max(0.0);
        self.settings.weight * self.plan.rate * age * (age + slot) / 2.0
    }

    pub(super) fn learned(&self) -> String {
        let memory = |memory: Memory| (rounded(memory.arrivals), rounded(memory.expected));
        let (arrivals, seconds) = self.rate.profile.mean();
        let learned = Learned {
            version: LEARNED_VERSION,
            read: self.read_wall.map(Timestamp::as_second),
            slow: memory(self.rate.slow),
            fast: memory(self.rate.fast),
            profile: self.read_wall.map(|read| rounded(self.rate.profile.rate(read) * HOUR_S)),
            burst: (rounded(self.burst.size), rounded(self.burst.span)),
            mean: (rounded(arrivals), rounded(seconds)),
            hours: self
                .rate
                .profile
                .visits()
                .into_iter()
                .map(|(hour, arrivals, seconds)| (hour, rounded(arrivals), rounded(seconds)))
                .collect(),
        };
        serde_json::to_string(&learned).expect("numbers and lists serialise")
    }

    /// Takes over what an earlier process learned; anything implausible is ignored as a whole.
    pub(super) fn restore(&mut self, learned: &str, now: f64, wall: Timestamp) {
        let Ok(learned) = serde_json::from_str::<Learned>(learned) else { return };
        let numbers = [learned.slow, learned.fast, learned.burst];
        let sane = |value: f64| value.is_finite() && (0.0..1e9).contains(&value);
        if learned.version != LEARNED_VERSION
            || !numbers.iter().all(|&(first, second)| sane(first) && sane(second))
        {
            return;
        }
        let Some(profile) = Profile::from_parts(&learned.hours, learned.mean) else { return };
        let read = learned.read.and_then(|read| Timestamp::from_second(read).ok());
        // The profile now holds the hour that was being visited. Its share in the rate must not be
        // counted once more by the memories, which were against the profile without it.
        let drift = match (read, learned.profile.filter(|rate| *rate > 0.0 && sane(*rate))) {
            (Some(read), Some(rate)) => profile.rate(read) * HOUR_S / rate,
            _ => 1.0,
        };
        let memory = |(arrivals, expected)| Memory { arrivals, expected: expected * drift };
        self.rate = Rate { profile, slow: memory(learned.slow), fast: memory(learned.fast) };
        self.burst = Burst { size: learned.burst.0, span: learned.burst.1 };
        // A clock that was set back tells nothing of how long the process was away.
        let away = read.map_or(0.0, |read| wall.duration_since(read).as_secs_f64());
        let away = away.clamp(0.0, LONGEST_S);
        self.read_at = now - away;
        self.read_wall = read;
        self.burst.fade(away);
    }
}

/// Three decimals are more than any estimate holds.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
