//! What a search term matches: the text of the fields, and the ways in which a workspace may match.
//!
//! The contract says that name, e-mail and mobile number are searched, but not how. Every way here is
//! "contains, letter case ignored" or narrower.

use std::hash::{BuildHasherDefault, Hasher};

/// The fields of one customer that a search looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Texts {
    /// As received.
    pub(super) given: [String; 3],
    /// In lower case.
    pub(super) plain: [String; 3],
    /// The pairs of the fields in lower case.
    pairs: Pairs,
}

/// A term as it is sent, and what it is compared by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    given: String,
    /// In lower case.
    plain: String,
    pairs: Pairs,
}

/// A set that holds each two neighbouring bytes of some texts, and maybe others. A text whose set
/// lacks a pair of a term does not contain the term, which is seen without a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pairs(u128);

impl Pairs {
    fn of<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        let mut pairs = 0;
        for text in texts {
            for two in text.as_bytes().windows(2) {
                let number = u32::from(two[0]).wrapping_mul(37).wrapping_add(u32::from(two[1]));
                pairs |= 1 << (number % 128);
            }
        }
        Self(pairs)
    }

    fn may_contain(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }
}

impl Term {
    pub(super) fn new(term: &str) -> Self {
        let plain = term.to_lowercase();
        Self { given: term.to_owned(), pairs: Pairs::of([plain.as_str()]), plain }
    }
}

/// Where in a field a term must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TermPlace {
    Anywhere,
    WordStart,
    FieldStart,
}

/// One way of matching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Matching {
    pub(super) place: TermPlace,
    pub(super) case_matters: bool,
}

/// Every way, the most likely first.
pub(super) const WAYS: [Matching; 6] = [
    Matching { place: TermPlace::Anywhere, case_matters: false },
    Matching { place: TermPlace::WordStart, case_matters: false },
    Matching { place: TermPlace::FieldStart, case_matters: false },
    Matching { place: TermPlace::Anywhere, case_matters: true },
    Matching { place: TermPlace::WordStart, case_matters: true },
    Matching { place: TermPlace::FieldStart, case_matters: true },
];

/// The shortest and the longest part of a field that is considered as a term, in characters.
const SHORTEST: usize = 2;
const LONGEST: usize = 9;
/// The longest whole field that is considered as a term: the longest term that the workspace accepts.
const LONGEST_TERM: usize = 100;

impl Texts {
    pub(super) fn new(given: [&str; 3]) -> Self {
        let given = given.map(|text| text.trim().to_owned());
        let plain = given.clone().map(|text| text.to_lowercase());
        let pairs = Pairs::of(plain.iter().map(String::as_str));
        Self { given, plain, pairs }
    }
}

impl Matching {
    /// True if a search for `term` finds this customer.
    pub(super) fn finds(self, texts: &Texts, term: &Term) -> bool {
        self.may_find(texts, term)
            && (0..texts.given.len()).any(|field| self.finds_in(field, texts, term))
    }

    /// False if a search for `term` cannot find this customer.
    pub(super) fn may_find(self, texts: &Texts, term: &Term) -> bool {
        self.case_matters || texts.pairs.may_contain(term.pairs)
    }

    /// As [`Self::finds`], in one field only.
    pub(super) fn finds_in(self, field: usize, texts: &Texts, term: &Term) -> bool {
        let (text, term) = if self.case_matters {
            (&texts.given[field], &term.given)
        } else {
            (&texts.plain[field], &term.plain)
        };
        let term = term.as_str();
        match self.place {
            TermPlace::Anywhere => text.contains(term),
            TermPlace::FieldStart => text.starts_with(term),
            TermPlace::WordStart => text.match_indices(term).any(|(at, _)| is_word_start(text, at)),
        }
    }

    /// Calls `each` with every term that may find this customer, as it is sent, the index of its
    /// field and its [`key`](Self::key).
    pub(super) fn terms<'t>(self, texts: &'t Texts, mut each: impl FnMut(usize, &'t str, u64)) {
        for (part, field) in texts.given.iter().enumerate() {
            let starts: Vec<usize> =
                field.char_indices().map(|(at, _)| at).chain([field.len()]).collect();
            let count = starts.len() - 1;
            if (1..=LONGEST_TERM).contains(&count) {
                each(part, field, self.key(field));
            }
            let is_ascii = field.is_ascii();
            let is_space: Vec<bool> = field.chars().map(char::is_whitespace).collect();
            for (from, &at) in starts[..count].iter().enumerate() {
                let wanted = match self.place {
                    TermPlace::Anywhere => true,
                    TermPlace::WordStart => is_word_start(field, at),
                    TermPlace::FieldStart => at == 0,
                };
                // The workspace may remove white space at an end.
                if !wanted || is_space[from] {
                    continue;
                }
                let mut key = HASH_OF_NOTHING;
                for length in 1..=LONGEST.min(count - from) {
                    let (last, end) = (starts[from + length - 1], starts[from + length]);
                    if is_ascii {
                        key = self.hash_more(key, field.as_bytes()[last]);
                    }
                    if length < SHORTEST || length == count || is_space[from + length - 1] {
                        continue;
                    }
                    let term = &field[at..end];
                    each(part, term, if is_ascii { key } else { self.key(term) });
                }
            }
        }
    }

    /// A hash that is equal for terms that this way of matching does not distinguish.
    pub(super) fn key(self, term: &str) -> u64 {
        if self.case_matters || term.is_ascii() {
            term.bytes().fold(HASH_OF_NOTHING, |key, byte| self.hash_more(key, byte))
        } else {
            hash(term.to_lowercase().bytes())
        }
    }

    /// The key of a term with one more byte, which is ASCII unless the letter case matters.
    fn hash_more(self, key: u64, byte: u8) -> u64 {
        hash_more(key, if self.case_matters { byte } else { byte.to_ascii_lowercase() })
    }
}

fn is_word_start(field: &str, at: usize) -> bool {
    !field[..at].chars().next_back().is_some_and(char::is_alphanumeric)
}

const HASH_OF_NOTHING: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, 64 bits.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(HASH_OF_NOTHING, hash_more)
}

/// The hash of one more byte.
fn hash_more(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
}

/// A hasher for keys that are already hashes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash(bytes.iter().copied());
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

pub(super) type Keys = std::collections::HashSet<u64, BuildHasherDefault<Same>>;
pub(super) type ByKey<T> = std::collections::HashMap<u64, T, BuildHasherDefault<Same>>;
