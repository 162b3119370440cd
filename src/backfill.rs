//! Which customer search to make next, so that a customer list much longer than a page is walked
//! with few requests.
//!
//! Pure. A search shows the newest 25 matches. One with fewer shows all there are: its term is
//! closed, and nobody unseen can match it. Whoever is still unseen resembles the known customers
//! that no closed term matches, so the next term is the part of such a customer's name, e-mail or
//! number that promises most unseen customers without overflowing 25. Begun anywhere it goes on
//! from what is known and the terms asked so far.

mod text;

use std::collections::{HashMap, HashSet};

use text::{ByKey, Matching, Texts, WAYS};

/// Matches that one search shows at most (contract, "Limits").
pub const MOST_SHOWN: usize = 25;
/// Customers whose parts are counted; of more than these the rest are only known by their id.
const MOST_COUNTED: usize = 20_000;
/// Customers whose parts are considered for one choice.
const POOL: usize = 48;
/// What a customer that `n` closed terms of one kind match says about others like them that are
/// unseen.
const WEIGHTS: [f32; 4] = [1.0, 0.1, 0.01, 0.001];
/// The kinds of terms that are independent of each other: name and e-mail go together.
const KINDS: [usize; 3] = [0, 0, 1];
/// How much of what was learned about the yield is kept at each answer.
const MEMORY: f64 = 0.8;
/// Unseen customers for each known one that is as good as uncovered, before anything is learned.
const FIRST_RATIO: f64 = 8.0;
/// How much more the unseen matches of a term vary than by chance alone.
const OVERDISPERSION: f64 = 0.3;
/// What a new customer is worth in an answer that overflows and so leaves its term open, halved.
const OPEN: f64 = 0.25;
/// A walk is over when its last searches brought fewer than this each, …
const SPENT: f64 = 0.05;
/// … reckoned over about so many.
const LATEST: f64 = 40.0;

/// A customer as a search shows them.
#[derive(Debug, Clone, Copy)]
pub struct Customer<'a> {
    /// The record's id.
    pub id: &'a str,
    /// `name`; empty when there is none, as for the others.
    pub name: &'a str,
    /// `email`
    pub email: &'a str,
    /// `mobile_number`
    pub mobile: &'a str,
}

#[derive(Debug)]
struct Person {
    texts: Texts,
    /// Whether this is a customer that is stored, and not only somebody another route names.
    known: bool,
    /// Closed terms of each kind that match.
    covered: [usize; 2],
}

impl Person {
    fn new(texts: Texts, known: bool) -> Self {
        Self { texts, known, covered: [0; 2] }
    }

    fn weights(&self) -> [f32; 2] {
        self.covered.map(|n| WEIGHTS[n.min(WEIGHTS.len() - 1)])
    }

    /// Notes a closed term; false when it does not match.
    fn cover(&mut self, way: Matching, term: &str, plain: &str) -> bool {
        let mut kinds = [false; 2];
        for (field, kind) in KINDS.into_iter().enumerate() {
            kinds[kind] |= way.finds_in(field, &self.texts, term, plain);
        }
        for (covered, matches) in self.covered.iter_mut().zip(kinds) {
            *covered += usize::from(matches);
        }
        kinds.contains(&true)
    }
}

/// What is known of one possible term.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    known: u32,
    weights: [f32; 2],
}

/// Every term by which a counted customer may be found.
#[derive(Debug, Default)]
struct Terms(ByKey<Tally>);

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

/// How a walk stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// Customers known.
    pub known: usize,
    /// Customers there may be in all.
    pub total: usize,
    /// Searches made, those of earlier runs included.
    pub asked: usize,
    /// Searches still to be made, as it looks now.
    pub to_ask: usize,
}

/// The walk through a customer list.
#[derive(Debug)]
pub struct Planner {
    way: Matching,
    /// Known customers that each way of matching was wrong about.
    wrong: [u32; WAYS.len()],
    people: Vec<Person>,
    ids: HashSet<String>,
    places: HashMap<String, usize>,
    terms: Terms,
    asked: HashSet<u64>,
    /// Closed terms, as sent and in lower case.
    closed: Vec<(String, String)>,
    searches: usize,
    /// New customers and weights of the terms asked, both fading, for each field.
    learned: [(f64, f64); 3],
    /// The field the last term was taken from.
    field: usize,
    /// New customers a search lately.
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
            asked: HashSet::new(),
            closed: Vec::new(),
            searches: 0,
            learned: [(FIRST_RATIO, 1.0); 3],
            field: 0,
            latest: MOST_SHOWN as f64 / 2.0,
            // The same walk for the same answers.
            chance: fastrand::Rng::with_seed(1),
        }
    }
}

impl Planner {
    /// Takes in a customer that is stored.
    pub fn know(&mut self, customer: Customer<'_>) {
        if self.ids.insert(customer.id.to_owned()) {
            self.count(customer, true);
        }
    }

    /// Takes in somebody that another route names, who may be a customer nobody has seen.
    pub fn suspect(&mut self, customer: Customer<'_>) {
        self.count(customer, false);
    }

    /// Takes in a search of an earlier run, and how many it showed; after every customer is known.
    pub fn asked_before(&mut self, term: &str, shown: usize) {
        self.asked.insert(self.way.key(term));
        self.searches += 1;
        if shown < MOST_SHOWN {
            self.close(term);
        }
    }

