//! Completed repairs: which, when, by whom, and how long each was open.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Asked, Rows, add, units};
use crate::shops::records::{CANCELLED, Change, Job};
use crate::shops::world::World;

/// A repair that is completed.
pub(super) struct Done<'w> {
    pub(super) job: &'w Job,
    /// The change that completed it.
    pub(super) change: &'w Change,
    /// How long it was open, without the time between a completion and a reopening.
    pub(super) open_days: f64,
}

impl Done<'_> {
    /// Who completed it: the person that its status change names.
    pub(super) fn person(&self) -> Option<&'static str> {
        Some(self.change.by)
    }
}

/// The repairs that are completed now, whenever they were so. A cancelled one is not completed.
pub(super) fn all_completed<'w>(world: &'w World, asked: &Asked) -> Vec<Done<'w>> {
    let changes = changes_of(world);
    let mut found = Vec::new();
    for job in world.jobs.values() {
        if job.status.1 != "completed" || job.status == CANCELLED || !asked.has(&job.core) {
            continue;
        }
        let own = changes.get(&job.core.id).cloned().unwrap_or_default();
        let mut opened: Option<Timestamp> = Some(job.core.created);
        let mut seconds = 0;
        let mut last = None;
        for change in own {
            let at = change.core.created;
            if change.status.1 != "completed" {
                opened = opened.or(Some(at));
                last = None;
            } else if let Some(since) = opened.take() {
                seconds += (at.as_second() - since.as_second()).max(0);
                last = Some(change);
            }
        }
        if let Some(change) = last {
            let open_days = seconds as f64 / 86_400.0;
            found.push(Done {
                job,
                change,
                open_days,
            });
        }
    }
    found
}

/// The status changes of each repair, the first first.
fn changes_of(world: &World) -> BTreeMap<i64, Vec<&Change>> {
    let mut changes: BTreeMap<i64, Vec<&Change>> = BTreeMap::new();
    for change in world.changes.values() {
        changes.entry(change.job).or_default().push(change);
    }
    for own in changes.values_mut() {
        own.sort_by_key(|change| (change.core.created, change.core.id));
    }
    changes
}

/// How many of the repairs that were completed first in each period were opened again.
pub(super) fn rework(world: &World, asked: &Asked) -> Rows {
    let columns = ["completed", "reopened"];
    let mut rows = asked.periods(&columns);
    for (job, own) in changes_of(world) {
        let Some(job) = world.jobs.get(&job) else {
            continue;
        };
        let first = own.iter().position(|it| it.status.1 == "completed");
        let Some(first) = first.filter(|_| job.status != CANCELLED && asked.has(&job.core)) else {
            continue;
        };
        let at = own[first].core.created;
        if !asked.covers(at) {
            continue;
        }
        let period = vec![asked.period(at)];
        add(&mut rows, period.clone(), &columns, "completed", 1.0);
        if own[first..].iter().any(|it| it.status.1 == "open") {
            add(&mut rows, period, &columns, "reopened", 1.0);
        }
    }
    for row in rows.values_mut() {
        let (completed, reopened) = (row["completed"].unwrap(), row["reopened"].unwrap());
        let percent = (completed > 0.0).then(|| (1_000.0 * reopened / completed).round() / 10.0);
        row.insert("reopened_percent", percent);
    }
    rows
}

/// How many repairs were open at the end of each period, or are open now.
pub(super) fn backlog(world: &World, asked: &Asked) -> Rows {
    let changes = changes_of(world);
    let mut rows = Rows::new();
    let mut day = asked.from;
    while day <= asked.to {
        let end = day.tomorrow().unwrap();
        let end = end.to_zoned_datetime(asked.zone.clone()).unwrap();
        let end = end.timestamp().min(asked.now);
        let mut open = 0.0;
        for job in world.jobs.values() {
            if job.core.created >= end || !asked.has(&job.core) {
                continue;
            }
            let own = changes.get(&job.core.id).map_or(&[][..], Vec::as_slice);
            let last = own.iter().rfind(|change| change.core.created < end);
            if last.is_none_or(|change| change.status.1 == "open") {
                open += 1.0;
            }
        }
        // The last day of a period counts.
        rows.insert(vec![asked.name(day)], [("open", Some(open))].into());
        day = day.tomorrow().unwrap();
    }
    rows
}

/// Those that were completed in the days that are asked for.
pub(super) fn completed<'w>(world: &'w World, asked: &Asked) -> Vec<Done<'w>> {
    let mut found = all_completed(world, asked);
    found.retain(|done| asked.covers(done.change.core.created));
    found
}

fn median(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2])
}

/// The smallest value that nine of ten do not exceed.
fn p90(sorted: &[f64]) -> f64 {
    sorted[(sorted.len() * 9).div_ceil(10) - 1]
}

/// The same of each period.
pub(super) fn time_to_repair(world: &World, asked: &Asked) -> Rows {
    let mut rows = asked.periods(&["repairs"]);
    let found = by(world, asked, |done| asked.period(done.change.core.created));
    for row in rows.values_mut() {
        row.insert("median_days", None);
        row.insert("p90_days", None);
    }
    rows.extend(found);
    rows
}

/// What completed repairs cost: their number and their sum, by a name.
pub(super) fn billed(world: &World, asked: &Asked, name: impl Fn(&Done<'_>) -> String) -> Rows {
    let mut groups: BTreeMap<String, (u32, i64)> = BTreeMap::new();
    for done in completed(world, asked) {
        let group = groups.entry(name(&done)).or_default();
        group.0 += 1;
        group.1 += done.job.total;
    }
    let mut rows = Rows::new();
    for (name, (repairs, cents)) in groups {
        let row = [
            ("repairs", Some(f64::from(repairs))),
            ("billed", Some(units(cents))),
        ];
        rows.insert(vec![name], row.into());
    }
    rows
}

/// What a completed repair costs on average in each period.
pub(super) fn average(world: &World, asked: &Asked) -> Rows {
    let mut rows = asked.periods(&["repairs", "billed"]);
    rows.extend(billed(world, asked, |done| {
        asked.period(done.change.core.created)
    }));
    for row in rows.values_mut() {
        let (repairs, billed) = (row["repairs"].unwrap(), row["billed"].unwrap());
        row.insert("average", (repairs > 0.0).then(|| billed / repairs));
    }
    rows
}

pub(super) fn by(world: &World, asked: &Asked, name: impl Fn(&Done<'_>) -> String) -> Rows {
    let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for done in completed(world, asked) {
        groups.entry(name(&done)).or_default().push(done.open_days);
    }
    let mut rows = Rows::new();
    for (name, mut days) in groups {
        days.sort_by(f64::total_cmp);
        let row = [
            ("repairs", Some(days.len() as f64)),
            ("median_days", Some(median(&days))),
            ("p90_days", Some(p90(&days))),
        ];
        rows.insert(vec![name], row.into());
    }
    rows
}
