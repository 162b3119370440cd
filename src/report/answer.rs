//! Asking the mirror a report's question.

use std::collections::BTreeSet;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, ZonedDateTime};
use shopmirror_core::clock::second;

use super::error::ReportError;
use super::exactness::{
    BusinessChoice, Cell, Exactness, Knowledge, Marking, of_unknown_jobs, totals,
};
use super::head::{PERIOD, Report};
use super::list::{Listed, listed};
use super::period::{Period, moment_of};
use super::query::{self, ROWS};
use super::value::{displayed, shown};
use crate::config::CountedBy;
use crate::store::{ListQuery, PollerRow, Reader, SqlValue, StoreError};
use crate::text::locale::Locale;

/// The most rows of a report of single records that a table and a page show.
const SHOWN_MAX: usize = 500;

/// What stands in place of rows if there are none.
pub(super) const NOTHING: &str = "nothing, as far as is known";

/// A question to a report.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// The first day.
    pub from: Option<Date>,
    /// The last day.
    pub to: Option<Date>,
    /// The moment of the last day up to which it is counted, on the clock of the shop; all of the
    /// day without it.
    pub until: Option<Time>,
    /// The grouping: day, week or month.
    pub by: CountedBy,
    /// Only this business.
    pub business: Option<String>,
    /// Values of the report's own parameters.
    pub set: Vec<(String, String)>,
    /// The currency of amounts, for example `EUR`.
    pub currency: Option<String>,
    /// How the rows are sorted, and which of them count.
    pub list: ListQuery,
    /// How numbers and days are written for people.
    pub locale: Locale,
}

/// The answer of a report.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The report.
    pub report: Report,
    /// Whether it is about the days that were asked for.
    pub has_period: bool,
    /// These days.
    pub period: Period,
    /// The grouping: day, week or month.
    pub by: CountedBy,
    /// Up to when the mirror was read.
    pub as_of: ZonedDateTime,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// How unsure the numbers of each column can be.
    pub markings: Vec<Marking>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
    /// The sums of the columns that have one.
    pub totals: Option<Vec<Cell>>,
    /// Notes for the reader. The last one says since when the data is complete.
    pub notes: Vec<String>,
    /// The currency of amounts.
    pub currency: Option<String>,
    /// How many rows there are, if each is one record.
    pub found: Option<Cell>,
    /// How the rows were chosen and sorted.
    pub listed: Listed,
    /// How numbers and days are written for people.
    pub locale: Locale,
}

impl Answer {
    /// The rows that a table and a page show; the others are in CSV and JSON.
    #[must_use]
    pub fn shown_rows(&self) -> &[Vec<Cell>] {
        let most = if self.report.shows_records() {
            SHOWN_MAX
        } else {
            usize::MAX
        };
        &self.rows[..self.rows.len().min(most)]
    }