    /// The next term, or `None` when more searches would bring next to nothing.
    pub fn next_term(&mut self) -> Option<String> {
        if self.latest < SPENT {
            return None;
        }
        let pool = self.pool();
        let mut best: Vec<(f64, &str, usize)> = Vec::new();
        for (person, kind) in &pool {
            self.way.terms(&self.people[*person].texts, |field, term| {
                let key = self.way.key(term);
                if KINDS[field] == *kind
                    && !self.asked.contains(&key)
                    && let Some(tally) = self.terms.0.get(&key)
                {
                    best.push((self.gain(*tally, field), term, field));
                }
            });
        }
        best.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        best.dedup_by(|a, b| a.1 == b.1);
        let (_, term, field) = best.into_iter().find(|(_, term, _)| !self.is_closed(term))?;
        let term = term.to_owned();
        self.field = field;
        Some(term)
    }

    /// Remembers that the workspace does not take a term.
    pub fn refused(&mut self, term: &str) {
        self.asked.insert(self.way.key(term));
    }

    /// Learns from the answer to a term; says how many of the customers were new.
    pub fn answered(&mut self, term: &str, shown: &[Customer<'_>]) -> usize {
        let key = self.way.key(term);
        let tally = self.terms.0.get(&key).copied().unwrap_or_default();
        self.asked.insert(key);
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

    /// How the walk stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let weight: f64 = self.people.iter().map(|person| f64::from(person.weights()[0])).sum();
        let fields = self.learned.len();
        let ratio = (0..fields).map(|field| self.ratio(field)).sum::<f64>() / fields as f64;
        let unseen = weight * ratio;
        let known = self.ids.len();
        // The yield of a search falls with what is left, down to where the walk ends.
        let each = self.latest.max(SPENT);
        let falls = (each / SPENT).ln().max(1.0);
        Standing {
            known,
            total: known + unseen.round() as usize,
            asked: self.searches,
            to_ask: (unseen / each * falls / 2.0).ceil() as usize,
        }
    }

    /// Unseen customers for each known one that is as good as uncovered, as terms of a field
    /// have brought them.
    fn ratio(&self, field: usize) -> f64 {
        let (new, weight) = self.learned[field];
        new / weight.max(1e-6)
    }

    /// New customers that a term of a field promises.
    fn gain(&self, tally: Tally, field: usize) -> f64 {
        let most = MOST_SHOWN as f64;
        let known = f64::from(tally.known);
        let new = self.ratio(field) * f64::from(tally.weights[KINDS[field]].max(0.0));
        let all = known + new;
        let spread = (new * (1.0 + OVERDISPERSION * new)).max(0.05).sqrt();
        let fits = 1.0 / (1.0 + (-1.7 * (most - 0.5 - all) / spread).exp());
        // An answer that overflows shows the newest, who are the likelier to be known, and leaves
        // the term open.
        let fair = most * new / all.max(most);
        let worst = (most - known).max(0.0).min(fair);
        fits * new.min(most) + (1.0 - fits) * OPEN * (fair + worst)
    }

    /// Some of the customers that the fewest closed terms of each kind match, and that kind.
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
        self.closed.iter().any(|(closed, plain)| self.way.finds(&texts, closed, plain))
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

    /// Nobody unseen can match this term.
    fn close(&mut self, term: &str) {
        let plain = term.to_lowercase();
        for person in &mut self.people {
            let before = person.weights();
            if !person.cover(self.way, term, &plain) {
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
        self.closed.push((term.to_owned(), plain));
    }

    fn learn(&mut self, tally: Tally, new: f64, whole: bool) {
        self.latest += (new - self.latest) / LATEST;
        let weight = f64::from(tally.weights[KINDS[self.field]].max(0.0));
        let expected = self.ratio(self.field) * weight;
        let most = MOST_SHOWN as f64;
        let seen = if whole {
            new
        } else {
            // How many more there are is not shown; no fewer than expected.
            new.max(most - f64::from(tally.known)).max(expected)
        };
        let learned = &mut self.learned[self.field];
        learned.0 = learned.0 * MEMORY + seen;
        learned.1 = learned.1 * MEMORY + weight;
    }

    /// Compares what each way of matching would have shown of the known customers with what was shown.
    fn judge_ways(&mut self, term: &str, shown: &[Customer<'_>]) {
        let plain = term.to_lowercase();
        let ids: HashSet<usize> =
            shown.iter().filter_map(|c| self.places.get(c.id).copied()).collect();
        for (place, person) in self.people.iter().enumerate() {
            let was_shown = ids.contains(&place);
            if !person.known || !(was_shown || WAYS[0].finds(&person.texts, term, &plain)) {
                continue;
            }
            for (way, wrong) in WAYS.iter().zip(&mut self.wrong) {
                *wrong += u32::from(way.finds(&person.texts, term, &plain) != was_shown);
            }
        }
    }

    /// Goes over to another way of matching when the present one has been wrong more often.
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
            for (term, plain) in &self.closed {
                person.cover(self.way, term, plain);
            }
            self.terms.count(self.way, person);
        }
    }
}

/// What tells the terms of a customer apart, each once.
fn keys(way: Matching, texts: &Texts) -> Vec<u64> {
    let mut keys = Vec::with_capacity(256);
    way.terms(texts, |_, term| keys.push(way.key(term)));
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[cfg(test)]
mod tests;
