//! The latest definitions of the workspace's custom fields: the table `_custom_fields`.
//!
//! A form's row is written only if the meaning of its definitions changed.

use jiff::Timestamp;
use rusqlite::OptionalExtension;

use super::error::StoreError;
use super::handle::Store;
use super::meta;
use super::open::write_tx;
use super::reader::Reader;
use crate::clock::stamp;
use crate::record::same_meaning;
use crate::store::mirror::views;

/// The row of `meta` that holds when every form was last read.
const CHECKED_AT: &str = "custom_fields_checked_at";

impl Store {
    /// Stores one form's custom fields, given as a JSON array. Returns `added` or `changed`, if their meaning is
    /// another one now.
    ///
    /// # Errors
    /// Nothing is stored.
    pub async fn store_form(
        &self,
        form_type: String,
        business: Option<String>,
        definition: String,
        at: Timestamp,
    ) -> Result<Option<&'static str>, StoreError> {
        let business = business.unwrap_or_default();
        self.write(move |writer| {
            let tx = write_tx(&mut writer.connection)?;
            let known: Option<String> = tx
                .prepare_cached(
                    "SELECT definition FROM _custom_fields WHERE form_type = ?1 AND business = ?2",
                )?
                .query_row([&form_type, &business], |row| row.get(0))
                .optional()?;
            let what = match known {
                None => "added",
                Some(known) if same_meaning(&known, &definition) => return Ok(None),
                Some(_) => "changed",
            };
            tx.prepare_cached(
                "INSERT INTO _custom_fields (form_type, business, definition, changed_at) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT (form_type, business) DO UPDATE SET definition = excluded.definition, changed_at = excluded.changed_at",
            )?
            .execute((&form_type, &business, &definition, stamp(at)))?;
            views::refresh(&tx)?;
            tx.commit()?;
            Ok(Some(what))
        })
        .await
    }

    /// Forgets the forms that a business no longer lists and returns them; remembers when the forms were read.
    ///
    /// # Errors
    /// Nothing is changed.
    pub async fn keep_forms(
        &self,
        business: Option<String>,
        listed: Vec<String>,
        at: Timestamp,
    ) -> Result<Vec<String>, StoreError> {
        let listed = serde_json::to_string(&listed).expect("names are text");
        self.write(move |writer| {
            let tx = write_tx(&mut writer.connection)?;
            let removed = tx
                .prepare_cached(
                    "DELETE FROM _custom_fields WHERE business = ?1 \
                     AND form_type NOT IN (SELECT value FROM json_each(?2)) RETURNING form_type",
                )?
                .query_map([business.unwrap_or_default(), listed], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            meta::set(&tx, CHECKED_AT, &stamp(at))?;
            views::refresh(&tx)?;
            tx.commit()?;
            Ok(removed)
        })
        .await
    }
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
