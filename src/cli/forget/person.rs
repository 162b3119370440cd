//! The records of one person, in all routes: those that hold the words, and what belongs to the
//! repairs and customers among them.

use sha2::{Digest, Sha256};
use shopmirror_core::record::Route;

use crate::cli::exit::{DATA, TRY_AGAIN, USAGE, refuse};
use crate::cli::record_line::RecordLine;
use crate::store::Reader;

/// More records than this are of more than one person.
const MAX_RECORDS: usize = 1000;

/// A code of these records: the same list has the same one.
pub(super) fn code(records: &[RecordLine]) -> String {
    let lines = records
        .iter()
        .map(|RecordLine { route, id, .. }| format!("{route} {id:?}\n"));
    let digest = Sha256::digest(lines.collect::<String>());
    digest[..4]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// What the mirror holds of a person; the same record once.
pub(super) fn records(reader: &Reader, words: &str) -> anyhow::Result<Vec<RecordLine>> {
    // In bytes, so that a name such as 李 is long enough. Fewer letters begin the names of many.
    let letters = words.chars().filter(|c| c.is_alphanumeric());
    if letters.map(char::len_utf8).sum::<usize>() < 3 {
        return refuse(
            USAGE,
            "write a name or a number of at least 3 letters or digits",
        );
    }
    let found = reader.find(words, None, MAX_RECORDS)?;
    if !found.searched.is_whole() {
        let text = "the search index is not complete yet, so records may be missing: try again in a minute; without a daemon, run `shopmirror verify --rebuild`";
        return refuse(TRY_AGAIN, text);
    }
    let of_a_record = found
        .changes
        .into_iter()
        .filter(|change| change.record_id.is_some());
    let mut records: Vec<RecordLine> = of_a_record.map(RecordLine::from).collect();
    // A customer leads to repairs, which lead to payments and status changes, so the list grows
    // meanwhile.
    let mut next = 0;
    while let Some(RecordLine {
        route: from, id, ..
    }) = records.get(next)
    {
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
                if !records
                    .iter()
                    .any(|known| known.route == route && known.id == record.id)
                {
                    records.push(RecordLine::new(route, record.id, record.body));
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
