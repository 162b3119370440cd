//! Reads one table of the file into a struct, and collects every problem.
//!
//! serde stops at the first value that it cannot use. [`Table::read`] notes it, leaves its key out and
//! reads again, so that one run reports all. A key that no struct of its table has is unknown; this is
//! said when all tables were read, because the key may belong to another one.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::PathBuf;

use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::Problem;
use super::sink_url::SinkUrl;
use super::value::{Keys, Refusal, Value, nearest};
use super::{Base, files};

const NAME_LEN_MAX: usize = 64;

/// Keys that people try, with what to do instead.
const TRIED: [(&str, &str, &str); 3] = [
    (
        "workspace",
        "api_key",
        "the key is not written here, because everyone who may read this file would have it: write it into a file of its own and name that file with api_key_file",
    ),
    (
        "sinks.",
        "rotate_size",
        "remove it: logrotate renames and compresses the file; copy examples/logrotate from the documents to /etc/logrotate.d/shopmirror",
    ),
    ("sinks.", "secret", "write the secret into a file and name it with `secret_file`"),
];

/// What is found in one file.
pub(super) struct Report<'d> {
    pub(super) text: &'d str,
    /// What relative paths start from.
    pub(super) base: &'d Base,
    problems: RefCell<Vec<Problem>>,
    known: RefCell<Vec<(String, &'static str)>>,
    unknown: RefCell<Vec<Unknown>>,
}

struct Unknown {
    table: String,
    key: String,
    place: usize,
}

impl<'d> Report<'d> {
    pub(super) fn new(text: &'d str, base: &'d Base) -> Self {
        Self {
            text,
            base,
            problems: RefCell::default(),
            known: RefCell::default(),
            unknown: RefCell::default(),
        }
    }

    fn note(&self, place: usize, message: String) {
        self.problems.borrow_mut().push(Problem::new(self.text, place, message));
    }

    /// Every key that a struct has, with its table.
    #[cfg(test)]
    pub(super) fn known(&self) -> Vec<(String, &'static str)> {
        self.known.borrow().clone()
    }

    /// Reports the unknown keys and returns all problems.
    pub(super) fn finish(self) -> Vec<Problem> {
        let known = self.known.take();
        for Unknown { table, key, place } in self.unknown.take() {
            let tried = TRIED.iter().find(|(of, tried, _)| table.starts_with(of) && *tried == key);
            let siblings: Vec<&str> =
                known.iter().filter(|(of, _)| *of == table).map(|(_, key)| *key).collect();
            let other = || {
                known
                    .iter()
                    .find(|(of, known)| *known == key && !of.contains('.') && !of.is_empty())
            };
            let hint = match (tried, nearest(&key, &siblings)) {
                (Some((_, _, advice)), _) => (*advice).to_owned(),
                (None, Some(near)) => format!("did you mean `{near}`?"),
                (None, None) => match other() {
                    Some((other, key)) => format!("`{key}` belongs in [{other}]"),
                    None => format!("the keys here are: {}", siblings.join(", ")),
                },
            };
            let of = if table.is_empty() { "at the top".into() } else { format!("in [{table}]") };
            self.note(place, format!("unknown key {of}; {hint}"));
        }
        self.problems.take()
    }
}

/// One table of the file; a table that is absent is empty.
pub(super) struct Table<'d> {
    pub(super) report: &'d Report<'d>,
    /// The dotted name; empty for the whole document.
    name: String,
    /// Where missing keys are reported.
    place: usize,
    /// The values by key, each with the place of the key.
    pub(super) entries: BTreeMap<String, (usize, Spanned<DeValue<'d>>)>,
    /// The file that `url_file` names.
    pub(super) url_file: Option<PathBuf>,
    known: RefCell<BTreeSet<&'static str>>,
    /// The keys whose value cannot be used, which was noted.
    refused: RefCell<BTreeSet<String>>,
    /// Whether it is a table, and the files that it names could be read; if not, this was noted.
    is_sound: bool,
}

impl<'d> Table<'d> {
    /// The whole document.
    pub(super) fn document(report: &'d Report<'d>, table: &DeTable<'d>) -> Self {
        Self::of(report, String::new(), 0, Some(table))
    }

    fn of(report: &'d Report<'d>, name: String, place: usize, table: Option<&DeTable<'d>>) -> Self {
        let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'d>>)| {
            let (key, place): (&std::borrow::Cow<'_, str>, _) = (key.get_ref(), key.span().start);
            (key.clone().into_owned(), (place, value.clone()))
        };
        let entries = table.into_iter().flatten().map(entry).collect();
        let (known, refused) = Default::default();
        let mut read =
            Self { report, name, place, entries, url_file: None, known, refused, is_sound: true };
        files::put_in_place(&mut read);
        read
    }

