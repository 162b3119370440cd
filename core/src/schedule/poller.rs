//! What the schedule knows about one poller: settings, what it learned, its guarantee.
//!
//! Times are seconds on the monotonic clock; the wall clock only chooses the hour of the day and
//! measures how long a process was away.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::arrivals::{Arrivals, nearly_full};
use super::rate::ArrivalRate;
use super::reserved::Reserved;
use super::share::Claim;
use super::{FILLED, Observation, PollerSettings};

/// The longest time that is considered, in seconds.
const MAX_SPAN_S: f64 = 7.0 * 86_400.0;
/// The guarantee of a new daemon's pollers if polling in turn is faster, in seconds: in that time a
/// page of 100 holds an import of nearly ten records a second.
const FIRST_S: f64 = 10.0;
/// The longest guarantee after a long quiet time, in intervals of polling in turn.
const LAST: f64 = 4.0;
/// Seconds of quiet time after which the last is reached; each further overflow event doubles it.
const QUIET_S: f64 = 7.0 * 86_400.0;
const MAX_QUIET_S: f64 = 365.0 * 86_400.0;
/// For how long a running import is kept out of the rates, in seconds.
const NOT_RATE_S: f64 = 600.0;
/// For how long a page that filled dangerously fast is remembered, in seconds, and how many are.
const REMEMBERED_S: f64 = 7.0 * 86_400.0;
const MAX_FILLS: usize = 64;
const LEARNED_VERSION: u32 = 3;

/// One poller.
#[derive(Debug, Clone)]
pub(super) struct Poller {
    pub(super) settings: PollerSettings,
    /// The shortest and the longest time between two polls that the settings allow, in seconds.
    pub(super) min_interval: f64,
    pub(super) max_interval: f64,
    pub(super) memory: Memory,
    pub(super) arrivals: Arrivals,
    /// When the newest page was requested; the start if there was none.
    read_at: f64,
    /// When the request under way was sent, and when the one before it was.
    pub(super) in_flight: Option<(f64, f64)>,
    /// When the last request was sent; long ago before the first one.
    pub(super) last: f64,
    pub(super) not_before: f64,
    /// The interval that results from its share of the budget.
    pub(super) interval: f64,
    /// The guaranteed longest interval from the last request to the next.
    pub(super) guarantee: f64,
    /// The slots that are reserved for it.
    pub(super) reserved: Option<Reserved>,
    /// The longest interval that can be kept, if the budget is too small for that of the operator.
    pub(super) raised: Option<f64>,
}

/// What survives a restart. Times are seconds up to the newest page, which was read at `read` in
/// Unix seconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Memory {
    version: u32,
    read: Option<i64>,
    /// How many records that page could hold.
    limit: u32,
    #[serde(flatten)]
    pub(super) rate: ArrivalRate,
    /// Time since the start or the last overflow event, and how many of these there were.
    quiet_time: f64,
    overflow_events: u32,
    /// For how long arrivals were watched.
    pub(super) watched: f64,
    /// How long ago nearly a page of records came dangerously fast, and in how many seconds; oldest
    /// first.
    pub(super) fills: Vec<(f64, f64)>,
}

impl Memory {
    fn new() -> Self {
        Self {
            version: LEARNED_VERSION,
            read: None,
            limit: 0,
            rate: ArrivalRate::new(),
            quiet_time: 0.0,
            overflow_events: 0,
            watched: 0.0,
            fills: Vec::new(),
        }
    }

    /// Time passes; it counts as watched if every record that came in it was seen.
    fn pass(&mut self, span: f64, is_watched: bool) {
        if is_watched {
            self.quiet_time += span;
            self.watched += span;
        }
        self.fills.iter_mut().for_each(|(age, _)| *age += span);
        self.fills.retain(|(age, _)| *age <= REMEMBERED_S);
    }

    /// Pages that fill within ten minutes are one event; it counts for a week.
    fn note_overflow_event(&mut self, took: f64) {
        self.quiet_time = 0.0;
        self.overflow_events = self.overflow_events.saturating_add(1);
        match self.fills.last_mut() {
            Some(last) if last.0 <= NOT_RATE_S => *last = (0.0, took.min(last.1)),
            _ => self.fills.push((0.0, took)),
        }
        let surplus = self.fills.len().saturating_sub(MAX_FILLS);
        self.fills.drain(..surplus);
    }
}

