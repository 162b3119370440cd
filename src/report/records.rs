//! The number and the sums of a list of records, with how sure each is.
//!
//! They are the answer of a report that is not listed, as the numbers of Home are.

use jiff::Timestamp;
use jiff::civil::Date;
use shopmirror_core::clock::second;
use shopmirror_core::record::Route;

use super::answer::chosen;
use super::builtin::made;
use super::error::ReportError;
use super::exactness::{Cell, Exactness, Knowledge};
use super::period::Period;
use super::query;
use crate::config::CountedBy;
use crate::store::{FilterWay, PollerRow, QueryLimits, Reader, RecordList};

/// The number and the sums of a list of records.
#[derive(Debug, Clone)]
pub struct RecordTotals {
    /// How many records there are.
    pub records: Cell,
    /// The sum of each column of amounts, by its name.
    pub sums: Vec<(String, Cell)>,
    /// What was read of the list, in words.
    pub note: String,
}

/// Counts and adds up a list. Blocks.
///
/// # Errors
/// [`ReportError`], also if it takes too long.
pub fn record_totals(
    reader: &mut Reader,
    list: &RecordList,
    limits: QueryLimits,
    now: Timestamp,
) -> Result<RecordTotals, ReportError> {
    let today = now.to_zoned_datetime(list.zone.clone()).date();
    let asked_days = created_days(list, today)?;
    let (from, to) = asked_days.unwrap_or((today, today));
    let days = Period { from, to }.days(&list.zone, CountedBy::Day);
    let (sql, mut parameters) = list.totals()?;
    parameters.push(("now".to_owned(), second(now).into()));
    let report = made(
        "records",
        &format!("{}\n{sql}", comment(list, asked_days.is_some())),
    );
    reader.set_days(&days)?;
    reader.at_one_moment(|reader| {
        let asked = list
            .business
            .as_ref()
            .map(|(business, _)| business.as_str());
        let business = chosen(&reader.pollers()?, asked)?;
        let uses = query::uses_of(reader, &report)?;
        let known = Knowledge::read(reader, &uses.routes, &business, days, now)?;
        let found = reader
            .query(&report.sql, &parameters, limits)
            .map_err(|error| ReportError::of_query("records", error))?;
        let cells = known.cells(&report, &uses, found);
        let mut row = cells
            .rows
            .into_iter()
            .next()
            .unwrap_or_default()
            .into_iter();
        let records = row.next().unwrap_or(Cell::unknown());
        let names = cells.columns.into_iter().skip(1);
        let sums: Vec<(String, Cell)> = names.zip(row).collect();
        let mut worst = records.exactness;
        for (_, sum) in &sums {
            if sum.exactness != Exactness::Exact {
                worst = sum.exactness;
            }
        }
        Ok(RecordTotals {
            records,
            sums,
            note: known.line(asked_days.is_some(), worst, &list.zone),
        })
    })
}

/// The business of the records that name none.
///
/// # Errors
/// If there is no business of the name that is asked for.
pub fn default_business(reader: &Reader, asked: &str) -> Result<Option<String>, ReportError> {
    let pollers: Vec<PollerRow> = reader.pollers()?;
    Ok(chosen(&pollers, Some(asked))?.default)
}

/// The days of creation that are asked for, if there is a first one: up to today if no last one is
/// named. More days than a report has are all time.
fn created_days(list: &RecordList, today: Date) -> Result<Option<(Date, Date)>, ReportError> {
    let mut from = None;
    let mut to = None;
    for filter in &list.query.filters {
        if filter.column == "created" {
            match filter.way {
                FilterWay::From => from = Some(filter.day()?),
                FilterWay::To => to = Some(filter.day()?),
                _ => {}
            }
        }
    }
    let Some(from) = from else {
        return Ok(None);
    };
    let to = to.unwrap_or(today).max(from);
    match Period::new(Some(from), Some(to), today) {
        Ok(period) => Ok(Some((period.from, period.to))),
        Err(_) => Ok(None),
    }
}

/// The comment of the report: which records its columns count, of some days or of all time. A
/// payment may be a refund, so that one that is missing could change a sum in both ways.
fn comment(list: &RecordList, has_days: bool) -> String {
    let route = list.route;
    let mut names = vec!["records"];
    names.extend(list.summed());
    let names = names.join("\", \"");
    let mut comment = if has_days {
        format!("-- counts.{route} = [\"{names}\"]")
    } else {
        format!("-- before.{route} = [\"{names}\"]")
    };
    if route == Route::Payments {
        comment.push_str("\n-- samples.payments = [\"amount\"]");
    }
    // A status change that was missed brings a repair into a status, or out of it.
    if route == Route::Jobs && list.is_of_state() {
        for change in ["grown_by", "reduced_by"] {
            comment.push_str(&format!("\n-- {change}.job_status_changes = [\"{names}\"]"));
        }
    }
    comment
}
