//! What the schedule knows about one poller: settings, what it learned, its guarantee.
//!
//! Times are seconds on the monotonic clock; the wall clock only chooses the hour of the day and
//! measures how long a process was away.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::arrivals::{Arrivals, GUARD};
use super::rate::{ArrivalRate, Level};
use super::{FILLED, Observation, PollerSettings};

/// The longest time that is reckoned with, in seconds.
pub(super) const LONGEST_S: f64 = 7.0 * 86_400.0;
/// The first guarantee of a new poller if polling in turn is faster, in seconds: in that time a
/// page of 100 holds an import of nearly ten records a second.
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

/// One poller.
#[derive(Debug, Clone)]
pub(super) struct Poller {
    pub(super) settings: PollerSettings,
    pub(super) rate: ArrivalRate,
    pub(super) arrivals: Arrivals,
    /// When the newest page was requested; the start if there was none.
    pub(super) read_at: f64,
    pub(super) read_before: bool,
    read_wall: Option<Timestamp>,
    pub(super) in_flight: Option<f64>,
    /// When the last request was sent; before the first one, when it would have been.
    pub(super) last: f64,
    /// The latest deadline at a pace that was lower since the last poll. A pace that rises again
    /// does not bring it forward, because the polls that were put off meanwhile come first.
    promised: f64,
    pub(super) not_before: f64,
    /// When the next poll of a fixed interval is due.
    pub(super) fixed_due: f64,
    /// The shortest guarantee that is worth giving: min_interval and what keeping requests costs.
    pub(super) floor: f64,
    /// The interval that results from its share of the budget.
    pub(super) interval: f64,
    /// When the calm began, whether danger was ever seen, and how long calm must last.
    pub(super) calm_since: f64,
    pub(super) dangers: u32,
    /// The factor of the guarantee; renewed only when the route is read.
    factor: f64,
    /// Since when arrivals are watched.
    pub(super) watched_since: f64,
    /// When nearly a page of records came dangerously fast, oldest first.
    pub(super) fills: Vec<Fill>,
    /// The last intervals between two requests, newest last.
    pub(super) kept: VecDeque<f64>,
}

/// Nearly a page of records that came faster than the longest guarantee.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fill {
    pub(super) at: f64,
    /// How long it took, in seconds.
    pub(super) took: f64,
}

/// What survives a restart.
#[derive(Debug, Serialize, Deserialize)]
struct Learned {
    version: u32,
    /// Unix seconds of the newest page.
    read: Option<i64>,
    now: (f64, f64),
    long: (f64, f64),
    excess: f64,
    hours: Vec<(f64, f64)>,
    calm: f64,
    dangers: u32,
    watched: f64,
    /// Age and duration of each fill.
    fills: Vec<(f64, f64)>,
}

const LEARNED_VERSION: u32 = 2;

impl Poller {
    pub(super) fn new(settings: PollerSettings, at: f64) -> Self {
        Self {
            settings,
            rate: ArrivalRate::new(),
            arrivals: Arrivals::default(),
            read_at: at,
            read_before: false,
            read_wall: None,
            in_flight: None,
            last: at,
            promised: f64::NEG_INFINITY,
            not_before: f64::NEG_INFINITY,
            fixed_due: at,
            floor: 0.0,
            interval: 1.0,
            calm_since: at,
            dangers: 0,
            factor: 1.0,
            watched_since: at,
            fills: Vec::new(),
            kept: VecDeque::new(),
        }
    }

    /// Makes the first polls come one after another.
    pub(super) fn stagger(&mut self, at: f64, offset: f64) {
        self.last = at + offset - 1e6;
        self.fixed_due = at + offset;
    }

