//! Completed repairs: which, when, by whom, and how long each was open.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Asked, Rows};
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
    let mut changes: BTreeMap<i64, Vec<&Change>> = BTreeMap::new();
    for change in world.changes.values() {
        changes.entry(change.job).or_default().push(change);
    }
    let mut found = Vec::new();
    for job in world.jobs.values() {
        if job.status.1 != "completed" || job.status == CANCELLED || !asked.has(&job.core) {
            continue;
        }
        let mut own = changes.get(&job.core.id).cloned().unwrap_or_default();
        own.sort_by_key(|change| (change.core.created, change.core.id));
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

/// Those that were completed in the days that are asked for.
pub(super) fn completed<'w>(world: &'w World, asked: &Asked) -> Vec<Done<'w>> {
    let mut found = all_completed(world, asked);
    found.retain(|done| asked.covers(done.change.core.created));
    found
}

pub(super) fn by(world: &World, asked: &Asked, name: impl Fn(&Done<'_>) -> String) -> Rows {
    let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for done in completed(world, asked) {
        groups.entry(name(&done)).or_default().push(done.open_days);
    }
    let mut rows = Rows::new();
    for (name, mut days) in groups {
        days.sort_by(f64::total_cmp);
        let n = days.len();
        let median = f64::midpoint(days[(n - 1) / 2], days[n / 2]);
        // The smallest value that nine of ten do not exceed.
        let p90 = days[(n * 9).div_ceil(10) - 1];
        let row = [
            ("repairs", Some(n as f64)),
            ("median_days", Some(median)),
            ("p90_days", Some(p90)),
        ];
        rows.insert(vec![name], row.into());
    }
    rows
}
