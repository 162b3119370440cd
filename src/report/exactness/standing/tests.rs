//! The bounds beside the truth: by hand, and in small random shops whose lists have gaps.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::*;

/// Statuses of open repairs; a completed one has this status.
const DONE: usize = 4;
const PAGE: usize = 25;

fn stretch(most: Option<u64>) -> Stretch {
    Stretch {
        from: Timestamp::UNIX_EPOCH,
        until: Timestamp::UNIX_EPOCH,
        ids: None,
        most,
    }
}

fn missed(most: Option<u64>, open: u64, completed: u64) -> Missed {
    Missed {
        stretch: stretch(most),
        open,
        completed,
    }
}

fn unseen(missed: &[Missed], jobs: Option<u64>) -> Unseen {
    Unseen {
        missed: missed.to_vec(),
        jobs: vec![stretch(jobs)],
        jobs_unknown_until: None,
        hides_edits: true,
    }
}

fn believed(count: u64, unheard: &[u64], counted: Counted) -> Believed<'_> {
    Believed {
        count,
        unheard,
        counted,
        taken_in_after: None,
    }
}

#[test]
fn a_missed_change_moves_one_repair_that_was_not_heard_of_since() {
    let of = |unseen: &Unseen, unheard: &[u64], counted| {
        let bounds = unseen.bounds(believed(20, unheard, counted));
        (bounds.lower, bounds.upper)
    };
    let nothing = unseen(&[], Some(0));
    assert_eq!(of(&nothing, &[], Counted::Open), (20, Some(20)));

    let two = unseen(&[missed(Some(2), 6, 9)], Some(3));
    assert_eq!(of(&two, &[1; 6], Counted::Open), (18, Some(23)));
    assert_eq!(of(&two, &[1], Counted::Open), (19, Some(23)), "one left");
    assert_eq!(of(&two, &[1; 6], Counted::OfStatus), (18, Some(25)));
    let few = unseen(&[missed(Some(50), 6, 1)], Some(0));
    assert_eq!(of(&few, &[1; 4], Counted::OfStatus), (16, Some(23)));

    let unknown = unseen(&[missed(None, 6, 0)], Some(3));
    assert_eq!(of(&unknown, &[1; 6], Counted::Open), (14, None));
    let lost = unseen(&[], None);
    assert_eq!(of(&lost, &[], Counted::Open), (20, None));
}

#[test]
fn an_old_gap_counts_only_for_what_was_not_heard_of_since_then() {
    let gaps = [missed(Some(1), 9, 9), missed(Some(40), 2, 30)];
    let unseen = unseen(&gaps, Some(0));
    let unheard = [1, 1, 1, 1, 1, 2, 2];
    let of = |counted| unseen.bounds(believed(20, &unheard, counted));
    assert_eq!(of(Counted::Open).lower, 17, "1 by the last gap, 2 before");
    assert_eq!(of(Counted::OfStatus).upper, Some(20 + 1 + 30));
    assert_eq!(unseen.reopened_after(Timestamp::MIN), Some(39));
}

#[test]
fn what_was_taken_in_after_a_gap_was_not_moved_or_lost_in_it() {
    let unseen = Unseen {
        jobs_unknown_until: Some(Timestamp::UNIX_EPOCH),
        ..unseen(&[missed(Some(2), 9, 9)], Some(4))
    };
    let of = |after: i64| {
        let bounds = unseen.bounds(Believed {
            taken_in_after: Some(Timestamp::from_second(after).unwrap()),
            ..believed(20, &[1, 1, 1], Counted::OfStatus)
        });
        (bounds.lower, bounds.upper)
    };
    assert_eq!(of(-1), (18, None));
    assert_eq!(of(0), (20, Some(20)));
}