    pub(super) fn started(&mut self, at: f64) {
        if self.read_before {
            self.kept.push_back(at - self.last);
            if self.kept.len() > MEASURED {
                self.kept.pop_front();
            }
        }
        self.in_flight = Some(at);
        self.last = at;
        self.promised = f64::NEG_INFINITY;
        if let Some(every) = self.settings.every {
            // The grid stays; what was missed of it is skipped.
            let every = every.as_secs_f64().max(0.001);
            let late = (at - self.fixed_due).max(0.0);
            self.fixed_due += every * ((late / every).floor() + 1.0);
            if self.fixed_due - at > every {
                self.fixed_due = at + every;
            }
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
        delay: f64,
    ) {
        let span = (started - self.read_at).clamp(0.0, LONGEST_S);
        let limit = self.settings.limit;
        if !self.read_before {
            // What the first page shows came before the polls: it hints at the rate, no more.
            let oldest = page.and_then(|page| page.ages.last()).map_or(0.0, Duration::as_secs_f64);
            let records = page.map_or(0, |page| page.records);
            self.rate.hint(f64::from(records) - 1.0, oldest, common);
        } else {
            let new = page.map_or(0, |page| page.new.min(page.records));
            let mut filled = None;
            if let Some(page) = page {
                filled = self.arrivals.take(page, started, span, limit);
            }
            self.arrivals.look(started, new > 0, self.rate.base);
            let importing = self.arrivals.since.is_some_and(|since| started - since <= NOT_RATE_S);
            self.rate.observe(f64::from(new), span, wall, importing, common);
            if let Some(took) = filled.filter(|took| *took < self.longest(turn) / FILLED) {
                self.calm_since = started;
                self.dangers = self.dangers.saturating_add(1);
                self.remember_fill(Fill { at: started, took });
            }
        }
        self.read_at = self.read_at.max(started);
        self.read_before = true;
        self.read_wall = Some(wall);
        self.fills.retain(|fill| started - fill.at <= REMEMBERED_S);
        self.renew_factor(turn, delay);
    }

    /// Renews the factor of the guarantee; only when the route is read, so that a deadline never
    /// moves while it is waited for.
    fn renew_factor(&mut self, turn: f64, delay: f64) {
        let first = if self.dangers == 0 { (FIRST_S / turn).clamp(1.0, LAST) } else { 1.0 };
        let calm = ((self.read_at - self.calm_since) / self.patience()).clamp(0.0, 1.0);
        self.factor = (first + (LAST - first) * calm).max(1.0 + delay / turn);
    }

    /// Pages that fill within ten minutes are one event; it counts for a week.
    fn remember_fill(&mut self, fill: Fill) {
        match self.fills.last_mut() {
            Some(last) if fill.at - last.at <= NOT_RATE_S => {
                *last = Fill { at: fill.at, took: fill.took.min(last.took) };
            }
            _ => self.fills.push(fill),
        }
        if self.fills.len() > MOST_FILLS {
            self.fills.remove(0);
        }
    }

    /// Seconds of calm that the longest guarantee needs.
    fn patience(&self) -> f64 {
        (CALM_S * f64::from(self.dangers.saturating_sub(1).min(10)).exp2()).min(MOST_CALM_S)
    }

    /// Lengthens the guarantee to `wanted` seconds for as long as imports run elsewhere.
    pub(super) fn lend(&mut self, wanted: f64, turn: f64) {
        if self.dangers == 0 && self.arrivals.running.is_none() {
            self.factor = self.factor.max((wanted / turn).min(LAST));
        }
    }

    /// The longest interval that calm can lead to.
    fn longest(&self, turn: f64) -> f64 {
        (LAST * turn).min(self.settings.max_interval.as_secs_f64()).max(turn)
    }

    /// The guaranteed longest interval.
    pub(super) fn guarantee(&self, turn: f64) -> f64 {
        if let Some(every) = self.settings.every {
            return every.as_secs_f64();
        }
        let most = self.settings.max_interval.as_secs_f64().max(turn);
        (self.factor * turn).min(self.longest(turn)).max(self.floor.min(most))
    }

    /// Keeps the deadline of the interval that is running, because the pace rises.
    pub(super) fn keep_deadline(&mut self, turn: f64) {
        self.promised = self.promised.max(self.last + self.guarantee(turn));
    }

    /// The guarantee of the interval that is running: a pace that has risen counts from the next.
    pub(super) fn stated(&self, turn: f64) -> f64 {
        if self.settings.every.is_some() {
            return self.guarantee(turn);
        }
        self.guarantee(turn).max(self.promised - self.last)
    }

    /// The interval that keeps the page of a running import from overflowing.
    pub(super) fn import_interval(&self) -> Option<f64> {
        let page = self.page();
        self.arrivals.running.map(|speed| FILLED * page / speed)
    }

    /// Records that may come between two polls.
    pub(super) fn page(&self) -> f64 {
        (self.settings.limit as usize).saturating_sub(GUARD).max(1) as f64
    }

    /// Arrivals a second, for sharing.
    pub(super) fn rate_now(&self) -> f64 {
        self.rate.with_bursts().max(self.arrivals.running.unwrap_or(0.0))
    }

    /// The interval within which a page is unlikely to overflow at the rate seen.
    pub(super) fn safe_interval(&self) -> f64 {
        let steady = 0.5 * f64::from(self.settings.limit) / self.rate.base.max(1e-9);
        steady.min(self.import_interval().unwrap_or(f64::INFINITY)).min(LONGEST_S)
    }

    /// Before this it must not be polled.
    pub(super) fn ready_at(&self) -> f64 {
        let spaced = self.last + self.settings.min_interval.as_secs_f64();
        let due = if self.settings.every.is_some() { self.fixed_due } else { f64::NEG_INFINITY };
        spaced.max(self.not_before).max(due)
    }

    /// By when it must be polled.
    pub(super) fn deadline(&self, turn: f64) -> f64 {
        if self.settings.every.is_some() {
            return self.ready_at();
        }
        (self.last + self.stated(turn)).max(self.ready_at())
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
        let pair = |level: Level| (rounded(level.count), rounded(level.time));
        let learned = Learned {
            version: LEARNED_VERSION,
            read: self.read_wall.map(Timestamp::as_second),
            now: pair(self.rate.now),
            long: pair(self.rate.long),
            excess: rounded(self.rate.excess),
            hours: self.rate.hours_so_far().into_iter().map(pair).collect(),
            calm: rounded(self.read_at - self.calm_since),
            dangers: self.dangers,
            watched: rounded(self.read_at - self.watched_since),
            fills: self
                .fills
                .iter()
                .map(|fill| (rounded(self.read_at - fill.at), rounded(fill.took)))
                .collect(),
        };
        serde_json::to_string(&learned).expect("numbers and lists serialise")
    }

    /// Takes over what an earlier process learned; anything implausible is ignored as a whole.
    pub(super) fn restore(&mut self, learned: &str, at: f64, wall: Timestamp, turn: f64) {
        let Ok(learned) = serde_json::from_str::<Learned>(learned) else { return };
        let sane = |(count, time): (f64, f64)| {
            count.is_finite()
                && time.is_finite()
                && (0.0..1e9).contains(&count)
                && (0.0..1e9).contains(&time)
        };
        let single = [(learned.excess, learned.calm), (learned.watched, 0.0)];
        let pairs = [learned.now, learned.long].into_iter().chain(single);
        let Ok(hours) = <[(f64, f64); 24]>::try_from(learned.hours) else { return };
        if learned.version != LEARNED_VERSION
            || !pairs.chain(hours).chain(learned.fills.iter().copied()).all(sane)
        {
            return;
        }
        let read = learned.read.and_then(|read| Timestamp::from_second(read).ok());
        // A clock that was set back says nothing about how long the process was away.
        let away = read.map_or(0.0, |read| wall.duration_since(read).as_secs_f64());
        let away = away.clamp(0.0, LONGEST_S);
        let level = |(count, time)| Level { count, time };
        self.rate = ArrivalRate::restored(
            level(learned.now),
            level(learned.long),
            learned.excess,
            hours.map(level),
            away,
            wall,
        );
        self.calm_since = at - away - learned.calm;
        self.dangers = learned.dangers;
        self.read_at = at - away;
        self.watched_since = self.read_at - learned.watched;
        self.fills = learned
            .fills
            .into_iter()
            .map(|(age, took)| Fill { at: self.read_at - age, took })
            .take(MOST_FILLS)
            .collect();
        self.renew_factor(turn, 0.0);
        self.read_wall = read;
        self.read_before = read.is_some();
    }
}

/// Three decimals are more than any estimate holds.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