impl Poller {
    /// A poller with these settings: a new one at `at`, or one that goes on from `before`. A
    /// request that was under way was cut off and counts as none.
    pub(super) fn new(settings: PollerSettings, before: Option<Self>, at: f64) -> Self {
        if let Some(before) = before {
            let last = before.in_flight.map_or(before.last, |(_, before)| before);
            let (in_flight, not_before) = (None, f64::NEG_INFINITY);
            return Self {
                settings,
                last,
                in_flight,
                not_before,
                guarantee: 0.0,
                ..before
            };
        }
        Self {
            min_interval: 0.001,
            max_interval: 0.001,
            settings,
            memory: Memory::new(),
            arrivals: Arrivals::default(),
            read_at: at,
            in_flight: None,
            last: f64::NEG_INFINITY,
            not_before: f64::NEG_INFINITY,
            interval: 1.0,
            guarantee: 0.0,
            reserved: None,
            raised: None,
        }
    }

    /// Takes up the present length of a `slot`: a fixed interval is kept to half a slot.
    pub(super) fn set_bounds(&mut self, slot: f64) {
        let room = if self.is_fixed() { 0.5 * slot } else { 0.0 };
        self.min_interval = (self.settings.min_interval.as_secs_f64() - room).max(0.001);
        self.max_interval = (self.settings.max_interval.as_secs_f64() + room).max(0.001);
    }

    /// Learns from a page that was requested at `started`.
    pub(super) fn read(
        &mut self,
        page: Option<&Observation>,
        started: f64,
        wall: Timestamp,
        common: f64,
        turn: f64,
    ) {
        // What the first page shows came before the polls, and so may what a longer page shows.
        let limit = std::mem::replace(&mut self.memory.limit, self.settings.limit);
        if self.is_read() && limit == self.settings.limit {
            let span = (started - self.read_at).clamp(0.0, MAX_SPAN_S);
            let new = page.map_or(0, |page| page.new.min(page.records));
            let limit = self.settings.limit;
            self.memory
                .pass(span, page.is_none_or(|page| page.contiguous));
            let filled = page.and_then(|page| self.arrivals.take(page, started, span, limit));
            self.arrivals.look(started, new > 0, self.memory.rate.base);
            let importing = self
                .arrivals
                .since
                .is_some_and(|since| started - since <= NOT_RATE_S);
            self.memory
                .rate
                .observe(f64::from(new), span, wall, importing, common);
            if let Some(took) = filled.filter(|took| *took < self.longest(turn) / FILLED) {
                self.memory.note_overflow_event(took);
            }
        }
        self.read_at = self.read_at.max(started);
        self.memory.read = Some(wall.as_second());
    }

    /// Whether a page was read, by this process or an earlier one.
    pub(super) fn is_read(&self) -> bool {
        self.memory.read.is_some()
    }

    /// The guarantee of an interval that begins now, with polling in turn every `turn` seconds: it
    /// grows from `first` with the quiet time, unless the operator's is kept exactly. Other routes
    /// that must be followed may borrow up to `borrowed` seconds, but not from a route that ever
    /// had an overflow event, and not beyond `max_interval` unless the pace is too low to keep that
    /// anyway.
    pub(super) fn allowed(&self, turn: f64, first: f64, borrowed: f64) -> f64 {
        if self.is_fixed() || self.reserved.is_some() {
            return self.raised.unwrap_or(self.max_interval);
        }
        let last = LAST * turn;
        let doublings = self.memory.overflow_events.saturating_sub(1).min(10);
        let needed = (QUIET_S * f64::from(doublings).exp2()).min(MAX_QUIET_S);
        let part = (self.memory.quiet_time / needed).clamp(0.0, 1.0);
        let max = self.max_interval;
        let own = (first + (last - first) * part).min(max.max(turn));
        let lends = self.memory.overflow_events == 0 && self.followed(turn).is_none();
        let most = if turn < max { max } else { f64::INFINITY };
        if lends {
            own.max(borrowed.min(last).min(most))
        } else {
            own
        }
    }

