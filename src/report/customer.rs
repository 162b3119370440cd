//! What a customer paid and owes, with how sure both are: a report that is not listed, about the
//! repairs of one customer.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::builtin::made;
use super::error::ReportError;
use super::exactness::{BusinessChoice, Cell, Knowledge};
use super::period::Period;
use super::query;
use crate::config::CountedBy;
use crate::store::Reader;

/// What a customer paid and owes.
#[derive(Debug, Clone)]
pub struct CustomerMoney {
    /// What was paid for all repairs.
    pub paid: Cell,
    /// What is not paid of those that are not cancelled.
    pub owed: Cell,
    /// What is not known of these repairs, in words.
    pub notes: Vec<String>,
}

/// Adds up the repairs with these ids. Blocks.
///
/// # Errors
/// [`ReportError`], also if it takes too long.
pub fn customer_money(
    reader: &mut Reader,
    repairs: &[String],
    zone: &TimeZone,
    now: Timestamp,
) -> Result<CustomerMoney, ReportError> {
    let today = now.to_zoned_datetime(zone.clone()).date();
    let of_today = Period {
        from: today,
        to: today,
    };
    let days = of_today.days(zone, CountedBy::Day);
    let report = made("customer", include_str!("sql/customer-money.sql"));
    let ids = serde_json::to_string(repairs).expect("ids are text");
    let parameters = [("repairs".to_owned(), ids.into())];
    reader.set_days(&days)?;
    reader.at_one_moment(|reader| {
        let uses = query::uses_of(reader, &report)?;
        let business = BusinessChoice::default();
        let known = Knowledge::read(reader, &uses.routes, &business, days, now)?;
        let cells = query::cells_of(reader, &report, &uses, &known, &parameters)?;
        let notes = query::notes_of(reader, &report, &parameters)?.texts;
        let mut sums = cells.rows.into_iter().flatten();
        Ok(CustomerMoney {
            paid: sums.next().unwrap_or(Cell::unknown()),
            owed: sums.next().unwrap_or(Cell::unknown()),
            notes,
        })
    })
}
