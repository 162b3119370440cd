//! Chooses the next customer search, so that few requests find a customer list that is much longer
//! than a page.
//!
//! Pure. A search shows the newest 25 matches. If it shows fewer, these are all matches, and its term
//! is closed: no unseen customer matches it. Unseen customers resemble known ones that no closed term
//! matches. So the next term is the part of such a customer's name, e-mail or number that promises the
//! most unseen customers without exceeding 25 matches. A walk continues from the known customers and
//! the earlier searches.

mod text;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use text::{ByKey, Keys, Matching, Term, Texts, WAYS};

/// The most matches that one search shows (contract, "Limits").
pub const MOST_SHOWN: usize = 25;
/// The most customers whose parts are counted; of the others only the id is known.
const MOST_COUNTED: usize = 20_000;
/// Customers whose parts are considered for one choice.
const POOL: usize = 48;
/// The weight of a known customer as evidence of unseen ones like them, by how many closed terms of
/// one kind match the customer.
const WEIGHTS: [f32; 4] = [1.0, 0.1, 0.01, 0.001];
/// The kind of each field. Terms of different kinds are independent; name and e-mail are one kind.
const KINDS: [usize; 3] = [0, 0, 1];
/// The part of what was learned about the yield that each response keeps.
const MEMORY: f64 = 0.8;
/// Unseen customers per known customer that no closed term matches, before anything is learned.
const FIRST_RATIO: f64 = 8.0;
/// How much more the unseen matches of a term vary than by chance alone.
const OVERDISPERSION: f64 = 0.3;
/// Half the value of a new customer in a response with 25 matches, which leaves its term open.
const OPEN: f64 = 0.25;
/// A walk ends when its latest searches found fewer new customers than this on average.
const SPENT: f64 = 0.05;
/// The number of latest searches for that average.
const LATEST: f64 = 40.0;

/// A customer as shown by a search.
#[derive(Debug, Clone, Copy)]
pub struct Customer<'a> {
    /// The record's id.
    pub id: &'a str,
    /// `name`; this and the other fields are empty if the customer has none.
    pub name: &'a str,
    /// `email`
    pub email: &'a str,
    /// `mobile_number`
    pub mobile: &'a str,
}

#[derive(Debug)]
struct Person {
    texts: Texts,
    /// True for a stored customer; false for a person in another route's record.
    known: bool,
    /// How many closed terms of each kind match.
    covered: [usize; 2],
}

impl Person {
    fn new(texts: Texts, known: bool) -> Self {
        Self { texts, known, covered: [0; 2] }
    }

    fn weights(&self) -> [f32; 2] {
        self.covered.map(|n| WEIGHTS[n.min(WEIGHTS.len() - 1)])
    }

    /// Notes a closed term; returns false if it does not match.
    fn cover(&mut self, way: Matching, term: &Term) -> bool {
        if !way.may_find(&self.texts, term) {
            return false;
        }
        let mut kinds = [false; 2];
        for (field, kind) in KINDS.into_iter().enumerate() {
            kinds[kind] |= way.finds_in(field, &self.texts, term);
        }
        for (covered, matches) in self.covered.iter_mut().zip(kinds) {
            *covered += usize::from(matches);
        }
        kinds.contains(&true)
    }
}

/// What is known about one possible term.
#[derive(Debug, Clone, Copy, Default)]
struct TermTally {
    known: u32,
    weights: [f32; 2],
}

/// Every term that may find a counted customer.
#[derive(Debug, Default)]
struct Terms(ByKey<TermTally>);

impl Terms {
    fn count(&mut self, way: Matching, person: &Person) {
        let weights = person.weights();
        for key in keys(way, &person.texts) {
            let tally = self.0.entry(key).or_default();
            tally.known += u32::from(person.known);
            for (sum, weight) in tally.weights.iter_mut().zip(weights) {
                *sum += weight;
            }
        }
    }
}

/// The progress of a walk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BackfillStatus {
    /// Known customers.
    pub known: usize,
    /// The estimated number of all customers.
    pub total: usize,
    /// Searches made, including those of earlier runs.
    pub searches: usize,
    /// The estimated number of searches that are left.
    pub searches_left: usize,
}

/// The walk through a customer list.
#[derive(Debug)]
pub struct Planner {
    way: Matching,
    /// How many known customers each way of matching was wrong about.
    wrong: [u32; WAYS.len()],
    people: Vec<Person>,
    ids: HashSet<String>,
    places: HashMap<String, usize>,
    terms: Terms,
    sent: Keys,
    closed: Vec<Term>,
    searches: usize,
    /// New customers and weights of the terms sent, for each field; older ones count less.
    learned: [(f64, f64); 3],
    /// The field of the last term.
    field: usize,
    /// New customers per search in the latest searches.
    latest: f64,
    chance: fastrand::Rng,
}

