//! Reads the keys of one table of the file and notes every problem.
//!
//! If a value is malformed, the getter notes a problem and returns `None`, as for a missing key. The
//! caller continues with a default, and the file is refused at the end. A key that no getter read is
//! unknown.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::findings::{Findings, Unknown, choice};
use super::problem::{Quote, repeated, shown};
use crate::duration;
use crate::escape::is_unsafe;

/// A value and its place in the file.
#[derive(Debug, Clone)]
pub(super) struct Found<T> {
    pub(super) value: T,
    pub(super) place: Range<usize>,
}

/// One table of the file, present or not.
pub(super) struct Section<'d> {
    pub(super) findings: &'d Findings<'d>,
    /// The table's dotted name as messages repeat it; empty for the root.
    name: String,
    /// The header, where missing keys are reported; `None` if the table is absent.
    place: Option<Range<usize>>,
    table: Option<&'d DeTable<'d>>,
    /// The value is not a table, which was noted. Its missing keys are not reported.
    broken: bool,
    known: Vec<&'static str>,
    /// Keys that were reported already and that nothing reads.
    refused: Vec<&'static str>,
}

impl<'d> Section<'d> {
    pub(super) fn root(findings: &'d Findings<'d>, table: &'d DeTable<'d>) -> Self {
        Self {
            findings,
            name: String::new(),
            place: None,
            table: Some(table),
            broken: false,
            known: Vec::new(),
            refused: Vec::new(),
        }
    }