    /// Notes a problem with a file that the table names.
    pub(super) fn refuse_file(&mut self, place: usize, message: String) {
        self.report.note(place, message);
        self.is_sound = false;
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
        let Some((_, value)) = self.entries.get(key) else {
            return Self::of(self.report, name, 0, None);
        };
        let place = value.span().start;
        match value.get_ref() {
            DeValue::Table(table) => Self::of(self.report, name, place, Some(table)),
            _ => {
                self.report.note(place, format!("`{key}` must be a table: write [{name}]"));
                Self { is_sound: false, ..Self::of(self.report, name, place, None) }
            }
        }
    }

    /// The tables of a table whose keys are names that the shop chose, such as `[sinks]`.
    pub(super) fn named(&self) -> Vec<(String, Self)> {
        let mut tables = Vec::new();
        for (name, (place, _)) in &self.entries {
            let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
            if !(1..=NAME_LEN_MAX).contains(&name.len()) || !name.bytes().all(legal) {
                self.report.note(
                    *place,
                    format!(
                        "a name in [{}] has 1 to {NAME_LEN_MAX} characters of a-z, 0-9, _ and -",
                        self.name
                    ),
                );
                continue;
            }
            tables.push((name.clone(), self.child(name)));
        }
        tables
    }

    /// True if the file has the key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Reads the keys that `T` has. `needed` are those that must be there, with what to write.
    ///
    /// A value that cannot be used is noted, and its default takes its place, so that contradictions of
    /// the others are found too. `None` if a needed key is missing or cannot be used, which was noted.
    pub(super) fn read<T: DeserializeOwned>(&self, needed: &[(&str, &str)]) -> Option<T> {
        let mut values: BTreeMap<&str, Value<'_>> =
            self.entries.iter().map(|(key, (_, value))| (key.as_str(), Value(value))).collect();
        loop {
            let known = &self.known;
            match T::deserialize(Keys { values: values.iter(), last: None, known, fields: &[] }) {
                Ok(read) => return Some(read).filter(|_| self.is_sound),
                Err(Refusal { key: Some(key), place: Some(place), message }) => {
                    self.report.note(place, format!("`{key}` {message}"));
                    values.remove(key.as_str());
                    self.refused.borrow_mut().insert(key);
                }
                // A key that must be there is not.
                Err(_) => break,
            }
        }
        for (key, advice) in needed.iter().filter(|(key, _)| self.is_sound && !self.has(key)) {
            self.note_here(format!("[{}] needs `{key}`: {advice}", self.name));
        }
        None
    }

    /// Notes a problem with the value of a key; the message follows the name of the key.
    pub(super) fn note(&self, key: &str, message: impl Display) {
        if !self.refused.borrow().contains(key) {
            self.note_inside(&[key], format!("`{key}` {message}"));
        }
    }

    /// Notes a problem with a value inside this table; the message is a whole sentence.
    pub(super) fn note_inside(&self, path: &[&str], message: impl Display) {
        let first = path.first().and_then(|key| self.entries.get(*key));
        let mut place = first.map_or(self.place, |(_, value)| value.span().start);
        let mut value = first.map(|(_, value)| value.get_ref());
        for key in path.iter().skip(1) {
            let inner = value.and_then(DeValue::as_table).and_then(|table| table.get(*key));
            place = inner.map_or(place, |inner| inner.span().start);
            value = inner.map(Spanned::get_ref);
        }
        self.report.note(place, message.to_string());
    }

    /// Notes a problem with the table as a whole.
    pub(super) fn note_here(&self, message: impl Display) {
        self.report.note(self.place, message.to_string());
    }

    /// Completes the address in `url` with the file that it comes from; notes if `read` refuses it.
    pub(super) fn url<T>(&self, url: &mut SinkUrl, read: impl FnOnce(&str) -> Result<T, String>) {
        if let Err(why) = read(url.expose_secret()) {
            self.note("url", why);
        }
        url.file.clone_from(&self.url_file);
    }

    /// Notes every key that no struct has. Call it when all of the table was read.
    pub(super) fn finish(&self) {
        let known = self.known.take();
        for (key, (place, _)) in
            self.entries.iter().filter(|(key, _)| !known.contains(key.as_str()))
        {
            let unknown = Unknown { table: self.name.clone(), key: key.clone(), place: *place };
            self.report.unknown.borrow_mut().push(unknown);
        }
        let known = known.into_iter().map(|key| (self.name.clone(), key));
        self.report.known.borrow_mut().extend(known);
    }
}
