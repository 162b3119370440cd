//! Leads: the reports `sources`, `leads` and `follow-ups`.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Asked, Rows, add};
use crate::shops::records::{Lead, Person};
use crate::shops::world::World;

pub(super) fn sources(world: &World, asked: &Asked) -> Rows {
    let columns = ["leads", "closed", "no_stage"];
    let mut rows = Rows::new();
    for lead in world.leads.values() {
        if asked.has(&lead.core) && asked.covers(lead.core.created) {
            let source = vec![lead.source.unwrap_or("(none)").to_owned()];
            add(&mut rows, source.clone(), &columns, "leads", 1.0);
            if !lead.is_open {
                add(&mut rows, source, &columns, "closed", 1.0);
            }
        }
    }
    rows
}

/// When each person became a customer last, by number and by address, however they are spelled.
fn came(world: &World) -> BTreeMap<String, Timestamp> {
    let mut came = BTreeMap::new();
    for customer in world.customers.values() {
        for name in names(&customer.person) {
            let last = came.entry(name).or_insert(customer.core.created);
            *last = customer.core.created.max(*last);
        }
    }
    came
}

fn names(person: &Person) -> Vec<String> {
    let mut names = Vec::new();
    for text in [&person.mobile, &person.email].into_iter().flatten() {
        names.push(text.to_lowercase().replace([' ', '-'], ""));
    }
    names
}

fn is_converted(lead: &Lead, came: &BTreeMap<String, Timestamp>) -> bool {
    let mut names = names(&lead.person).into_iter();
    names.any(|name| came.get(&name).is_some_and(|at| *at >= lead.core.created))
}

pub(super) fn conversion(world: &World, asked: &Asked) -> Rows {
    let columns = ["leads", "converted"];
    let mut rows = asked.periods(&columns);
    let came = came(world);
    for lead in world.leads.values() {
        if asked.has(&lead.core) && asked.covers(lead.core.created) {
            let period = vec![asked.period(lead.core.created)];
            add(&mut rows, period.clone(), &columns, "leads", 1.0);
            if is_converted(lead, &came) {
                add(&mut rows, period, &columns, "converted", 1.0);
            }
        }
    }
    for row in rows.values_mut() {
        let (leads, converted) = (row["leads"].unwrap(), row["converted"].unwrap());
        let percent = (leads > 0.0).then(|| (1_000.0 * converted / leads).round() / 10.0);
        row.insert("converted_percent", percent);
    }
    rows
}

/// The open leads whose follow-up is due.
pub(super) fn follow_ups(world: &World, asked: &Asked) -> Rows {
    let mut rows = Rows::new();
    for lead in world.leads.values() {
        if let Some(day) = lead.follow_up
            && lead.is_open
            && asked.has(&lead.core)
            && day <= asked.today()
        {
            let late = f64::from((asked.today() - day).get_days());
            rows.insert(
                vec![lead.core.id.to_string()],
                [("days_late", Some(late))].into(),
            );
        }
    }
    rows
}