/// A shop and its mirror: repairs and status changes with rising ids, pages, and outages.
struct World {
    rng: Rng,
    /// Ids that others use between two of a list.
    sparse: usize,
    reopens: bool,
    time: u64,
    jobs: List,
    changes: List,
    /// The true status of each repair.
    truth: BTreeMap<usize, usize>,
    /// The repair and the new status of each status change.
    change_of: BTreeMap<usize, (usize, usize)>,
    /// Of each mirrored repair its status when it was shown last, and when that was.
    rows: BTreeMap<usize, (usize, u64)>,
    /// Of each repair its newest mirrored status change: id, status, and when it was first seen.
    newest: BTreeMap<usize, (usize, usize, u64)>,
    /// The gaps of status changes: the ids between, and the time of the page.
    gaps: Vec<(usize, usize, u64)>,
    /// The ids between which repairs may be missing.
    job_gaps: Vec<(usize, usize)>,
}

#[derive(Default)]
struct List {
    ids: Vec<usize>,
    known: Vec<usize>,
}

impl List {
    fn create(&mut self, step: usize) -> usize {
        let id = self.ids.last().unwrap_or(&0) + step;
        self.ids.push(id);
        id
    }

    fn page(&self) -> Vec<usize> {
        self.ids[self.ids.len().saturating_sub(PAGE)..].to_vec()
    }

    /// Takes a page; the ids between which records are missing, if some may be.
    fn read(&mut self, page: &[usize]) -> Option<(usize, usize)> {
        let high = self.known.last().copied().unwrap_or(0);
        self.known.extend(page.iter().filter(|id| **id > high));
        let lowest = *page.first()?;
        (lowest > high && high > 0).then_some((high, lowest))
    }

    fn hides(&self, (after, before): (usize, usize)) -> u64 {
        let is_in = |id: &&usize| after < **id && **id < before;
        (before - after - 1 - self.known.iter().filter(is_in).count()) as u64
    }
}

impl World {
    fn new(seed: u64, sparse: usize, reopens: bool) -> Self {
        let mut world = Self {
            rng: Rng::with_seed(seed),
            sparse,
            reopens,
            time: 0,
            jobs: List::default(),
            changes: List::default(),
            truth: BTreeMap::new(),
            change_of: BTreeMap::new(),
            rows: BTreeMap::new(),
            newest: BTreeMap::new(),
            gaps: Vec::new(),
            job_gaps: Vec::new(),
        };
        world.take_in();
        world
    }

    fn step(&mut self) -> usize {
        self.rng.usize(1..=self.sparse)
    }

    fn take_in(&mut self) {
        let step = self.step();
        let job = self.jobs.create(step);
        self.change(job, 0);
    }

    fn change(&mut self, job: usize, status: usize) {
        let step = self.step();
        let id = self.changes.create(step);
        self.change_of.insert(id, (job, status));
        self.truth.insert(job, status);
    }

    fn happen(&mut self) {
        if self.rng.usize(..100) < 18 {
            self.take_in();
            return;
        }
        let ids = &self.jobs.ids;
        let recent = &ids[ids.len().saturating_sub(120)..];
        let job = recent[self.rng.usize(..recent.len())];
        let status = self.truth[&job];
        if status != DONE {
            let is_done = self.rng.usize(..100) < 30;
            let to = if is_done {
                DONE
            } else {
                self.rng.usize(..DONE)
            };
            self.change(job, to);
        } else if self.reopens && self.rng.usize(..100) < 8 {
            self.change(job, 1);
        }
    }

    fn poll(&mut self) {
        self.time += 1;
        let page = self.jobs.page();
        self.job_gaps.extend(self.jobs.read(&page));
        for job in page {
            self.rows.insert(job, (self.truth[&job], self.time));
        }
        let page = self.changes.page();
        if let Some((after, before)) = self.changes.read(&page) {
            self.gaps.push((after, before, self.time));
        }
        for id in page {
            let (job, status) = self.change_of[&id];
            let first_seen = match self.newest.get(&job) {
                Some((own, _, at)) if *own == id => *at,
                Some((newer, ..)) if *newer > id => continue,
                _ => self.time,
            };
            self.newest.insert(job, (id, status, first_seen));
        }
    }

