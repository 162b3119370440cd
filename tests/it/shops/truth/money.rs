//! Money: the reports `payments`, `till-by-method` and `outstanding`. Sums are of whole cents.

use std::collections::BTreeMap;

use super::{Asked, Rows, units};
use crate::shops::records::{CANCELLED, Payment};
use crate::shops::world::World;

const COLUMNS: [&str; 5] = ["payments", "received", "refunds", "refunded", "net"];

pub(super) fn payments(world: &World, asked: &Asked) -> Rows {
    let mut rows = asked.periods(&COLUMNS);
    rows.extend(sums(world, asked, |payment| {
        asked.period(payment.core.created)
    }));
    rows
}

pub(super) fn till_by_method(world: &World, asked: &Asked) -> Rows {
    sums(world, asked, |payment| payment.method().to_owned())
}

fn sums(world: &World, asked: &Asked, name: impl Fn(&Payment) -> String) -> Rows {
    // Payments, received, refunds, refunded.
    let mut sums: BTreeMap<String, [i64; 4]> = BTreeMap::new();
    for payment in world.payments.values() {
        if asked.has(&payment.core) && asked.covers(payment.core.created) {
            let sum = sums.entry(name(payment)).or_default();
            let place = if payment.amount < 0 { 2 } else { 0 };
            sum[place] += 1;
            sum[place + 1] += payment.amount.abs();
        }
    }
    let mut rows = Rows::new();
    for (name, [payments, received, refunds, refunded]) in sums {
        let numbers = [
            payments as f64,
            units(received),
            refunds as f64,
            units(refunded),
            units(received - refunded),
        ];
        let row = COLUMNS.into_iter().zip(numbers.map(Some));
        rows.insert(vec![name], row.collect());
    }
    rows
}

/// The repairs that are not paid in full. A cancelled one is not owed.
/// The total of each repair, whatever is owed of it.
pub(in crate::shops) fn totals(world: &World) -> Rows {
    let mut rows = Rows::new();
    for job in world.jobs.values() {
        let row = [("total", Some(units(job.total)))];
        rows.insert(vec![job.core.id.to_string()], row.into());
    }
    rows
}

pub(super) fn outstanding(world: &World, asked: &Asked) -> Rows {
    let mut rows = Rows::new();
    for job in world.jobs.values() {
        let paid = world.paid(job.core.id);
        if !asked.has(&job.core) || job.total <= paid || job.status == CANCELLED {
            continue;
        }
        let row = [
            ("total", Some(units(job.total))),
            ("paid", Some(units(paid))),
            ("outstanding", Some(units(job.total - paid))),
            ("days_old", Some(asked.age(job.core.created).floor())),
        ];
        rows.insert(vec![job.core.id.to_string()], row.into());
    }
    rows
}
