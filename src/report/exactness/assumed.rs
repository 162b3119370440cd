//! Notes about what a report takes for granted of the shop's own words: which repairs are cancelled,
//! who completed one, which payments are refunds or void.

use shopmirror_core::reading::{CHANGED_BY, PAYMENT_STATUS, PAYMENT_TYPE, WordField};

use crate::report::uses::Uses;
use crate::store::{Reader, StoreError};

/// The notes of a report that reads this.
///
/// # Errors
/// If the store cannot be read.
pub(super) fn assumed(reader: &Reader, uses: &Uses) -> Result<Vec<String>, StoreError> {
    let mut notes = Vec::new();
    if uses.completed && !reader.knows_cancelled()? {
        notes.push(
            "no repair has a status whose name means cancelled: if there is one, set \
             cancelled_status in [reports]"
                .to_owned(),
        );
    }
    if uses.who && reader.has_records(CHANGED_BY.route)? && !is_sent(reader, CHANGED_BY)? {
        notes.push(
            "no field of job_status_changes is known to say who changed a status, so a completed \
             repair counts for the person that it names: set job_status_changes.changed_by in \
             [reports.fields]"
                .to_owned(),
        );
    }
    if uses.kinds || uses.paid_sums {
        let (refund_types, void_statuses) = reader.payment_words()?;
        notes.extend(of_payments(
            reader,
            PAYMENT_TYPE,
            &refund_types,
            "refund_types",
            "is a refund only if its amount is negative",
        )?);
        notes.extend(of_payments(
            reader,
            PAYMENT_STATUS,
            &void_statuses,
            "void_statuses",
            "counts whatever its status",
        )?);
    }
    Ok(notes)
}

fn is_sent(reader: &Reader, field: WordField) -> Result<bool, StoreError> {
    Ok(reader.word_source(field)?.is_some())
}

/// What is assumed of payments while a field and the setting for its words are not both there.
fn of_payments(
    reader: &Reader,
    field: WordField,
    words: &[String],
    setting: &str,
    assumed: &str,
) -> Result<Option<String>, StoreError> {
    let name = field.name;
    Ok(match (reader.word_source(field)?, words) {
        (Some(source), []) => Some(format!(
            "a payment {assumed}: if its field {source} can say otherwise, set {setting} in \
             [reports]"
        )),
        (None, [_, ..]) if reader.has_records(field.route)? => Some(format!(
            "no field of payments is known to say its {name}, so a payment {assumed}: set \
             payments.{name} in [reports.fields]"
        )),
        _ => None,
    })
}
