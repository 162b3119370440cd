//! Judges the rule of what a page proves ([`shopmirror_core::contiguity`]) against lists whose
//! truth is known.
//!
//! Each list is drawn: its order, its ids, its times, whether a lagging server answers now and
//! then. It is polled sixty times; between two polls happens what its load says. Rates are far
//! above a real shop's. Pure: no clock, no I/O, the same seed gives the same run.

mod bursts;
mod ends;
mod goals;
mod list;
mod poller;
mod table;
mod tally;

use std::collections::{BTreeMap, HashSet};

use clap::ValueEnum;
use fastrand::Rng;
use serde::Serialize;
use shopmirror_core::contiguity::{Contiguity, Order};

pub(crate) use self::bursts::{bursts_table, missed_bursts, run as run_bursts};
pub(crate) use self::ends::{EndsOutcome, Server, ends_table, missed_ends, run as run_ends};
pub(crate) use self::goals::missed_goals;
pub(crate) use self::table::table;
pub(crate) use self::tally::Tally;

pub(crate) use self::list::Shown;
use self::list::{Event, Ids, List, Page, Ties};
pub(crate) use self::poller::{Mirror, Poller};

/// Records of a page.
const LIMIT: usize = 100;
/// Polls of one list, without its first.
const POLLS_PER_LIST: u64 = 60;
const SECONDS_BETWEEN_POLLS: i64 = 10;
/// Part of the pages that a lagging server answers, where there is one.
const LAGGING: f64 = 0.1;
/// Older states of the list that a lagging server may show.
const OLDER_STATES: usize = 6;

/// What happens between two polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Load {
    /// Up to 160 creations, 140 edits, 100 saves that change nothing and 30 deletions.
    Mix,
    /// Mostly calm; before 6 of 100 polls the mix.
    Life,
}

/// What the polls of one load came to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Outcome {
    pub(crate) load: Load,
    /// All lists.
    pub(crate) all: Tally,
    /// Lists whose ids keep growing as they did.
    pub(crate) steady: Tally,
    /// Lists in whose sequence another business imports records, or whose step changes.
    pub(crate) unsteady: Tally,
    /// Lists that are shown in another order at each request, or now and then without their newest
    /// records.
    pub(crate) restless: Tally,
}

/// Polls drawn lists this many times in all.
pub(crate) fn run(load: Load, polls: u64, seed: u64) -> Outcome {
    let mut random = Rng::with_seed(seed);
    let mut outcome = Outcome {
        load,
        all: Tally::default(),
        steady: Tally::default(),
        unsteady: Tally::default(),
        restless: Tally::default(),
    };
    for _ in 0..polls.div_ceil(POLLS_PER_LIST) {
        let setting = Setting::draw(&mut random, load);
        let tally = setting.poll_list(&mut random);
        outcome.all.add(&tally);
        if setting.is_restless() {
            outcome.restless.add(&tally);
        } else if setting.is_unsteady() {
            outcome.unsteady.add(&tally);
        } else {
            outcome.steady.add(&tally);
        }
    }
    outcome
}

/// Which server lags behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lag {
    None,
    /// One that shows an older state of the list.
    OlderState,
    /// One that lacks up to 20 of the newest records, and shows every edit of the others.
    LacksNewest,
}

/// What a list is like.
struct Setting {
    load: Load,
    order: Order,
    ids: Ids,
    ties: Ties,
    lag: Lag,
}

impl Setting {
    fn draw(random: &mut Rng, load: Load) -> Self {
        let order = match random.u8(..2) {
            0 => Order::ByCreation,
            _ => Order::ByChange,
        };
        let ids = match random.u8(..8) {
            0 => Ids::Dense,
            1 => Ids::Sparse,
            2 => Ids::Shared(2),
            3 => Ids::Shared(4),
            4 => Ids::Shared(10),
            5 => Ids::Text,
            6 => Ids::SharedWithImports(4),
            _ => Ids::StepChanges,
        };
        let mut ties = match random.u8(..4) {
            0 => Ties::SavedLastFirst,
            1 => Ties::LowestIdFirst,
            _ => Ties::None,
        };
        let mut lag = Lag::None;
        match random.u8(..12) {
            0 => ties = Ties::Shuffled,
            1 => lag = Lag::OlderState,
            2 => lag = Lag::LacksNewest,
            _ => {}
        }
        Self {
            load,
            order,
            ids,
            ties,
            lag,
        }
    }

