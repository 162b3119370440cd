//! The search terms of a backfill: each letter and digit, and where a search shows as many
//! customers as it can, the same with one more character: `a`, then `an`, then `ann`.
//!
//! Pure. A search that shows fewer than it can shows all that match. So this needs no knowledge of
//! how the workspace matches a term, only that a longer term has fewer matches. A term gets longer
//! only by a character that follows it in the texts of stored customers: few searches are spent on
//! `xq`.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use super::{MAX_SHOWN, MAX_TERM};

/// A backfill ends after this many searches in a row that find no new customer.
const MAX_FRUITLESS: usize = 200;

/// The terms that are still to be searched.
#[derive(Debug)]
pub struct Prefixes {
    open: VecDeque<String>,
    /// Searches since the last that found someone.
    fruitless: usize,
}

impl Prefixes {
    /// The terms that are left after those that earlier runs searched, each with how many customers
    /// it showed. `texts` holds the names, e-mail addresses and numbers of the stored customers, one
    /// a line.
    #[must_use]
    pub fn resume(texts: &str, searched: &[(String, u32)]) -> Self {
        let mut roots = followers("", texts);
        roots.retain(|root| root.chars().all(char::is_alphanumeric));
        for character in ('a'..='z').chain('0'..='9') {
            let root = character.to_string();
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
        let mut walk = Self {
            open: roots.into(),
            fruitless: 0,
        };
        let mut shown_by_term = HashMap::new();
        for (term, shown) in searched {
            shown_by_term.insert(term.as_str(), *shown);
        }
        let mut left = VecDeque::new();
        while let Some(term) = walk.open.pop_front() {
            match shown_by_term.get(term.as_str()) {
                Some(shown) => walk.lengthen(&term, *shown as usize, texts),
                None => left.push_back(term),
            }
        }
        walk.open = left;
        walk
    }

    /// Takes the next term; `None` if there is nothing left to search or the latest searches found
    /// no one.
    pub fn take(&mut self) -> Option<String> {
        if self.fruitless < MAX_FRUITLESS {
            self.open.pop_front()
        } else {
            None
        }
    }

    /// Notes how many customers a term showed and how many of them were new; `texts` has these too.
    pub fn searched(&mut self, term: &str, shown: usize, new: usize, texts: &str) {
        self.fruitless = if new > 0 { 0 } else { self.fruitless + 1 };
        self.lengthen(term, shown, texts);
    }

    /// How many terms are left so far; a search may add some.
    #[must_use]
    pub fn left(&self) -> usize {
        self.open.len()
    }

    /// Adds the longer terms if there may be more matches than were shown.
    fn lengthen(&mut self, term: &str, shown: usize, texts: &str) {
        if shown >= MAX_SHOWN && term.chars().count() < MAX_TERM {
            self.open.extend(followers(term, texts));
        }
    }
}

/// A term with each character that follows it in a text, the most frequent first. Letter case does
/// not count; the workspace may remove white space at the end of a term.
fn followers(term: &str, texts: &str) -> Vec<String> {
    let texts = texts.to_lowercase();
    let mut counts: HashMap<char, usize> = HashMap::new();
    let mut rest = texts.as_str();
    while let Some(at) = rest.find(term) {
        let Some(next) = rest[at + term.len()..].chars().next() else {
            break;
        };
        if !next.is_whitespace() && !next.is_control() {
            *counts.entry(next).or_default() += 1;
        }
        let mut after = rest[at..].chars();
        after.next();
        rest = after.as_str();
    }
    let mut counted: Vec<(char, usize)> = counts.into_iter().collect();
    counted.sort_by_key(|(next, count)| (Reverse(*count), *next));
    let mut longer = Vec::new();
    for (next, _) in counted {
        longer.push(format!("{term}{next}"));
    }
    longer
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A workspace that shows the newest matches of a term, and what is known of it.
    struct Shop {
        customers: Vec<String>,
        known: BTreeSet<String>,
        searched: Vec<(String, u32)>,
    }

    impl Shop {
        /// The newest customers are known from the first page.
        fn new(customers: Vec<String>) -> Self {
            let known = customers.iter().rev().take(100).cloned().collect();
            Self {
                customers,
                known,
                searched: Vec::new(),
            }
        }

        fn texts(&self) -> String {
            self.known.iter().cloned().collect::<Vec<_>>().join("\n")
        }

        /// Continues where the last walk stopped, with `most` searches.
        fn walk(&mut self, most: usize) {
            let mut walk = Prefixes::resume(&self.texts(), &self.searched);
            for _ in 0..most {
                let Some(term) = walk.take() else { break };
                let texts = self.customers.iter().rev();
                let matches = texts.filter(|text| text.to_lowercase().contains(&term));
                let shown: Vec<String> = matches.take(MAX_SHOWN).cloned().collect();
                let before = self.known.len();
                let count = shown.len();
                self.searched
                    .push((term.clone(), u32::try_from(count).unwrap()));
                self.known.extend(shown);
                walk.searched(&term, count, self.known.len() - before, &self.texts());
            }
        }
    }

    #[test]
    fn nearly_every_customer_is_found_although_the_walk_is_interrupted() {
        let mut random = fastrand::Rng::with_seed(3);
        let syllables = [
            "ba", "che", "di", "fo", "gu", "ki", "lö", "ma", "ne", "pra", "zał",
        ];
        let mut word = |parts: usize| -> String {
            (0..parts)
                .map(|_| syllables[random.usize(..syllables.len())])
                .collect()
        };
        let name = |_| format!("{} {}", word(2), word(3));
        let customers: Vec<String> = (0..500).map(name).collect();
        let mut shop = Shop::new(customers);
        shop.walk(50);
        assert!(shop.searched.len() == 50 && shop.known.len() < 450);
        shop.walk(usize::MAX);
        let known = shop.known.len();
        let searches = shop.searched.len();
        assert!(
            known >= 495 && searches < 1_000,
            "{known} known after {searches} searches"
        );
        let terms: BTreeSet<&String> = shop.searched.iter().map(|(term, _)| term).collect();
        assert_eq!(terms.len(), searches, "no term is searched twice");
    }

    #[test]
    fn a_walk_ends_although_more_customers_have_one_name_than_a_search_shows() {
        let mut shop = Shop::new(vec!["Walk-in customer".to_owned(); 40]);
        shop.walk(usize::MAX);
        assert!(
            shop.searched.len() <= MAX_FRUITLESS,
            "{} searches",
            shop.searched.len()
        );
    }

    #[test]
    fn a_longer_term_ends_with_what_follows_in_a_text() {
        assert_eq!(
            followers("an", "Anna\nHans An\nIVAN P\nann@x"),
            ["ann", "ans"]
        );
        assert_eq!(Prefixes::resume("Öz", &[]).left(), 1 + 26 + 10);
    }
}
