//! What came in: the reports `intake`, `busiest-hours` and `customers`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Asked, Rows, add};
use crate::shops::world::World;

pub(super) fn intake(world: &World, asked: &Asked) -> Rows {
    let columns = ["jobs", "leads", "customers"];
    let mut rows = asked.periods(&columns);
    let jobs = world.jobs.values().map(|it| ("jobs", &it.core));
    let leads = world.leads.values().map(|it| ("leads", &it.core));
    let customers = world.customers.values().map(|it| ("customers", &it.core));
    for (column, core) in jobs.chain(leads).chain(customers) {
        if asked.has(core) && asked.covers(core.created) {
            add(
                &mut rows,
                vec![asked.period(core.created)],
                &columns,
                column,
                1.0,
            );
        }
    }
    rows
}

pub(super) fn busiest_hours(world: &World, asked: &Asked) -> Rows {
    let columns = ["repairs", "mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let mut rows = Rows::new();
    for job in world.jobs.values() {
        if !asked.has(&job.core) || !asked.covers(job.core.created) {
            continue;
        }
        let local = job.core.created.to_zoned_datetime(asked.zone.clone());
        let weekday = usize::try_from(local.weekday().to_monday_zero_offset()).unwrap();
        let hour = vec![local.hour().to_string()];
        add(&mut rows, hour.clone(), &columns, "repairs", 1.0);
        add(&mut rows, hour, &columns, columns[1 + weekday], 1.0);
    }
    rows
}

/// New customers, and the mobile numbers with a repair in the period and an earlier one.
pub(super) fn customers(world: &World, asked: &Asked) -> Rows {
    let columns = ["new", "returned"];
    let mut rows = asked.periods(&columns);
    for customer in world.customers.values() {
        let core = &customer.core;
        if asked.has(core) && asked.covers(core.created) {
            add(
                &mut rows,
                vec![asked.period(core.created)],
                &columns,
                "new",
                1.0,
            );
        }
    }
    let mut first: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for job in world.jobs.values() {
        if let Some(mobile) = &job.person.mobile {
            let at = first.entry(mobile).or_insert(job.core.created);
            *at = (*at).min(job.core.created);
        }
    }
    let mut returned: BTreeSet<(String, &str)> = BTreeSet::new();
    for job in world.jobs.values() {
        let core = &job.core;
        if let Some(mobile) = &job.person.mobile
            && asked.has(core)
            && asked.covers(core.created)
            && first[mobile.as_str()] < core.created
        {
            returned.insert((asked.period(core.created), mobile));
        }
    }
    for (period, _) in returned {
        add(&mut rows, vec![period], &columns, "returned", 1.0);
    }
    rows
}
