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
use super::sql::Sql;
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
            let known = "SELECT definition FROM _custom_fields WHERE form_type = ?1 AND business = ?2";
            let known: Option<String> = tx.value(known, [&form_type, &business]).optional()?;
            let what = match known {
                None => "added",
                Some(known) if same_meaning(&known, &definition) => return Ok(None),
                Some(_) => "changed",
            };
            tx.run(
                "INSERT OR REPLACE INTO _custom_fields (form_type, business, definition, changed_at) \
                 VALUES (?1, ?2, ?3, ?4)",
                (&form_type, &business, &definition, stamp(at)),
            )?;
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
            let removed = tx.values(
                "DELETE FROM _custom_fields WHERE business = ?1 \
                 AND form_type NOT IN (SELECT value FROM json_each(?2)) RETURNING form_type",
                [business.unwrap_or_default(), listed],
            )?;
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