impl Default for Planner {
    fn default() -> Self {
        Self {
            way: WAYS[0],
            wrong: [0; WAYS.len()],
            people: Vec::new(),
            ids: HashSet::new(),
            places: HashMap::new(),
            terms: Terms::default(),
            sent: Keys::default(),
            closed: Vec::new(),
            searches: 0,
            learned: [(FIRST_RATIO, 1.0); 3],
            field: 0,
            latest: MOST_SHOWN as f64 / 2.0,
            // A fixed seed: the same responses give the same walk.
            chance: fastrand::Rng::with_seed(1),
        }
    }
}

impl Planner {
    /// Adds a stored customer.
    pub fn know(&mut self, customer: Customer<'_>) {
        if self.ids.insert(customer.id.to_owned()) {
            self.count(customer, true);
        }
    }

    /// Adds a person in another route's record, who may be an unseen customer.
    pub fn suspect(&mut self, customer: Customer<'_>) {
        self.count(customer, false);
    }

    /// Adds a search of an earlier run and how many matches it showed. Call it after all calls of
    /// [`Self::know`].
    pub fn searched_before(&mut self, term: &str, shown: usize) {
        self.sent.insert(self.way.key(term));
        self.searches += 1;
        if shown < MOST_SHOWN {
            self.close(term);
        }
    }

    /// The next term, or `None` if more searches would find almost no new customers.
    pub fn next_term(&mut self) -> Option<String> {
        if self.latest < SPENT {
            return None;
        }
        let pool = self.pool();
        // No gain is below 0, so the bits of two gains have the order of the gains.
        let mut best: Vec<(u64, Reverse<&str>, usize)> = Vec::new();
        for (person, kind) in &pool {
            self.way.terms(&self.people[*person].texts, |field, term, key| {
                if KINDS[field] == *kind
                    && !self.sent.contains(&key)
                    && let Some(tally) = self.terms.0.get(&key)
                {
                    best.push((self.gain(*tally, field).abs().to_bits(), Reverse(term), field));
                }
            });
        }
        // Seldom more than a few are looked at, so they are not sorted.
        let mut best = BinaryHeap::from(best);
        let (_, Reverse(mut term), mut field) = best.pop()?;
        while self.is_closed(term) {
            (_, Reverse(term), field) = best.pop()?;
        }
        let term = term.to_owned();
        self.field = field;
        Some(term)
    }

    /// Notes that the workspace refused a term.
    pub fn refused(&mut self, term: &str) {
        self.sent.insert(self.way.key(term));
    }