    fn child(&self, name: &str, value: Option<&'d Spanned<DeValue<'d>>>) -> Self {
        let table = value.and_then(|value| match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => None,
        });
        let name = shown(name);
        if let (Some(value), None) = (value, table) {
            self.wrong_type(name, "a table", value.get_ref(), &value.span(), Quote::Masked);
        }
        Self {
            findings: self.findings,
            name: match self.name.as_str() {
                "" => name.to_owned(),
                parent => format!("{parent}.{name}"),
            },
            place: value.map(Spanned::span),
            table,
            broken: value.is_some() && table.is_none(),
            known: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Notes a problem with the whole section, without quoting its text.
    pub(super) fn note(&self, message: impl AsRef<str>) {
        match &self.place {
            Some(place) => self.findings.push(place, Quote::Masked, message.as_ref()),
            None => self.findings.push(&(0..0), Quote::Nothing, message.as_ref()),
        }
    }

    /// Notes that a required key is missing; `advice` says what to write.
    pub(super) fn missing(&self, key: &str, advice: &str) {
        if !self.broken {
            self.note(format!("[{}] needs `{key}`: {advice}", self.name));
        }
    }

    /// Notes a problem with a key that has another name; it is then not reported as unknown as well.
    pub(super) fn refuse(&mut self, key: &'static str, message: &str) {
        if let Some((name, _)) = self.table.and_then(|table| table.get_key_value(key)) {
            self.findings.note_secret(&name.span(), message);
            self.refused.push(key);
        }
    }

    /// True if the file has the key, well formed or not.
    pub(super) fn holds(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    /// The raw value of a key.
    pub(super) fn value(&mut self, key: &'static str) -> Option<Found<&'d DeValue<'d>>> {
        self.known.push(key);
        let value = self.table?.get(key)?;
        Some(Found { value: value.get_ref(), place: value.span() })
    }

    /// A table inside this one. A missing table reads as empty.
    pub(super) fn section(&mut self, key: &'static str) -> Self {
        self.known.push(key);
        self.child(key, self.table.and_then(|table| table.get(key)))
    }

    /// The keys of the table.
    pub(super) fn names(&self) -> BTreeSet<String> {
        let keys = self.table.into_iter().flat_map(DeTable::keys);
        keys.map(|key| key.get_ref().clone().into_owned()).collect()
    }

    /// The sections of a table whose keys are names, for example `[sinks]`.
    pub(super) fn named_sections(self) -> Vec<(Found<String>, Self)> {
        let entries = self.table.into_iter().flatten();
        let sections = entries.map(|(key, value)| {
            let name = key.get_ref().clone().into_owned();
            let section = self.child(&name, Some(value));
            (Found { value: name, place: key.span() }, section)
        });
        sections.filter(|(_, section)| !section.broken).collect()
    }

    /// Text without white space around it, on one line, not empty.
    pub(super) fn text(&mut self, key: &'static str) -> Option<Found<&'d str>> {
        self.line_of_text(key, Quote::Shown)
    }

    /// As [`Self::text`], for a value that no message may repeat.
    pub(super) fn secret_text(&mut self, key: &'static str) -> Option<Found<&'d str>> {
        self.line_of_text(key, Quote::Masked)
    }

    fn line_of_text(&mut self, key: &'static str, quote: Quote) -> Option<Found<&'d str>> {
        let found = self.value(key)?;
        let DeValue::String(text) = found.value else {
            self.wrong_type(key, "a string in quotes", found.value, &found.place, quote);
            return None;
        };
        match unfit(text) {
            None => Some(Found { value: text, place: found.place }),
            Some(why) => {
                self.findings.push(&found.place, quote, &format!("`{key}` {why}"));
                None
            }
        }
    }

    /// Text of several lines that no message may repeat, not empty.
    pub(super) fn secret_lines(&mut self, key: &'static str) -> Option<Found<&'d str>> {
        let found = self.value(key)?;
        let DeValue::String(text) = found.value else {
            let wanted = "a string in quotes";
            self.wrong_type(key, wanted, found.value, &found.place, Quote::Masked);
            return None;
        };
        if text.trim().is_empty() {
            let message = format!("`{key}` is empty: give a value or remove it");
            self.findings.note_secret(&found.place, message);
            return None;
        }
        Some(Found { value: text, place: found.place })
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        let found = self.text(key)?;
        let chosen = words.iter().find(|(word, _)| *word == found.value);
        if chosen.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let hint = choice(found.value, &known);
            self.findings
                .note(&found.place, format!("`{key}` cannot be {}; {hint}", repeated(found.value)));
        }
        chosen.map(|(_, value)| *value)
    }

    /// `true` or `false`.
    pub(super) fn boolean(&mut self, key: &'static str) -> Option<bool> {
        let found = self.value(key)?;
        if let DeValue::Boolean(value) = found.value {
            return Some(*value);
        }
        self.wrong_type(
            key,
            "true or false, without quotes",
            found.value,
            &found.place,
            Quote::Shown,
        );
        None
    }

    /// A whole number within bounds.
    pub(super) fn integer(
        &mut self,
        key: &'static str,
        bounds: &RangeInclusive<u32>,
    ) -> Option<Found<u32>> {
        let found = self.value(key)?;
        let DeValue::Integer(number) = found.value else {
            self.wrong_type(key, "a whole number", found.value, &found.place, Quote::Shown);
            return None;
        };
        let read = i64::from_str_radix(number.as_str(), number.radix()).ok();
        match read.and_then(|n| u32::try_from(n).ok()).filter(|n| bounds.contains(n)) {
            Some(value) => Some(Found { value, place: found.place }),
            None => {
                let (low, high) = (bounds.start(), bounds.end());
                self.out_of_bounds(key, &found.place, &number, low, high);
                None
            }
        }
    }

    /// A positive number, whole or not, of at most `high`.
    pub(super) fn positive(&mut self, key: &'static str, high: f64) -> Option<f64> {
        let found = self.value(key)?;
        let read = match found.value {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse::<f64>().ok(),
            DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
            other => {
                self.wrong_type(key, "a number", other, &found.place, Quote::Shown);
                return None;
            }
        };
        let value = read.filter(|n| *n > 0.0 && *n <= high);
        if value.is_none() {
            let message = format!("`{key}` must be above 0 and at most {high}");
            self.findings.note(&found.place, message);
        }
        value
    }

    /// A duration within bounds, for example `"90s"` or `"1h 30m"`.
    pub(super) fn duration(
        &mut self,
        key: &'static str,
        bounds: &RangeInclusive<Duration>,
    ) -> Option<Found<Duration>> {
        let found = self.value(key)?;
        let value = self.duration_of(key, found.value, &found.place, bounds)?;
        Some(Found { value, place: found.place })
    }

    /// A list of durations within bounds.
    pub(super) fn durations(
        &mut self,
        key: &'static str,
        bounds: &RangeInclusive<Duration>,
    ) -> Option<Found<Vec<Duration>>> {
        let list = self.list(key)?;
        let read =
            list.value.iter().map(|item| self.duration_of(key, item.value, &item.place, bounds));
        let value = read.collect::<Vec<_>>().into_iter().collect::<Option<Vec<_>>>()?;
        Some(Found { value, place: list.place })
    }

    fn duration_of(
        &self,
        key: &str,
        value: &DeValue<'_>,
        place: &Range<usize>,
        bounds: &RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let DeValue::String(text) = value else {
            self.wrong_type(
                key,
                &format!("a duration in quotes, for example {}", example(bounds)),
                value,
                place,
                Quote::Shown,
            );
            return None;
        };
        match humantime::parse_duration(text) {
            Ok(duration) if bounds.contains(&duration) => Some(duration),
            Ok(_) => {
                let (low, high) = (bounds.start(), bounds.end());
                let show = duration::exact;
                self.out_of_bounds(key, place, text, &show(*low), &show(*high));
                None
            }
            Err(_) => {
                let message = format!(
                    "`{key}` is not a duration: write a number and a unit (ms, s, m, h, d), for example {}",
                    example(bounds)
                );
                self.findings.note(place, message);
                None
            }
        }
    }

    /// The items of a list.
    pub(super) fn list(&mut self, key: &'static str) -> Option<Found<Vec<Found<&'d DeValue<'d>>>>> {
        let found = self.value(key)?;
        let DeValue::Array(items) = found.value else {
            let wanted = "a list in square brackets";
            // A command line, which may hold a password.
            let is_line = matches!(found.value, DeValue::String(text) if text.contains(' '));
            let quote = if is_line { Quote::Masked } else { Quote::Shown };
            self.wrong_type(key, wanted, found.value, &found.place, quote);
            return None;
        };
        let items = items.iter().map(|item| Found { value: item.get_ref(), place: item.span() });
        Some(Found { value: items.collect(), place: found.place })
    }

    /// A list of strings. An item that cannot be used is noted and left out.
    pub(super) fn texts(&mut self, key: &'static str) -> Option<Found<Vec<Found<&'d str>>>> {
        let list = self.list(key)?;
        let mut texts = Vec::new();
        for Found { value, place } in list.value {
            match value {
                DeValue::String(text) => match unfit(text) {
                    None => texts.push(Found { value: text.as_ref(), place }),
                    Some(why) => self.findings.note(&place, format!("an item of `{key}` {why}")),
                },
                other => {
                    let wanted = "a list of strings in quotes";
                    self.wrong_type(key, wanted, other, &place, Quote::Shown);
                }
            }
        }
        Some(Found { value: texts, place: list.place })
    }

    /// A list of distinct words, not empty.
    pub(super) fn words<T: Copy + Display + PartialEq>(
        &mut self,
        key: &'static str,
        all: &[T],
        otherwise: &str,
    ) -> Option<Vec<T>> {
        let bare = self.table.and_then(|table| table.get(key)).map(Spanned::get_ref);
        let empty = bare.and_then(DeValue::as_array).is_some_and(|items| items.is_empty());
        let list = self.texts(key)?;
        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut chosen = Vec::new();
        for Found { value, place } in &list.value {
            match known.iter().position(|name| name == value).map(|at| all[at]) {
                Some(word) if chosen.contains(&word) => {
                    self.findings.note(place, format!("{value:?} appears twice in `{key}`"));
                }
                Some(word) => chosen.push(word),
                None => {
                    let (value, hint) = (repeated(value), choice(value, &known));
                    self.findings.note(place, format!("`{key}` cannot hold {value}; {hint}"));
                }
            }
        }
        if empty {
            let message = format!("`{key}` is empty, so that nothing can match: {otherwise}");
            self.findings.note(&list.place, message);
        }
        Some(chosen)
    }

    pub(super) fn wrong_type(
        &self,
        key: &str,
        wanted: &str,
        value: &DeValue<'_>,
        place: &Range<usize>,
        quote: Quote,
    ) {
        let message = format!("`{key}` must be {wanted}, not {}", described(value));
        self.findings.push(place, quote, &message);
    }

    fn out_of_bounds(
        &self,
        key: &str,
        place: &Range<usize>,
        value: &dyn Display,
        low: &dyn Display,
        high: &dyn Display,
    ) {
        let message = format!("`{key}` must be from {low} to {high}, not {value}");
        self.findings.note(place, message);
    }

    /// Notes every key that no getter read.
    pub(super) fn finish(self) {
        let Self { findings, name: section, table, known, refused, .. } = self;
        for key in table.into_iter().flat_map(DeTable::keys) {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) && !refused.contains(&name) {
                findings.unknown(Unknown {
                    section: section.clone(),
                    key: key.get_ref().clone().into_owned(),
                    place: key.span(),
                    siblings: known.clone(),
                });
            }
        }
        findings.learn(&section, known);
    }
}

/// A duration within the bounds, as the file writes it.
fn example(bounds: &RangeInclusive<Duration>) -> String {
    let usual = [30, 300, 86_400].map(Duration::from_secs);
    let fitting = usual.into_iter().find(|example| bounds.contains(example));
    format!("\"{}\"", duration::exact(fitting.unwrap_or(*bounds.start())))
}

/// The problem with a text that should be a value on one line.
pub(super) fn unfit(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("is empty: give a value or remove it")
    } else if text.trim() != text {
        Some("has white space at its start or end: remove it")
    } else if text.chars().any(is_unsafe) {
        Some("holds a line break or another control character: remove it")
    } else {
        None
    }
}

fn described(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
