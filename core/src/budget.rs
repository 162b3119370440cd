//! How many requests this process may spend on a key it shares with other clients.
//!
//! Pure: every time comes in as a [`Moment`]. Two layers: [`pace`] is the hard one and never lets
//! the ceiling (the limit less the reserve) be exceeded in any minute, by governor's limiter and a
//! log of what was sent. Above it, a share is cut by half when the key runs short and grows back
//! step by step, so that several such processes on one key get equal shares. What the deadlines
//! need is requested even when the share is smaller. [`spending`] is what the next process must
//! know of the requests of this one.

mod header;
mod limiter;
mod others;
mod pace;
mod spending;
mod status;

use std::time::Duration;

use crate::clock::Moment;

use self::header::RemainingHeader;
use self::others::{Others, Reading};
use self::pace::{Pace, SPAN};
pub use self::spending::Spending;
pub use self::status::{BudgetStatus, LONG_REST};

/// The span that the server's limit is for.
const MINUTE: Duration = Duration::from_secs(60);
/// The longest wait that a server can request.
const MAX_REST: Duration = Duration::from_secs(3600);
/// The first wait after a 429 without `Retry-After`; it doubles up to a minute.
const FIRST_REST: Duration = Duration::from_secs(5);
/// Seconds between two cuts of the share, so that one shortage counts once.
const CUT_EVERY_S: f64 = 3.0;
/// Seconds in which a reduced share grows back without other clients, and with them.
const GROW_ALONE_S: f64 = 40.0;
const GROW_BESIDE_S: f64 = 120.0;
/// The part of the budget that background requests get while polls want all of it.
const BACKGROUND_PART: f64 = 0.05;
/// How many of them may follow one another after a time without any.
const BACKGROUND_SAVED: u32 = 5;
/// The part of a minute's requests that may go without spacing: the others follow in the rest of
/// it.
const UNSPACED_PART: f64 = 0.7;
/// Requests a minute by which the estimate of other clients may be too low, and the part of what they
/// leave beside it that is taken when the key runs short.
const UNSURE: f64 = 2.0;
const SURE_PART: f64 = 0.8;
/// For how long after a 429 nothing of it is taken for the longest intervals, in seconds.
const AFTER_REFUSAL_S: f64 = 300.0;
/// Polls that have wanted no request for this number of slots leave requests unused.
const IDLE_SLOTS: f64 = 1.2;
/// How long after the start requests may go without spacing.
const CYCLE: Duration = Duration::from_secs(5);

/// What the operator says about the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetSettings {
    /// Requests a minute the key has for all of its clients.
    pub requests_per_minute: u32,
    /// Requests a minute left to the other clients; less than `requests_per_minute`.
    pub reserve: u32,
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A poll of a route.
    Poll,
    /// Search, repair, backfill, custom fields: a twentieth of the budget while polls want all of
    /// it, and whatever they leave unused.
    Background,
}

/// What one response reported about the key (contract, "Limits").
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyReading {
    /// `X-RateLimit-Limit`
    pub limit: Option<u32>,
    /// `X-RateLimit-Remaining`
    pub remaining: Option<u32>,
    /// The status was 429.
    pub refused: bool,
    /// `Retry-After`, counted from the moment of the response.
    pub retry_after: Option<Duration>,
}

/// Polls a minute that all pollers together need.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PollsNeeded {
    /// Without these, pages would overflow at the rates seen.
    pub for_pages: f64,
    /// Without these, a route waits longer than its `max_interval`.
    pub for_intervals: f64,
}

/// The one counter of requests.
#[derive(Debug)]
pub struct Budget {
    settings: BudgetSettings,
    pace: Pace,
    others: Others,
    header: RemainingHeader,
    /// The limit the server names, if it names one.
    server_limit: Option<u32>,
    /// Requests a minute we allow ourselves, between the floor and the ceiling.
    share: f64,
    /// When the share was last adjusted and last cut, in seconds.
    share_at: f64,
    last_cut: f64,
    /// When the last response with status 429 came, in seconds.
    refused_at: f64,
    needed: PollsNeeded,
    rest_until: Option<Duration>,
    /// Responses with status 429 since the last other one.
    refusals: u32,
    /// Up to when the part of the budget that background requests get is used.
    background_until: Duration,
    /// When a poll last wanted a request, granted or not.
    poll_requested_at: Option<Duration>,
    /// Requests that need no spacing, until the first cycle is over.
    unspaced: u32,
    cycle_until: Duration,
    /// Whether the requests of the minute before this process began are known.
    knows_past: bool,
}