    /// The notes below a table or a page: how many rows it leaves out, and the answer's own.
    #[must_use]
    pub fn shown_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let shown = self.shown_rows().len();
        if shown < self.rows.len() {
            let shown = self.locale.whole(shown as i64);
            let all = self.locale.whole(self.rows.len() as i64);
            notes.push(format!(
                "these are the first {shown} of {all} rows; Excel, CSV and JSON have all"
            ));
        }
        notes.extend_from_slice(&self.notes);
        notes
    }

    /// The column with the day, week or month that each row counts, if there is one.
    #[must_use]
    pub fn period_column(&self) -> Option<usize> {
        self.columns.iter().position(|column| column == PERIOD)
    }

    /// The days that a row counts: those of its day, week or month that were asked for, or all.
    #[must_use]
    pub fn days_of(&self, row: &[Cell]) -> Option<Period> {
        let Some(column) = self.period_column() else {
            return Some(self.period);
        };
        let name = shown(&row[column].value, None);
        let first: Date = match self.by {
            CountedBy::Month => format!("{name}-01").parse().ok()?,
            CountedBy::Day | CountedBy::Week => name.parse().ok()?,
        };
        let last = match self.by {
            CountedBy::Day => first,
            CountedBy::Week => first.saturating_add(6.days()),
            CountedBy::Month => first.last_of_month(),
        };
        Some(Period {
            from: first.max(self.period.from),
            to: last.min(self.period.to),
        })
    }

    /// The highest number of the columns that are shaded.
    #[must_use]
    pub fn highest_shaded(&self) -> f64 {
        let mut highest: f64 = 0.0;
        for row in &self.rows {
            for (cell, column) in row.iter().zip(&self.columns) {
                if self.report.is_shaded(column) {
                    highest = highest.max(cell.number().unwrap_or_default());
                }
            }
        }
        highest
    }

    /// Whether a column is one of numbers, which are aligned to the right.
    #[must_use]
    pub fn has_numbers(&self, column: usize) -> bool {
        self.rows.iter().any(|row| row[column].is_number())
    }

    /// The texts of a row for people.
    pub fn shown<'a>(&'a self, row: &'a [Cell]) -> impl Iterator<Item = String> + 'a {
        (0..row.len()).map(|column| self.shown_cell(row, column))
    }

    /// The text of a cell for people: with separators, the currency, and how sure the number is.
    #[must_use]
    pub fn shown_cell(&self, row: &[Cell], column: usize) -> String {
        let name = &self.columns[column];
        let format = self.report.format(name);
        let currency = self.currency.as_deref();
        displayed(&row[column], name, format, currency, &self.locale)
    }

    /// The line of sums for people, if there is one.
    #[must_use]
    pub fn shown_totals(&self) -> Option<Vec<String>> {
        let mut shown: Vec<String> = self.shown(self.totals.as_ref()?).collect();
        if let Some(first) = shown.first_mut().filter(|text| text.is_empty()) {
            *first = "Total".to_owned();
        }
        Some(shown)
    }

    /// The time that it is about: the days, if it is about days, and up to when they were read.
    #[must_use]
    pub fn subject(&self) -> String {
        let zone = match self.as_of.time_zone().iana_name() {
            Some(name) => name.to_owned(),
            None => self.as_of.offset().to_string(),
        };
        let as_of = format!("as of {}, {zone}", self.locale.moment(&self.as_of));
        if self.has_period {
            let from = self.locale.day(self.period.from);
            let to = self.locale.day(self.period.to);
            format!("{from} to {to}, {as_of}")
        } else {
            as_of
        }
    }
}

/// Answers a report. Blocks for as long as the query takes, 10 seconds at most.
///
/// # Errors
/// [`ReportError`], each with what to do.
pub fn answer(
    reader: &mut Reader,
    report: &Report,
    question: &Question,
    zone: &TimeZone,
    now: Timestamp,
) -> Result<Answer, ReportError> {
    let local: ZonedDateTime = now.to_zoned_datetime(zone.clone());
    let period = Period::new(question.from, question.to, local.date())?;
    let mut days = period.days(zone, question.by);
    if let (Some(until), Some(last)) = (question.until, days.last_mut()) {
        last.to = last.to.min(moment_of(period.to, until, zone));
    }
    reader.set_days(&days)?;
    reader.at_one_moment(|reader| {
        let mut business = chosen(&reader.pollers()?, question.business.as_deref())?;
        let parameters = parameters(report, question, period, &local, &business)?;
        // The query may name the tables before it is known which repairs are in them.
        reader.set_unheard(&[], None, None)?;
        reader.set_recompleted(&[])?;
        reader.set_missed_changes(&[])?;
        reader.set_worded()?;
        let mut uses = query::uses_of(reader, report)?;
        if report.is_timeless(&parameters) {
            uses.has_period = false;
        }
        business.every = report.routes_of_every_business(uses.paid_sums);
        let mut known = Knowledge::read(reader, &uses.routes, &business, days, now)?;
        if uses.has_period && uses.states {
            known.unknown_jobs = unknown_jobs(reader, &known, &business)?;
        }
        let mut cells = query::cells_of(reader, report, &uses, &known, &parameters)?;
        let listed = listed(&mut cells, &question.list)?;
        let own = query::notes_of(reader, report, &parameters)?;
        let totals = totals(report, &cells, |column| {
            let mut left_out = known.left_out(report, &uses, &parameters, column);
            left_out.more |= own.lacking.iter().any(|lacking| lacking == column);
            left_out.more |= listed.may_lack || own.lacking.iter().any(|lacking| lacking == ROWS);
            left_out.less |= listed.may_exceed;
            left_out
        });
        let mut found = None;
        if report.is_list {
            let mut left_out = known.rows_left_out(&uses);
            left_out.more |= own.lacking.iter().any(|lacking| lacking == ROWS);
            left_out.more |= listed.may_lack;
            left_out.less |= listed.may_exceed;
            found = Some(left_out.count(cells.rows.len()));
        }
        let worst = worst(cells.rows.iter().flatten().chain(totals.iter().flatten()));
        let mut notes = known.of_query(reader, &uses, own.texts, zone)?;
        notes.extend(of_unknown_jobs(known.unknown_jobs.len()));
        notes.extend(known.gone.iter().cloned());
        // What stands now may lack a record of any time.
        let is_of_period = uses.has_period && !report.has_standing();
        notes.push(known.line(is_of_period, worst, zone));
        Ok(Answer {
            report: report.clone(),
            has_period: uses.has_period,
            period,
            by: question.by,
            as_of: known.as_of(&uses.routes).to_zoned_datetime(zone.clone()),
            columns: cells.columns,
            markings: cells.markings,
            rows: cells.rows,
            totals,
            notes,
            currency: question.currency.clone(),
            found,
            listed,
            locale: question.locale.clone(),
        })
    })
}

