//! Random traffic under a budget that is reckoned here independently of the schedule.

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
        Self { a_minute, most, kept: 1.0, at: 0.0, sent: Vec::new() }
    }

    fn slot(&self) -> f64 {
        SPAN_S / self.a_minute as f64
    }

    /// Takes a request, or says when to come again.
    fn take(&mut self, now: f64) -> Result<(), f64> {
        let kept = (self.kept + (now - self.at) / self.slot()).min(self.most);
        let oldest =
            self.sent.len().checked_sub(self.a_minute).map(|place| self.sent[place] + SPAN_S);
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

/// The ages a page shows: true, absent, in the future, equal for all, or of another time.
fn shown(kind: usize, page: &[f64], now: f64) -> Vec<Duration> {
    let age = |at: &f64| match kind {
        2 => Duration::ZERO,
        3 => Duration::from_secs(86_400 * 365),
        _ => Duration::from_secs_f64((now - at).max(0.0)),
    };
    if kind == 1 { Vec::new() } else { page.iter().rev().map(age).collect() }
}

fn run(seed: u64) -> (usize, usize) {
    let mut chance = fastrand::Rng::with_seed(seed);
    let (routes, a_minute) = (chance.usize(1..10), chance.usize(5..61));
    let span = 3.0 * 3600.0;
    let traffic: Vec<Vec<f64>> = (0..routes).map(|_| arrivals(&mut chance, span)).collect();
    let kind = chance.usize(0..5);
    let mut schedule = Schedule::new(vec![settings(); routes], a_minute as f64, at(0.0));
    let mut bucket = Bucket::new(a_minute);
    let mut known = vec![0; routes];
    // When each was polled last, and what was guaranteed then.
    let mut last: Vec<Option<(f64, f64)>> = vec![None; routes];
    let mut now = 0.0;
    while now < span {
        let poller = match schedule.next(at(now)) {
            Next::Poll(poller) => poller,
            Next::WaitUntil(until) => {
                now = until.as_secs_f64();
                continue;
            }
            Next::Idle => unreachable!("nothing is in flight"),
        };
        if let Err(until) = bucket.take(now) {
            now = until;
            continue;
        }
        schedule.started(poller, at(now));
        if let Some((before, guarantee)) = last[poller] {
            let waited = now - before;
            assert!(waited <= guarantee + 0.01, "seed {seed}: {waited} beside {guarantee}");
            assert!(waited >= 2.0 - 1e-4, "seed {seed}: polled again after {waited}");
        }
        let times = &traffic[poller];
        let arrived = times.partition_point(|time| *time <= now);
        let shown_from = arrived.saturating_sub(100);
        let new = arrived - known[poller].max(shown_from);
        let outcome = if new == 0 {
            PollResult::Unchanged
        } else {
            PollResult::Page(Observation {
                records: (arrived - shown_from) as u32,
                new: new as u32,
                overlap: (arrived - shown_from - new) as u32,
                contiguous: shown_from <= known[poller],
                ages: shown(kind, &times[shown_from..arrived], now),
            })
        };
        schedule.observe(poller, &outcome, at(now));
        known[poller] = arrived;
        last[poller] = Some((now, schedule.guarantee(poller)));
    }
    for place in a_minute..bucket.sent.len() {
        let held = bucket.sent[place] - bucket.sent[place - a_minute];
        assert!(held >= SPAN_S - 1e-4, "seed {seed}: {a_minute} requests and one more in {held} s");
    }
    // Routes that may not be polled again within min_interval can leave requests over.
    let usable = (span / bucket.slot()).min(span / 2.0 * routes as f64) as usize;
    (bucket.sent.len(), usable)
}

#[test]
fn on_random_traffic_every_guarantee_is_kept_and_the_whole_budget_is_used() {
    for seed in 0..300 {
        let (sent, usable) = run(seed);
        assert!(sent + 25 >= usable, "seed {seed}: {sent} polls of {usable}");
    }
}
