//! Reads one table of the file into a struct, and collects every problem.
//!
//! serde stops at the first value that it cannot use. [`Table::read`] notes that problem, leaves
//! the key out and reads again, so that one run reports all problems. A key is unknown if no struct
//! into which its table was read has it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use super::Base;
use super::problem::Problem;
use super::sinks;
use super::value::{TableDeserializer, message, nearest};

const NAME_LEN_MAX: usize = 64;

/// The file that is read: its text, and what the tables have noted about it.
pub(super) struct FileContext<'d> {
    pub(super) text: &'d str,
    /// The folders from which relative paths start.
    pub(super) base: &'d Base,
    problems: RefCell<Vec<Problem>>,
    /// What the file says that has no effect.
    warnings: RefCell<Vec<Problem>>,
    /// The files that will be written, each with the table that names it.
    claims: RefCell<Vec<(PathBuf, String)>>,
}

impl<'d> FileContext<'d> {
    pub(super) fn new(text: &'d str, base: &'d Base) -> Self {
        Self {
            text,
            base,
            problems: RefCell::default(),
            warnings: RefCell::default(),
            claims: RefCell::default(),
        }
    }

    pub(super) fn problems(&self) -> Vec<Problem> {
        self.problems.take()
    }

    pub(super) fn warnings(&self) -> Vec<Problem> {
        self.warnings.take()
    }

    fn note(&self, place: usize, message: String) {
        self.problems
            .borrow_mut()
            .push(Problem::new(self.text, place, message));
    }
}

/// One table of the file; a table that is absent is empty.
pub(super) struct Table<'d> {
    pub(super) file: &'d FileContext<'d>,
    /// The dotted name; empty for the whole document.
    name: String,
    /// The place at which missing keys are reported.
    place: usize,
    pub(super) entries: DeTable<'d>,
    /// The keys that the structs have into which the table was read.
    known_keys: RefCell<BTreeSet<&'static str>>,
}

impl<'d> Table<'d> {
    /// The whole document.
    pub(super) fn document(file: &'d FileContext<'d>, table: &DeTable<'d>) -> Self {
        Self::new(file, String::new(), 0, table.clone())
    }

    fn new(
        file: &'d FileContext<'d>,
        name: String,
        place: usize,
        mut entries: DeTable<'d>,
    ) -> Self {
        for (key, value) in entries.iter_mut() {
            // A file that is only read is relative to the folder of the configuration.
            if key.get_ref().ends_with("_file")
                && let DeValue::String(path) = value.get_mut()
            {
                let absolute = file.base.dir.join(&**path);
                *path = absolute.to_string_lossy().into_owned().into();
            }
        }
        Self {
            file,
            name,
            place,
            entries,
            known_keys: RefCell::default(),
        }
    }

    /// A table inside this one.
    pub(super) fn table(&self, key: &'static str) -> Self {
        self.known_keys.borrow_mut().insert(key);
        self.child(key)
    }

    /// Reads all of a table inside this one.
    pub(super) fn section<T>(&self, key: &'static str, read: impl FnOnce(&Self) -> T) -> T {
        let table = self.table(key);
        let section = read(&table);
        table.finish();
        section
    }

    fn child(&self, key: &str) -> Self {
        let name = match self.name.as_str() {
            "" => key.to_owned(),
            parent => format!("{parent}.{key}"),
        };
        let Some(value) = self.entries.get(key) else {
            return Self::new(self.file, name, 0, DeTable::default());
        };
        let place = value.span().start;
        let Some(table) = value.get_ref().as_table() else {
            self.file
                .note(place, format!("`{key}` must be a table: write [{name}]"));
            return Self::new(self.file, name, place, DeTable::default());
        };
        Self::new(self.file, name, place, table.clone())
    }