/// How sure the least sure of these numbers is: about, or not exact, or exact.
fn worst<'a>(cells: impl Iterator<Item = &'a Cell>) -> Exactness {
    let mut worst = Exactness::Exact;
    for cell in cells {
        if cell.exactness == Exactness::About {
            return Exactness::About;
        }
        if cell.exactness != Exactness::Exact {
            worst = cell.exactness;
        }
    }
    worst
}

/// When jobs that are not in the mirror were completed in the days of the question.
fn unknown_jobs(
    reader: &Reader,
    known: &Knowledge,
    business: &BusinessChoice,
) -> Result<Vec<String>, StoreError> {
    let (Some(first), Some(last)) = (known.days.first(), known.days.last()) else {
        return Ok(Vec::new());
    };
    let asked = business.asked.as_deref();
    let default = business.default.as_deref();
    reader.unknown_jobs_completed(first.from, last.to, asked, default)
}

/// The business that is asked for.
pub(super) fn chosen(
    pollers: &[PollerRow],
    asked: Option<&str>,
) -> Result<BusinessChoice, ReportError> {
    let asked = asked.filter(|asked| !asked.is_empty());
    let default = pollers
        .iter()
        .filter(|row| row.business.is_none())
        .find_map(|row| row.served_business.clone());
    let named = pollers.iter().filter_map(|row| row.business.as_deref());
    let known: BTreeSet<&str> = named.chain(default.as_deref()).collect();
    if let Some(asked) = asked.filter(|asked| !known.contains(asked)) {
        let known: Vec<&str> = known.into_iter().collect();
        let known = if known.is_empty() {
            "none is known by name: leave the business out".to_owned()
        } else {
            format!("known are: {}", known.join(", "))
        };
        return Err(ReportError::Refused(format!(
            "there is no business {asked:?}; {known}"
        )));
    }
    Ok(BusinessChoice {
        asked: asked.map(str::to_owned),
        default,
        every: Vec::new(),
    })
}

fn parameters(
    report: &Report,
    question: &Question,
    period: Period,
    local: &ZonedDateTime,
    business: &BusinessChoice,
) -> Result<Vec<(String, SqlValue)>, ReportError> {
    let mut values: Vec<(String, SqlValue)> = vec![
        ("from".to_owned(), period.from.to_string().into()),
        ("to".to_owned(), period.to.to_string().into()),
        ("today".to_owned(), local.date().to_string().into()),
        ("now".to_owned(), second(local.timestamp()).into()),
        ("business".to_owned(), business.asked.clone().into()),
        (
            "default_business".to_owned(),
            business.default.clone().into(),
        ),
    ];
    values.extend(own_parameters(report, &question.set)?);
    Ok(values)
}

/// The report's own parameters with their values.
///
/// # Errors
/// [`ReportError::Refused`] if it does not take one of them.
pub fn own_parameters(
    report: &Report,
    set: &[(String, String)],
) -> Result<Vec<(String, SqlValue)>, ReportError> {
    if let Some((name, _)) = set
        .iter()
        .find(|(name, _)| !report.parameters.contains_key(name))
    {
        let names: Vec<&str> = report.parameters.keys().map(String::as_str).collect();
        let names = if names.is_empty() {
            "it has none".to_owned()
        } else {
            format!("it has: {}", names.join(", "))
        };
        let why = format!("the report has no parameter {name:?}; {names}");
        return Err(ReportError::Refused(why));
    }
    let mut values = Vec::with_capacity(report.parameters.len());
    for (name, parameter) in &report.parameters {
        // Of two values for one name, the last one counts.
        let text = match set.iter().rev().find(|(own, _)| own == name) {
            Some((_, text)) => text.clone(),
            None => parameter.default(),
        };
        match parameter.read(&text) {
            Ok(value) => values.push((name.clone(), value)),
            Err(why) => {
                let why = format!("the parameter {name} {why}");
                return Err(ReportError::Refused(why));
            }
        }
    }
    Ok(values)
}
