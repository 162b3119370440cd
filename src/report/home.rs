//! The numbers of the page Home: what came in, what was completed, and the state of things now.
//!
//! Each is the answer of a report that is not listed, so that it shows how much is known: all of it,
//! a part of it, or nothing. Repairs count by their current state. The numbers name no person.

mod document;
mod ready;
mod span;

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use shopmirror_core::clock::second;
use shopmirror_core::record::Route;

use super::builtin::made;
use super::error::ReportError;
use super::exactness::{BusinessChoice, Cell, Exactness, Knowledge, complete_since};
use super::head::Report;
use super::period::Period;
use super::query;
use super::value::shown;
use crate::config::Range;
use crate::store::{Reader, ReportDay, SqlValue};
pub use document::HomeDocument;
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
    /// When its lists were last read, if that is more than some minutes ago: both numbers end then.
    pub as_of: Option<Timestamp>,
}

/// A number of the current state.
#[derive(Debug, Clone, PartialEq)]
pub struct Number {
    /// The number.
    pub cell: Cell,
    /// When its lists were last read, if that is more than some minutes ago.
    pub as_of: Option<Timestamp>,
}

/// The numbers of the current state, whatever the range.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Repairs that are open.
    pub open: Number,
    /// Open repairs that are ready for pickup; unknown if no status is known to mean it.
    pub ready: Number,
    /// Those that are ready for pickup for more than 14 days.
    pub ready_long: Number,
    /// Open repairs whose estimated delivery has passed.
    pub overdue: Number,
    /// Repairs that were taken in more than 30 days ago and are open.
    pub open_long: Number,
    /// Open leads whose follow-up is due.
    pub follow_ups: Number,
}

/// The amounts of Home.
#[derive(Debug, Clone, PartialEq)]
pub struct Money {
    /// Payments, with refunds taken off.
    pub received: Figure,
    /// What is unpaid of the repairs that were completed in the last 90 days.
    pub unpaid: Number,
    /// Notes beside these.
    pub notes: BTreeSet<String>,
}

/// The numbers of Home.
#[derive(Debug, Clone, PartialEq)]
pub struct Home {
    /// The days of the range.
    pub days: Period,
    /// When a list was last read.
    pub as_of: Timestamp,
    /// Repairs taken in.
    pub taken_in: Figure,
    /// Repairs completed; unknown if status changes do not name their repair.
    pub completed: Figure,
    /// What is about money, if it is shown.
    pub money: Option<Money>,
    /// New leads.
    pub leads: Figure,
    /// The statuses of open repairs that mean ready for pickup.
    pub ready_status: BTreeSet<String>,
    /// The open repairs by status, the most frequent first.
    pub by_status: Vec<(String, Cell)>,
    /// The numbers of now.
    pub now: Standing,
    /// Notes beside the numbers.
    pub notes: BTreeSet<String>,
    /// Since when every list is complete, in words.
    pub complete_since: String,
    /// Gaps that were not repaired.
    pub gaps: usize,
    /// When the first record was stored.
    pub begun_at: Option<Timestamp>,
}

impl Home {
    /// The same without the amounts.
    #[must_use]
    pub fn without_money(&self) -> Self {
        Self {
            money: None,
            ..self.clone()
        }
    }

    /// All notes beside the numbers.
    #[must_use]
    pub fn all_notes(&self) -> BTreeSet<&str> {
        let mut notes = BTreeSet::from_iter(self.notes.iter().map(String::as_str));
        if let Some(money) = &self.money {
            notes.extend(money.notes.iter().map(String::as_str));
        }
        notes
    }
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
    let days = spans(range, zone, now, now);
    reader.set_days(&days)?;
    reader.at_one_moment(|reader| numbers(reader, range, days, named, zone, now))
}

