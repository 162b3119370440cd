//! Who the mirror and the log name: what a repair or a backfill of customers searches for.

use super::error::StoreError;
use super::mirror::lookup::{self, PersonField};
use super::reader::Reader;
use super::{gaps, log};
use crate::record::{RecordId, Route, field};

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
    /// Whether any business has a customer with this text in a field, whatever the case of its ASCII
    /// letters: branches share their customers. Found by index.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn has_customer(&self, field: PersonField, text: &str) -> Result<bool, StoreError> {
        Ok(lookup::has_customer(&self.connection, field, text)?)
    }

    /// Gives `each` every customer of a business, the last changed first. Reads the whole table: use
    /// [`super::Store::read_long`].
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

    /// Gives `each` whoever the records of a route and a business name, the last changed first.
    /// Reads the whole table: use [`super::Store::read_long`].
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

    /// The terms that a backfill of a business has searched, in no order, and how many records each returned.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn backfill_terms(&self, business: Option<&str>) -> Result<Vec<(String, u32)>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT term, returned FROM _backfill_terms WHERE business = ?1 ORDER BY asked_at LIMIT 100000",
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

    /// Gives `each` the body of every `created` and `updated` record of a business, except customers, in
    /// the next `span` numbers of the log after `seq`. Returns the last number looked at, `None` at the
    /// end of the log.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn each_naming_record(
        &self,
        seq: i64,
        span: i64,
        business: Option<&str>,
        mut each: impl FnMut(&str),
    ) -> Result<Option<i64>, StoreError> {
        let last = log::last_seq(&self.connection)?.min(seq.saturating_add(span));
        if last <= seq {
            return Ok(None);
        }
        let mut statement = self.connection.prepare_cached(log::NAMING_RECORDS)?;
        let mut rows = statement.query((seq, last, business))?;
        while let Some(row) = rows.next()? {
            each(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
        }
        Ok(Some(last))
    }

    /// The position in the log just before the first row observed at or after `stamp`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn position_at(&self, stamp: &str) -> Result<i64, StoreError> {
        Ok(log::position_at(&self.connection, stamp)?)
    }
}
