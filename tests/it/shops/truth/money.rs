//! Money: the reports `payments` and `outstanding`. Sums are of whole cents.

use std::collections::BTreeMap;

use super::{Asked, Rows, units};
use crate::shops::records::CANCELLED;
use crate::shops::world::World;

pub(super) fn payments(world: &World, asked: &Asked) -> Rows {
    let columns = ["payments", "received", "refunds", "refunded", "net"];
    let mut rows = asked.periods(&columns);
    // Payments, received, refunds, refunded.
    let mut sums: BTreeMap<String, [i64; 4]> = BTreeMap::new();
    for payment in world.payments.values() {
        if asked.has(&payment.core) && asked.covers(payment.core.created) {
            let sum = sums.entry(asked.period(payment.core.created)).or_default();
            let place = if payment.amount < 0 { 2 } else { 0 };
            sum[place] += 1;
            sum[place + 1] += payment.amount.abs();
        }
    }
    for (period, [payments, received, refunds, refunded]) in sums {
        let row = rows.get_mut(&vec![period]).unwrap();
        row.insert("payments", Some(payments as f64));
        row.insert("received", Some(units(received)));
        row.insert("refunds", Some(refunds as f64));
        row.insert("refunded", Some(units(refunded)));
        row.insert("net", Some(units(received - refunded)));
    }
    rows
}

/// The repairs that are not paid in full. A cancelled one is not owed.
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