    /// How many polls a second it may do with less than in a new daemon; less than 0 if it needs
    /// more.
    pub(super) fn spare(&self, turn: f64) -> f64 {
        if self.is_fixed() || self.reserved.is_some() {
            return 0.0;
        }
        1.0 / first(turn) - 1.0 / self.guarantee.min(LAST * turn)
    }

    /// Whether this slot is its own.
    pub(super) fn owns(&self, slot: u64) -> bool {
        self.reserved.is_some_and(|own| own.holds(slot))
    }

    /// Whether its bounds leave no choice.
    pub(super) fn is_fixed(&self) -> bool {
        self.settings.max_interval <= self.settings.min_interval
    }

    /// What it brings to a division of the budget: its root, and the intervals that can be kept.
    pub(super) fn claim(&self, root: f64) -> Claim {
        let longest = self.reserved.map(|own| own.every).or(self.raised);
        let longest = longest.unwrap_or(self.max_interval);
        Claim {
            root,
            longest,
            shortest: self.min_interval,
            followed: None,
        }
    }

    /// The longest interval that a quiet time can lead to.
    fn longest(&self, turn: f64) -> f64 {
        (LAST * turn).min(self.max_interval).max(turn)
    }

    /// The interval that keeps the page from overflowing, if an import runs or if polling in turn
    /// is too slow even for the usual rate.
    pub(super) fn followed(&self, turn: f64) -> Option<f64> {
        let usual = Some(self.memory.rate.base).filter(|rate| rate * turn > FILLED * self.page());
        self.arrivals
            .running
            .or(usual)
            .map(|rate| FILLED * self.page() / rate)
    }

    /// Records that may come between two polls.
    pub(super) fn page(&self) -> f64 {
        f64::from(
            self.settings
                .limit
                .min(nearly_full(self.settings.limit) as u32),
        )
    }

    /// Arrivals a second, for sharing.
    pub(super) fn rate_now(&self) -> f64 {
        self.memory
            .rate
            .with_bursts()
            .max(self.arrivals.running.unwrap_or(0.0))
    }

    /// The interval within which a page is unlikely to overflow at the rate seen.
    pub(super) fn safe_interval(&self) -> f64 {
        let usual = 0.5 * f64::from(self.settings.limit) / self.memory.rate.base.max(1e-9);
        usual
            .min(self.followed(0.0).unwrap_or(f64::INFINITY))
            .min(MAX_SPAN_S)
    }

    /// Before this it must not be polled.
    pub(super) fn ready_at(&self) -> f64 {
        self.not_before.max(self.last + self.min_interval)
    }

    /// By when it must be polled if it has no reserved slots.
    pub(super) fn deadline(&self) -> f64 {
        self.ready_at().max(self.last + self.guarantee)
    }

    /// When its share of the budget brings the next poll.
    pub(super) fn due_at(&self) -> f64 {
        self.last + self.interval
    }

    /// How late it is, in its own intervals.
    pub(super) fn lateness(&self, at: f64) -> f64 {
        (at - self.last) / self.interval
    }

    pub(super) fn learned(&self) -> String {
        serde_json::to_string(&self.memory).expect("numbers and lists serialise")
    }

    /// Takes over what an earlier process learned; what another version wrote is ignored.
    pub(super) fn restore(&mut self, learned: &str, at: f64, wall: Timestamp, turn: f64) {
        let memory = serde_json::from_str::<Memory>(learned).ok();
        let Some(memory) = memory.filter(|memory| memory.version == LEARNED_VERSION) else {
            return;
        };
        let read = memory
            .read
            .and_then(|read| Timestamp::from_second(read).ok());
        // A clock that was set back says nothing about how long the process was away.
        let away = read.map_or(0.0, |read| wall.duration_since(read).as_secs_f64());
        let away = away.clamp(0.0, MAX_SPAN_S);
        self.memory = memory;
        self.memory.rate.resume(away, wall);
        self.read_at = at - away;
        self.guarantee = self.guarantee.max(self.allowed(turn, first(turn), 0.0));
    }
}

/// The guarantee of a new daemon's pollers.
pub(super) fn first(turn: f64) -> f64 {
    FIRST_S.clamp(turn, LAST * turn)
}