impl Budget {
    /// A budget that has sent nothing yet and begins without a burst.
    #[must_use]
    pub fn new(settings: BudgetSettings, now: Moment) -> Self {
        let ceiling = ceiling(settings, None);
        Self {
            settings,
            pace: Pace::new(ceiling),
            others: Others::default(),
            header: RemainingHeader::default(),
            server_limit: None,
            share: f64::from(ceiling),
            share_at: now.elapsed.as_secs_f64(),
            last_cut: f64::NEG_INFINITY,
            refused_at: f64::NEG_INFINITY,
            needed: PollsNeeded::default(),
            rest_until: None,
            refusals: 0,
            background_until: Duration::ZERO,
            poll_requested_at: None,
            unspaced: 0,
            cycle_until: Duration::ZERO,
            knows_past: true,
        }
    }

    /// Lets the next `requests` be sent without spacing, if it is known what earlier processes
    /// sent: a single run, or the daemon's first cycle. The ceiling still holds, and so does what a
    /// response reports as left.
    pub fn start_cycle(&mut self, requests: usize, now: Moment) {
        if self.knows_past {
            self.unspaced = u32::try_from(requests).unwrap_or(u32::MAX);
            self.cycle_until = now.elapsed + CYCLE;
        }
    }

    /// Applies new settings; what was sent stays counted.
    pub fn reconfigure(&mut self, settings: BudgetSettings) {
        self.settings = settings;
        self.apply_ceiling();
    }

    /// Grants one request and counts it as sent now, or says before which reading of
    /// [`Moment::elapsed`] it is useless to ask again.
    pub fn try_take(&mut self, purpose: Purpose, now: Moment) -> Result<(), Duration> {
        let now = now.elapsed;
        if purpose == Purpose::Poll {
            self.poll_requested_at = Some(now);
        }
        if let Some(until) = self.rest_until {
            if now < until {
                return Err(until);
            }
            self.rest_until = None;
        }
        match purpose {
            Purpose::Poll => self.take_for_poll(now),
            Purpose::Background => self.take_for_background(now),
        }
    }

    fn take_for_poll(&mut self, now: Duration) -> Result<(), Duration> {
        if self.may_skip_spacing(now) {
            self.pace.take_unspaced(now)?;
        } else {
            self.pace.take(apart(self.granted_rate(now)), now)?;
        }
        self.unspaced = self.unspaced.saturating_sub(1);
        Ok(())
    }

    fn take_for_background(&mut self, now: Duration) -> Result<(), Duration> {
        let not_before = self.background_not_before(now);
        if not_before > now {
            return Err(not_before);
        }
        self.pace.take(apart(self.granted_rate(now)), now)?;
        let interval = self.background_interval(now);
        // What polls left unused is not charged for later.
        self.background_until =
            (self.background_until.max(now) + interval).min(now + interval * BACKGROUND_SAVED);
        Ok(())
    }

    /// Learns from a response.
    pub fn observe(&mut self, seen: &KeyReading, now: Moment) {
        let elapsed = now.elapsed;
        let at = elapsed.as_secs_f64();
        // No requests at all are no limit; the configured one holds.
        self.server_limit = seen.limit.filter(|limit| *limit > 0).or(self.server_limit);
        self.apply_ceiling();

        let limit = self.limit();
        let own_minute = self.pace.sent_within(MINUTE, elapsed) as f64;
        if seen.remaining.is_some() || seen.refused {
            let remaining = seen.remaining.unwrap_or_default();
            let sent_part = own_minute / f64::from(limit);
            self.header.observe(remaining, seen.refused, sent_part, at);
        }
        if self.header.is_disproved() {
            // Our own count decides.
            self.others = Others::default();
        } else if let Some(left) = seen.remaining.filter(|left| *left <= limit) {
            // A server cannot have more than everything left.
            self.others.observe(Reading {
                at,
                remaining: f64::from(left),
                limit: f64::from(limit),
                own_minute,
                own_total: self.pace.total() as f64,
            });
        }
        if seen.refused {
            self.refused(seen.retry_after, elapsed);
        } else {
            self.refusals = 0;
            self.adjust_share(elapsed);
        }
    }

