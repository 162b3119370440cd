//! Which fields of the records have the words that reports use: the configuration's, or the first of
//! the usual ones that was sent.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use shopmirror_core::reading::{JOB_DEVICE, PAYMENT_METHOD, ReadSettings, WordField};
use shopmirror_core::record::Route;

use crate::store::error::StoreError;
use crate::store::mirror::{field_columns, field_rules, quoted};
use crate::store::reader::Reader;

/// The field of records that stands for one of reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FieldSource {
    /// Its name; null if the configuration says that none does.
    pub name: Option<String>,
    /// Whether the configuration names it; it was found in the data otherwise.
    pub is_configured: bool,
}

/// The fields of records that have the words and were sent, the best first. A record may have any
/// of them: the first one with a value counts.
pub(in crate::store) fn sources(
    connection: &Connection,
    field: WordField,
) -> rusqlite::Result<Vec<String>> {
    let settings = field_rules::settings(connection)?;
    let mut sent = Vec::new();
    let columns = field_columns(connection, field.route)?;
    for name in field.sources(&settings, |name| columns.iter().any(|sent| sent == name)) {
        sent.push(name.to_owned());
    }
    Ok(sent)
}

/// The best of them.
fn best_source(connection: &Connection, field: WordField) -> rusqlite::Result<Option<String>> {
    Ok(sources(connection, field)?.into_iter().next())
}

/// The field of records that has the words, with who says so; `None` if none was sent and none is
/// configured.
pub(in crate::store) fn found(
    connection: &Connection,
    field: WordField,
) -> rusqlite::Result<Option<FieldSource>> {
    let settings = field_rules::settings(connection)?;
    if let Some(configured) = configured(&settings, field.route, field.name) {
        return Ok(Some(configured));
    }
    let name = best_source(connection, field)?;
    Ok(name.map(|name| FieldSource {
        name: Some(name),
        is_configured: false,
    }))
}

/// The field that the configuration names for one of reports.
pub(in crate::store) fn configured(
    settings: &ReadSettings,
    route: Route,
    field: &str,
) -> Option<FieldSource> {
    let name = settings.configured_source(route, field)?;
    Some(FieldSource {
        name: (!name.is_empty()).then(|| name.to_owned()),
        is_configured: true,
    })
}

/// The value of a row in SQL of the first field for the words of a field of reports that says
/// something; NULL if none does.
pub(in crate::store) fn first_of(
    connection: &Connection,
    field: WordField,
    row: &str,
) -> rusqlite::Result<String> {
    let mut values = String::new();
    for source in sources(connection, field)? {
        values.push_str(&format!("nullif({row}.{}, ''), ", quoted(&source)));
    }
    Ok(format!("coalesce({values}NULL, NULL)"))
}

impl Reader {
    /// Creates the views `worded_payments` and `worded_jobs` for the queries of this connection: what
    /// `payments` and `jobs` show there, with how a payment was made (`method`), and with what was
    /// repaired (`device`). That column comes first: of two columns of one name, the first one has
    /// it, and records may have a field of this name too.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn set_worded(&self) -> Result<(), StoreError> {
        for field in [PAYMENT_METHOD, JOB_DEVICE] {
            let WordField { route, name, .. } = field;
            let first = first_of(&self.connection, field, "r")?;
            self.connection.execute_batch(&format!(
                "DROP VIEW IF EXISTS temp.worded_{route};
                CREATE TEMP VIEW worded_{route} AS
                SELECT {first} AS {name}, r.*
                FROM {route} r"
            ))?;
        }
        Ok(())
    }

    /// The best field of records that has the words of a field of reports, if one was sent.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn word_source(&self, field: WordField) -> Result<Option<String>, StoreError> {
        Ok(best_source(&self.connection, field)?)
    }

    /// The words that mean that a payment is a refund, and those that mean that it is void.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn payment_words(&self) -> Result<(Vec<String>, Vec<String>), StoreError> {
        let settings = field_rules::settings(&self.connection)?;
        Ok((settings.refund_types, settings.void_statuses))
    }
}
