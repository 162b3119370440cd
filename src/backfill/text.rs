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
        Self { given, plain }
    }
}

impl Matching {
    /// True if a search for `term` finds this customer; `plain` is `term` in lower case.
    pub(super) fn finds(self, texts: &Texts, term: &str, plain: &str) -> bool {
        (0..texts.given.len()).any(|field| self.finds_in(field, texts, term, plain))
    }

    /// As [`Self::finds`], in one field only.
    pub(super) fn finds_in(self, field: usize, texts: &Texts, term: &str, plain: &str) -> bool {
        let (text, term) = if self.case_matters {
            (&texts.given[field], term)
        } else {
            (&texts.plain[field], plain)
        };
        match self.place {
            TermPlace::Anywhere => text.contains(term),
            TermPlace::FieldStart => text.starts_with(term),
            TermPlace::WordStart => text.match_indices(term).any(|(at, _)| is_word_start(text, at)),
        }
    }

    /// Calls `each` with every term that may find this customer, as it is sent, and the index of its
    /// field.
    pub(super) fn terms<'t>(self, texts: &'t Texts, mut each: impl FnMut(usize, &'t str)) {
        for (part, field) in texts.given.iter().enumerate() {
            let starts: Vec<usize> =
                field.char_indices().map(|(at, _)| at).chain([field.len()]).collect();
            let count = starts.len() - 1;
            if (1..=LONGEST_TERM).contains(&count) {
                each(part, field);
            }
            for (from, &at) in starts[..count].iter().enumerate() {
                let wanted = match self.place {
                    TermPlace::Anywhere => true,
                    TermPlace::WordStart => is_word_start(field, at),
                    TermPlace::FieldStart => at == 0,
                };
                if !wanted {
                    continue;
                }
                for length in SHORTEST..=LONGEST.min(count - from) {
                    let term = &field[at..starts[from + length]];
                    // The workspace may remove white space at an end.
                    if term.trim().len() == term.len() && length < count {
                        each(part, term);
                    }
                }
            }
        }
    }

    /// A hash that is equal for terms that this way of matching does not distinguish.
    pub(super) fn key(self, term: &str) -> u64 {
        if self.case_matters {
            hash(term.bytes())
        } else if term.is_ascii() {
            hash(term.bytes().map(|byte| byte.to_ascii_lowercase()))
        } else {
            hash(term.to_lowercase().bytes())
        }
    }
}

fn is_word_start(field: &str, at: usize) -> bool {
    !field[..at].chars().next_back().is_some_and(char::is_alphanumeric)
}

/// FNV-1a, 64 bits.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
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

pub(super) type ByKey<T> = std::collections::HashMap<u64, T, BuildHasherDefault<Same>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_term_of_a_customer_finds_them_in_the_same_way() {
        let texts = Texts::new([" Zoë van Dyk", "Zoe.Dyk7@example.com", "07700 900123"]);
        for way in WAYS {
            let mut count = 0;
            way.terms(&texts, |_, term| {
                count += 1;
                assert!(way.finds(&texts, term, &term.to_lowercase()), "{way:?} {term:?}");
            });
            assert!(count > 10, "{way:?} {count}");
        }
    }

    #[test]
    fn the_ways_differ_in_where_a_term_stands() {
        let texts = Texts::new(["Ann Lee", "", ""]);
        let finds = |place, term: &str| {
            Matching { place, case_matters: false }.finds(&texts, term, &term.to_lowercase())
        };
        assert!(finds(TermPlace::Anywhere, "nn L") && !finds(TermPlace::WordStart, "nn L"));
        assert!(finds(TermPlace::WordStart, "lee") && !finds(TermPlace::FieldStart, "lee"));
        assert!(finds(TermPlace::FieldStart, "ANN"));
        assert!(
            !Matching { place: TermPlace::FieldStart, case_matters: true }
                .finds(&texts, "ANN", "ann")
        );
    }
}
