//! The truth of each report, counted from the records of the simulated workspace alone: with dates
//! of a calendar, without SQL, and without the code of the program.

mod home;
mod intake;
mod leads;
mod money;
mod repairs;
mod turnaround;

use std::collections::BTreeMap;

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::records::{Business, Core};
use super::world::World;

use turnaround::Done;

pub(super) use home::{HOME_RANGES, home};
pub(super) use money::totals;

/// The unit of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Day,
    Week,
    Month,
}

/// What a report is asked for.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) zone: TimeZone,
    pub(super) now: Timestamp,
    pub(super) from: Date,
    pub(super) to: Date,
    pub(super) by: Unit,
    /// `None` is all of them.
    pub(super) business: Option<Business>,
}

impl Asked {
    pub(super) fn day(&self, at: Timestamp) -> Date {
        at.to_zoned_datetime(self.zone.clone()).date()
    }

    pub(super) fn today(&self) -> Date {
        self.day(self.now)
    }

    /// Whether the business of a record is asked for.
    fn has(&self, core: &Core) -> bool {
        self.business
            .is_none_or(|business| core.business == business)
    }

    /// Whether a time is in the days that are asked for.
    fn covers(&self, at: Timestamp) -> bool {
        (self.from..=self.to).contains(&self.day(at))
    }

    /// The name of the day, week or month in which a time is counted.
    fn period(&self, at: Timestamp) -> String {
        self.name(self.day(at))
    }

    fn name(&self, day: Date) -> String {
        match self.by {
            Unit::Day => day.to_string(),
            Unit::Week => monday_of(day).to_string(),
            Unit::Month => day.to_string()[..7].to_owned(),
        }
    }

    /// Every period, with a row of zeros for these columns.
    fn periods(&self, columns: &[&'static str]) -> Rows {
        let mut rows = Rows::new();
        let mut day = self.from;
        while day <= self.to {
            let row = rows.entry(vec![self.name(day)]).or_default();
            for column in columns {
                row.insert(column, Some(0.0));
            }
            day = day.saturating_add(1.day());
        }
        rows
    }

    /// Whole seconds since a time, in days: ages are told to the second.
    fn age(&self, at: Timestamp) -> f64 {
        (self.now.as_second() - at.as_second()) as f64 / 86_400.0
    }
}

/// The first day of a week.
fn monday_of(day: Date) -> Date {
    let mut monday = day;
    while monday.weekday() != Weekday::Monday {
        monday = monday.yesterday().unwrap();
    }
    monday
}

/// The true numbers of a report: by the texts that name a row, then by column. `None` is a number
/// that does not exist, such as a share of nothing.
pub(super) type Rows = BTreeMap<Vec<String>, BTreeMap<&'static str, Option<f64>>>;

/// Adds to a number of a row; the row has zeros for all of `columns` if it is new.
fn add(rows: &mut Rows, key: Vec<String>, columns: &[&'static str], column: &'static str, n: f64) {
    let row = rows.entry(key).or_insert_with(|| {
        let zeros = columns.iter().map(|column| (*column, Some(0.0)));
        zeros.collect()
    });
    let cell = row.entry(column).or_insert(Some(0.0));
    *cell = Some(cell.unwrap_or_default() + n);
}

fn units(cents: i64) -> f64 {
    cents as f64 / 100.0
}

/// The reports that a truth is known of: all but `mirror`, which is about the mirror itself.
pub(super) const REPORTS: [&str; 22] = [
    "intake",
    "sources",
    "leads",
    "follow-ups",
    "open-repairs",
    "repairs",
    "turnaround-by-brand",
    "turnaround-by-person",
    "backlog",
    "rework",
    "time-to-repair",
    "technicians",
    "payments",
    "till-by-method",
    "average-repair",
    "money-by-brand",
    "money-by-device",
    "money-by-person",
    "outstanding",
    "outsourced",
    "busiest-hours",
    "customers",
];

/// The columns that name a row of a report; the others are its numbers.
pub(super) fn names_of(report: &str) -> &'static [&'static str] {
    match report {
        "sources" => &["source"],
        "follow-ups" => &["lead_id"],
        "open-repairs" => &["stage", "status"],
        "repairs" | "outstanding" => &["job_id"],
        "turnaround-by-brand" | "money-by-brand" => &["brand"],
        "turnaround-by-person" | "technicians" | "money-by-person" => &["person"],
        "money-by-device" => &["device"],
        "till-by-method" => &["method"],
        "outsourced" => &["vendor", "stage"],
        "busiest-hours" => &["hour"],
        _ => &["period"],
    }
}

/// The true rows of a report.
pub(super) fn truth(report: &str, world: &World, asked: &Asked) -> Rows {
    match report {
        "intake" => intake::intake(world, asked),
        "busiest-hours" => intake::busiest_hours(world, asked),
        "customers" => intake::customers(world, asked),
        "sources" => leads::sources(world, asked),
        "leads" => leads::conversion(world, asked),
        "follow-ups" => leads::follow_ups(world, asked),
        "open-repairs" => repairs::by_age(world, asked),
        "repairs" => repairs::each(world, asked),
        "technicians" => repairs::technicians(world, asked),
        "outsourced" => repairs::outsourced(world, asked),
        "turnaround-by-brand" => turnaround::by(world, asked, brand),
        "turnaround-by-person" => turnaround::by(world, asked, person),
        "backlog" => turnaround::backlog(world, asked),
        "rework" => turnaround::rework(world, asked),
        "time-to-repair" => turnaround::time_to_repair(world, asked),
        "average-repair" => turnaround::average(world, asked),
        "money-by-brand" => turnaround::billed(world, asked, brand),
        "money-by-device" => turnaround::billed(world, asked, device),
        "money-by-person" => turnaround::billed(world, asked, person),
        "till-by-method" => money::till_by_method(world, asked),
        "payments" => money::payments(world, asked),
        "outstanding" => money::outstanding(world, asked),
        other => panic!("the report {other} is not computed here: add it"),
    }
}

fn brand(done: &Done<'_>) -> String {
    done.job.brand.unwrap_or("(none)").to_owned()
}

fn device(done: &Done<'_>) -> String {
    done.job.device().unwrap_or("(none)").to_owned()
}

fn person(done: &Done<'_>) -> String {
    done.person().unwrap_or("(not assigned)").to_owned()
}
