//! Judges the rule of ids that a workspace uses again, and of workspaces that were restored from a
//! backup ([`shopmirror_core::newest`]), against workspaces whose truth is known.
//!
//! A workspace has three lists. Records are created, edited and deleted, times of creation are
//! corrected one by one and many at once, servers lag behind, and now and then the workspace is
//! restored from a backup. Pure: no clock, no I/O.

mod tally;
mod world;

use std::collections::{HashMap, HashSet, VecDeque};

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use shopmirror_core::newest::{NewestGone, NewestPage, PageIds, ReusedId, other_records};

pub(crate) use self::tally::{Tally, missed_goals, table};
use self::world::{Backup, LISTS, PARTS, Row, World};
use crate::pages::{Mirror, Poller, Shown};
use crate::vanished::ListedBy;

/// Records of a page.
const LIMIT: usize = 100;
const MINUTES_BETWEEN_POLLS: i64 = 3;
/// Steps between two backups, and how many are kept.
const BACKUP_EVERY: u32 = 10;
const BACKUPS: usize = 30;
/// Pages that a lagging server may still show: it lags for less than ten minutes.
const OLDER_PAGES: usize = 3;
const LONGEST_LAG: SignedDuration = SignedDuration::from_mins(10);
const START: i64 = 1_800_000_000;

const LISTED_BY: [ListedBy; 3] = [ListedBy::Id, ListedBy::CreatedAt, ListedBy::Change];

/// What is drawn for each workspace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Workspaces in all.
    pub(crate) workspaces: u64,
    /// Polls of each list.
    pub(crate) polls: u32,
    pub(crate) seed: u64,
}

/// What the workspaces of one order came to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Outcome {
    pub(crate) listed_by: ListedBy,
    pub(crate) tally: Tally,
}

pub(crate) fn run(settings: &Settings) -> Vec<Outcome> {
    let mut random = Rng::with_seed(settings.seed);
    let mut outcomes = Vec::new();
    for listed_by in LISTED_BY {
        let tally = Tally::default();
        outcomes.push(Outcome { listed_by, tally });
    }
    for number in 0..settings.workspaces {
        let outcome = &mut outcomes[number as usize % LISTED_BY.len()];
        let workspace = Workspace::draw(&mut random, outcome.listed_by);
        outcome
            .tally
            .add(&workspace.live(&mut random, settings.polls));
    }
    outcomes
}

/// How a lagging server answers for some pages.
#[derive(Debug, Clone, Copy)]
enum Lag {
    /// With older pages.
    Older(usize),
    /// Without the records that were created last.
    LacksNewest(usize),
}

/// What is known of one list.
struct List {
    poller: Poller,
    mirror: Mirror,
    newest_gone: Option<NewestGone>,
    vanished: HashSet<i64>,
    /// The highest id since ids were used again.
    high_id: Option<i64>,
    read_at: Timestamp,
    /// What the mirror has of each id: its time of creation, when a page showed it last, and which
    /// record it really is.
    known: HashMap<i64, Known>,
    past: VecDeque<Vec<Row>>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    created: Timestamp,
    shown_at: Timestamp,
    content: [u64; PARTS],
    identity: u64,
}

struct Workspace {
    world: World,
    lists: Vec<List>,
    backups: VecDeque<Backup>,
    lag: Option<(Lag, u32)>,
    /// When it was restored, if that took away what pages had shown, and whether it was recognised.
    restores: Vec<(Timestamp, bool)>,
    /// The pairs of lists that were called restored and are so called still.
    said: HashSet<(usize, usize)>,
    tally: Tally,
}

impl Workspace {
    fn draw(random: &mut Rng, listed_by: ListedBy) -> Self {
        let mut world = World::new(listed_by, START);
        let first = random.choice([5, 40, 300]).unwrap_or(40);
        for _ in 0..first {
            for list in 0..LISTS {
                world.create(list);
            }
            world.now += random.i64(60..1_200);
        }
        let mut lists = Vec::new();
        for _ in 0..LISTS {
            lists.push(List {
                poller: Poller::new(LIMIT, false),
                mirror: Mirror::default(),
                newest_gone: None,
                vanished: HashSet::new(),
                high_id: None,
                read_at: at(world.now),
                known: HashMap::new(),
                past: VecDeque::new(),
            });
        }
        Self {
            world,
            lists,
            backups: VecDeque::new(),
            lag: None,
            restores: Vec::new(),
            said: HashSet::new(),
            tally: Tally::default(),
        }
    }

