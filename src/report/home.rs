//! The numbers of the page Home: what came in, what was completed, and the state of things now.
//!
//! Each is the answer of a report that is not listed, so that it shows how much is known: all of it,
//! a part of it, or nothing. Repairs count by their current state. The numbers name no person.

mod ready;
mod span;

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use shopmirror_core::clock::second;
use shopmirror_core::record::Route;

use super::builtin::made;
use super::error::ReportError;
use super::exactness::{
    BusinessChoice, Cell, Knowledge, complete_since, of_cancelled, of_links, of_rereads,
};
use super::period::Period;
use super::query;
use super::value::shown;
use crate::config::Range;
use crate::store::{Reader, SqlValue};
use ready::is_ready;
use span::spans;

/// Days of the small line of a number, today included.
pub const LINE_DAYS: usize = 30;

/// A number of Home that is counted over the range.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The number of the range.
    pub now: Cell,
    /// The same a range before, up to the same hour.
    pub before: Cell,
    /// The last [`LINE_DAYS`] days, the oldest first; none if the workspace sends no such records.
    pub days: Vec<Cell>,
}

/// The numbers of the current state, whatever the range.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Repairs that are open.
    pub open: Cell,
    /// Open repairs that are ready for pickup; unknown if no status is known to mean it.
    pub ready: Cell,
    /// Those that are ready for pickup for more than 14 days.
    pub ready_long: Cell,
    /// Open repairs whose estimated delivery has passed.
    pub overdue: Cell,
    /// Repairs that were taken in more than 30 days ago and are open.
    pub open_long: Cell,
    /// Open leads whose follow-up is due.
    pub follow_ups: Cell,
    /// What is unpaid of the repairs that were completed in the last 90 days.
    pub unpaid: Cell,
}

/// The numbers of Home.
#[derive(Debug, Clone, PartialEq)]
pub struct Home {
    /// The days of the range.
    pub days: Period,
    /// When the numbers were read.
    pub as_of: Timestamp,
    /// Repairs taken in.
    pub taken_in: Figure,
    /// Repairs completed; unknown if status changes do not name their repair.
    pub completed: Figure,
    /// Payments, with refunds taken off.
    pub money_in: Figure,
    /// New leads.
    pub leads: Figure,
    /// The statuses of open repairs that mean ready for pickup.
    pub ready_status: BTreeSet<String>,
    /// The open repairs by status, the most frequent first.
    pub by_status: Vec<(String, f64)>,
    /// The numbers of now.
    pub now: Standing,
    /// Notes beside the numbers.
    pub notes: BTreeSet<String>,
    /// Since when every list is complete, in words.
    pub complete_since: String,
    /// Gaps that were not repaired.
    pub gaps: usize,
}

