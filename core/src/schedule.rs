//! Decides when each poller polls next, so that no page overflows unseen and records arrive soon.
//!
//! Pure: a value with [`next`](Schedule::next) and [`observe`](Schedule::observe), without a clock
//! or I/O, so that one test can run a year. Every request that the budget grants is used. Each
//! poller has a guaranteed longest interval; what the guarantees leave is shared by the square
//! root of the arrival rate. `lab/README.md` explains the rule.

mod arrivals;
mod guarantee;
mod poller;
mod rate;
mod reserved;
mod share;
mod slots;
mod status;

use std::time::Duration;

use jiff::Timestamp;

use crate::budget::PollsNeeded;
use crate::clock::{KEY_MINUTE, Moment};

use self::guarantee::Deadline;
use self::poller::{InFlight, Poller};
use self::slots::{INSTANT_S, LATE_S, Slots};
pub use self::status::ScheduleStatus;

/// What the operator says about one poller.
#[derive(Debug, Clone, PartialEq)]
pub struct PollerSettings {
    /// Records a page can hold.
    pub limit: u32,
    /// Shortest time between two polls.
    pub min_interval: Duration,
    /// Longest time between two polls; if it equals the shortest, the interval is fixed.
    pub max_interval: Duration,
}

/// What a page that changed says about arrivals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Records on the page.
    pub records: u32,
    /// Ids not known before.
    pub new: u32,
    /// Whether the page proved that nothing was missed before it.
    pub contiguous: bool,
    /// How long ago each record on the page was created, youngest first; empty if the page does
    /// not show it. Ages that contradict the poll times are not used.
    pub ages: Vec<Duration>,
}

/// How a poll ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PollResult {
    /// A page that differs from the previous one.
    Page(Observation),
    /// The same page as before.
    Unchanged,
    /// No page; not to be retried before this reading of [`Moment::elapsed`].
    Failed {
        /// The earliest time of the next attempt.
        not_before: Duration,
    },
}

/// What to do with a free request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Send this poller's request.
    Poll(usize),
    /// Nothing is due before this reading of [`Moment::elapsed`].
    WaitUntil(Duration),
    /// Every poller is in flight.
    Idle,
}

/// How far deadlines are pulled apart, as a part of the even spacing of all guarantees.
const APART: f64 = 0.8;

/// The schedule of all pollers of one key.
#[derive(Debug, Clone)]
pub struct Schedule {
    pollers: Vec<Poller>,
    slots: Slots,
    /// Whether a background request waits for a slot.
    background: bool,
    /// The interval of polling in turn at the present pace, in seconds.
    round: f64,
}

impl Schedule {
    /// A schedule that knows nothing yet: it begins by polling in turn.
    #[must_use]
    pub fn new(pollers: Vec<PollerSettings>, requests_per_minute: f64, now: Moment) -> Self {
        let at = seconds(now);
        let mut schedule = Self {
            pollers: Vec::with_capacity(pollers.len()),
            slots: Slots::new(requests_per_minute, at),
            background: false,
            round: 1.0,
        };
        for settings in pollers {
            schedule.pollers.push(Poller::new(settings, at));
        }
        schedule.take_up_pace(at);
        schedule
    }

    /// A schedule with other settings or pollers that continues where this one is. With each
    /// poller's settings comes its place in this one, if it has one.
    #[must_use]
    pub fn reconfigured(
        self,
        pollers: impl Iterator<Item = (PollerSettings, Option<usize>)>,
        requests_per_minute: f64,
        now: Moment,
    ) -> Self {
        let at = seconds(now);
        let mut schedule = Self {
            pollers: Vec::new(),
            slots: self.slots,
            background: false,
            round: 1.0,
        };
        for (settings, place) in pollers {
            schedule.pollers.push(match place {
                Some(place) => self.pollers[place].reconfigured(settings),
                None => Poller::new(settings, at),
            });
        }
        schedule.slots.set_pace(requests_per_minute, at);
        schedule.take_up_pace(at);
        schedule
    }

    /// Takes over what [`learned`](Self::learned) gave in an earlier process. Text in another
    /// format is ignored.
    pub fn restore(&mut self, poller: usize, learned: &str, now: Moment) {
        self.pollers[poller].restore(learned, seconds(now), now.wall, self.round);
        self.share();
    }

    /// Notes when an earlier process sent a poller's last request: until its first one in this
    /// process, the poller that has waited longest goes first.
    pub fn restore_attempt(&mut self, poller: usize, at: Timestamp) {
        self.pollers[poller].sent_before = at.as_millisecond() as f64 / 1_000.0;
    }