    fn live(mut self, random: &mut Rng, polls: u32) -> Tally {
        for poll in 0..polls {
            // Restarts, nights, and commands that poll once.
            let pause = if random.u8(..100) == 0 { 60 } else { 1 };
            for _ in 0..pause {
                self.pass(random);
            }
            if poll % BACKUP_EVERY == 0 {
                self.backups.push_back(self.world.back_up());
                if self.backups.len() > BACKUPS {
                    self.backups.pop_front();
                }
            }
            if poll > 20 && random.u16(..250) == 0 {
                self.restore(random);
            }
            for list in 0..LISTS {
                let page = self.answer(random, list);
                self.read(list, &page);
            }
            self.judge_lists();
        }
        for (_, is_recognised) in &self.restores {
            self.tally.restores += 1;
            self.tally.recognised += u64::from(*is_recognised);
        }
        self.tally
    }

    /// What happens between two polls.
    fn pass(&mut self, random: &mut Rng) {
        self.world.now += 60 * MINUTES_BETWEEN_POLLS;
        for list in 0..LISTS {
            if random.u8(..3) == 0 {
                for _ in 0..random.u8(1..4) {
                    self.world.create(list);
                }
            }
            if random.u8(..2) == 0
                && let Some(id) = self.world.recent(random, list, 60)
            {
                let is_change = random.u8(..4) > 0;
                self.world.save(random, list, id, is_change);
            }
            if random.u8(..30) == 0
                && let Some(id) = self.world.recent(random, list, 40)
            {
                self.world.delete(list, id);
            }
            if random.u8(..100) == 0 {
                self.correct(random, list, 1);
            }
            if random.u16(..400) == 0 {
                let records = random.usize(2..10);
                self.correct(random, list, records);
            }
        }
        // A repair that was entered by mistake goes with its records.
        if random.u8(..100) == 0 {
            for (list, records) in [(0, 1), (1, random.u8(1..4)), (2, random.u8(..2))] {
                for _ in 0..records {
                    if let Some(id) = self.world.newest(list) {
                        self.world.delete(list, id);
                    }
                }
            }
        }
    }

    /// Corrects times of creation: to this moment, or to an earlier one.
    fn correct(&mut self, random: &mut Rng, list: usize, records: usize) {
        let is_now = random.bool();
        for _ in 0..records {
            if let Some(id) = self.world.recent(random, list, 60) {
                let earlier = if is_now { 0 } else { random.i64(0..400_000) };
                self.world.correct(list, id, self.world.now - earlier);
                self.tally.corrected += 1;
            }
        }
    }

    fn restore(&mut self, random: &mut Rng) {
        if self.backups.is_empty() {
            return;
        }
        let back = random.usize(..self.backups.len());
        self.backups.truncate(back + 1);
        self.world.restore(&self.backups[back]);
        self.lag = None;
        let mut is_seen = false;
        for (number, list) in self.lists.iter_mut().enumerate() {
            let there = self.world.identities(number);
            for id in list.poller.head() {
                is_seen |= !there.contains(&list.known[id].identity);
            }
            list.past.clear();
        }
        if is_seen {
            self.restores.push((at(self.world.now), false));
        }
    }

    /// What a request is answered with, by a lagging server now and then. Servers lag in all lists
    /// at once.
    fn answer(&mut self, random: &mut Rng, list: usize) -> Vec<Row> {
        let current = self.world.page(list, LIMIT, 0);
        let past = &mut self.lists[list].past;
        past.push_back(current.clone());
        if past.len() > OLDER_PAGES {
            past.pop_front();
        }
        if list == 0 {
            self.lag = match self.lag.take() {
                Some((lag, more)) if more > 0 => Some((lag, more - 1)),
                _ if random.u8(..60) == 0 => {
                    let lag = if random.bool() {
                        Lag::Older(random.usize(2..=OLDER_PAGES))
                    } else {
                        Lag::LacksNewest(random.usize(1..5))
                    };
                    Some((lag, random.u32(..2)))
                }
                _ => None,
            };
        }
        match self.lag {
            None => current,
            Some((Lag::Older(pages), _)) => {
                let past = &self.lists[list].past;
                past[past.len().saturating_sub(pages)].clone()
            }
            Some((Lag::LacksNewest(records), _)) => self.world.page(list, LIMIT, records),
        }
    }

    fn read(&mut self, number: usize, page: &[Row]) {
        let at = at(self.world.now);
        self.tally.polls += 1;
        let list = &mut self.lists[number];
        let others = list.other_records(page);
        let shows_newer = list.shows_newer(page) || !others.is_empty();
        for row in page {
            let id = row.shown.id;
            let Some(known) = list.known.get(&id) else {
                continue;
            };
            let is_another = known.identity != row.identity;
            let is_found = others.contains(&id);
            self.tally.reused += u64::from(is_another);
            self.tally.found += u64::from(is_another && is_found);
            self.tally.wrong += u64::from(!is_another && is_found);
            if is_found
                && is_another
                && let Some((_, is_recognised)) = self.restores.last_mut()
            {
                *is_recognised = true;
            }
            self.tally.false_restores += u64::from(is_found && !is_another);
        }
        list.store(page, at, shows_newer, !others.is_empty());
    }

