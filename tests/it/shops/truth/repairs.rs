//! Repairs as they stand: the reports `open-repairs`, `repairs`, `technicians` and `outsourced`.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Asked, Rows, add, turnaround};
use crate::shops::records::Job;
use crate::shops::world::World;

/// Days after which the report `outsourced` counts work as overdue, unless it is told others.
const OVERDUE_DAYS: f64 = 7.0;

fn open<'w>(world: &'w World, asked: &'w Asked) -> impl Iterator<Item = &'w Job> {
    let all = world.jobs.values();
    all.filter(|job| job.status.1 == "open" && asked.has(&job.core))
}

/// The greater of a row's number and this one, to a tenth.
fn oldest(rows: &mut Rows, key: &[String], age: f64) {
    let row = rows.get_mut(key).unwrap();
    let tenths = (age * 10.0).round() / 10.0;
    let cell = row.entry("oldest_days").or_insert(Some(tenths));
    *cell = Some(cell.unwrap().max(tenths));
}

pub(super) fn by_age(world: &World, asked: &Asked) -> Rows {
    let columns = [
        "open",
        "under_1_day",
        "from_1_to_3_days",
        "from_3_to_7_days",
        "over_7_days",
    ];
    let mut rows = Rows::new();
    for job in open(world, asked) {
        let (status, stage) = job.status;
        let key = vec![stage.to_owned(), status.to_owned()];
        let age = asked.age(job.core.created).max(0.0);
        let column = match age {
            age if age < 1.0 => "under_1_day",
            age if age < 3.0 => "from_1_to_3_days",
            age if age < 7.0 => "from_3_to_7_days",
            _ => "over_7_days",
        };
        add(&mut rows, key.clone(), &columns, "open", 1.0);
        add(&mut rows, key.clone(), &columns, column, 1.0);
        oldest(&mut rows, &key, age);
    }
    rows
}

/// When the newest change of each repair's status was made.
pub(super) fn last_changes(world: &World) -> BTreeMap<i64, Timestamp> {
    let mut last = BTreeMap::new();
    for change in world.changes.values() {
        let at = last.entry(change.job).or_insert(change.core.created);
        *at = change.core.created.max(*at);
    }
    last
}

pub(super) fn each(world: &World, asked: &Asked) -> Rows {
    let mut rows = Rows::new();
    let last = last_changes(world);
    for job in open(world, asked) {
        let since = last.get(&job.core.id).copied().unwrap_or(job.core.created);
        let late = job.due.map(|due| (asked.today() - due).get_days());
        let late = late.filter(|days| *days > 0);
        let row = [
            ("days_in_status", Some(asked.age(since).floor())),
            ("days_open", Some(asked.age(job.core.created).floor())),
            ("days_late", late.map(f64::from)),
        ];
        rows.insert(vec![job.core.id.to_string()], row.into());
    }
    rows
}

/// Who has what open, took in what by the person who is named now, and completed what.
pub(super) fn technicians(world: &World, asked: &Asked) -> Rows {
    let columns = ["open", "taken_in", "completed"];
    let mut rows = Rows::new();
    let named = |person: Option<&str>| vec![person.unwrap_or("(not assigned)").to_owned()];
    for job in open(world, asked) {
        add(&mut rows, named(job.assigned), &columns, "open", 1.0);
    }
    for job in world.jobs.values() {
        if asked.has(&job.core) && asked.covers(job.core.created) {
            add(&mut rows, named(job.assigned), &columns, "taken_in", 1.0);
        }
    }
    for done in turnaround::completed(world, asked) {
        add(&mut rows, named(done.person()), &columns, "completed", 1.0);
    }
    rows
}

pub(super) fn outsourced(world: &World, asked: &Asked) -> Rows {
    let columns = ["out", "overdue"];
    let mut rows = Rows::new();
    for sent in world.outsourced.values() {
        if !sent.is_out || !asked.has(&sent.core) {
            continue;
        }
        let key = vec![sent.vendor.to_owned(), "open".to_owned()];
        let age = asked.age(sent.core.created).max(0.0);
        add(&mut rows, key.clone(), &columns, "out", 1.0);
        if age > OVERDUE_DAYS {
            add(&mut rows, key.clone(), &columns, "overdue", 1.0);
        }
        oldest(&mut rows, &key, age);
    }
    rows
}