    fn is_restless(&self) -> bool {
        self.ties == Ties::Shuffled || self.lag == Lag::LacksNewest
    }

    fn is_unsteady(&self) -> bool {
        matches!(self.ids, Ids::SharedWithImports(_) | Ids::StepChanges)
    }

    fn poll_list(&self, random: &mut Rng) -> Tally {
        let mut list = List::new(self.order, self.ids, self.ties);
        for _ in 0..random.u32(20..420) {
            list.pass_seconds(SECONDS_BETWEEN_POLLS);
            list.create(random);
        }
        for _ in 0..60 {
            list.pass_seconds(SECONDS_BETWEEN_POLLS);
            let id = list.any(random);
            list.edit(id, false);
        }
        list.take_events();

        let mut poller = Poller::new(LIMIT, self.ids == Ids::Text);
        let mut page = list.page(random, LIMIT, &HashSet::new());
        let mut watch = Watch::new(self.order);
        poller.read(&mut watch.mirror, &page.records, page.read_at());
        let mut states = Vec::new();
        for _ in 0..POLLS_PER_LIST {
            self.live(&mut list, random, &page);
            watch.note(list.take_events());
            let mut hidden = HashSet::new();
            let is_lagging = random.f64() < LAGGING;
            if is_lagging && self.lag == Lag::LacksNewest {
                hidden = list.created_last(random.usize(1..=20));
            }
            page = list.page(random, LIMIT, &hidden);
            if self.lag == Lag::OlderState {
                states.push(page.clone());
                if states.len() > OLDER_STATES {
                    states.remove(0);
                }
                if is_lagging {
                    page = states[random.usize(..states.len())].clone();
                }
            }
            watch.judge(&mut poller, &page, &hidden);
        }
        watch.finish(&poller)
    }

    /// What happens between two polls. Seven of ten records that are touched are on the last page.
    fn live(&self, list: &mut List, random: &mut Rng, page: &Page) {
        let is_calm = self.load == Load::Life && random.f64() < 0.94;
        let mut left = if is_calm {
            Happenings::calm(random)
        } else {
            Happenings::mixed(random)
        };
        if matches!(self.ids, Ids::SharedWithImports(_)) && random.f64() < 0.05 {
            list.import_elsewhere(random.i64(0..=160));
        }
        let total = i64::from(left.total());
        let mut second = 0;
        while left.total() > 0 {
            // What happens is spread over the time between the polls.
            let done = total - i64::from(left.total());
            let now = done * SECONDS_BETWEEN_POLLS / total;
            list.pass_seconds(now - second);
            second = now;
            let id = if random.u8(..10) < 7 {
                page.records[random.usize(..page.records.len())].id
            } else if random.bool() {
                list.any_new(random)
            } else {
                list.any(random)
            };
            let drawn = random.u32(..left.total());
            if drawn < left.creations {
                left.creations -= 1;
                list.create(random);
            } else if drawn < left.creations + left.edits {
                left.edits -= 1;
                list.edit(id, random.u8(..4) == 0);
            } else if drawn < left.creations + left.edits + left.saves {
                left.saves -= 1;
                list.save_unchanged(id);
            } else {
                left.deletions -= 1;
                if list.len() > 30 {
                    list.delete(id);
                }
            }
        }
        list.pass_seconds(SECONDS_BETWEEN_POLLS - second);
    }
}

/// How often what happens between two polls.
struct Happenings {
    creations: u32,
    edits: u32,
    saves: u32,
    deletions: u32,
}

impl Happenings {
    fn calm(random: &mut Rng) -> Self {
        Self {
            creations: random.u32(..=2),
            edits: random.u32(..=3),
            saves: u32::from(random.u8(..8) == 0),
            deletions: u32::from(random.u8(..20) == 0),
        }
    }

    /// Little of all, or much of one or two.
    fn mixed(random: &mut Rng) -> Self {
        let (creations, edits, saves, deletions) = match random.u8(..5) {
            0 => (5, 5, 1, 0),
            1 => (160, 19, 9, 0),
            2 => (19, 140, 9, 0),
            3 => (150, 59, 100, 0),
            _ => (130, 29, 19, 30),
        };
        Self {
            creations: random.u32(..=creations),
            edits: random.u32(..=edits),
            saves: random.u32(..=saves),
            deletions: random.u32(..=deletions),
        }
    }

