//! The records of one person, in all routes: those that hold the words, and those that belong to
//! the repairs and customers among them.

use sha2::{Digest, Sha256};
use shopmirror_core::record::Route;

use crate::cli::exit::{DATA, TRY_AGAIN, USAGE, refuse};
use crate::cli::record_line::RecordLine;
use crate::store::Reader;

/// More records than this belong to more than one person.
const MAX_RECORDS: usize = 1000;

/// A code for these records: the same list has the same code.
pub(super) fn code(records: &[RecordLine]) -> String {
    let mut lines = String::new();
    for RecordLine { route, id, .. } in records {
        lines += &format!("{route} {id:?}\n");
    }
    let digest = Sha256::digest(lines);
    digest[..4]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The records of a person in the mirror, each once.
pub(super) fn records(reader: &Reader, words: &str) -> anyhow::Result<Vec<RecordLine>> {
    // In bytes, so that a name such as 李 is long enough. Shorter words begin many names.
    let letters: String = words.chars().filter(|c| c.is_alphanumeric()).collect();
    if letters.len() < 3 {
        return refuse(
            USAGE,
            "write a name or a number of at least 3 letters or digits",
        );
    }
    let found = reader.find(words, None, MAX_RECORDS)?;
    if !found.searched.is_whole() {
        let text = "the search index is not complete yet, so records may be missing: try again in \
                    a minute; without a daemon, run `shopmirror verify --rebuild`";
        return refuse(TRY_AGAIN, text);
    }
    let mut records = Vec::new();
    for change in found.changes {
        if change.record_id.is_some() {
            records.push(RecordLine::from(change));
        }
    }
    // A customer leads to repairs, which lead to payments and status changes, so the list grows
    // while it is read.
    let mut next = 0;
    while let Some(record) = records.get(next) {
        next += 1;
        for related in related_to(reader, record.route, &record.id)? {
            let is_new = !records
                .iter()
                .any(|record| record.route == related.route && record.id == related.id);
            if is_new {
                records.push(related);
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

/// The records that belong to a customer or a repair.
fn related_to(reader: &Reader, from: Route, id: &str) -> anyhow::Result<Vec<RecordLine>> {
    let mut lines = Vec::new();
    for route in Route::ALL {
        let related = match from {
            Route::Customers if route != Route::Customers => {
                reader.records_of_customer(route, id, MAX_RECORDS)?
            }
            Route::Jobs if route != Route::Jobs => reader.records_of_job(route, id, MAX_RECORDS)?,
            _ => continue,
        };
        for record in related {
            lines.push(RecordLine::new(route, record.id, record.body));
        }
    }
    Ok(lines)
}
