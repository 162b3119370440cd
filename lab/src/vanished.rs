//! Judges the rule of records that are gone from a list ([`shopmirror_core::vanishing`]) against
//! shops whose truth is known.
//!
//! A shop has one or two businesses, which move records between them, delete and merge them; a
//! workspace that hides finished records, a filter that hides forty at once, and lagging servers may
//! be among them. Each list is polled 300 times, with pauses now and then. Pure: no clock, no I/O.

mod life;
mod tally;
mod world;

use std::collections::{HashMap, HashSet};

use fastrand::Rng;
use jiff::Timestamp;
use serde::Serialize;
use shopmirror_core::contiguity::Contiguity;

pub(crate) use self::life::Life;
pub(crate) use self::tally::{Tally, missed_goals, table};
pub(crate) use self::world::ListedBy;
use self::world::{Presence, World};
use crate::pages::{Mirror, Poller, Shown};

/// Records of a page.
const LIMIT: usize = 100;
/// Intervals of one shop.
const STEPS: u32 = 300;
/// Of an interval; a list is allowed to lose ten records a day.
const HOURS_OF_A_STEP: i64 = 2;
/// Thirds of an interval whose pages a lagging server may still show.
const OLDER_PAGES: usize = 8;

const LISTED_BY: [ListedBy; 3] = [ListedBy::Id, ListedBy::CreatedAt, ListedBy::Change];
const LIVES: [Life; 5] = [
    Life::Still,
    Life::Saves,
    Life::Quiet,
    Life::Busy,
    Life::Flood,
];

/// What is drawn for each shop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Shops of each order and each life.
    pub(crate) shops: u64,
    /// `None` is each in turn.
    pub(crate) listed_by: Option<ListedBy>,
    /// `None` is each in turn.
    pub(crate) life: Option<Life>,
    /// Part of the pages that a lagging server answers.
    pub(crate) lagging: f64,
    /// Whether the workspace hides finished records one by one.
    pub(crate) archives: bool,
    pub(crate) seed: u64,
}

/// What the shops of one order and one life came to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Outcome {
    pub(crate) listed_by: ListedBy,
    pub(crate) life: Life,
    pub(crate) tally: Tally,
}

pub(crate) fn run(settings: &Settings) -> Vec<Outcome> {
    let mut random = Rng::with_seed(settings.seed);
    let mut outcomes = Vec::new();
    for listed_by in LISTED_BY {
        for life in LIVES {
            // Each kind has a sequence of its own, so that one alone gives the same figures.
            let mut random = random.fork();
            let is_wanted = settings.listed_by.is_none_or(|wanted| wanted == listed_by)
                && settings.life.is_none_or(|wanted| wanted == life);
            if !is_wanted {
                continue;
            }
            let mut tally = Tally::default();
            for _ in 0..settings.shops {
                let shop = Shop::draw(&mut random, listed_by, life);
                tally.add(&shop.live(&mut random, settings));
            }
            outcomes.push(Outcome {
                listed_by,
                life,
                tally,
            });
        }
    }
    outcomes
}

/// How a lagging server answers.
#[derive(Debug, Clone, Copy)]
enum Lag {
    /// With an older page.
    Older { pages: usize },
    /// Without the records that were created last, and with every change of the others.
    LacksNewest { records: usize },
}

impl Lag {
    /// With the number of further pages that are answered so. Nothing shows that a record is there
    /// which two pages in a row leave out, and which are up to date in all else.
    fn draw(random: &mut Rng) -> (Self, u32) {
        if random.u8(..3) < 2 {
            let pages = random.usize(2..=7);
            (Self::Older { pages }, random.u32(..3) / 2)
        } else {
            let records = random.usize(1..=10);
            (Self::LacksNewest { records }, 0)
        }
    }
}

/// The lists of the businesses.
struct Lists {
    pollers: Vec<Poller>,
    /// When each list gave the last page that was no gap and no suspect.
    proven_at: Vec<Timestamp>,
    mirror: Mirror,
}

struct Shop {
    life: Life,
    world: World,
    lists: Lists,
    /// What each list showed in the last thirds of an interval.
    past: Vec<Vec<Vec<Shown>>>,
    lag: Vec<Option<(Lag, u32)>>,
    /// The records that were deleted, and whether the last page of their list had shown them.
    deleted: HashMap<i64, bool>,
    marked: HashSet<i64>,
    tally: Tally,
}

impl Shop {
    fn draw(random: &mut Rng, listed_by: ListedBy, life: Life) -> Self {
        let businesses = random.usize(1..=2);
        let mut world = World::new(listed_by, businesses);
        let first = random.choice([4, 30, 95, 300, 600]).unwrap_or(4);
        for business in 0..businesses {
            for _ in 0..first {
                world.pass(60.0);
                world.create(business, false);
            }
        }
        let mut pollers = Vec::new();
        pollers.resize_with(businesses, || Poller::new(LIMIT, false));
        Self {
            life,
            world,
            lists: Lists {
                pollers,
                proven_at: vec![Timestamp::MIN; businesses],
                mirror: Mirror::default(),
            },
            past: vec![Vec::new(); businesses],
            lag: vec![None; businesses],
            deleted: HashMap::new(),
            marked: HashSet::new(),
            tally: Tally::default(),
        }
    }