    /// Sets what all pollers together need.
    pub fn set_needed(&mut self, needed: PollsNeeded) {
        self.needed = needed;
    }

    /// Forgets a wait that the workspace requested: it was meant for another key or address.
    pub fn end_rest(&mut self) {
        self.rest_until = None;
    }

    /// How much is left of a rest that the server requested.
    pub fn resting(&self, now: Moment) -> Option<Duration> {
        self.rest_until
            .and_then(|until| until.checked_sub(now.elapsed))
    }

    /// The limit of the key: the one that the server names, else the configured one.
    fn limit(&self) -> u32 {
        self.server_limit
            .unwrap_or(self.settings.requests_per_minute)
            .max(1)
    }

    /// Requests a minute left to the other clients.
    fn reserve(&self) -> f64 {
        f64::from(self.settings.reserve)
    }

    /// Takes up the present ceiling; a share that was all of the previous one is all of it again.
    fn apply_ceiling(&mut self) {
        let ceiling = ceiling(self.settings, self.server_limit);
        let previous = self.pace.ceiling();
        if ceiling == previous {
            return;
        }
        self.pace.set_ceiling(ceiling);
        if self.share >= f64::from(previous) {
            self.share = f64::from(ceiling);
        } else {
            self.share = self.share.min(f64::from(ceiling));
        }
    }

    /// A 429: the whole key rests, and afterwards the share is half.
    fn refused(&mut self, retry_after: Option<Duration>, now: Duration) {
        self.refusals = self.refusals.saturating_add(1);
        let rest = match retry_after {
            Some(requested) => requested.max(Duration::from_secs(1)).min(MAX_REST),
            None => FIRST_REST
                .saturating_mul(1 << (self.refusals - 1).min(4))
                .min(Duration::from_secs(60)),
        };
        self.rest_until = self.rest_until.max(Some(now + rest));
        let at = now.as_secs_f64();
        self.refused_at = at;
        if at - self.last_cut >= CUT_EVERY_S {
            self.cut(at);
        }
    }

    fn cut(&mut self, at: f64) {
        self.share = (self.share / 2.0).max(1.0);
        self.last_cut = at;
        self.share_at = at;
    }

    /// Cuts the share when we and the others use more than there is, else lets it grow.
    fn adjust_share(&mut self, now: Duration) {
        let at = now.as_secs_f64();
        let ceiling = f64::from(self.pace.ceiling());
        let others = self.others.latest(at);
        let recent = self.pace.sent_within(Duration::from_secs(15), now) as f64 * 4.0;
        let ours = self.share.min(recent * 1.2 + 1.0);
        let open = f64::from(self.limit()) - self.reserve();
        let is_short = match self.left(now) {
            Some(left) => left < self.reserve(),
            None => false,
        };
        if others >= 1.0 && (is_short || ours + others > open) {
            if at - self.last_cut >= CUT_EVERY_S {
                self.cut(at);
            }
        } else {
            let grow_s = if others < 1.0 {
                GROW_ALONE_S
            } else {
                GROW_BESIDE_S
            };
            let since = (at - self.share_at).max(0.0);
            self.share = (self.share + ceiling * since / grow_s).min(ceiling);
        }
        self.share_at = at;
    }

    /// The requests that the key has left, computed from the last response that reported them, if
    /// it is recent.
    fn left(&self, now: Duration) -> Option<f64> {
        let at = now.as_secs_f64();
        let last = self.others.last(at)?;
        let sent_since = self.pace.total() as f64 - last.own_total;
        let in_minute = self.pace.sent_within(MINUTE, now) as f64;
        let expired = (last.own_minute + sent_since - in_minute).max(0.0);
        let others_since = self.others.latest(at) * (at - last.at).max(0.0) / 60.0;
        Some(last.remaining - sent_since - others_since + expired)
    }

    /// Requests a minute that are granted even when the key runs short: what pages need, what the
    /// longest intervals need as far as the other clients leave it, and a trickle that notices when
    /// the key no longer runs short.
    fn floor(&self, at: f64) -> f64 {
        let ceiling = f64::from(self.pace.ceiling());
        let unspent = (f64::from(self.limit()) - self.others.mean(at)).max(0.0);
        let trickle = (unspent / 8.0).min(ceiling / 10.0).max(1.0);
        let mut sure = (unspent - UNSURE).max(0.0) * SURE_PART;
        if at - self.refused_at < AFTER_REFUSAL_S {
            sure = 0.0;
        }
        // What is not a number counts as nothing.
        let for_intervals = self.needed.for_intervals.max(0.0).min(sure);
        let for_pages = self.needed.for_pages.max(0.0);
        for_pages.max(for_intervals).max(trickle).min(ceiling)
    }

