//! The records of one person, in all routes: those that hold the words, and what belongs to the repairs
//! and customers among them.

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::cli::exit::{DATA, TRY_AGAIN, USAGE, refuse};
use crate::cli::find::contact;
use crate::cli::log::title;
use crate::cli::output::{Column, cell};
use crate::record::Route;
use crate::store::Reader;

/// More records than this are of more than one person.
const MAX_RECORDS: usize = 1000;

/// Fewer letters or digits than this begin the names of many.
const MIN_LETTERS: usize = 3;

/// A record that may be of the person.
#[derive(Debug, Serialize)]
pub(super) struct PersonRecord {
    /// Its route.
    pub(super) route: Route,
    /// Its id.
    pub(super) id: String,
    #[serde(skip)]
    body: String,
}

impl PersonRecord {
    /// A record that the operator has named.
    pub(super) fn named(route: Route, id: String) -> Self {
        Self { route, id, body: String::new() }
    }
}

/// By what the operator recognises a record.
pub(super) const COLUMNS: [Column<PersonRecord>; 4] = [
    ("route", |record| record.route.to_string()),
    ("id", |record| cell(&record.id, 24)),
    ("contact", |record| contact(&record.body)),
    ("record", |record| title(&record.body)),
];

/// A code of these records: the same list has the same one.
pub(super) fn code(records: &[PersonRecord]) -> String {
    let lines = records.iter().map(|PersonRecord { route, id, .. }| format!("{route} {id:?}\n"));
    let digest = Sha256::digest(lines.collect::<String>());
    digest[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the mirror holds of a person; the same record once.
pub(super) fn records(reader: &Reader, words: &str) -> anyhow::Result<Vec<PersonRecord>> {
    // In bytes, so that a name such as 李 is long enough.
    let letters = words.chars().filter(|c| c.is_alphanumeric());
    if letters.map(char::len_utf8).sum::<usize>() < MIN_LETTERS {
        let text = format!("write a name or a number of at least {MIN_LETTERS} letters or digits");
        return refuse(USAGE, text);
    }
    let found = reader.find(words, None, MAX_RECORDS)?;
    if !found.searched.is_whole() {
        let text = "the search index is not complete yet, so records may be missing: try again in a minute; without a daemon, run `shopmirror verify --rebuild`";
        return refuse(TRY_AGAIN, text);
    }
    let mut records: Vec<PersonRecord> = Vec::new();
    for change in found.changes {
        let Some(id) = change.record_id else { continue };
        records.push(PersonRecord { route: change.route, id, body: change.body });
    }
    // A customer leads to repairs, which lead to payments and status changes, so the list grows meanwhile.
    let mut next = 0;
    while let Some(PersonRecord { route: from, id, .. }) = records.get(next) {
        let (from, id) = (*from, id.clone());
        next += 1;
        for route in Route::ALL {
            let related = match from {
                Route::Customers if route != Route::Customers => {
                    reader.records_of_customer(route, &id, MAX_RECORDS)?
                }
                Route::Jobs if route != Route::Jobs => {
                    reader.records_of_job(route, &id, MAX_RECORDS)?
                }
                _ => continue,
            };
            for record in related {
                if !records.iter().any(|known| known.route == route && known.id == record.id) {
                    records.push(PersonRecord { route, id: record.id, body: record.body });
                }
            }
        }
        if records.len() >= MAX_RECORDS {
            let text =
                format!("{MAX_RECORDS} records or more hold these words: add a word or a number");
            return refuse(DATA, text);
        }
    }
    Ok(records)
}
