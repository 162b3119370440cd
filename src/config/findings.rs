//! Gathers what is wrong while a file is read, and finds the key that was probably meant.
//!
//! Unknown keys are judged last, when every section has said which keys it knows, so that a key
//! that stands in the wrong section is told the right one.

use std::cell::RefCell;
use std::ops::Range;

use super::problem::{Problem, Quote, named};

/// What was noted while a file is read.
pub(super) struct Findings<'t> {
    text: &'t str,
    problems: RefCell<Vec<Problem>>,
    known: RefCell<Vec<(String, &'static str)>>,
    unknown: RefCell<Vec<Unknown>>,
}

/// A key that no getter asked for; judged when all known keys are known.
pub(super) struct Unknown {
    pub(super) section: String,
    pub(super) key: String,
    pub(super) place: Range<usize>,
    /// What the section does know.
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

    /// Leaves a key to be judged.
    pub(super) fn unknown(&self, unknown: Unknown) {
        self.unknown.borrow_mut().push(unknown);
    }

    /// Takes the keys that a section knows.
    pub(super) fn learn(&self, section: &str, keys: Vec<&'static str>) {
        self.known.borrow_mut().extend(keys.into_iter().map(|key| (section.to_owned(), key)));
    }

    /// Every key a getter asked for, with its section.
    #[cfg(test)]
    pub(super) fn known(&self) -> Vec<(String, &'static str)> {
        self.known.borrow().clone()
    }

    /// Judges the unknown keys and hands out all problems.
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
                None => elsewhere.unwrap_or_else(|| format!("known here: {}", siblings.join(", "))),
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

/// The one of `known` that `word` is most likely a slip for.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let begun = known.iter().find(|candidate| word.len() >= 3 && candidate.starts_with(word));
    let slips = known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len().max(word.len()) / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate);
    slips.or(begun.copied())
}

/// Advice for a word that is none of `known`.
pub(super) fn choice(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("use one of {}", known.join(", ")),
    }
}
