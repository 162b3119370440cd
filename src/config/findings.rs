//! Collects problems while a file is read, and suggests the key that was probably meant.
//!
//! Unknown keys are reported last, when the keys of every section are known, so that the message
//! for a key in the wrong section names the right one.

use std::cell::RefCell;
use std::ops::Range;

use super::problem::{Problem, Quote, named};

/// The problems noted so far.
pub(super) struct Findings<'t> {
    text: &'t str,
    problems: RefCell<Vec<Problem>>,
    known: RefCell<Vec<(String, &'static str)>>,
    unknown: RefCell<Vec<Unknown>>,
}

/// A key that no getter read.
pub(super) struct Unknown {
    pub(super) section: String,
    pub(super) key: String,
    pub(super) place: Range<usize>,
    /// The keys that the section has.
    pub(super) siblings: Vec<&'static str>,
}

impl<'t> Findings<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            problems: RefCell::default(),
            known: RefCell::default(),
            unknown: RefCell::default(),
        }
    }

    /// Notes a problem with a key, or with a value that is no secret.
    pub(super) fn note(&self, place: &Range<usize>, message: impl AsRef<str>) {
        self.push(place, Quote::Shown, message.as_ref());
    }

    /// Notes a problem with a value that may be a secret.
    pub(super) fn note_secret(&self, place: &Range<usize>, message: impl AsRef<str>) {
        self.push(place, Quote::Masked, message.as_ref());
    }

    pub(super) fn push(&self, place: &Range<usize>, quote: Quote, message: &str) {
        let problem = Problem::new(self.text, place.clone(), quote, message);
        self.problems.borrow_mut().push(problem);
    }

    /// Notes a key that no getter read; `finish` reports it.
    pub(super) fn unknown(&self, unknown: Unknown) {
        self.unknown.borrow_mut().push(unknown);
    }

    /// Notes the keys that a section has.
    pub(super) fn learn(&self, section: &str, keys: Vec<&'static str>) {
        self.known.borrow_mut().extend(keys.into_iter().map(|key| (section.to_owned(), key)));
    }

    /// Every key that a getter read, with its section.
    #[cfg(test)]
    pub(super) fn known(&self) -> Vec<(String, &'static str)> {
        self.known.borrow().clone()
    }

    /// Reports the unknown keys and returns all problems.
    pub(super) fn finish(&self) -> Vec<Problem> {
        for unknown in self.unknown.take() {
            let Unknown { section, key, place, siblings } = unknown;
            let elsewhere = self
                .known
                .borrow()
                .iter()
                .find(|(other, known)| *known == key && !other.contains('.') && !other.is_empty())
                .map(|(other, _)| format!("`{key}` belongs in [{other}]"));
            let hint = match nearest(&key, &siblings) {
                Some(near) => format!("did you mean `{near}`?"),
                None => elsewhere
                    .unwrap_or_else(|| format!("the keys here are: {}", siblings.join(", "))),
            };
            let place_name = if section.is_empty() {
                "at the top level".into()
            } else {
                format!("in [{section}]")
            };
            let key = named(&key);
            self.note(&place, format!("unknown key{key} {place_name}; {hint}"));
        }
        self.problems.take()
    }
}

/// The word of `known` that `word` is most likely a misspelling of.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let begun = known.iter().find(|candidate| word.len() >= 3 && candidate.starts_with(word));
    let slips = known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len().max(word.len()) / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate);
    let alike = || known.iter().copied().find(|candidate| begins_alike(word, candidate));
    slips.or(begun.copied()).or_else(alike)
}

/// True for `apikey` and `api_key_file`, and for `retries` and `retry`.
fn begins_alike(word: &str, candidate: &str) -> bool {
    let letters = |text: &str| text.replace(['_', '-'], "").to_ascii_lowercase();
    let (word, candidate) = (letters(word), letters(candidate));
    let shared = word.chars().zip(candidate.chars()).take_while(|(a, b)| a == b).count();
    shared >= 4 && shared + 3 >= word.chars().count()
}

/// Advice for a word that is not in `known`.
pub(super) fn choice(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("use one of {}", known.join(", ")),
    }
}
