//! The latest definitions of the workspace's custom fields: the table `_custom_fields`.
//!
//! A form's row is written only if the meaning of its definitions changed.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, named_params};
use shopmirror_core::clock::stamp;
use shopmirror_core::record::same_meaning;

use super::error::StoreError;
use super::handle::Store;
use super::meta::{self, MetaKey};
use super::open::write_tx;
use super::sql::Sql;
use crate::store::mirror::views;

const FIND: &str = "
    SELECT definition
    FROM _custom_fields
    WHERE form_type = :form AND business = :business";

const SET: &str = "
    INSERT OR REPLACE INTO _custom_fields (form_type, business, definition, changed_at)
    VALUES (:form, :business, :definition, :at)";

/// Removes the forms that are not in `:listed`, a JSON list; returns which.
const REMOVE: &str = "
    DELETE FROM _custom_fields
    WHERE business = :business
        AND form_type NOT IN (SELECT value FROM json_each(:listed))
    RETURNING form_type";

impl Store {
    /// Stores the custom fields of a business: of each form that was read, its name and a JSON
    /// array. Forgets the forms that are not listed any more. Returns each form that is another one
    /// now, and what became of it: `added`, `changed` or `removed`.
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
                let stored: Option<String> = tx
                    .value(FIND, named_params! { ":form": form, ":business": business })
                    .optional()?;
                let what = match stored {
                    Some(stored) if same_meaning(&stored, &definition) => continue,
                    Some(_) => "changed",
                    None => "added",
                };
                tx.run(
                    SET,
                    named_params! {
                        ":form": form,
                        ":business": business,
                        ":definition": definition,
                        ":at": stamp(at),
                    },
                )?;
                changed.push((form, what));
            }
            let removed: Vec<String> = tx.values(
                REMOVE,
                named_params! { ":business": business, ":listed": listed },
            )?;
            for form in removed {
                changed.push((form, "removed"));
            }
            meta::write(&tx, MetaKey::FORMS_READ.0, &stamp(at))?;
            views::refresh(&tx)?;
            tx.commit()?;
            Ok(changed)
        })
        .await
    }
}
