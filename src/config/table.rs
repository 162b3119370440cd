//! Reads one table of the file into a struct, and collects every problem.
//!
//! serde stops at the first value that it cannot use. [`Table::read`] notes it, leaves its key out
//! and reads again, so that one run reports all. A key that no struct of its table has is unknown.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use super::Base;
use super::problem::Problem;
use super::value::{Keys, message, nearest};

const NAME_LEN_MAX: usize = 64;

/// What is found in one file.
pub(super) struct Report<'d> {
    pub(super) text: &'d str,
    /// What relative paths start from.
    pub(super) base: &'d Base,
    problems: RefCell<Vec<Problem>>,
    /// The files that are written, and the tables that name them.
    written: RefCell<Vec<(PathBuf, String)>>,
}

impl<'d> Report<'d> {
    pub(super) fn new(text: &'d str, base: &'d Base) -> Self {
        Self {
            text,
            base,
            problems: RefCell::default(),
            written: RefCell::default(),
        }
    }

    pub(super) fn problems(self) -> Vec<Problem> {
        self.problems.take()
    }

    fn note(&self, place: usize, message: String) {
        self.problems
            .borrow_mut()
            .push(Problem::new(self.text, place, message));
    }
}

/// One table of the file; a table that is absent is empty.
pub(super) struct Table<'d> {
    pub(super) report: &'d Report<'d>,
    /// The dotted name; empty for the whole document.
    name: String,
    /// Where missing keys are reported.
    place: usize,
    pub(super) entries: DeTable<'d>,
    known: RefCell<BTreeSet<&'static str>>,
}

impl<'d> Table<'d> {
    /// The whole document.
    pub(super) fn document(report: &'d Report<'d>, table: &DeTable<'d>) -> Self {
        Self::of(report, String::new(), 0, table.clone())
    }

    fn of(report: &'d Report<'d>, name: String, place: usize, mut entries: DeTable<'d>) -> Self {
        for (key, value) in entries.iter_mut() {
            // A file that is only read is relative to the folder of the configuration.
            if let (true, DeValue::String(path)) =
                (key.get_ref().ends_with("_file"), value.get_mut())
            {
                *path = report
                    .base
                    .dir
                    .join(&**path)
                    .to_string_lossy()
                    .into_owned()
                    .into();
            }
        }
        Self {
            report,
            name,
            place,
            entries,
            known: RefCell::default(),
        }
    }

    /// A table inside this one.
    pub(super) fn table(&self, key: &'static str) -> Self {
        self.known.borrow_mut().insert(key);
        self.child(key)
    }

    /// Reads all of a table inside this one.
    pub(super) fn section<T>(&self, key: &'static str, read: impl FnOnce(&Self) -> T) -> T {
        let table = self.table(key);
        let found = read(&table);
        table.finish();
        found
    }

    fn child(&self, key: &str) -> Self {
        let name = match self.name.as_str() {
            "" => key.to_owned(),
            parent => format!("{parent}.{key}"),
        };
        let value = self.entries.get(key);
        let place = value.map_or(0, |value| value.span().start);
        let table = value.and_then(|value| value.get_ref().as_table());
        if value.is_some() && table.is_none() {
            self.report
                .note(place, format!("`{key}` must be a table: write [{name}]"));
        }
        Self::of(self.report, name, place, table.cloned().unwrap_or_default())
    }

