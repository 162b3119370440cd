//! What the schedule knows about one poller: settings, what it learned, its guarantee.
//!
//! Times are seconds on the monotonic clock; the wall clock only chooses the hour of the day and
//! measures how long a process was away. A round is the interval of polling in turn.

use std::cmp::Ordering;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::arrivals::{Arrivals, FILLED, nearly_full};
use super::rate::ArrivalRate;
use super::reserved::ReservedSlots;
use super::share::Claim;
use super::{Observation, PollerSettings};

/// The longest time that is considered, in seconds.
const MAX_SPAN_S: f64 = 7.0 * 86_400.0;
/// The guarantee of a new daemon's pollers if polling in turn is faster, in seconds: in that time a
/// page of 100 holds an import of nearly ten records a second.
const INITIAL_GUARANTEE_S: f64 = 10.0;
/// The longest guarantee after a long quiet time, in rounds.
const MAX_ROUNDS: f64 = 4.0;
/// Seconds of quiet time after which it is reached; each further overflow event doubles them.
const QUIET_S: f64 = 7.0 * 86_400.0;
const MAX_QUIET_S: f64 = 365.0 * 86_400.0;
/// For how long a running import is left out of the rates, in seconds.
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
    newest_page_at: f64,
    pub(super) in_flight: Option<InFlight>,
    /// When the last request was sent; long ago before the first one.
    pub(super) last_sent: f64,
    pub(super) not_before: f64,
    /// When an earlier process sent the last request, in Unix seconds; long ago if none did.
    pub(super) sent_before: f64,
    /// The interval that results from its share of the budget.
    pub(super) interval: f64,
    /// The guaranteed longest interval from the last request to the next.
    pub(super) guarantee: f64,
    /// The slots that are reserved for it.
    pub(super) reserved: Option<ReservedSlots>,
    /// The longest interval that can be kept, if the budget is too small for that of the operator.
    pub(super) raised_interval: Option<f64>,
}

/// A request without a response yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct InFlight {
    pub(super) sent: f64,
    /// When the request before it was sent.
    pub(super) previous: f64,
}

/// What survives a restart. Times are seconds up to the newest page.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Memory {
    version: u32,
    /// When the newest page was read, in Unix seconds.
    #[serde(rename = "read")]
    newest_page: Option<i64>,
    /// How many records that page could hold.
    limit: u32,
    #[serde(flatten)]
    pub(super) rate: ArrivalRate,
    /// Time since the start or the last overflow event, and how many of these there were.
    quiet_time: f64,
    overflow_events: u32,
    /// For how long arrivals were watched.
    pub(super) watched: f64,
    /// Pages that filled dangerously fast, oldest first.
    pub(super) fills: Vec<Fill>,
}

/// Nearly a page of records that came dangerously fast; stored as a pair.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(from = "(f64, f64)", into = "(f64, f64)")]
pub(super) struct Fill {
    /// How long ago it was, in seconds.
    age: f64,
    /// In how many seconds the records came.
    pub(super) took: f64,
}

impl From<(f64, f64)> for Fill {
    fn from((age, took): (f64, f64)) -> Self {
        Self { age, took }
    }
}

impl From<Fill> for (f64, f64) {
    fn from(fill: Fill) -> Self {
        (fill.age, fill.took)
    }
}

impl Memory {
    fn new() -> Self {
        Self {
            version: LEARNED_VERSION,
            newest_page: None,
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
        for fill in &mut self.fills {
            fill.age += span;
        }
        self.fills.retain(|fill| fill.age <= REMEMBERED_S);
    }

    /// Pages that fill within ten minutes are one event; it counts for a week.
    fn note_overflow_event(&mut self, took: f64) {
        self.quiet_time = 0.0;
        self.overflow_events = self.overflow_events.saturating_add(1);
        match self.fills.last_mut() {
            Some(last) if last.age <= NOT_RATE_S => {
                last.age = 0.0;
                last.took = took.min(last.took);
            }
            _ => self.fills.push(Fill { age: 0.0, took }),
        }
        let surplus = self.fills.len().saturating_sub(MAX_FILLS);
        self.fills.drain(..surplus);
    }
}

impl Poller {
    /// A poller that knows nothing yet, at `at`.
    pub(super) fn new(settings: PollerSettings, at: f64) -> Self {
        Self {
            min_interval: 0.001,
            max_interval: 0.001,
            settings,
            memory: Memory::new(),
            arrivals: Arrivals::default(),
            newest_page_at: at,
            in_flight: None,
            last_sent: f64::NEG_INFINITY,
            not_before: f64::NEG_INFINITY,
            sent_before: f64::NEG_INFINITY,
            interval: 1.0,
            guarantee: 0.0,
            reserved: None,
            raised_interval: None,
        }
    }

