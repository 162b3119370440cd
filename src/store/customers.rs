//! Look-ups for the searches for missed and for older customers: in the mirror, in the log and in
//! the table `_backfill_terms`.

use rusqlite::named_params;
use shopmirror_core::record::Route;

use super::error::StoreError;
use super::log;
use super::mirror::views::indexes::{PERSON, compared};
use super::reader::Reader;
use super::sql::Sql;

/// Letters beyond ASCII count as different in upper and lower case.
fn has_customer_sql(field: &str) -> String {
    format!(
        "SELECT 1
        FROM customers
        WHERE {} = lower(trim(:text))
        LIMIT 1",
        compared(field)
    )
}

/// The terms that a backfill has searched.
const TERMS: &str = "
    SELECT term, returned
    FROM _backfill_terms
    WHERE business = :business
    ORDER BY asked_at
    LIMIT 100000";

impl Reader {
    /// Whether any business has a customer with this text in a field, `email`, `mobile_number` or
    /// `name`, whatever the case of its ASCII letters: branches share their customers. Found by
    /// index.
    pub fn has_customer(&self, field: &str, text: &str) -> Result<bool, StoreError> {
        let columns = self.columns(Route::Customers)?;
        if !columns.iter().any(|column| column == field) {
            return Ok(false);
        }
        let mut find = self.connection.prepare_cached(&has_customer_sql(field))?;
        Ok(find.exists(named_params! { ":text": text })?)
    }

    /// The names, e-mail addresses and numbers of all customers, one a line. Reads the whole table.
    pub fn customer_texts(&self) -> Result<String, StoreError> {
        let columns = self.columns(Route::Customers)?;
        let mut texts = String::new();
        for name in PERSON {
            if !columns.iter().any(|column| column == name) {
                continue;
            }
            let sql = format!("SELECT CAST({name} AS TEXT) FROM customers WHERE {name} <> ''");
            for text in self.connection.values::<String>(&sql, [])? {
                texts.push_str(&text);
                texts.push('\n');
            }
        }
        Ok(texts)
    }

    /// The terms that a backfill of a business has searched, in no order, and how many records each
    /// returned.
    pub fn backfill_terms(&self, business: Option<&str>) -> Result<Vec<(String, u32)>, StoreError> {
        let business = business.unwrap_or("");
        let mut statement = self.connection.prepare_cached(TERMS)?;
        let mut rows = statement.query(named_params! { ":business": business })?;
        let mut terms = Vec::new();
        while let Some(row) = rows.next()? {
            terms.push(row.try_into()?);
        }
        Ok(terms)
    }

    /// Gives `each` the body of every `created` and `updated` record of a business, except
    /// customers, in the next `span` numbers of the log after `seq`. Returns the last number read,
    /// `None` at the end of the log.
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
    pub fn position_at(&self, stamp: &str) -> Result<i64, StoreError> {
        Ok(log::position_at(&self.connection, stamp)?)
    }
}