    /// Requests a minute granted now, all purposes together.
    fn rate(&self, at: f64) -> f64 {
        let ceiling = f64::from(self.pace.ceiling());
        let unused = f64::from(self.limit()) - self.reserve() - self.others.upper(at);
        // Below half of the ceiling only the share decides, else the first of two equal
        // processes to arrive would keep the other out for good.
        self.share
            .min(unused.max(ceiling / 2.0))
            .max(self.floor(at))
            .min(ceiling)
    }

    /// Requests a minute granted now, also while other clients use the reserve or a first cycle
    /// without spacing is made up for.
    #[must_use]
    pub fn pace_per_minute(&self, now: Moment) -> f64 {
        self.granted_rate(now.elapsed).min(self.pace.granted())
    }

    /// Requests a minute granted now, also while other clients use the reserve.
    fn granted_rate(&self, now: Duration) -> f64 {
        match self.scarce_rate(now) {
            Some(rate) => rate,
            None => self.rate(now.as_secs_f64()),
        }
    }

    /// Requests a minute granted to polls while the other clients leave too little of the key.
    fn scarce_rate(&self, now: Duration) -> Option<f64> {
        let at = now.as_secs_f64();
        let left = self.left(now)?;
        if left < 1.0 && self.is_shared(at) {
            // The other clients have used it up: try rarely whether the minute is over. If they
            // have not, our own log knows when the next request is free.
            Some(self.floor(at).min(6.0))
        } else if self.would_touch_reserve(left, at) {
            Some(self.floor(at))
        } else {
            None
        }
    }

    /// True if other clients use the key.
    fn is_shared(&self, at: f64) -> bool {
        self.others.latest(at).max(self.others.mean(at)) >= 0.5
    }

    /// True if one more request of ours would take from the reserve what others may want. Alone on
    /// the key it cannot, because the ceiling keeps us above the reserve.
    fn would_touch_reserve(&self, left: f64, at: f64) -> bool {
        self.is_shared(at) && left - 1.0 < self.reserve()
    }

    /// True if a poll of the first cycle needs no spacing: it is the first request, or a recent
    /// response shows that the key has more left than the reserve.
    fn may_skip_spacing(&self, now: Duration) -> bool {
        if self.unspaced == 0 || now >= self.cycle_until {
            return false;
        }
        let leaves_reserve = match self.left(now) {
            Some(left) => left - 1.0 >= self.reserve(),
            None => self.pace.total() == 0,
        };
        let in_minute = self.pace.sent_within(SPAN, now) as f64;
        leaves_reserve && in_minute < UNSPACED_PART * f64::from(self.pace.ceiling())
    }

    /// When a background request is due: soon if polls leave requests unused, else by its part of
    /// the budget. It never takes what the other clients may want.
    fn background_not_before(&self, now: Duration) -> Duration {
        let at = now.as_secs_f64();
        if let Some(left) = self.left(now)
            && (left < 1.0 || self.would_touch_reserve(left, at))
        {
            return now + Duration::from_secs(1);
        }
        let polls_are_idle_at = match self.poll_requested_at {
            Some(requested_at) => requested_at + apart(self.rate(at) / IDLE_SLOTS),
            None => now,
        };
        let saved = self.background_interval(now) * (BACKGROUND_SAVED - 1);
        polls_are_idle_at.min(self.background_until.saturating_sub(saved))
    }

    /// The mean time between two background requests while polls ask for everything.
    fn background_interval(&self, now: Duration) -> Duration {
        apart(self.rate(now.as_secs_f64()) * BACKGROUND_PART)
    }
}

/// The most requests a minute we ever send: the smaller limit less the reserve, at least one.
fn ceiling(settings: BudgetSettings, server_limit: Option<u32>) -> u32 {
    let limit = settings
        .requests_per_minute
        .min(server_limit.unwrap_or(u32::MAX));
    limit.saturating_sub(settings.reserve).max(1)
}

/// The time between two requests at this number a minute.
fn apart(per_minute: f64) -> Duration {
    SPAN.div_f64(per_minute.max(0.01))
}

#[cfg(test)]
mod tests;
