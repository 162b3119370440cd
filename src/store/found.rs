//! Storing what a customer search found, in one transaction or not at all.
//!
//! Such records stand in the mirror with `_via = 'search'` until a poll sees them; they prove
//! nothing about contiguity, and no poller's state is touched. One that lies in a gap is counted
//! there and is news, whatever the search was for, as is one that no poll has come to yet. What was stored since the search was sent is
//! newer than its answer and stays.

use std::collections::HashSet;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use serde::{Deserialize, Serialize};

use super::Writer;
use super::error::StoreError;
use super::gaps::{self, Holes, Place};
use super::log::{self, NewChange};
use super::mirror::{self, Fields, RowFacts};
use super::pollers::{self, PollerRow};
use super::reader::Reader;
use crate::record::{Kind, Page, PollerId, Record, RecordId, Route, field, same_record};

/// What is to be stored of a search.
#[derive(Debug, Clone)]
pub struct Search {
    /// The branch that was asked; `None` is the workspace default.
    pub business: Option<String>,
    /// The answer.
    pub page: Page,
    /// What a customer not known before is in the log when no gap can have hidden it: `created`
    /// or `baseline`.
    pub kind: Kind,
    /// When the answer was read.
    pub at: Timestamp,
    /// The last row of the log when it was asked for; what was stored since is newer than it.
    pub asked_after: i64,
    /// The term, when it is one of a backfill that is to be resumed.
    pub backfill_term: Option<String>,
}

/// What a search came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Customers stored for the first time.
    pub created: usize,
    /// Customers whose meaning changed.
    pub updated: usize,
}

/// What is to be written for one record.
enum Step {
    Create,
    Update { version: i64, via: Option<String>, business: Option<String> },
}

/// Stores a search; see [`super::Store::store_found`].
pub(super) fn store(writer: &mut Writer, search: &Search) -> Result<Found, StoreError> {
    writer.refuse_replaced_file()?;
    let steps = compare(&writer.connection, &search.page, search.asked_after)?;
    let found = Found {
        created: steps.iter().filter(|(_, s)| matches!(s, Step::Create)).count(),
        updated: steps.iter().filter(|(_, s)| matches!(s, Step::Update { .. })).count(),
    };
    if steps.is_empty() && search.backfill_term.is_none() {
        return Ok(found);
    }
    if let Err(error) = write(writer, search, &steps) {
        // The columns in memory may be ahead of a rolled-back table.
        writer.mirrors.clear();
        return Err(error);
    }
    if found.updated > 0 {
        // The pages in memory no longer say what is stored.
        writer.forget_texts(Route::Customers, None);
    }
    Ok(found)
}

fn compare(
    connection: &Connection,
    page: &Page,
    asked_after: i64,
) -> Result<Vec<(usize, Step)>, StoreError> {
    let mut find = connection.prepare_cached(
        "SELECT m._business, m._via, c.version, c.body, c.seq <= ?2 FROM customers m JOIN changes c ON c.seq = m._seq WHERE m.id = ?1",
    )?;
    let mut steps = Vec::new();
    for (index, record) in page.records().iter().enumerate() {
        let row = find
            .query_row((record.id.as_str(), asked_after), |row| {
                let version: i64 = row.get(2)?;
                let body: String = row.get(3)?;
                let older: bool = row.get(4)?;
                Ok((row.get(0)?, row.get(1)?, version, body, older))
            })
            .optional()?;
        let text = page.text(record);
        match row {
            None => steps.push((index, Step::Create)),
            Some((business, via, version, body, older)) => {
                if older && !same_record(&body, text) && same_fields(&body, text) {
                    steps.push((index, Step::Update { version: version + 1, via, business }));
                }
            }
        }
    }
    Ok(steps)
}

/// Whether a record is shown with the fields it is known by. Absent values are null and their field
/// is present (contract, "Data conventions"), so one with other fields is shown in another shape
/// than a poll shows it in, and says nothing about what changed.
fn same_fields(known: &str, text: &str) -> bool {
    let names = |text: &str| -> HashSet<String> {
        Fields::of(text).0.into_iter().map(|(name, _)| name.into_owned()).collect()
    };
    names(known) == names(text)
}

