//! Random traffic under a budget that is computed here independently of the schedule.

use super::*;

const SPAN_S: f64 = 60.5;

/// A bucket and a log, as the budget has them: when the next request may be sent.
struct Bucket {
    a_minute: usize,
    most: f64,
    kept: f64,
    at: f64,
    sent: Vec<f64>,
}

impl Bucket {
    fn new(a_minute: usize) -> Self {
        let most = (a_minute / 15).clamp(1, 20) as f64;
        Self {
            a_minute,
            most,
            kept: 1.0,
            at: 0.0,
            sent: Vec::new(),
        }
    }

    fn slot(&self) -> f64 {
        SPAN_S / self.a_minute as f64
    }

    /// Takes a request, or says when to come again.
    fn take(&mut self, now: f64) -> Result<(), f64> {
        let kept = (self.kept + (now - self.at) / self.slot()).min(self.most);
        let oldest = self
            .sent
            .len()
            .checked_sub(self.a_minute)
            .map(|place| self.sent[place] + SPAN_S);
        let free = (now + (1.0 - kept) * self.slot()).max(oldest.unwrap_or(0.0));
        if free > now + 1e-6 {
            return Err(free);
        }
        (self.kept, self.at) = ((kept - 1.0).max(0.0), now);
        self.sent.push(now);
        Ok(())
    }
}

/// Arrivals of one route: a rate, batches and imports.
fn arrivals(chance: &mut fastrand::Rng, span: f64) -> Vec<f64> {
    let mut times = Vec::new();
    let rate = 10f64.powf(chance.f64() * 4.0 - 4.5);
    let mut at = 0.0;
    while at < span {
        at -= (1.0 - chance.f64()).ln() / rate;
        times.push(at);
    }
    for _ in 0..chance.usize(0..4) {
        let (start, length) = (chance.f64() * span, chance.f64() * 300.0);
        let records = chance.usize(10..900);
        times.extend((0..records).map(|_| start + length * chance.f64()));
    }
    times.sort_by(f64::total_cmp);
    times
}

/// What a page shows of the times its records were made.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shown {
    True,
    /// As when the field is missing or in another format.
    Nothing,
    /// All now, as times in the future are read.
    Now,
    LongAgo,
    /// By a clock that is hours off, each time by another number of them.
    WrongClock,
    /// True times in any order.
    Shuffled,
}

const SHOWN: [Shown; 6] = [
    Shown::True,
    Shown::Nothing,
    Shown::Now,
    Shown::LongAgo,
    Shown::WrongClock,
    Shown::Shuffled,
];

/// The ages a page shows.
fn ages(shown: Shown, page: &[f64], now: f64, chance: &mut fastrand::Rng) -> Vec<Duration> {
    let off = f64::from(chance.i32(-5..6)) * 3600.0;
    let age = |at: &f64| match shown {
        Shown::Now => Duration::ZERO,
        Shown::LongAgo => Duration::from_secs(86_400 * 365),
        Shown::WrongClock => Duration::from_secs_f64((now - at + off).max(0.0)),
        _ => Duration::from_secs_f64((now - at).max(0.0)),
    };
    let mut ages: Vec<Duration> = page.iter().rev().map(age).collect();
    match shown {
        Shown::Nothing => ages.clear(),
        Shown::Shuffled => chance.shuffle(&mut ages),
        _ => {}
    }
    ages
}

/// This moment by a wall clock that steps by hours now and then.
fn stepping(seconds: f64, off: &mut i64, chance: &mut fastrand::Rng) -> Moment {
    if chance.u32(0..200) == 0 {
        *off = chance.i64(-100..100);
    }
    let now = at(seconds);
    Moment {
        wall: now.wall + jiff::SignedDuration::from_hours(*off),
        ..now
    }
}

