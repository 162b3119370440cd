//! What the schedule knows about one poller: settings, what it learned, its guarantee.
//!
//! Times are seconds on the monotonic clock; the wall clock only chooses the hour of the day and
//! measures how long a process was away.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::arrivals::{Arrivals, GUARD};
use super::rate::ArrivalRate;
use super::reserved::Reserved;
use super::share::Claim;
use super::{FILLED, Observation, PollerSettings};

/// The longest time that is reckoned with, in seconds.
const LONGEST_S: f64 = 7.0 * 86_400.0;
/// The guarantee of a new poller and after a danger if polling in turn is faster, in seconds: in that
/// time a page of 100 holds an import of nearly ten records a second.
const FIRST_S: f64 = 10.0;
/// The longest guarantee after a long calm, in intervals of polling in turn.
const LAST: f64 = 4.0;
/// Seconds of calm after which the last is reached; each danger doubles it.
const CALM_S: f64 = 7.0 * 86_400.0;
const MOST_CALM_S: f64 = 365.0 * 86_400.0;
/// For how long a running import is kept out of the rates, in seconds.
const NOT_RATE_S: f64 = 600.0;
/// For how long a page that filled dangerously fast is remembered, in seconds, and how many are.
const REMEMBERED_S: f64 = 7.0 * 86_400.0;
const MOST_FILLS: usize = 64;
/// Intervals that `view` measures over.
const MEASURED: usize = 20;
const LEARNED_VERSION: u32 = 2;

/// One poller.
#[derive(Debug, Clone)]
pub(super) struct Poller {
    pub(super) settings: PollerSettings,
    /// The bounds that the settings name, in seconds.
    shortest: f64,
    longest: f64,
    pub(super) memory: Memory,
    pub(super) arrivals: Arrivals,
    /// When the newest page was requested; the start if there was none.
    read_at: f64,
    pub(super) in_flight: Option<f64>,
    /// When the last poll ended.
    pub(super) idle_since: f64,
    /// When the last request was sent; long ago before the first one.
    pub(super) last: f64,
    pub(super) not_before: f64,
    /// When the grid of a fixed interval allows the next poll.
    grid: f64,
    /// The interval that results from its share of the budget.
    pub(super) interval: f64,
    /// The guaranteed longest interval from the last request to the next.
    pub(super) guarantee: f64,
    /// The guarantee in intervals of polling in turn; renewed only when the route is read.
    factor: f64,
    /// The guarantee while other routes must be followed, in seconds.
    lent: f64,
    /// The slots that are reserved for it.
    pub(super) reserved: Option<Reserved>,
    /// The longest interval that can be kept, if the budget is too small for that of the operator.
    pub(super) raised: Option<f64>,
    /// The last intervals between two requests, newest last.
    pub(super) kept: VecDeque<f64>,
}

/// What survives a restart. Times are seconds up to the newest page, which was read at `read` in
/// Unix seconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Memory {
    version: u32,
    read: Option<i64>,
    #[serde(flatten)]
    pub(super) rate: ArrivalRate,
    /// Time since the start or the last danger, and how many dangers there were.
    calm: f64,
    dangers: u32,
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
            rate: ArrivalRate::new(),
            calm: 0.0,
            dangers: 0,
            watched: 0.0,
            fills: Vec::new(),
        }
    }

    fn pass(&mut self, span: f64) {
        self.calm += span;
        self.watched += span;
        self.fills.iter_mut().for_each(|(age, _)| *age += span);
        self.fills.retain(|(age, _)| *age <= REMEMBERED_S);
    }

    /// Pages that fill within ten minutes are one event; it counts for a week.
    fn note_danger(&mut self, took: f64) {
        self.calm = 0.0;
        self.dangers = self.dangers.saturating_add(1);
        match self.fills.last_mut() {
            Some(last) if last.0 <= NOT_RATE_S => *last = (0.0, took.min(last.1)),
            _ => self.fills.push((0.0, took)),
        }
        let surplus = self.fills.len().saturating_sub(MOST_FILLS);
        self.fills.drain(..surplus);
    }
}

impl Poller {
    /// A poller that is due at `at` for the first time.
    pub(super) fn new(settings: PollerSettings, at: f64) -> Self {
        Self {
            shortest: settings.min_interval.as_secs_f64(),
            longest: settings.max_interval.as_secs_f64(),
            settings,
            memory: Memory::new(),
            arrivals: Arrivals::default(),
            read_at: at,
            in_flight: None,
            idle_since: f64::NEG_INFINITY,
            last: f64::NEG_INFINITY,
            not_before: f64::NEG_INFINITY,
            grid: at,
            interval: 1.0,
            guarantee: 0.0,
            factor: 1.0,
            lent: 0.0,
            reserved: None,
            raised: None,
            kept: VecDeque::new(),
        }
    }