    /// The pollers, the one that has waited longest for a request first.
    #[must_use]
    pub fn by_last_request(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.pollers.len()).collect();
        places.sort_by(|a, b| self.pollers[*a].compare_waits(&self.pollers[*b]));
        places
    }

    /// What a later process needs to continue with this poller, as JSON of one or two kilobytes.
    #[must_use]
    pub fn learned(&self, poller: usize) -> String {
        self.pollers[poller].learned()
    }

    /// Sets the polls a minute that the budget grants now. If they become fewer, the guarantees of
    /// routes that wait already grow with the slots that are left to them.
    pub fn set_pace(&mut self, per_minute: f64, now: Moment) {
        if self.slots.set_pace(per_minute, seconds(now)) {
            self.take_up_pace(seconds(now));
        }
    }

    /// What to do now. Pollers in flight are passed over.
    #[must_use]
    pub fn next(&self, now: Moment) -> Next {
        let at = seconds(now);
        let Some(ready) = self
            .idle()
            .map(|(_, poller)| poller.ready_at())
            .reduce(f64::min)
        else {
            return Next::Idle;
        };
        if let Some(place) = self.unpolled(at) {
            return Next::Poll(place);
        }
        if let Some((_, place)) = self.due(at) {
            return Next::Poll(place);
        }
        let slot = self.slots.first_from(ready).max(self.slots.current(at) + 1);
        wait_until(self.slots.start(slot))
    }

    /// A poller without a poll yet: after a start they are polled at once. The requests after that
    /// are slower for a minute, so it ends when polling in turn becomes too slow for a
    /// `max_interval`. It is not done if pollers would then be ready in the same moment again.
    fn unpolled(&self, at: f64) -> Option<usize> {
        let round = self.pollers.len() as f64 * self.slots.length();
        for poller in &self.pollers {
            let is_exact = poller.reserved.is_some() || poller.raised_interval.is_some();
            if is_exact || poller.min_interval > round {
                return None;
            }
        }
        for place in self.by_last_request() {
            let poller = &self.pollers[place];
            let is_unpolled = poller.last_sent.is_infinite() && poller.in_flight.is_none();
            if is_unpolled && poller.ready_at() <= at + INSTANT_S {
                return Some(place);
            }
        }
        None
    }

    /// The first slot that began without a request although a poll was due, and whose: it is sent
    /// at once, also if it is late.
    fn due(&self, at: f64) -> Option<(u64, usize)> {
        for slot in self.slots.unused(at) {
            if let Some(place) = self.choose(self.slots.start(slot)) {
                return Some((slot, place));
            }
        }
        None
    }

    /// The slot that a request at `at` would take, if one has begun. If the request is late, all
    /// later slots are late as well.
    fn slot_at(&self, at: f64) -> Option<u64> {
        match self.due(at) {
            Some((slot, _)) => Some(slot),
            None => self.slots.unused(at).last(),
        }
    }

    /// The poller that is polled in a slot that begins at `at`, if one is: the one that the slot is
    /// reserved for, else one whose guarantee needs it, else the one that is latest.
    fn choose(&self, at: f64) -> Option<usize> {
        self.owner(at)
            .or_else(|| self.urgent(at))
            .or_else(|| self.latest(at))
    }

    /// The pollers that are not in flight.
    fn idle(&self) -> impl Iterator<Item = (usize, &Poller)> {
        self.pollers
            .iter()
            .enumerate()
            .filter(|(_, poller)| poller.in_flight.is_none())
    }

    /// The poller that must be polled now so that every guarantee is kept, if there is one.
    fn urgent(&self, at: f64) -> Option<usize> {
        let due = self.deadlines(self.slots.current(at) + 1);
        let mut polls_per_second = 0.0;
        for deadline in &due {
            polls_per_second += 1.0 / self.pollers[deadline.poller].guarantee;
        }
        let first_ready = due
            .iter()
            .map(|deadline| deadline.poller)
            .find(|place| self.pollers[*place].ready_at() <= at + INSTANT_S);
        if self.is_tight(due, at, APART / polls_per_second) {
            first_ready
        } else {
            None
        }
    }

    /// Whether a guarantee would be missed if this slot were used for anything else. Deadlines
    /// closer together than `apart` seconds are pulled apart, so that a busy poller gets slots
    /// between them.
    fn is_tight(&self, due: Vec<Deadline>, at: f64, apart: f64) -> bool {
        let assigned = self.assign(due, self.slots.current(at) + 1);
        for (place, slot) in assigned.iter().enumerate() {
            let start = slot.start.max(at + place as f64 * apart);
            if slot.deadline < start - LATE_S {
                return true;
            }
        }
        false
    }

    /// The poller whose own interval is exceeded most in the middle of the slot that begins at
    /// `at`, if one may be polled and is worth the slot.
    fn latest(&self, at: f64) -> Option<usize> {
        let middle = at + 0.5 * self.slots.length();
        let mut latest: Option<usize> = None;
        for (place, poller) in self.idle() {
            if poller.ready_at() > at + INSTANT_S || !self.is_worth_a_slot(poller, at) {
                continue;
            }
            let is_later = match latest {
                Some(other) => {
                    let other = &self.pollers[other];
                    let by_lateness = other.lateness(middle).total_cmp(&poller.lateness(middle));
                    by_lateness.then(poller.compare_waits(other)).is_lt()
                }
                None => true,
            };
            if is_later {
                latest = Some(place);
            }
        }
        latest
    }

    /// Sets whether a background request waits. Guarantees that begin meanwhile have room for it.
    pub fn set_background(&mut self, waits: bool) {
        self.background = waits;
    }

    /// Whether every guarantee can be kept if the next request is not a poll.
    #[must_use]
    pub fn can_spare(&self, now: Moment) -> bool {
        let Some(slot) = self.slot_at(seconds(now)) else {
            return false;
        };
        let at = self.slots.start(slot);
        let due = self.deadlines(self.slots.current(at) + 1);
        self.owner(at).is_none() && !self.is_tight(due, at, 0.0)
    }

    /// Notes that a request was sent that is not a poll.
    pub fn spent(&mut self, now: Moment) {
        let at = seconds(now);
        let late = self.slots.take(at, self.slot_at(at));
        for poller in &mut self.pollers {
            poller.guarantee += late;
        }
    }

    /// Notes that a poller's request was sent.
    pub fn started(&mut self, poller: usize, now: Moment) {
        self.spent(now);
        let sent = seconds(now);
        let poller = &mut self.pollers[poller];
        poller.in_flight = Some(InFlight {
            sent,
            previous: poller.last_sent,
        });
        poller.last_sent = sent;
    }

    /// Notes how a poll ended, learns from it, and sets the guarantee of the interval that began
    /// when it was sent: see [`guarantee`].
    pub fn observe(&mut self, poller: usize, outcome: &PollResult, now: Moment) {
        let sent = self.learn(poller, outcome, now);
        self.set_guarantee(poller, sent, seconds(now));
        self.share();
    }

    /// Learns how a poll ended; returns when its request was sent.
    fn learn(&mut self, place: usize, outcome: &PollResult, now: Moment) -> f64 {
        let at = seconds(now);
        let common = self.common_rate();
        let poller = &mut self.pollers[place];
        let sent = match poller.in_flight.take() {
            Some(request) => request.sent,
            None => at,
        };
        poller.not_before = at;
        let page = match outcome {
            PollResult::Page(page) => Some(page),
            PollResult::Unchanged => None,
            PollResult::Failed { not_before } => {
                poller.not_before = not_before.as_secs_f64();
                return sent;
            }
        };
        poller.learn(page, sent, now.wall, common, self.round);
        sent
    }

    /// The mean rate of all pollers, which the rate of a poller with little history is drawn
    /// towards.
    fn common_rate(&self) -> f64 {
        let mut records = 1.0;
        let mut seconds = 600.0;
        for poller in &self.pollers {
            let week = poller.memory.rate.week;
            records += week.records;
            seconds += week.seconds;
        }
        records / seconds
    }

    /// When a poller is polled next if nothing changes.
    fn planned(&self, poller: &Poller, at: f64) -> f64 {
        let latest = match self.next_reserved(poller, self.slots.open(at)) {
            Some(reserved) => reserved,
            None => poller.deadline(),
        };
        poller.ready_at().max(poller.due_at().min(latest))
    }

    /// Makes a poller wait until this reading of [`Moment::elapsed`], and no longer, whatever an
    /// earlier failure imposed.
    pub fn wait_until(&mut self, poller: usize, elapsed: Duration) {
        self.pollers[poller].not_before = elapsed.as_secs_f64();
    }

    /// Sets how many records a page of a poller can hold.
    pub fn set_limit(&mut self, poller: usize, limit: u32) {
        self.pollers[poller].settings.limit = limit;
    }

    /// Polls a minute that all pollers need, at the rates seen and for their longest intervals.
    #[must_use]
    pub fn needed_per_minute(&self) -> PollsNeeded {
        let mut needed = PollsNeeded::default();
        for poller in &self.pollers {
            needed.for_pages += 60.0 / poller.safe_interval().max(0.1);
            needed.for_intervals += KEY_MINUTE.as_secs_f64() / poller.max_interval;
        }
        needed
    }

    /// The guaranteed longest interval of a poller, in seconds.
    #[must_use]
    pub fn guarantee(&self, poller: usize) -> f64 {
        self.pollers[poller].guarantee
    }
}

fn seconds(now: Moment) -> f64 {
    now.elapsed.as_secs_f64()
}

/// Rounded up to the next microsecond, so that the caller does not come back too early.
fn wait_until(seconds: f64) -> Next {
    Next::WaitUntil(Duration::from_micros(
        (seconds.clamp(0.0, 1e12) * 1e6).ceil() as u64,
    ))
}

#[cfg(test)]
mod tests;