    fn total(&self) -> u32 {
        self.creations + self.edits + self.saves + self.deletions
    }
}

/// What no page has shown yet of a record.
#[derive(Debug, Clone, Copy)]
struct Unseen {
    is_new: bool,
    at: u64,
}

/// Compares what a poller says with what really happened.
struct Watch {
    order: Order,
    mirror: Mirror,
    unseen: BTreeMap<i64, Unseen>,
    tally: Tally,
    was_wrong: bool,
}

impl Watch {
    fn new(order: Order) -> Self {
        Self {
            order,
            mirror: Mirror::default(),
            unseen: BTreeMap::new(),
            tally: Tally::default(),
            was_wrong: false,
        }
    }

    fn note(&mut self, events: Vec<(Event, u64)>) {
        for (event, at) in events {
            match event {
                Event::Created(id) => {
                    self.unseen.insert(id, Unseen { is_new: true, at });
                }
                Event::Edited(id) => {
                    let is_new = match self.unseen.get(&id) {
                        Some(unseen) => unseen.is_new,
                        None => false,
                    };
                    self.unseen.insert(id, Unseen { is_new, at });
                }
                Event::Deleted(id) => {
                    self.unseen.remove(&id);
                }
            }
        }
    }

    /// Lets the poller read a page, and counts what it said.
    fn judge(&mut self, poller: &mut Poller, page: &Page, hidden: &HashSet<i64>) {
        let usual_steps = poller.usual_steps();
        let new_ids = poller.new_ids(&page.records);
        let verdict = poller.read(&mut self.mirror, &page.records, page.read_at());
        self.see(&page.records);
        let learned = poller.profile.order.order();
        if learned != Order::Unknown && learned != self.order {
            self.was_wrong = true;
        }
        if verdict == Contiguity::Stale {
            self.tally.stale += 1;
            return;
        }
        self.tally.polls += 1;
        let lost = self.take_lost(page.state, hidden);
        if lost.is_empty() {
            match verdict {
                Contiguity::Gap => self.tally.false_gaps += 1,
                Contiguity::Suspect => self.tally.false_suspects += 1,
                _ => {}
            }
            return;
        }
        self.tally.with_loss += 1;
        if !verdict.is_proven() {
            return;
        }
        let mut lost_new = false;
        let mut lost_edit = false;
        let mut lost_behind_wide_step = false;
        for (id, unseen) in lost {
            if !unseen.is_new {
                lost_edit = true;
                continue;
            }
            lost_new = true;
            for step in new_ids.windows(2) {
                let lies_in = step[0] < id && id < step[1];
                if lies_in && usual_steps.is_wide(step[1] - step[0]) {
                    lost_behind_wide_step = true;
                }
            }
        }
        self.tally.silent_new += u64::from(lost_new);
        self.tally.silent_edits += u64::from(lost_edit);
        self.tally.silent_behind_wide_step += u64::from(lost_behind_wide_step);
    }

    fn see(&mut self, page: &[Shown]) {
        for record in page {
            let Some(unseen) = self.unseen.get_mut(&record.id) else {
                continue;
            };
            unseen.is_new = false;
            if record.changed >= unseen.at {
                self.unseen.remove(&record.id);
            }
        }
    }

    /// What happened up to the state that a page shows, and what neither it nor an earlier one
    /// showed. A list by creation never shows an edit of a record that is not on its page.
    fn take_lost(&mut self, state: u64, hidden: &HashSet<i64>) -> Vec<(i64, Unseen)> {
        let mut lost = Vec::new();
        let mut later = BTreeMap::new();
        for (id, unseen) in std::mem::take(&mut self.unseen) {
            if unseen.at > state || hidden.contains(&id) {
                later.insert(id, unseen);
            } else if self.order == Order::ByChange || unseen.is_new {
                lost.push((id, unseen));
            }
        }
        self.unseen = later;
        lost
    }

    fn finish(mut self, poller: &Poller) -> Tally {
        self.tally.lists = 1;
        self.tally.order_learned = u64::from(poller.profile.order.order() == self.order);
        self.tally.order_wrong = u64::from(self.was_wrong);
        self.tally
    }
}

#[cfg(test)]
mod tests;
