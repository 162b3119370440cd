//! The numbers of Home: of a range, of the range before up to the same hour, of each of the last
//! 30 days, and of now.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp, ToSpan};
use shopmirror::report::Range;

use super::{Asked, Rows, monday_of, repairs, turnaround, units};
use crate::shops::records::{CANCELLED, READY};
use crate::shops::world::World;

/// The ranges that Home offers.
pub(in crate::shops) const HOME_RANGES: [Range; 4] = [
    Range::Today,
    Range::ThisWeek,
    Range::ThisMonth,
    Range::LastMonth,
];

const LINE_DAYS: i64 = 30;

/// From a time until another.
type Span = (Timestamp, Timestamp);

/// The true numbers of Home, each in a row of its name. `taken_in.days.29` is the number of today.
pub(in crate::shops) fn home(world: &World, asked: &Asked, range: Range) -> Rows {
    let mut numbers = BTreeMap::new();
    let mut spans = vec![
        ("now".to_owned(), whole(asked, range)),
        ("before".to_owned(), before(asked, world.now, range)),
    ];
    for nth in 0..LINE_DAYS {
        let day = asked.today().saturating_sub((LINE_DAYS - 1 - nth).days());
        let bounds = (start(asked, day), start(asked, day.tomorrow().unwrap()));
        spans.push((format!("days.{nth}"), bounds));
    }
    let done = turnaround::all_completed(world, asked);
    for (name, (from, to)) in spans {
        let is_in = |at: Timestamp| from <= at && at < to;
        let taken_in = world.jobs.values().filter(|it| is_in(it.core.created));
        let leads = world.leads.values().filter(|it| is_in(it.core.created));
        let paid = world.payments.values().filter(|it| is_in(it.core.created));
        let completed = done.iter().filter(|it| is_in(it.change.core.created));
        numbers.insert(format!("taken_in.{name}"), taken_in.count() as f64);
        numbers.insert(format!("completed.{name}"), completed.count() as f64);
        numbers.insert(format!("leads.{name}"), leads.count() as f64);
        let cents = paid.map(|payment| payment.amount).sum();
        numbers.insert(format!("money_in.{name}"), units(cents));
    }
    numbers.extend(standing(world, asked));
    let mut rows = Rows::new();
    for (name, number) in numbers {
        rows.insert(vec![name], [("number", Some(number))].into());
    }
    rows
}

fn standing(world: &World, asked: &Asked) -> BTreeMap<String, f64> {
    let mut numbers: BTreeMap<String, f64> = BTreeMap::new();
    for name in [
        "open",
        "ready",
        "ready_long",
        "overdue",
        "open_long",
        "follow_ups",
        "unpaid",
    ] {
        numbers.insert(name.to_owned(), 0.0);
    }
    let mut count = |name: &str| *numbers.entry(name.to_owned()).or_default() += 1.0;
    let days_ago = |days: i64| asked.now - SignedDuration::from_hours(24 * days);
    let since = repairs::last_changes(world);
    for job in world.jobs.values() {
        if job.status.1 == "completed" {
            continue;
        }
        count("open");
        count(&format!("status.{}", job.status.0));
        if job.status == READY {
            count("ready");
            // No page may have shown its change.
            let since = since.get(&job.core.id).unwrap_or(&job.core.created);
            if *since <= days_ago(14) {
                count("ready_long");
            }
        }
        if job.core.created <= days_ago(30) {
            count("open_long");
        }
        if job.due.is_some_and(|due| due < asked.today()) {
            count("overdue");
        }
    }
    for lead in world.leads.values() {
        if lead.is_open && lead.follow_up.is_some_and(|day| day <= asked.today()) {
            count("follow_ups");
        }
    }
    let mut owed = 0;
    for done in turnaround::all_completed(world, asked) {
        let rest = done.job.total - world.paid(done.job.core.id);
        let is_recent = done.change.core.created >= days_ago(90);
        if is_recent && rest > 0 && done.job.status != CANCELLED {
            owed += rest;
        }
    }
    numbers.insert("unpaid".to_owned(), units(owed));
    numbers
}

fn start(asked: &Asked, day: Date) -> Timestamp {
    day.to_zoned_datetime(asked.zone.clone())
        .unwrap()
        .timestamp()
}

/// The first day of a range.
fn first_day(asked: &Asked, range: Range) -> Date {
    let today = asked.today();
    match range {
        Range::ThisWeek => monday_of(today),
        Range::ThisMonth => today.first_of_month(),
        Range::LastMonth => today.first_of_month().saturating_sub(1.month()),
        _ => today,
    }
}

fn whole(asked: &Asked, range: Range) -> Span {
    let after = match range {
        Range::LastMonth => asked.today().first_of_month(),
        _ => asked.today().tomorrow().unwrap(),
    };
    (start(asked, first_day(asked, range)), start(asked, after))
}

/// The range before, until the same hour of the clock: that of the last reading.
fn before(asked: &Asked, read_at: Timestamp, range: Range) -> Span {
    let from = first_day(asked, range);
    let local = read_at.to_zoned_datetime(asked.zone.clone()).datetime();
    let then = |local: jiff::civil::DateTime| {
        local
            .to_zoned_datetime(asked.zone.clone())
            .unwrap()
            .timestamp()
    };
    match range {
        Range::Today | Range::ThisWeek => (
            start(asked, from.saturating_sub(7.days())),
            then(local.saturating_sub(7.days())),
        ),
        Range::ThisMonth => (
            start(asked, from.saturating_sub(1.month())),
            then(local.saturating_sub(1.month())),
        ),
        _ => (
            start(asked, from.saturating_sub(1.month())),
            start(asked, from),
        ),
    }
}