    /// This poller with other settings. A request that was in flight was cut off and does not
    /// count.
    pub(super) fn reconfigured(&self, settings: PollerSettings) -> Self {
        let last_sent = match self.in_flight {
            Some(cut_off) => cut_off.previous,
            None => self.last_sent,
        };
        Self {
            settings,
            last_sent,
            in_flight: None,
            not_before: f64::NEG_INFINITY,
            guarantee: 0.0,
            ..self.clone()
        }
    }

    /// Takes up the present length of a `slot`: a fixed interval is kept to half a slot.
    pub(super) fn set_bounds(&mut self, slot: f64) {
        let tolerance = if self.is_fixed() { 0.5 * slot } else { 0.0 };
        self.min_interval = (self.settings.min_interval.as_secs_f64() - tolerance).max(0.001);
        self.max_interval = (self.settings.max_interval.as_secs_f64() + tolerance).max(0.001);
    }

    /// Learns from a page that was requested at `sent`; from no `page` if it was the same as
    /// before. `common` is the mean rate of all pollers.
    pub(super) fn learn(
        &mut self,
        page: Option<&Observation>,
        sent: f64,
        wall: Timestamp,
        common: f64,
        round: f64,
    ) {
        let limit = self.settings.limit;
        // What the first page shows came before the polls, and so may what a longer page shows.
        let shows_arrivals = self.has_page() && self.memory.limit == limit;
        let span = (sent - self.newest_page_at).clamp(0.0, MAX_SPAN_S);
        self.memory.limit = limit;
        self.newest_page_at = self.newest_page_at.max(sent);
        self.memory.newest_page = Some(wall.as_second());
        if !shows_arrivals {
            return;
        }

        let mut new = 0;
        let mut is_watched = true;
        let mut fastest_fill = None;
        if let Some(page) = page {
            new = page.new.min(page.records);
            is_watched = page.contiguous;
            fastest_fill = self.arrivals.add_page(page, sent, span, limit);
        }
        let memory = &mut self.memory;
        memory.pass(span, is_watched);
        self.arrivals.update_import(sent, new > 0, memory.rate.base);
        let is_importing = match self.arrivals.import_since {
            Some(since) => sent - since <= NOT_RATE_S,
            None => false,
        };
        memory
            .rate
            .observe(f64::from(new), span, wall, is_importing, common);
        if let Some(took) = fastest_fill
            && took < self.longest_guarantee(round) / FILLED
        {
            self.memory.note_overflow_event(took);
        }
    }

    /// Whether a page was read, by this process or an earlier one.
    pub(super) fn has_page(&self) -> bool {
        self.memory.newest_page.is_some()
    }

    /// The longest interval that is allowed from now on. It grows from `initial` to four rounds
    /// with the quiet time, unless the operator's interval is kept exactly. Where another route must
    /// be followed it may be longer, up to `yielded` seconds, but not if this route ever had an
    /// overflow event, and not beyond `max_interval` unless the pace is too low to keep that anyway.
    pub(super) fn allowed_interval(&self, round: f64, initial: f64, yielded: f64) -> f64 {
        if self.has_exact_interval() {
            return self.raised_interval.unwrap_or(self.max_interval);
        }
        let most = MAX_ROUNDS * round;
        let doublings = self.memory.overflow_events.saturating_sub(1).min(10);
        let quiet_needed = (QUIET_S * f64::from(doublings).exp2()).min(MAX_QUIET_S);
        let grown = (self.memory.quiet_time / quiet_needed).clamp(0.0, 1.0);
        let allowed = (initial + (most - initial) * grown).min(self.max_interval.max(round));

        if self.memory.overflow_events > 0 || self.needed_interval(round).is_some() {
            return allowed;
        }
        let mut most_yielded = yielded.min(most);
        if round < self.max_interval {
            most_yielded = most_yielded.min(self.max_interval);
        }
        allowed.max(most_yielded)
    }

    /// How many polls a second fewer it may have than in a new daemon; less than 0 if it needs more.
    pub(super) fn spare_polls(&self, round: f64) -> f64 {
        if self.has_exact_interval() {
            return 0.0;
        }
        1.0 / initial_guarantee(round) - 1.0 / self.guarantee.min(MAX_ROUNDS * round)
    }

    /// Whether this slot is reserved for it.
    pub(super) fn owns(&self, slot: u64) -> bool {
        self.reserved.is_some_and(|reserved| reserved.contain(slot))
    }