    pub(super) fn started(&mut self, at: f64) {
        if self.last.is_finite() {
            self.kept.push_back(at - self.last);
            if self.kept.len() > MEASURED {
                self.kept.pop_front();
            }
        }
        self.in_flight = Some(at);
        self.last = at;
        if let Some(slots) = &mut self.reserved {
            slots.started();
        }
        if self.is_fixed() {
            let every = self.max_interval();
            self.grid = if at < self.grid + every { self.grid + every } else { at + every };
        }
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
        // What the first page shows came before the polls.
        if self.is_read() {
            let span = (started - self.read_at).clamp(0.0, LONGEST_S);
            let new = page.map_or(0, |page| page.new.min(page.records));
            let limit = self.settings.limit;
            self.memory.pass(span);
            let filled = page.and_then(|page| self.arrivals.take(page, started, span, limit));
            self.arrivals.look(started, new > 0, self.memory.rate.base);
            let importing = self.arrivals.since.is_some_and(|since| started - since <= NOT_RATE_S);
            self.memory.rate.observe(f64::from(new), span, wall, importing, common);
            if let Some(took) = filled.filter(|took| *took < self.longest(turn) / FILLED) {
                self.memory.note_danger(took);
            }
        }
        self.read_at = self.read_at.max(started);
        self.memory.read = Some(wall.as_second());
        self.renew_factor(turn);
    }

    /// Whether a page was read, by this process or an earlier one.
    pub(super) fn is_read(&self) -> bool {
        self.memory.read.is_some()
    }

    /// Renews the factor of the guarantee; only when the route is read, so that a deadline never
    /// moves while it is waited for.
    fn renew_factor(&mut self, turn: f64) {
        let first = (FIRST_S / turn).clamp(1.0, LAST);
        let doublings = self.memory.dangers.saturating_sub(1).min(10);
        let patience = (CALM_S * f64::from(doublings).exp2()).min(MOST_CALM_S);
        self.factor = first + (LAST - first) * (self.memory.calm / patience).clamp(0.0, 1.0);
    }

    /// Lets the guarantee be `wanted` seconds while other routes must be followed; a route that was
    /// ever in danger lends nothing. As usual it stays within `max_interval`, unless the pace is
    /// too low to poll in turn that fast.
    pub(super) fn lend(&mut self, wanted: f64, turn: f64) {
        let most = if turn < self.longest { self.longest } else { f64::INFINITY };
        let lends = self.memory.dangers == 0 && self.followed(turn).is_none();
        self.lent = if lends { wanted.min(LAST * turn).min(most) } else { 0.0 };
    }

    /// Renews the guarantee of the interval that began with the last request. It is never shorter
    /// than `free`, before which the requests of the other pollers leave no slot, or than
    /// min_interval and a slot; it has `room` for a background request if max_interval allows.
    pub(super) fn renew_guarantee(&mut self, turn: f64, slot: f64, free: f64, room: f64) {
        if self.reserved.is_some() {
            return;
        }
        let Claim { longest, shortest, .. } = self.claim(1.0);
        let own = self.allowed(turn).max(free).max((shortest + slot).min(longest));
        self.guarantee = if self.is_fixed() { longest } else { own.max((own + room).min(longest)) };
    }

    /// Lengthens the guarantee of the running interval if the pace has fallen, to a slot at `free` at
    /// least. A pace that rises does not shorten it, because the polls that were put off meanwhile
    /// come first.
    pub(super) fn keep_guarantee(&mut self, turn: f64, free: f64) {
        let slot = if self.last.is_finite() { free - self.last } else { 0.0 };
        let kept = self.guarantee.max(self.allowed(turn)).max(slot);
        self.guarantee = if self.is_fixed() { self.max_interval() } else { kept };
    }

    /// Takes the slots that are reserved for it. `kept` is the longest interval that can be kept if
    /// the budget is too small for that of the operator.
    pub(super) fn reserve(&mut self, slots: Option<Reserved>, kept: Option<f64>) {
        (self.reserved, self.raised) = (slots, kept);
        if slots.is_some() {
            self.guarantee = kept.unwrap_or(self.max_interval());
        }
    }

    /// How many of the slots between `at` and `until` are reserved for it.
    pub(super) fn reserved_until(&self, at: f64, until: f64) -> usize {
        let Some(slots) = self.reserved else { return 0 };
        let due = self.deadline().max(at);
        let every = if self.is_fixed() { self.max_interval() } else { slots.every };
        if due > until { 0 } else { ((until - due) / every) as usize + 1 }
    }