/// The numbers of the spans `days`, the first of which is the range.
fn numbers(
    reader: &mut Reader,
    range: Range,
    days: Vec<ReportDay>,
    named: &[String],
    zone: &TimeZone,
    now: Timestamp,
) -> Result<Home, ReportError> {
    let today = now.to_zoned_datetime(zone.clone()).date();
    let from = days.iter().map(|span| span.from).min().unwrap_or(now);
    let mut known = Knowledge::read(reader, &Route::ALL, &BusinessChoice::default(), days, now)?;
    known.unknown_jobs = reader.unknown_jobs_completed(from, now, None, None)?;
    let parameters = vec![
        ("today".to_owned(), today.to_string().into()),
        ("now".to_owned(), second(now).into()),
    ];
    let mut source = Source {
        reader,
        range,
        zone,
        parameters,
        is_about: false,
        notes: BTreeSet::from_iter(known.gone.iter().cloned()),
        known,
    };
    let statuses = source.rows(include_str!("sql/home/statuses.sql"))?;
    let ready_status = ready_of(&statuses, named);
    // Without a status of such a name, a count of none says nothing.
    let mut knows_ready = !named.is_empty() || !ready_status.is_empty();
    if !knows_ready {
        let used = source.rows(include_str!("sql/home/used-statuses.sql"))?;
        knows_ready = !ready_of(&used, named).is_empty();
    }
    let statuses_text = Vec::from_iter(ready_status.iter().map(String::as_str)).join("|");
    source
        .parameters
        .push(("ready".to_owned(), statuses_text.into()));
    let mut ready = source.number(include_str!("sql/home/ready.sql"))?;
    let mut ready_long = source.number(include_str!("sql/home/ready-long.sql"))?;
    if !knows_ready {
        ready.cell = Cell::unknown();
        ready_long.cell = Cell::unknown();
        let text =
            "no status has a name that means ready for pickup: set ready_status in [reports]";
        source.notes.insert(text.to_owned());
    }
    let standing = Standing {
        open: source.number(include_str!("sql/home/open.sql"))?,
        ready,
        ready_long,
        overdue: source.number(include_str!("sql/home/overdue.sql"))?,
        open_long: source.number(include_str!("sql/home/open-long.sql"))?,
        follow_ups: source.number(include_str!("sql/home/follow-ups.sql"))?,
    };
    let mut by_status = Vec::with_capacity(statuses.len());
    for row in statuses {
        by_status.push((shown(&row[0].value, None), row[1].clone()));
    }
    let begun_at = source.reader.begun_at()?;
    let mut gaps = 0;
    for list in &source.known.coverages {
        gaps += list.gaps.len();
    }
    let taken_in = source.figure(include_str!("sql/home/taken-in.sql"))?;
    let completed = source.figure(include_str!("sql/home/completed.sql"))?;
    let leads = source.figure(include_str!("sql/home/leads.sql"))?;
    let notes = std::mem::take(&mut source.notes);
    let money = Money {
        unpaid: source.number(include_str!("sql/home/unpaid.sql"))?,
        received: source.figure(include_str!("sql/home/money-in.sql"))?,
        notes: std::mem::take(&mut source.notes),
    };
    Ok(Home {
        days: range.days(today),
        as_of: source.known.as_of(&Route::ALL),
        taken_in,
        completed,
        money: Some(money),
        leads,
        ready_status,
        by_status,
        now: standing,
        complete_since: complete_since(&source.known, source.is_about, zone),
        gaps,
        begun_at,
        notes,
    })
}

/// Those of the statuses in the first column that mean ready for pickup.
fn ready_of(rows: &[Vec<Cell>], named: &[String]) -> BTreeSet<String> {
    let mut ready = BTreeSet::new();
    for row in rows {
        let status = shown(&row[0].value, None);
        if is_ready(&status, named) {
            ready.insert(status);
        }
    }
    ready
}

/// The numbers in the first column.
fn numbers_of(rows: Vec<Vec<Cell>>) -> impl Iterator<Item = Cell> {
    rows.into_iter().filter_map(|row| row.into_iter().next())
}

/// Answers the reports of Home.
struct Source<'a> {
    reader: &'a mut Reader,
    range: Range,
    zone: &'a TimeZone,
    known: Knowledge,
    parameters: Vec<(String, SqlValue)>,
    /// Whether a number is only about so much.
    is_about: bool,
    notes: BTreeSet<String>,
}

impl Source<'_> {
    /// The number of a report that counts over the range. If its lists were not read for a while,
    /// it and the number that it is compared with end at the same hour.
    fn figure(&mut self, text: &str) -> Result<Figure, ReportError> {
        let report = made("home", text);
        let mut lists = Vec::new();
        for (route, _) in report.counted_routes("number") {
            lists.push(route);
        }
        let as_of = self.known.stands_still_since(&lists);
        let now = self.known.now;
        let days = spans(self.range, self.zone, now, as_of.unwrap_or(now));
        if days != self.known.days {
            self.reader.set_days(&days)?;
            self.known.days = days;
        }
        let (rows, _) = self.rows_of(&report)?;
        let mut numbers = numbers_of(rows);
        Ok(Figure {
            now: numbers.next().unwrap_or(Cell::unknown()),
            before: numbers.next().unwrap_or(Cell::unknown()),
            days: numbers.collect(),
            as_of,
        })
    }

    /// The number of a report of now.
    fn number(&mut self, text: &str) -> Result<Number, ReportError> {
        let (rows, routes) = self.rows_of(&made("home", text))?;
        Ok(Number {
            cell: numbers_of(rows).next().unwrap_or(Cell::unknown()),
            as_of: self.known.stands_still_since(&routes),
        })
    }

    /// The rows of a report; none if the workspace does not send what it needs.
    fn rows(&mut self, text: &str) -> Result<Vec<Vec<Cell>>, ReportError> {
        Ok(self.rows_of(&made("home", text))?.0)
    }

    /// The same, with the lists that it reads.
    fn rows_of(&mut self, report: &Report) -> Result<(Vec<Vec<Cell>>, Vec<Route>), ReportError> {
        let uses = match query::uses_of(self.reader, report) {
            Ok(uses) => uses,
            Err(ReportError::NotSent(_)) => return Ok((Vec::new(), Vec::new())),
            Err(error) => return Err(error),
        };
        let parameters = &self.parameters;
        let cells = query::cells_of(self.reader, report, &uses, &self.known, parameters)?;
        let mut all = cells.rows.iter().flatten();
        self.is_about |= all.any(|cell| cell.exactness == Exactness::About);
        let own = query::notes_of(self.reader, report, &self.parameters)?.texts;
        let notes = self.known.of_query(self.reader, &uses, own, self.zone)?;
        self.notes.extend(notes);
        Ok((cells.rows, uses.routes))
    }
}
