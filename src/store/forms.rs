//! The latest definitions of the workspace's custom fields: the table `_custom_fields`.
//!
//! A form's row is written only if the meaning of its definitions changed.

use jiff::Timestamp;
use rusqlite::OptionalExtension;
use shopmirror_core::clock::stamp;
use shopmirror_core::record::same_meaning;

use super::error::StoreError;
use super::handle::Store;
use super::kept::Kept;
use super::meta;
use super::open::write_tx;
use super::sql::Sql;
use crate::store::mirror::views;

impl Store {
    /// Stores the custom fields of a business: of each form that was read, its name and a JSON
    /// array. Forgets the forms that are not listed any more. Returns each form that is another one
    /// now, and what became of it: `added`, `changed` or `removed`.
    ///
    /// # Errors
    /// Nothing is changed.
    pub async fn store_forms(
        &self,
        business: Option<String>,
        listed: Vec<String>,
        read: Vec<(String, String)>,
        at: Timestamp,
    ) -> Result<Vec<(String, &'static str)>, StoreError> {
        let business = business.unwrap_or_default();
        let listed = serde_json::to_string(&listed).expect("names are text");
        self.write(move |writer| {
            let tx = write_tx(&mut writer.connection)?;
            let mut changed = Vec::new();
            for (form, definition) in read {
                let known =
                    "SELECT definition FROM _custom_fields WHERE form_type = ?1 AND business = ?2";
                let known: Option<String> = tx.value(known, [&form, &business]).optional()?;
                let what = match known {
                    Some(known) if same_meaning(&known, &definition) => continue,
                    Some(_) => "changed",
                    None => "added",
                };
                tx.run(
                    "INSERT OR REPLACE INTO _custom_fields (form_type, business, definition, changed_at) \
                     VALUES (?1, ?2, ?3, ?4)",
                    (&form, &business, &definition, stamp(at)),
                )?;
                changed.push((form, what));
            }
            let removed: Vec<String> = tx.values(
                "DELETE FROM _custom_fields WHERE business = ?1 \
                 AND form_type NOT IN (SELECT value FROM json_each(?2)) RETURNING form_type",
                [business, listed],
            )?;
            changed.extend(removed.into_iter().map(|form| (form, "removed")));
            meta::write(&tx, Kept::FORMS_READ.0, &stamp(at))?;
            views::refresh(&tx)?;
            tx.commit()?;
            Ok(changed)
        })
        .await
    }
}