    /// Whether a poll at `at` is worth a slot that is not reserved for it.
    pub(super) fn gains(&self, at: f64) -> bool {
        self.reserved
            .is_none_or(|slots| slots.gains(self.deadline(), at, self.shortest, self.interval))
    }

    /// Whether its bounds leave no choice.
    pub(super) fn is_fixed(&self) -> bool {
        self.longest <= self.shortest
    }

    /// What it brings to a division of the budget, between the intervals of the operator.
    pub(super) fn claim(&self, root: f64) -> Claim {
        let longest = self.reserved.map_or_else(|| self.max_interval(), |slots| slots.every);
        Claim { root, longest, shortest: self.shortest.max(0.001), followed: None }
    }

    /// The longest interval that the operator allows.
    pub(super) fn max_interval(&self) -> f64 {
        self.longest.max(0.001)
    }

    /// The longest interval that calm can lead to.
    fn longest(&self, turn: f64) -> f64 {
        (LAST * turn).min(self.longest).max(turn)
    }

    fn allowed(&self, turn: f64) -> f64 {
        (self.factor * turn).min(self.longest(turn)).max(self.lent)
    }

    /// The interval that keeps the page from overflowing, if an import runs or if polling in turn
    /// is too slow even for the usual rate.
    pub(super) fn followed(&self, turn: f64) -> Option<f64> {
        let usual = Some(self.memory.rate.base).filter(|rate| rate * turn > FILLED * self.page());
        self.arrivals.running.or(usual).map(|rate| FILLED * self.page() / rate)
    }

    /// Records that may come between two polls.
    pub(super) fn page(&self) -> f64 {
        (self.settings.limit as usize).saturating_sub(GUARD).max(1) as f64
    }

    /// Arrivals a second, for sharing.
    pub(super) fn rate_now(&self) -> f64 {
        self.memory.rate.with_bursts().max(self.arrivals.running.unwrap_or(0.0))
    }

    /// How strongly it pulls on the budget at `rate` arrivals a second.
    pub(super) fn pull(&self, rate: f64) -> f64 {
        (rate * self.settings.weight.max(1e-9)).sqrt()
    }

    /// The interval within which a page is unlikely to overflow at the rate seen.
    pub(super) fn safe_interval(&self) -> f64 {
        let usual = 0.5 * f64::from(self.settings.limit) / self.memory.rate.base.max(1e-9);
        usual.min(self.followed(0.0).unwrap_or(f64::INFINITY)).min(LONGEST_S)
    }

    /// Before this it must not be polled.
    pub(super) fn ready_at(&self) -> f64 {
        let spaced = self.last + self.shortest;
        self.not_before.max(if self.is_fixed() { self.grid } else { spaced })
    }

    /// By when it must be polled.
    pub(super) fn deadline(&self) -> f64 {
        let ready = self.ready_at();
        match self.reserved {
            _ if self.is_fixed() => ready,
            Some(slots) => slots.due(self.last, ready),
            None => ready.max(self.last + self.guarantee),
        }
    }

    /// When its share of the budget brings the next poll.
    pub(super) fn due_at(&self) -> f64 {
        self.last + self.interval
    }

    /// How late it is, in its own intervals; a fixed interval comes first.
    pub(super) fn lateness(&self, at: f64) -> f64 {
        if self.is_fixed() { f64::INFINITY } else { (at - self.last) / self.interval }
    }

    pub(super) fn learned(&self) -> String {
        serde_json::to_string(&self.memory).expect("numbers and lists serialise")
    }

    /// Takes over what an earlier process learned; anything implausible is ignored as a whole.
    pub(super) fn restore(&mut self, learned: &str, at: f64, wall: Timestamp, turn: f64) {
        let value = serde_json::from_str::<Value>(learned).ok().filter(sane);
        let memory = value.and_then(|value| serde_json::from_value::<Memory>(value).ok());
        let Some(memory) = memory.filter(|memory| memory.version == LEARNED_VERSION) else {
            return;
        };
        let read = memory.read.and_then(|read| Timestamp::from_second(read).ok());
        // A clock that was set back says nothing about how long the process was away.
        let away = read.map_or(0.0, |read| wall.duration_since(read).as_secs_f64());
        let away = away.clamp(0.0, LONGEST_S);
        self.memory = memory;
        self.memory.rate.resume(away, wall);
        self.read_at = at - away;
        self.renew_factor(turn);
        self.keep_guarantee(turn, self.last);
    }
}

/// Whether every number is one that could have been learned.
fn sane(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_some_and(|n| (0.0..1e11).contains(&n)),
        Value::Array(list) => list.iter().all(sane),
        Value::Object(fields) => fields.values().all(sane),
        _ => true,
    }
}