    /// Whether its bounds leave no choice.
    pub(super) fn is_fixed(&self) -> bool {
        self.settings.max_interval <= self.settings.min_interval
    }

    /// Whether the operator's interval is kept exactly, not grown with the quiet time.
    fn has_exact_interval(&self) -> bool {
        self.is_fixed() || self.reserved.is_some()
    }

    /// What it brings to a division of the budget: its root, and the intervals that can be kept.
    pub(super) fn claim(&self, root: f64) -> Claim {
        let longest = match self.reserved {
            Some(reserved) => reserved.interval,
            None => self.raised_interval.unwrap_or(self.max_interval),
        };
        Claim {
            root,
            longest,
            shortest: self.min_interval,
            needed: None,
        }
    }

    /// The longest guarantee that a quiet time can lead to.
    fn longest_guarantee(&self, round: f64) -> f64 {
        (MAX_ROUNDS * round).min(self.max_interval).max(round)
    }

    /// The interval that prevents the page from overflowing, if an import runs or if polling in turn
    /// is too slow even for the usual rate: the poller must then be followed.
    pub(super) fn needed_interval(&self, round: f64) -> Option<f64> {
        let filled = FILLED * self.page();
        if let Some(rate) = self.arrivals.import_rate {
            return Some(filled / rate);
        }
        let usual = self.memory.rate.base;
        if usual * round > filled {
            Some(filled / usual)
        } else {
            None
        }
    }

    /// Records that may come between two polls.
    pub(super) fn page(&self) -> f64 {
        let limit = self.settings.limit;
        f64::from(limit.min(nearly_full(limit) as u32))
    }

    /// Arrivals a second, for sharing.
    pub(super) fn rate_now(&self) -> f64 {
        let import = self.arrivals.import_rate.unwrap_or(0.0);
        self.memory.rate.with_bursts().max(import)
    }

    /// The interval within which a page is unlikely to overflow at the rate seen.
    pub(super) fn safe_interval(&self) -> f64 {
        let usual = 0.5 * f64::from(self.settings.limit) / self.memory.rate.base.max(1e-9);
        let needed = self.needed_interval(0.0).unwrap_or(f64::INFINITY);
        usual.min(needed).min(MAX_SPAN_S)
    }

    /// Before this it must not be polled.
    pub(super) fn ready_at(&self) -> f64 {
        self.not_before.max(self.last_sent + self.min_interval)
    }

    /// By when it must be polled if it has no reserved slots.
    pub(super) fn deadline(&self) -> f64 {
        self.ready_at().max(self.last_sent + self.guarantee)
    }

    /// When its share of the budget brings the next poll.
    pub(super) fn due_at(&self) -> f64 {
        self.last_sent + self.interval
    }

    /// How late it is, in its own intervals.
    pub(super) fn lateness(&self, at: f64) -> f64 {
        (at - self.last_sent) / self.interval
    }

    /// Orders two pollers by their last requests, the one that has waited longer first.
    pub(super) fn compare_waits(&self, other: &Self) -> Ordering {
        let in_this_process = self.last_sent.total_cmp(&other.last_sent);
        in_this_process.then(self.sent_before.total_cmp(&other.sent_before))
    }

    /// What a later process needs to continue, as JSON.
    pub(super) fn learned(&self) -> String {
        serde_json::to_string(&self.memory).expect("numbers and lists serialise")
    }

    /// Takes over what an earlier process learned; what another version wrote is ignored.
    pub(super) fn restore(&mut self, learned: &str, at: f64, wall: Timestamp, round: f64) {
        let Ok(memory) = serde_json::from_str::<Memory>(learned) else {
            return;
        };
        if memory.version != LEARNED_VERSION {
            return;
        }
        let newest_page = memory
            .newest_page
            .and_then(|second| Timestamp::from_second(second).ok());
        // A clock that was set back does not show how long the process was away.
        let away = match newest_page {
            Some(read) => wall.duration_since(read).as_secs_f64(),
            None => 0.0,
        };
        let away = away.clamp(0.0, MAX_SPAN_S);
        self.memory = memory;
        self.memory.rate.resume(away, wall);
        self.newest_page_at = at - away;
        let allowed = self.allowed_interval(round, initial_guarantee(round), 0.0);
        self.guarantee = self.guarantee.max(allowed);
    }
}

/// The guarantee of a new daemon's pollers.
pub(super) fn initial_guarantee(round: f64) -> f64 {
    INITIAL_GUARANTEE_S.clamp(round, MAX_ROUNDS * round)
}