    /// What each mirrored repair is believed to be, with the oldest gap that it was not heard of
    /// since, from the last one on; 0 if it was heard of since all.
    fn believed(&self) -> Vec<(usize, u64)> {
        let mut believed = Vec::new();
        for (job, (status, seen)) in &self.rows {
            let newest = self.newest.get(job);
            let status = match newest {
                Some((_, changed, at)) if seen < at => *changed,
                _ => *status,
            };
            let mut oldest = 0;
            for (number, (_, before, at)) in (1..).zip(self.gaps.iter().rev()) {
                let is_heard = seen >= at || newest.is_some_and(|(id, ..)| id >= before);
                if !is_heard {
                    oldest = number;
                }
            }
            believed.push((status, oldest));
        }
        believed
    }

    fn unseen(&self, believed: &[(usize, u64)]) -> Unseen {
        let mut all = Vec::new();
        for (number, (after, before, _)) in (1..).zip(self.gaps.iter().rev()) {
            let most = self.changes.hides((*after, *before));
            let unheard = |is_done: bool| {
                let is_one = |(status, oldest): &&(usize, u64)| {
                    (*status == DONE) == is_done && *oldest >= number
                };
                believed.iter().filter(is_one).count() as u64
            };
            all.push(missed(Some(most), unheard(false), unheard(true).min(most)));
        }
        let missing = self.job_gaps.iter().map(|gap| self.jobs.hides(*gap)).sum();
        unseen(&all, Some(missing))
    }
}

#[test]
fn the_truth_lies_between_the_bounds_whatever_the_gaps_hide() {
    let mut checks = 0;
    let mut wrong_beliefs = 0;
    let mut width = 0;
    let mut count = 0;
    for seed in 0..60 {
        let sparse = 1 + seed as usize % 3;
        let reopens = seed % 2 == 0;
        let mut world = World::new(seed, sparse, reopens);
        for step in 0..160 {
            let outage = [0, 20, 60, 200][world.rng.usize(..4)];
            let is_out = step > 10 && world.rng.usize(..40) == 0;
            let events = if is_out { outage } else { world.rng.usize(..6) };
            for _ in 0..events {
                world.happen();
            }
            world.poll();
            if world.gaps.is_empty() || step % 4 != 0 {
                continue;
            }
            let all = world.believed();
            let unseen = world.unseen(&all);
            let of = |is_counted: &dyn Fn(usize) -> bool, counted| {
                let mut unheard = Vec::new();
                let mut count = 0;
                for (status, oldest) in &all {
                    if is_counted(*status) {
                        count += 1;
                        unheard.extend((*oldest > 0).then_some(*oldest));
                    }
                }
                let truth = world.truth.values();
                let truth = truth.filter(|status| is_counted(**status)).count() as u64;
                (
                    unseen.bounds(believed(count, &unheard, counted)),
                    count,
                    truth,
                )
            };
            let (open, believed, truth) = of(&|status| status != DONE, Counted::Open);
            let mut upper = open.upper.unwrap();
            width += upper - open.lower;
            count += believed;
            if reopens {
                upper += unseen.reopened_after(Timestamp::MIN).unwrap();
            }
            assert!(
                open.lower <= truth && truth <= upper,
                "{seed}.{step}: {truth}, {open:?}"
            );
            wrong_beliefs += u64::from(believed != truth);
            for own in 0..DONE {
                let (bounds, _, truth) = of(&|status| status == own, Counted::OfStatus);
                let upper = bounds.upper.unwrap();
                assert!(
                    bounds.lower <= truth && truth <= upper,
                    "{seed}.{step}, status {own}: {truth}, {bounds:?}"
                );
            }
            checks += 1;
        }
    }
    println!("{checks} checks, {wrong_beliefs} wrong beliefs, width {width} of {count}");
    assert!(
        checks > 1_000 && wrong_beliefs * 3 > checks,
        "the world shows what it was made for"
    );
    assert!(width < count, "a range says something");
}