    fn live(mut self, random: &mut Rng, settings: &Settings) -> Tally {
        let mut due = vec![0; self.lists.pollers.len()];
        for step in 1..STEPS {
            // Restarts, and commands that poll once.
            let pause = if random.f64() < 0.01 {
                random.choice([10, 40]).unwrap_or(10)
            } else {
                1
            };
            for _ in 0..3 * pause {
                self.pass_third(random);
            }
            self.hide(random, settings);
            for (business, due) in due.iter_mut().enumerate() {
                if *due > step {
                    continue;
                }
                // The second list is polled at times of its own.
                let longest = if business == 0 { 1 } else { 4 };
                *due = step + random.u32(1..=longest);
                self.poll(random, settings, business, step);
            }
        }
        for (id, was_on_page) in &self.deleted {
            self.tally.deleted += 1;
            self.tally.deleted_from_page += u64::from(*was_on_page);
            self.tally.found += u64::from(self.marked.contains(id));
        }
        self.tally
    }

    fn pass_third(&mut self, random: &mut Rng) {
        let businesses = self.lists.pollers.len();
        for business in 0..businesses {
            for id in self.life.pass(&mut self.world, random, business) {
                let own = self.world.record(id).business;
                let head = self.lists.pollers[own].head();
                self.deleted.insert(id, head.contains(&id));
            }
        }
        for business in 0..businesses {
            let page = self.world.page(random, business, LIMIT, 0);
            let past = &mut self.past[business];
            past.push(page);
            if past.len() > OLDER_PAGES {
                past.remove(0);
            }
        }
    }

    /// A workspace that no longer lists finished records, and a filter.
    fn hide(&mut self, random: &mut Rng, settings: &Settings) {
        if settings.archives && random.f64() < 0.2 {
            let rows = self.world.newest(0, 80);
            if let Some(id) = random.choice(rows.into_iter().skip(10)) {
                self.world.remove(id, Presence::Hidden);
                self.tally.hidden += 1;
            }
        }
        if random.f64() < 0.003 {
            let mut rows = self.world.newest(0, LIMIT);
            random.shuffle(&mut rows);
            rows.truncate(40);
            for id in rows {
                self.world.remove(id, Presence::Hidden);
                self.tally.hidden += 1;
            }
        }
    }

    /// What a request is answered with, by a lagging server now and then.
    fn answer(&mut self, random: &mut Rng, settings: &Settings, business: usize) -> Vec<Shown> {
        let lag = match self.lag[business].take() {
            Some(lag) => Some(lag),
            None if random.f64() < settings.lagging => Some(Lag::draw(random)),
            None => None,
        };
        let Some((lag, more)) = lag else {
            return self.world.page(random, business, LIMIT, 0);
        };
        if more > 0 {
            self.lag[business] = Some((lag, more - 1));
        }
        match lag {
            Lag::Older { pages } => {
                let past = &self.past[business];
                past[past.len().saturating_sub(pages)].clone()
            }
            Lag::LacksNewest { records } => self.world.page(random, business, LIMIT, records),
        }
    }

    fn poll(&mut self, random: &mut Rng, settings: &Settings, business: usize, step: u32) {
        let page = self.answer(random, settings, business);
        let at = Timestamp::from_second(i64::from(step) * HOURS_OF_A_STEP * 3_600)
            .expect("a few weeks after 1970");
        self.tally.polls += 1;
        for id in self.lists.read(business, &page, at, &mut self.tally) {
            self.judge(id, business);
        }
    }

    /// Compares a mark with the truth.
    fn judge(&mut self, id: i64, business: usize) {
        self.tally.marked += 1;
        self.marked.insert(id);
        let record = self.world.record(id);
        match record.presence {
            Presence::Deleted => {}
            Presence::Hidden => self.tally.hidden_marked += 1,
            Presence::InList if record.business == business => self.tally.wrong += 1,
            Presence::InList => {
                let is_shown = self.lists.pollers[record.business].head().contains(&id);
                if is_shown {
                    self.tally.moved_and_shown += 1;
                } else {
                    self.tally.moved_and_not_shown += 1;
                }
            }
        }
    }
}

impl Lists {
    /// Reads a page; which records are marked as vanished.
    fn read(
        &mut self,
        business: usize,
        page: &[Shown],
        at: Timestamp,
        tally: &mut Tally,
    ) -> Vec<i64> {
        let verdict = self.pollers[business].read(&mut self.mirror, page, at);
        let shown: HashSet<String> = page.iter().map(|record| record.id.to_string()).collect();
        for (other, poller) in self.pollers.iter_mut().enumerate() {
            if other != business {
                poller
                    .vanishing
                    .end(|candidate| shown.contains(&candidate.id));
            }
        }
        if verdict == Contiguity::Stale {
            return Vec::new();
        }
        if verdict.is_proven() {
            self.proven_at[business] = at;
        }
        let proven_at = &self.proven_at;
        let is_absent_elsewhere = |since: Timestamp| {
            let mut others = proven_at.iter().enumerate();
            others.all(|(other, proven_at)| other == business || *proven_at > since)
        };
        let vanishing = &mut self.pollers[business].vanishing;
        let confirmed = vanishing.take_confirmed(|candidate| is_absent_elsewhere(candidate.since));
        if !vanishing.may_mark(confirmed.len(), at) {
            tally.withheld += confirmed.len() as u64;
            return Vec::new();
        }
        confirmed
            .iter()
            .filter_map(|candidate| candidate.id.parse().ok())
            .collect()
    }
}

#[cfg(test)]
mod tests;