    /// Learns from the response to a term; returns how many of the customers were new.
    pub fn answered(&mut self, term: &str, shown: &[Customer<'_>]) -> usize {
        let key = self.way.key(term);
        let tally = self.terms.0.get(&key).copied().unwrap_or_default();
        self.sent.insert(key);
        self.searches += 1;
        let whole = shown.len() < MOST_SHOWN;
        if whole {
            self.judge_ways(term, shown);
        }
        let before = self.ids.len();
        for customer in shown {
            self.know(*customer);
        }
        let new = self.ids.len() - before;
        self.learn(tally, new as f64, whole);
        if whole {
            self.close(term);
        }
        self.choose_way();
        new
    }

    /// The progress of the walk.
    #[must_use]
    pub fn status(&self) -> BackfillStatus {
        let weight: f64 = self.people.iter().map(|person| f64::from(person.weights()[0])).sum();
        let fields = self.learned.len();
        let ratio = (0..fields).map(|field| self.ratio(field)).sum::<f64>() / fields as f64;
        let unseen = weight * ratio;
        let known = self.ids.len();
        // The fewer customers are left, the fewer a search finds, until the walk ends.
        let each = self.latest.max(SPENT);
        let falls = (each / SPENT).ln().max(1.0);
        BackfillStatus {
            known,
            total: known + unseen.round() as usize,
            searches: self.searches,
            searches_left: (unseen / each * falls / 2.0).ceil() as usize,
        }
    }

    /// Unseen customers per known customer that no closed term matches, as learned from the terms
    /// of a field.
    fn ratio(&self, field: usize) -> f64 {
        let (new, weight) = self.learned[field];
        new / weight.max(1e-6)
    }

    /// The expected value of a term of a field, in new customers.
    fn gain(&self, tally: TermTally, field: usize) -> f64 {
        let most = MOST_SHOWN as f64;
        let known = f64::from(tally.known);
        let new = self.ratio(field) * f64::from(tally.weights[KINDS[field]].max(0.0));
        let all = known + new;
        let spread = (new * (1.0 + OVERDISPERSION * new)).max(0.05).sqrt();
        let fits = 1.0 / (1.0 + (-1.7 * (most - 0.5 - all) / spread).exp());
        // A response with 25 matches shows the newest ones, which are more likely to be known, and
        // leaves the term open.
        let fair = most * new / all.max(most);
        let worst = (most - known).max(0.0).min(fair);
        fits * new.min(most) + (1.0 - fits) * OPEN * (fair + worst)
    }

    /// A sample of the customers that the fewest closed terms of each kind match, with that kind.
    fn pool(&mut self) -> Vec<(usize, usize)> {
        let mut pool: Vec<(usize, usize)> = Vec::with_capacity(POOL);
        for kind in 0..2 {
            let full = POOL * (kind + 1) / 2;
            for level in 0..WEIGHTS.len() {
                let (start, mut passed) = (pool.len(), 0);
                for (place, person) in self.people.iter().enumerate() {
                    if person.covered[kind].min(WEIGHTS.len() - 1) != level {
                        continue;
                    }
                    passed += 1;
                    if pool.len() < full {
                        pool.push((place, kind));
                    } else {
                        let at = self.chance.usize(..passed);
                        if at < full - start {
                            pool[start + at] = (place, kind);
                        }
                    }
                }
                if pool.len() == full {
                    break;
                }
            }
        }
        pool
    }

    fn is_closed(&self, term: &str) -> bool {
        let texts = Texts::new([term, "", ""]);
        self.closed.iter().any(|closed| self.way.finds(&texts, closed))
    }

    fn count(&mut self, customer: Customer<'_>, known: bool) {
        if self.people.len() >= MOST_COUNTED {
            return;
        }
        let texts = Texts::new([customer.name, customer.email, customer.mobile]);
        let person = Person::new(texts, known);
        self.terms.count(self.way, &person);
        if known {
            self.places.insert(customer.id.to_owned(), self.people.len());
        }
        self.people.push(person);
    }

    /// Marks a term as closed: no unseen customer matches it.
    fn close(&mut self, term: &str) {
        let term = Term::new(term);
        for person in &mut self.people {
            let before = person.weights();
            if !person.cover(self.way, &term) {
                continue;
            }
            let after = person.weights();
            if before != after {
                for key in keys(self.way, &person.texts) {
                    if let Some(tally) = self.terms.0.get_mut(&key) {
                        for kind in 0..2 {
                            tally.weights[kind] += after[kind] - before[kind];
                        }
                    }
                }
            }
        }
        self.closed.push(term);
    }

    fn learn(&mut self, tally: TermTally, new: f64, whole: bool) {
        self.latest += (new - self.latest) / LATEST;
        let weight = f64::from(tally.weights[KINDS[self.field]].max(0.0));
        let expected = self.ratio(self.field) * weight;
        let most = MOST_SHOWN as f64;
        let seen = if whole {
            new
        } else {
            // The response does not show how many more match: assume at least the expected number.
            new.max(most - f64::from(tally.known)).max(expected)
        };
        let learned = &mut self.learned[self.field];
        learned.0 = learned.0 * MEMORY + seen;
        learned.1 = learned.1 * MEMORY + weight;
    }

    /// Compares the known customers that each way of matching would have shown with those shown.
    fn judge_ways(&mut self, term: &str, shown: &[Customer<'_>]) {
        let term = Term::new(term);
        let ids: HashSet<usize> =
            shown.iter().filter_map(|c| self.places.get(c.id).copied()).collect();
        for (place, person) in self.people.iter().enumerate() {
            let was_shown = ids.contains(&place);
            if !person.known || !(was_shown || WAYS[0].finds(&person.texts, &term)) {
                continue;
            }
            for (way, wrong) in WAYS.iter().zip(&mut self.wrong) {
                *wrong += u32::from(way.finds(&person.texts, &term) != was_shown);
            }
        }
    }

    /// Switches to another way of matching if the current one was wrong more often.
    fn choose_way(&mut self) {
        let (way, wrong) =
            WAYS.iter().zip(&self.wrong).min_by_key(|(_, wrong)| **wrong).expect("there are ways");
        let present = WAYS.iter().position(|way| *way == self.way).expect("it is one of them");
        if self.wrong[present] <= wrong + 2 {
            return;
        }
        self.way = *way;
        self.terms.0.clear();
        for person in &mut self.people {
            person.covered = [0; 2];
            for term in &self.closed {
                person.cover(self.way, term);
            }
            self.terms.count(self.way, person);
        }
    }
}

/// The distinct keys of a customer's terms.
fn keys(way: Matching, texts: &Texts) -> Keys {
    let mut keys = Keys::with_capacity_and_hasher(256, Default::default());
    way.terms(texts, |_, _, key| _ = keys.insert(key));
    keys
}

#[cfg(test)]
mod tests;