/// Runs random traffic at so many requests a minute, each late by up to so many seconds; `watch` is
/// told of each poll: whose it was, when, how long it waited, and by how much requests were late
/// meanwhile.
fn run_with(
    seed: u64,
    all: &[PollerSettings],
    (a_minute, late): (usize, f64),
    chance: &mut fastrand::Rng,
    mut watch: impl FnMut(usize, f64, f64, f64),
) -> (usize, usize) {
    let routes = all.len();
    let span = 1.5 * 3600.0;
    let traffic: Vec<Vec<f64>> = (0..routes).map(|_| arrivals(chance, span)).collect();
    let shown = SHOWN[seed as usize % SHOWN.len()];
    let mut off = 0;
    let mut schedule = Schedule::new(all.to_vec(), a_minute as f64, at(0.0));
    let mut bucket = Bucket::new(a_minute);
    // Every other run has a background request that waits all the time.
    let background = seed % 2 == 1;
    let (mut others, mut other_at) = (0, 0.0);
    schedule.set_background(background);
    let mut known = vec![0; routes];
    // When each was polled last, what was guaranteed then, and by how much all requests were late
    // so far.
    let mut last: Vec<Option<(f64, f64, f64)>> = vec![None; routes];
    let (mut now, mut all_late) = (0.0, 0.0);
    // Seldom much.
    let delay = |chance: &mut fastrand::Rng, until: f64| {
        let delay = late * chance.f64().powi(6);
        (until + delay, delay)
    };
    while now < span {
        let moment = at(now);
        if background && now >= other_at && schedule.can_spare(moment) && bucket.take(now).is_ok() {
            schedule.spent(moment);
            others += 1;
            other_at = now + 20.0 * bucket.slot();
        }
        let poller = match schedule.next(moment) {
            Next::Poll(poller) => poller,
            Next::WaitUntil(until) => {
                let (then, delay) = delay(chance, until.as_secs_f64());
                (now, all_late) = (then, all_late + delay);
                continue;
            }
            Next::Idle => unreachable!("nothing is in flight"),
        };
        if let Err(until) = bucket.take(now) {
            let (then, delay) = delay(chance, until);
            (now, all_late) = (then, all_late + delay);
            continue;
        }
        schedule.started(poller, moment);
        if let Some((before, guarantee, late_before)) = last[poller] {
            let (waited, late) = (now - before, all_late - late_before);
            watch(poller, now, waited, late);
            assert!(
                waited <= guarantee + 0.01 + late,
                "seed {seed}, {shown:?}: {waited} beside {guarantee} and {late}"
            );
            let shortest = if all[poller] == settings() { 2.0 } else { 0.0 };
            assert!(
                waited >= shortest - 1e-4,
                "seed {seed}: polled again after {waited}"
            );
        }
        let times = &traffic[poller];
        let arrived = times.partition_point(|time| *time <= now);
        let first = arrived.saturating_sub(100);
        let new = arrived - known[poller].max(first);
        let outcome = if new == 0 {
            PollResult::Unchanged
        } else {
            PollResult::Page(Observation {
                records: (arrived - first) as u32,
                new: new as u32,
                contiguous: first <= known[poller],
                ages: ages(shown, &times[first..arrived], now, chance),
            })
        };
        schedule.observe(poller, &outcome, stepping(now, &mut off, chance));
        known[poller] = arrived;
        last[poller] = Some((now, schedule.guarantee(poller), all_late));
    }
    for place in a_minute..bucket.sent.len() {
        let held = bucket.sent[place] - bucket.sent[place - a_minute];
        assert!(
            held >= SPAN_S - 1e-4,
            "seed {seed}: {a_minute} requests and one more in {held} s"
        );
    }
    // With other bounds, or with hardly a slot more than one for each route, every slot may be
    // needed for a guarantee.
    let spare = settings().max_interval.as_secs_f64() >= (routes + 2) as f64 * bucket.slot();
    if background && spare && all.iter().all(|poller| *poller == settings()) {
        let due = (span / bucket.slot() / 20.0) as usize;
        assert!(
            3 * others >= 2 * due,
            "seed {seed}: {others} background requests of {due}"
        );
    }
    let apart = (2.0 / bucket.slot() - 1e-6).ceil() * bucket.slot();
    let usable = (span / bucket.slot()).min(span / apart * routes as f64) as usize;
    (bucket.sent.len(), usable)
}