    /// Whether two lists lost their newest records at once, which is said as a restore.
    fn judge_lists(&mut self) {
        for one in 0..LISTS {
            for other in one + 1..LISTS {
                let pair = (
                    self.lists[one].newest_gone.as_ref(),
                    self.lists[other].newest_gone.as_ref(),
                );
                let is_said = match pair {
                    (Some(first), Some(second)) => {
                        first.is_sure && second.is_sure && first.may_be_one_restore(second)
                    }
                    _ => false,
                };
                if !is_said {
                    self.said.remove(&(one, other));
                    continue;
                }
                let (Some(first), Some(second)) = pair else {
                    continue;
                };
                // A lagging server may have shown the state before it.
                let from = first.shown_at.min(second.shown_at) - LONGEST_LAG;
                let until = first.since.max(second.since);
                let mut is_true = false;
                for (restored_at, is_recognised) in &mut self.restores {
                    if from <= *restored_at && *restored_at <= until {
                        *is_recognised = true;
                        is_true = true;
                    }
                }
                let is_new = self.said.insert((one, other));
                self.tally.false_restores += u64::from(is_new && !is_true);
            }
        }
    }
}

impl List {
    /// The ids of the page that are taken for other records than before.
    fn other_records(&self, page: &[Row]) -> HashSet<i64> {
        let head: HashSet<i64> = self.poller.head().iter().copied().collect();
        let mut ids = Vec::new();
        let mut reused = Vec::new();
        let mut highest_before = None;
        for row in page {
            let id = row.shown.id;
            if self.mirror.had(&row.shown) {
                highest_before = highest_before.max(Some(id));
                continue;
            }
            let Some(known) = self.known.get(&id) else {
                continue;
            };
            let shown_at = if head.contains(&id) {
                self.read_at
            } else {
                known.shown_at
            };
            ids.push(id);
            reused.push(ReusedId {
                id: Some(id),
                created_at: at(row.shown.created_second),
                created_at_before: known.created,
                shown_at,
                was_missing: self.was_missing(id),
                has_other_content: row.has_other_content(&known.content),
            });
        }
        let highest = page.iter().map(|row| row.shown.id).max();
        let of_page = PageIds {
            has_lost_highest: highest.is_some() && highest < self.high_id,
            highest_before,
        };
        let others = other_records(&reused, of_page);
        let mut found = HashSet::new();
        for (id, is_other) in ids.into_iter().zip(others) {
            if is_other {
                found.insert(id);
            }
        }
        found
    }

    fn was_missing(&self, id: i64) -> bool {
        if self.vanished.contains(&id) {
            return true;
        }
        let text = id.to_string();
        let mut candidates = self.poller.vanishing.candidates().iter();
        if candidates.any(|candidate| candidate.id == text) {
            return true;
        }
        if let Some(gone) = &self.newest_gone {
            return gone.ids.contains(&text);
        }
        self.high_id.is_some_and(|high_id| id > high_id)
    }

    /// Whether a record that was never stored stands above those of the last page.
    fn shows_newer(&self, page: &[Row]) -> bool {
        let head: HashSet<i64> = self.poller.head().iter().copied().collect();
        for row in page {
            if head.contains(&row.shown.id) {
                return false;
            }
            if !self.known.contains_key(&row.shown.id) {
                return true;
            }
        }
        false
    }

    fn store(&mut self, page: &[Row], at_time: Timestamp, shows_newer: bool, has_reused: bool) {
        let before: Vec<String> = self.poller.head().iter().map(i64::to_string).collect();
        let ids: Vec<String> = page.iter().map(|row| row.shown.id.to_string()).collect();
        let shown: HashSet<&str> = ids.iter().map(String::as_str).collect();
        let page_facts = NewestPage {
            before: &before,
            before_at: self.read_at,
            shown: &shown,
            shows_newer,
            at: at_time,
        };
        let newest_gone = NewestGone::after_page(self.newest_gone.as_ref(), page_facts);
        let rows: Vec<Shown> = page.iter().map(|row| row.shown).collect();
        self.poller.read(&mut self.mirror, &rows, at_time);
        self.newest_gone = newest_gone;
        for candidate in self.poller.vanishing.take_confirmed(|_| true) {
            self.vanished.extend(candidate.id.parse::<i64>().ok());
        }
        self.read_at = at_time;
        for row in page {
            let id = row.shown.id;
            self.vanished.remove(&id);
            let known = Known {
                created: at(row.shown.created_second),
                shown_at: at_time,
                content: row.content,
                identity: row.identity,
            };
            self.known.insert(id, known);
        }
        let highest = page.iter().map(|row| row.shown.id).max();
        self.high_id = if has_reused {
            highest
        } else {
            self.high_id.max(highest)
        };
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}

#[cfg(test)]
mod tests;
