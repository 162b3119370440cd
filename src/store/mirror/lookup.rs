//! Finding a customer by e-mail address, number or name: one index for each of the three columns.
//!
//! The search for missed customers asks for every person that other routes name whether the mirror has them. Without an index
//! each such question would read the whole table.

use rusqlite::{Connection, OptionalExtension};

use super::{Mirror, quoted};
use crate::record::Route;

/// What a customer can be found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PersonField {
    /// The field `email`.
    Email,
    /// The field `mobile_number`.
    Mobile,
    /// The field `name`.
    Name,
}

impl PersonField {
    const ALL: [Self; 3] = [Self::Email, Self::Mobile, Self::Name];

    fn field(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Mobile => "mobile_number",
            Self::Name => "name",
        }
    }
}

/// A value in the form that is compared: as text, without spaces around it, in lower case.
fn compared(value: &str) -> String {
    format!("lower(trim(CAST({value} AS TEXT)))")
}

/// Creates the indexes that are not there yet, for the columns that are.
pub(in crate::store) fn create_indexes(
    mirror: &Mirror,
    connection: &Connection,
) -> rusqlite::Result<()> {
    if mirror.route != Route::Customers {
        return Ok(());
    }
    for field in PersonField::ALL {
        let Some(&place) = mirror.by_field.get(field.field()) else { continue };
        let value = compared(&quoted(&mirror.columns[place].1));
        connection.execute_batch(&format!(
            "CREATE INDEX IF NOT EXISTS customers_by_{} ON customers ({value})",
            field.field()
        ))?;
    }
    Ok(())
}

/// The statement that [`has_customer`] runs.
pub(in crate::store) fn has_customer_sql(column: &str) -> String {
    format!("SELECT 1 FROM customers WHERE {} = lower(trim(?1)) LIMIT 1", compared(&quoted(column)))
}

/// Whether there is a customer with this text in a field, in any business. Letters beyond ASCII count as
/// different in upper and lower case.
pub(in crate::store) fn has_customer(
    connection: &Connection,
    field: PersonField,
    text: &str,
) -> rusqlite::Result<bool> {
    let column: Option<String> = connection
        .prepare_cached("SELECT \"column\" FROM _columns WHERE route = 'customers' AND field = ?1")?
        .query_row([field.field()], |row| row.get(0))
        .optional()?;
    let Some(column) = column else { return Ok(false) };
    let mut statement = connection.prepare_cached(&has_customer_sql(&column))?;
    statement.exists([text])
}