/// Routes with random `max_interval`s around the interval of polling in turn, and the part of the
/// slots that they need.
pub(super) fn mixed(chance: &mut fastrand::Rng, a_minute: usize) -> (Vec<PollerSettings>, f64) {
    let slot = SPAN_S / a_minute as f64;
    let routes = chance.usize(2..11);
    let turn = routes as f64 * slot;
    let mut all = vec![settings(); routes];
    for (place, poller) in all.iter_mut().enumerate() {
        let chance = chance.f64();
        let turns = if place == 0 {
            0.2 + 1.4 * chance
        } else {
            0.6 * 12f64.powf(chance)
        };
        let longest = (turns * turn).max(2.5);
        poller.max_interval = Duration::from_secs_f64(longest);
    }
    // Sometimes the last is fixed.
    let last = all
        .last_mut()
        .filter(|last| last.max_interval.as_secs_f64() > 1.5 * turn);
    if let (true, Some(last)) = (chance.bool(), last) {
        last.min_interval = last.max_interval;
    }
    let slots = |p: &PollerSettings| (p.max_interval.as_secs_f64() / slot + 1e-6).floor();
    let needed = all.iter().map(|p| 1.0 / slots(p)).sum();
    (all, needed)
}

#[test]
fn a_max_interval_shorter_than_the_turn_is_kept_exactly_or_said_not_to_be() {
    let (mut kept, mut said, mut short) = (0, 0, 0);
    for seed in seeds(30) {
        let mut chance = fastrand::Rng::with_seed(seed);
        let a_minute = chance.usize(5..61);
        let (all, needed) = mixed(&mut chance, a_minute);
        let schedule = Schedule::new(all.clone(), a_minute as f64, at(0.0));
        if schedule
            .pollers
            .iter()
            .any(|poller| poller.raised_interval.is_some())
        {
            said += 1;
            assert!(
                needed > 0.7,
                "seed {seed}: {needed} of the slots are enough"
            );
            continue;
        }
        assert!(
            needed <= 1.0 + 1e-9,
            "seed {seed}: {needed} of the slots, and not said"
        );
        // From the first poll on, with imports and searches. Some timers are late by 2 ms, some
        // requests by up to two slots: no interval is longer than it is allowed to be by more than
        // that.
        let late = [0.0, 0.002, 2.0 * SPAN_S / a_minute as f64][seed as usize % 3];
        run_with(
            seed,
            &all,
            (a_minute, late),
            &mut chance,
            |poller, now, waited, late| {
                // A fixed interval without own slots waits for a free one, as its guarantee says.
                if all[poller].min_interval == all[poller].max_interval {
                    return;
                }
                let longest = all[poller].max_interval.as_secs_f64();
                let most = longest + 0.01 + late;
                assert!(
                    waited <= most,
                    "seed {seed}: {waited} of {longest} and {late} at {now}"
                );
                short += u32::from(poller == 0);
            },
        );
        kept += 1;
    }
    let all = kept + said;
    assert!(4 * kept > all && 8 * said > all, "{kept} kept, {said} said");
    assert!(short > 100 * all, "{short} polls of the shortest");
}

/// What an operator may set for one route.
fn drawn(chance: &mut fastrand::Rng) -> PollerSettings {
    let (shortest, longest) = match chance.usize(0..9) {
        0 => (1, 5),
        1 => (1, 10),
        2 => (1, 30),
        3 => (10, 90),
        4 => (20 + chance.u64(0..20), 90),
        5 => (5, 5),
        6 => (30, 30),
        7 => (60, 60),
        _ => (1, 90),
    };
    let (min_interval, max_interval) =
        (Duration::from_secs(shortest), Duration::from_secs(longest));
    PollerSettings {
        min_interval,
        max_interval,
        ..settings()
    }
}

#[test]
fn on_random_traffic_every_guarantee_is_kept_and_the_whole_budget_is_used() {
    for seed in seeds(36) {
        let mut chance = fastrand::Rng::with_seed(seed);
        // Every third time an operator has set bounds for each route.
        let is_usual = seed / SHOWN.len() as u64 % 3 != 2;
        let all: Vec<PollerSettings> = match is_usual {
            true => vec![settings(); chance.usize(1..10)],
            false => (0..6).map(|_| drawn(&mut chance)).collect(),
        };
        let a_minute = chance.usize(5..61);
        let (sent, usable) = run_with(seed, &all, (a_minute, 0.0), &mut chance, |_, _, _, _| ());
        assert!(
            sent + 25 >= usable || !is_usual,
            "seed {seed}: {sent} polls of {usable}"
        );
    }
}