/// Reads the numbers; `named` are the statuses that mean ready for pickup. Blocks.
///
/// # Errors
/// If the store cannot be read in time.
pub fn home(
    reader: &mut Reader,
    range: Range,
    named: &[String],
    zone: &TimeZone,
    now: Timestamp,
) -> Result<Home, ReportError> {
    let today = now.to_zoned_datetime(zone.clone()).date();
    let days = spans(range, zone, now);
    reader.set_days(&days)?;
    let from = days.iter().map(|span| span.from).min().unwrap_or(now);
    let mut known = Knowledge::read(reader, &Route::ALL, &BusinessChoice::default(), days, now)?;
    known.unknown_jobs = reader.unknown_jobs_completed(from, now, None, None)?;
    let parameters = vec![
        ("today".to_owned(), today.to_string().into()),
        ("now".to_owned(), second(now).into()),
    ];
    let mut source = Source {
        reader,
        notes: BTreeSet::from_iter(known.gone.iter().cloned()),
        known,
        parameters,
        zone: zone.clone(),
    };
    let statuses = source.rows(include_str!("sql/home/statuses.sql"))?;
    let ready = |rows: &[Vec<Cell>]| -> BTreeSet<String> {
        let names = rows.iter().map(|row| shown(&row[0].value, None));
        names.filter(|status| is_ready(status, named)).collect()
    };
    let ready_status = ready(&statuses);
    // Without a status of such a name, a count of none says nothing.
    let knows_ready = !named.is_empty()
        || !ready_status.is_empty()
        || !ready(&source.rows(include_str!("sql/home/used-statuses.sql"))?).is_empty();
    let statuses_text = Vec::from_iter(ready_status.iter().map(String::as_str)).join("|");
    source
        .parameters
        .push(("ready".to_owned(), statuses_text.into()));
    let if_known = |count: Cell| if knows_ready { count } else { Cell::unknown() };
    let standing = Standing {
        open: source.number(include_str!("sql/home/open.sql"))?,
        ready: if_known(source.number(include_str!("sql/home/ready.sql"))?),
        ready_long: if_known(source.number(include_str!("sql/home/ready-long.sql"))?),
        overdue: source.number(include_str!("sql/home/overdue.sql"))?,
        open_long: source.number(include_str!("sql/home/open-long.sql"))?,
        follow_ups: source.number(include_str!("sql/home/follow-ups.sql"))?,
        unpaid: source.number(include_str!("sql/home/unpaid.sql"))?,
    };
    if !knows_ready {
        let text =
            "no status has a name that means ready for pickup: set ready_status in [reports]";
        source.notes.insert(text.to_owned());
    }
    Ok(Home {
        days: range.days(today),
        as_of: now,
        taken_in: source.figure(include_str!("sql/home/taken-in.sql"))?,
        completed: source.figure(include_str!("sql/home/completed.sql"))?,
        money_in: source.figure(include_str!("sql/home/money-in.sql"))?,
        leads: source.figure(include_str!("sql/home/leads.sql"))?,
        ready_status,
        by_status: {
            let count = |row: &Vec<Cell>| row[1].number().unwrap_or_default();
            statuses
                .iter()
                .map(|row| (shown(&row[0].value, None), count(row)))
                .collect()
        },
        now: standing,
        complete_since: complete_since(&source.known, zone),
        gaps: source
            .known
            .coverages
            .iter()
            .map(|list| list.gaps.len())
            .sum(),
        notes: source.notes,
    })
}

/// Answers the reports of Home.
struct Source<'a> {
    reader: &'a mut Reader,
    known: Knowledge,
    parameters: Vec<(String, SqlValue)>,
    zone: TimeZone,
    notes: BTreeSet<String>,
}

impl Source<'_> {
    /// The number of a report that counts over the range.
    fn figure(&mut self, text: &str) -> Result<Figure, ReportError> {
        let mut cells = self
            .rows(text)?
            .into_iter()
            .filter_map(|row| row.into_iter().next());
        let mut next = || cells.next().unwrap_or(Cell::unknown());
        Ok(Figure {
            now: next(),
            before: next(),
            days: cells.collect(),
        })
    }

    /// The number of a report of now.
    fn number(&mut self, text: &str) -> Result<Cell, ReportError> {
        let row = self.rows(text)?.into_iter().next();
        let number = row.and_then(|row| row.into_iter().next());
        Ok(number.unwrap_or(Cell::unknown()))
    }

    /// The rows of a report; none if the workspace does not send what it needs.
    fn rows(&mut self, text: &str) -> Result<Vec<Vec<Cell>>, ReportError> {
        let report = made("home", text);
        match query::cells_of(self.reader, &report, &self.known, &self.parameters) {
            Ok(cells) => {
                self.notes.extend(of_cancelled(self.reader, &report)?);
                self.notes.extend(of_links(self.reader, &report)?);
                self.notes
                    .extend(self.known.of_unheard(&report, &self.zone));
                let rereads = of_rereads(self.reader, &report)?;
                self.notes.extend(rereads);
                let own = query::notes_of(self.reader, &report, &self.parameters)?;
                self.notes.extend(own.texts);
                Ok(cells.rows)
            }
            Err(ReportError::NotSent(_)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}