fn write(writer: &mut Writer, search: &Search, steps: &[(usize, Step)]) -> Result<(), StoreError> {
    let route = Route::Customers;
    let stamp = crate::clock::stamp(search.at);
    let page = &search.page;
    let key = PollerId { route, business: search.business.clone() };
    let poller = match writer.known.get(&key) {
        Some(known) => Some(known.row.clone()),
        None => pollers::find(&writer.connection, &key)?,
    };
    let mirror = mirror::of_route(&mut writer.mirrors, &writer.connection, route)?;
    let tx = writer.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut holes = Holes::open(&tx, route, search.business.as_deref())?;
    let parsed: Vec<Fields<'_>> =
        steps.iter().map(|(index, _)| Fields::of(page.text(&page.records()[*index]))).collect();
    mirror.grow(&tx, &parsed)?;
    for ((index, step), fields) in steps.iter().zip(&parsed).rev() {
        let record = &page.records()[*index];
        let text = page.text(record);
        let (kind, version, via, business) = match step {
            Step::Create => {
                let newer = poller.as_ref().is_some_and(|row| is_newer(row, record, text));
                let kind = match holes.credit(record, text) {
                    Place::Outside if !newer => search.kind,
                    // What was or may have been missed is news, as is what no poll has come to yet.
                    _ => Kind::Created,
                };
                (kind, 1, Some("search"), search.business.as_deref())
            }
            Step::Update { version, via, business } => {
                (Kind::Updated, *version, via.as_deref(), business.as_deref())
            }
        };
        let id = record.id.as_str();
        let change = NewChange {
            route,
            record_id: id,
            kind,
            version,
            observed_at: &stamp,
            business,
            body: text,
        };
        let seq = log::append(&tx, &writer.identity, &change)?;
        mirror.put(&tx, &RowFacts { id, business, at: &stamp, seq, via }, fields)?;
    }
    holes.save(&tx)?;
    if let Some(term) = &search.backfill_term {
        note_term(&tx, search, term, &stamp)?;
    }
    tx.commit()?;
    Ok(())
}

/// Whether a record came after the poller's last page: the next one finds it in the mirror.
fn is_newer(row: &PollerRow, record: &Record, text: &str) -> bool {
    match row.high_id.zip(record.id.as_integer()) {
        Some((high, id)) => id > high,
        None => gaps::created_at(text)
            .zip(row.last_success_at.parse::<Timestamp>().ok())
            .is_some_and(|(made, read)| made.duration_since(read) >= -gaps::SKEW),
    }
}

fn note_term(tx: &Connection, search: &Search, term: &str, at: &str) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO backfill_terms (business, term, returned, asked_at) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (business, term) DO UPDATE SET returned = excluded.returned, asked_at = excluded.asked_at",
    )?
    .execute((
        search.business.as_deref().unwrap_or(""),
        term,
        i64::try_from(search.page.records().len()).unwrap_or(i64::MAX),
        at,
    ))?;
    Ok(())
}

/// A customer as a search can find them; what the API does not show is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomerText {
    /// The record's id.
    pub id: String,
    /// `name`
    pub name: String,
    /// `email`
    pub email: String,
    /// `mobile_number`
    pub mobile: String,
}

impl CustomerText {
    /// Reads from a record's JSON text what a search looks at; `None` when it has no id.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let id = RecordId::from_json(field(text, "id")?).ok()?;
        let read = |name| match field(text, name).map(serde_json::from_str) {
            Some(Ok(serde_json::Value::String(text))) => text,
            Some(Ok(serde_json::Value::Number(number))) => number.to_string(),
            _ => String::new(),
        };
        Some(Self {
            id: id.as_str().to_owned(),
            name: read("name"),
            email: read("email"),
            mobile: read("mobile_number"),
        })
    }
}

impl Reader {
    /// Gives `each` every customer of a branch, the newest in the mirror first.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn each_customer(
        &self,
        business: Option<&str>,
        each: impl FnMut(CustomerText),
    ) -> Result<(), StoreError> {
        self.each_person(Route::Customers, business, each)
    }

    /// Gives `each` whoever the records of a route and a branch name, the newest first.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn each_person(
        &self,
        route: Route,
        business: Option<&str>,
        mut each: impl FnMut(CustomerText),
    ) -> Result<(), StoreError> {
        let columns = self.columns(route)?;
        let has = |name: &str| columns.iter().any(|column| column == name);
        let shown = |name: &str| {
            if has(name) {
                format!("coalesce(CAST(\"{name}\" AS TEXT), '')")
            } else {
                "''".to_owned()
            }
        };
        let name = if has("customer_name") { "customer_name" } else { "name" };
        let mut statement = self.connection.prepare(&format!(
            "SELECT id, {}, {}, {} FROM \"{route}\" WHERE _business IS ?1 ORDER BY _seq DESC",
            shown(name),
            shown("email"),
            shown("mobile_number"),
        ))?;
        let mut rows = statement.query([business])?;
        while let Some(row) = rows.next()? {
            each(CustomerText {
                id: row.get(0)?,
                name: row.get(1)?,
                email: row.get(2)?,
                mobile: row.get(3)?,
            });
        }
        Ok(())
    }

    /// The terms a backfill of a branch has asked, in no order, and how many records each returned.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn backfill_terms(&self, business: Option<&str>) -> Result<Vec<(String, u32)>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT term, returned FROM backfill_terms WHERE business = ?1 ORDER BY asked_at LIMIT 100000",
        )?;
        let rows =
            statement.query_map([business.unwrap_or("")], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The gaps of customers found since `stamp` that are neither repaired nor accepted.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn repairable_gaps(&self, stamp: &str) -> Result<Vec<gaps::Repairable>, StoreError> {
        Ok(gaps::repairable(&self.connection, Route::Customers, stamp)?)
    }

    /// The position in the log just before the first row observed at or after `stamp`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn position_at(&self, stamp: &str) -> Result<i64, StoreError> {
        Ok(log::position_at(&self.connection, stamp)?)
    }
}

#[cfg(test)]
mod tests;