    /// The tables of a table whose keys are names that the shop chose, such as `[sinks]`.
    pub(super) fn named(&self) -> Vec<(String, Self)> {
        let mut tables = Vec::new();
        for key in self.entries.keys() {
            let name = key.get_ref();
            if is_name(name) {
                tables.push((name.to_string(), self.child(name)));
            } else {
                let message = format!(
                    "a name in [{}] has 1 to {NAME_LEN_MAX} characters of a-z, 0-9, _ and -",
                    self.name
                );
                self.file.note(key.span().start, message);
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
            let deserializer = TableDeserializer {
                entries: &entries,
                known_keys: &self.known_keys,
                last: &last,
            };
            let error = match T::deserialize(deserializer) {
                Ok(value) => return Some(value),
                Err(error) => error,
            };
            if error.message().starts_with("missing field") {
                break;
            }
            let Some((key, place)) = last.get() else {
                break;
            };
            let key = key.to_owned();
            let place = match error.span() {
                Some(span) => span.start,
                None => place,
            };
            self.file
                .note(place, format!("`{key}` {}", message(&error)));
            entries.remove(key.as_str());
        }
        for key in needed {
            self.need(key);
        }
        None
    }

    /// Notes a problem if a key that must be there is missing.
    pub(super) fn need(&self, key: &str) {
        if !self.has(key) {
            self.note_here(format!("[{}] needs `{key}`{}", self.name, self.page()));
        }
    }

    /// The page of the documents that has the keys of a sink of a known type.
    fn page(&self) -> String {
        let sink_type = self
            .entries
            .get("type")
            .and_then(|value| value.get_ref().as_str());
        match sink_type {
            Some(name) if sinks::is_type(name) => format!(": see docs/sinks/{name}.md"),
            _ => String::new(),
        }
    }

    /// Notes a problem with the value of a key; the message follows the name of the key.
    pub(super) fn note(&self, key: &str, message: impl Display) {
        self.note_inside(&[key], format!("`{key}` {message}"));
    }

    /// Warns that a key of this table has no effect; the message follows the name of the key.
    pub(super) fn warn(&self, key: &str, message: impl Display) {
        let place = match self.entries.get(key) {
            Some(value) => value.span().start,
            None => self.place,
        };
        let message = format!("`{key}` {message}");
        let warning = Problem::new(self.file.text, place, message);
        self.file.warnings.borrow_mut().push(warning);
    }

    /// Notes a problem with a value inside this table; the message is a whole sentence.
    pub(super) fn note_inside(&self, path: &[&str], message: impl Display) {
        let mut place = self.place;
        let mut table = &self.entries;
        for key in path {
            let Some(value) = table.get(*key) else {
                break;
            };
            place = value.span().start;
            match value.get_ref().as_table() {
                Some(inner) => table = inner,
                None => break,
            }
        }
        self.file.note(place, message.to_string());
    }

    /// Notes a problem with the table as a whole.
    pub(super) fn note_here(&self, message: impl Display) {
        self.note_inside(&[], message);
    }

    /// Claims a file for this table; notes a problem if another table writes it, or if it belongs
    /// to the store.
    pub(super) fn claim(&self, path: &Path) {
        let path = path
            .canonicalize()
            .or_else(|_| std::path::absolute(path))
            .unwrap_or_default();
        let mut claims = self.file.claims.borrow_mut();
        for (other, owner) in claims.iter() {
            if *other == path || owner == "store" && belongs_to_store(&path, other) {
                self.note(
                    "path",
                    format!("is written by [{owner}] already: choose another path"),
                );
                break;
            }
        }
        claims.push((path, self.name.clone()));
    }

    /// Notes every unknown key. Call it after the whole table was read.
    pub(super) fn finish(&self) {
        let known: Vec<&str> = self.known_keys.borrow().iter().copied().collect();
        let place = match self.name.as_str() {
            "" => "at the top".to_owned(),
            name => format!("in [{name}]"),
        };
        for key in self.entries.keys() {
            let name = &**key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let hint = match nearest(name, &known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the keys here are: {}", known.join(", ")),
            };
            self.file
                .note(key.span().start, format!("unknown key {place}; {hint}"));
        }
    }
}

/// True for a name that the shop may choose for a table.
fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    (1..=NAME_LEN_MAX).contains(&name.len()) && name.chars().all(is_part)
}

/// True if this file belongs to the store: the database, the files that SQLite keeps beside it,
/// whose names begin with its own, and the search index.
fn belongs_to_store(path: &Path, store: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let database = store.file_name().unwrap_or_default().as_encoded_bytes();
    let is_own_name = name.starts_with(database) || name.starts_with(b"search.db");
    path.parent() == store.parent() && is_own_name
}
