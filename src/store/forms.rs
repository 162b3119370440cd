//! The latest definitions of the workspace's custom fields: the table `custom_fields`.
//!
//! A form's row is written only if the meaning of its definitions changed.

use std::fmt;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::StoreError;
use super::handle::Store;
use super::meta;
use super::open::write_tx;
use super::reader::Reader;
use super::writer::Writer;
use crate::clock::stamp;
use crate::record::same_meaning;
use crate::store::mirror::views;

/// The row of `meta` that holds when every form was last read.
const CHECKED_AT: &str = "custom_fields_checked_at";

/// A change of one form's definitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormChange {
    /// The form's name.
    pub form_type: String,
    /// The business; `None` is the workspace's default.
    #[serde(default)]
    pub business: Option<String>,
    /// `added`, `changed` or `removed`.
    pub what: String,
}

impl fmt::Display for FormChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let business = self.business.as_ref().map_or_else(String::new, |b| format!("@{b}"));
        write!(f, "{}{business} {}", self.form_type, self.what)
    }
}

/// One form's definitions.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Form {
    /// The form's name.
    pub form_type: String,
    /// The business; `None` is the workspace's default.
    pub business: Option<String>,
    /// When the definitions last changed.
    pub changed_at: String,
    /// The definitions, as received.
    #[cfg_attr(test, schemars(with = "Vec<serde_json::Value>"))]
    pub fields: Box<RawValue>,
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
    /// The custom fields' definitions, by the form's name.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn forms(&self) -> Result<Vec<Form>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT form_type, changed_at, definition, nullif(business, '') FROM _custom_fields \
             ORDER BY form_type, business LIMIT 1000",
        )?;
        let mut rows = statement.query([])?;
        let mut forms = Vec::new();
        while let Some(row) = rows.next()? {
            let text: String = row.get(2)?;
            let fields = RawValue::from_string(text)
                .map_err(|_| StoreError::Corrupt("a custom field is not JSON".to_owned()))?;
            forms.push(Form {
                form_type: row.get(0)?,
                business: row.get(3)?,
                changed_at: row.get(1)?,
                fields,
            });
        }
        Ok(forms)
    }

    /// When every form was last read; `None` if never.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn forms_checked_at(&self) -> Result<Option<String>, StoreError> {
        Ok(meta::value(&self.connection, CHECKED_AT)?)
    }
}