    /// The tables of a table whose keys are names that the shop chose, such as `[sinks]`.
    pub(super) fn named(&self) -> Vec<(String, Self)> {
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
        let mut tables = Vec::new();
        for key in self.entries.keys() {
            let name = key.get_ref();
            if (1..=NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(legal) {
                tables.push((name.to_string(), self.child(name)));
            } else {
                let message = format!(
                    "a name in [{}] has 1 to {NAME_LEN_MAX} characters of a-z, 0-9, _ and -",
                    self.name
                );
                self.report.note(key.span().start, message);
            }
        }
        tables
    }

    /// True if the file has the key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Reads the keys that `T` has. `needed` are those that must be there.
    ///
    /// A value that cannot be used is noted, and its default takes its place, so that
    /// contradictions of the others are found too. `None` if a needed key is missing or cannot be
    /// used, which was noted.
    pub(super) fn read<T: DeserializeOwned>(&self, needed: &[&str]) -> Option<T> {
        let mut entries = self.entries.clone();
        loop {
            let last = Cell::new(None);
            let keys = Keys {
                entries: &entries,
                known: &self.known,
                last: &last,
            };
            let error = match T::deserialize(keys) {
                Ok(read) => return Some(read),
                Err(error) => error,
            };
            let is_missing = error.message().starts_with("missing field");
            let Some((key, place)) = last.get().filter(|_| !is_missing) else {
                break;
            };
            let key = key.to_owned();
            let place = error.span().map_or(place, |place| place.start);
            self.report
                .note(place, format!("`{key}` {}", message(&error)));
            entries.remove(key.as_str());
        }
        needed.iter().for_each(|key| self.need(key));
        None
    }

    /// Notes if a key that must be there is missing.
    pub(super) fn need(&self, key: &str) {
        if !self.has(key) {
            self.note_here(format!("[{}] needs `{key}`", self.name));
        }
    }

    /// Notes a problem with the value of a key; the message follows the name of the key.
    pub(super) fn note(&self, key: &str, message: impl Display) {
        self.note_inside(&[key], format!("`{key}` {message}"));
    }

    /// Notes a problem with a value inside this table; the message is a whole sentence.
    pub(super) fn note_inside(&self, path: &[&str], message: impl Display) {
        let (mut place, mut table) = (self.place, Some(&self.entries));
        for key in path {
            let value = table.and_then(|table| table.get(*key));
            place = value.map_or(place, |value| value.span().start);
            table = value.and_then(|value| value.get_ref().as_table());
        }
        self.report.note(place, message.to_string());
    }

    /// Notes a problem with the table as a whole.
    pub(super) fn note_here(&self, message: impl Display) {
        self.note_inside(&[], message);
    }

    /// Notes if the file in `path` is one that another table has written, or is of the store.
    pub(super) fn claim(&self, path: &Path) {
        let path = path
            .canonicalize()
            .or_else(|_| std::path::absolute(path))
            .unwrap_or_default();
        let mut written = self.report.written.borrow_mut();
        let is_same = |(other, owner): &(PathBuf, String)| {
            *other == path || owner == "store" && is_of_store(&path, other)
        };
        if let Some((_, owner)) = written.iter().find(|file| is_same(file)) {
            self.note(
                "path",
                format!("is written by [{owner}] already: choose another path"),
            );
        }
        written.push((path, self.name.clone()));
    }

    /// Notes every key that no struct has. Call it when all of the table was read.
    pub(super) fn finish(&self) {
        let known: Vec<&str> = self.known.borrow().iter().copied().collect();
        for key in self
            .entries
            .keys()
            .filter(|key| !known.contains(&&**key.get_ref()))
        {
            let name = &**key.get_ref();
            let hint = match nearest(name, &known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the keys here are: {}", known.join(", ")),
            };
            let of = match self.name.as_str() {
                "" => "at the top".to_owned(),
                table => format!("in [{table}]"),
            };
            self.report
                .note(key.span().start, format!("unknown key {of}; {hint}"));
        }
    }
}

/// True if this file belongs to the store: the database, the files that SQLite keeps beside it,
/// whose names begin with its own, and the search index.
fn is_of_store(path: &Path, store: &Path) -> bool {
    let name = |path: &Path| {
        path.file_name()
            .unwrap_or_default()
            .as_encoded_bytes()
            .to_owned()
    };
    let is_own = name(path).starts_with(&name(store)) || name(path).starts_with(b"search.db");
    path.parent() == store.parent() && is_own
}
