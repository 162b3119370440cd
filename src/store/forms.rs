//! The latest definitions of the workspace's custom fields: the table `custom_fields`.
//!
//! A form's row is written only if the meaning of its definitions changed.

use std::fmt;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::error::StoreError;
use super::handle::Store;
use super::meta;
use super::open::write_tx;
use super::reader::Reader;
use super::writer::Writer;
use crate::clock::stamp;
use crate::record::{poller_name, same_meaning};
use crate::store::mirror::views;

/// The row of `meta` that holds when every form was last read.
const CHECKED_AT: &str = "custom_fields_checked_at";

/// A change of one form's definitions.
#[derive(Debug)]
pub struct FormChange {
    /// The form's name.
    pub form_type: String,
    /// The business; `None` is the workspace's default.
    pub business: Option<String>,
    /// `added`, `changed` or `removed`.
    pub what: String,
}

impl fmt::Display for FormChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = poller_name(&self.form_type, self.business.as_deref());
        write!(f, "{form} {}", self.what)
    }
}

impl Store {
    /// Stores one form's custom fields, given as a JSON array; says what changed in meaning.
    ///
    /// # Errors
    /// Nothing is stored.
    pub async fn store_form(
        &self,
        form_type: String,
        business: Option<String>,
        definition: String,
        at: Timestamp,
    ) -> Result<Option<FormChange>, StoreError> {
        self.write(move |writer| {
            store(&mut writer.connection, form_type, business, &definition, at)
        })
        .await
    }

    /// Forgets the forms that a business no longer lists, and remembers when they were read.
    ///
    /// # Errors
    /// Nothing is changed.
    pub async fn keep_forms(
        &self,
        business: Option<String>,
        listed: Vec<String>,
        at: Timestamp,
    ) -> Result<Vec<FormChange>, StoreError> {
        self.write(move |writer| keep(writer, business.as_deref(), &listed, at)).await
    }
}

fn store(
    connection: &mut Connection,
    form_type: String,
    business: Option<String>,
    definition: &str,
    at: Timestamp,
) -> Result<Option<FormChange>, StoreError> {
    let stored_business = business.as_deref().unwrap_or("");
    let known: Option<String> = connection
        .prepare_cached(
            "SELECT definition FROM _custom_fields WHERE form_type = ?1 AND business = ?2",
        )?
        .query_row([&form_type, stored_business], |row| row.get(0))
        .optional()?;
    let what = match known {
        None => "added",
        Some(known) if same_meaning(&known, definition) => return Ok(None),
        Some(_) => "changed",
    };
    let tx = write_tx(connection)?;
    tx.prepare_cached(
            "INSERT INTO _custom_fields (form_type, business, definition, changed_at) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (form_type, business) DO UPDATE SET definition = excluded.definition, changed_at = excluded.changed_at",
        )?
        .execute((&form_type, stored_business, definition, stamp(at)))?;
    views::refresh(&tx)?;
    tx.commit()?;
    Ok(Some(FormChange { form_type, business, what: what.to_owned() }))
}

/// Deletes the forms that a business no longer lists, and notes when the forms were read.
fn keep(
    writer: &mut Writer,
    business: Option<&str>,
    listed: &[String],
    at: Timestamp,
) -> Result<Vec<FormChange>, StoreError> {
    let tx = write_tx(&mut writer.connection)?;
    let stored_business = business.unwrap_or("");
    let mut known: Vec<String> = tx
        .prepare_cached("SELECT form_type FROM _custom_fields WHERE business = ?1")?
        .query_map([stored_business], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    known.retain(|form_type| !listed.contains(form_type));
    for form_type in &known {
        tx.execute(
            "DELETE FROM _custom_fields WHERE form_type = ?1 AND business = ?2",
            [form_type.as_str(), stored_business],
        )?;
    }
    meta::set(&tx, CHECKED_AT, &stamp(at))?;
    views::refresh(&tx)?;
    tx.commit()?;
    let removed = |form_type| FormChange {
        form_type,
        business: business.map(str::to_owned),
        what: "removed".to_owned(),
    };
    Ok(known.into_iter().map(removed).collect())
}

impl Reader {
    /// When every form was last read; `None` if never.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn forms_checked_at(&self) -> Result<Option<String>, StoreError> {
        Ok(meta::value(&self.connection, CHECKED_AT)?)
    }
}
