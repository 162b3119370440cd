//! A simulated workspace: the records that are true now, and the pages that it shows of them.
//!
//! Nothing here knows the program. A record that is deleted is in no list any more.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;
use shopmirror_core::record::Route;

use super::records::{
    BUSINESSES, Business, Change, Customer, Job, Lead, Outsourced, Payment, Record,
};

/// What a list is ordered by; the newest is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListOrder {
    ByCreation,
    ByChange,
}

/// In which business each record is taken to be.
pub(super) type Places = BTreeMap<(Route, i64), Business>;

/// The records of one route by their id.
pub(super) type Records<T> = BTreeMap<i64, T>;

/// A record that was deleted, as it was then.
#[derive(Debug, Clone)]
enum Grave {
    Job(Job),
    Customer(Customer),
    Lead(Lead),
    Payment(Payment),
    Change(Change),
    Outsourced(Outsourced),
}

impl Grave {
    fn place(&self) -> (Route, i64) {
        match self {
            Self::Job(it) => (Route::Jobs, it.core.id),
            Self::Customer(it) => (Route::Customers, it.core.id),
            Self::Lead(it) => (Route::Leads, it.core.id),
            Self::Payment(it) => (Route::Payments, it.core.id),
            Self::Change(it) => (Route::JobStatusChanges, it.core.id),
            Self::Outsourced(it) => (Route::OutsourcedJobs, it.core.id),
        }
    }
}

/// A workspace.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) order: ListOrder,
    /// The most records that the workspace shows on a page, whatever is asked for.
    pub(super) page_max: usize,
    pub(super) jobs: Records<Job>,
    pub(super) customers: Records<Customer>,
    pub(super) leads: Records<Lead>,
    pub(super) payments: Records<Payment>,
    pub(super) changes: Records<Change>,
    pub(super) outsourced: Records<Outsourced>,
    /// What was paid for each repair, in cents: the sum of its payments.
    paid: BTreeMap<i64, i64>,
    /// The lists that were changed since this was emptied.
    pub(super) changed: BTreeSet<(Route, Business)>,
    next_id: BTreeMap<Route, i64>,
    graves: Vec<Grave>,
}

impl World {
    pub(super) fn new(now: Timestamp, order: ListOrder) -> Self {
        Self {
            now,
            order,
            page_max: 100,
            jobs: BTreeMap::new(),
            customers: BTreeMap::new(),
            leads: BTreeMap::new(),
            payments: BTreeMap::new(),
            changes: BTreeMap::new(),
            outsourced: BTreeMap::new(),
            paid: BTreeMap::new(),
            changed: BTreeSet::new(),
            next_id: BTreeMap::new(),
            graves: Vec::new(),
        }
    }

    /// An id that no record of the route has had.
    pub(super) fn new_id(&mut self, route: Route) -> i64 {
        let next = self.next_id.entry(route).or_insert(1_000);
        *next += 1;
        *next
    }

    pub(super) fn paid(&self, job: i64) -> i64 {
        self.paid.get(&job).copied().unwrap_or_default()
    }

    /// A record of this list was changed, so that a list by change shows it first.
    pub(super) fn touch(&mut self, route: Route, id: i64) {
        let now = self.now;
        let core = match route {
            Route::Jobs => self.jobs.get_mut(&id).map(Record::core_mut),
            Route::Customers => self.customers.get_mut(&id).map(Record::core_mut),
            Route::Leads => self.leads.get_mut(&id).map(Record::core_mut),
            Route::Payments => self.payments.get_mut(&id).map(Record::core_mut),
            Route::JobStatusChanges => self.changes.get_mut(&id).map(Record::core_mut),
            Route::OutsourcedJobs => self.outsourced.get_mut(&id).map(Record::core_mut),
        };
        if let Some(core) = core {
            core.touched = now;
            self.changed.insert((route, core.business));
        }
    }

    /// Adds a payment; its repair shows the new sum.
    pub(super) fn pay(&mut self, payment: Payment) {
        *self.paid.entry(payment.job).or_default() += payment.amount;
        self.changed
            .insert((Route::Payments, payment.core.business));
        let job = payment.job;
        self.payments.insert(payment.core.id, payment);
        self.touch(Route::Jobs, job);
    }

    /// Sets another amount of a payment.
    pub(super) fn set_amount(&mut self, id: i64, amount: i64) {
        let Some(payment) = self.payments.get_mut(&id) else {
            return;
        };
        let job = payment.job;
        *self.paid.entry(job).or_default() += amount - payment.amount;
        payment.amount = amount;
        self.touch(Route::Payments, id);
        self.touch(Route::Jobs, job);
    }

    /// Deletes a record; a repair with all that belongs to it.
    pub(super) fn delete(&mut self, route: Route, id: i64) {
        let grave = match route {
            Route::Jobs => self.jobs.remove(&id).map(Grave::Job),
            Route::Customers => self.customers.remove(&id).map(Grave::Customer),
            Route::Leads => self.leads.remove(&id).map(Grave::Lead),
            Route::Payments => self.payments.remove(&id).map(Grave::Payment),
            Route::JobStatusChanges => self.changes.remove(&id).map(Grave::Change),
            Route::OutsourcedJobs => self.outsourced.remove(&id).map(Grave::Outsourced),
        };
        if let Some(Grave::Payment(payment)) = &grave {
            let job = payment.job;
            *self.paid.entry(job).or_default() -= payment.amount;
            self.touch(Route::Jobs, job);
        }
        for business in BUSINESSES {
            self.changed.insert((route, business));
        }
        self.graves.extend(grave);
        if route == Route::Jobs {
            let payments = ids_where(&self.payments, |it| it.job == id);
            let changes = ids_where(&self.changes, |it| it.job == id);
            let sent = ids_where(&self.outsourced, |it| it.job == id);
            for (route, ids) in [
                (Route::Payments, payments),
                (Route::JobStatusChanges, changes),
                (Route::OutsourcedJobs, sent),
            ] {
                for id in ids {
                    self.delete(route, id);
                }
            }
        }
    }

    /// The records that were deleted.
    pub(super) fn deleted(&self) -> BTreeSet<(Route, i64)> {
        self.graves.iter().map(Grave::place).collect()
    }

    /// This world, if these records had not been deleted.
    pub(super) fn with_deleted(&self, kept: &BTreeSet<(Route, i64)>) -> Self {
        let mut world = self.clone();
        for grave in &self.graves {
            if !kept.contains(&grave.place()) {
                continue;
            }
            let id = grave.place().1;
            match grave.clone() {
                Grave::Job(it) => drop(world.jobs.insert(id, it)),
                Grave::Customer(it) => drop(world.customers.insert(id, it)),
                Grave::Lead(it) => drop(world.leads.insert(id, it)),
                Grave::Payment(it) => world.pay(it),
                Grave::Change(it) => drop(world.changes.insert(id, it)),
                Grave::Outsourced(it) => drop(world.outsourced.insert(id, it)),
            }
        }
        world
    }

    /// The page of a list: the ids with the JSON of each record, the newest first.
    pub(super) fn page(&self, route: Route, business: Business) -> Vec<(i64, Value)> {
        match route {
            Route::Jobs => self.page_of(&self.jobs, business),
            Route::Customers => self.page_of(&self.customers, business),
            Route::Leads => self.page_of(&self.leads, business),
            Route::Payments => self.page_of(&self.payments, business),
            Route::JobStatusChanges => self.page_of(&self.changes, business),
            Route::OutsourcedJobs => self.page_of(&self.outsourced, business),
        }
    }

    fn page_of<T: Record>(&self, records: &Records<T>, business: Business) -> Vec<(i64, Value)> {
        let own = records
            .values()
            .rev()
            .filter(|it| it.core().business == business);
        let mut newest: Vec<&T> = match self.order {
            ListOrder::ByCreation => own.take(self.page_max).collect(),
            ListOrder::ByChange => own.collect(),
        };
        if self.order == ListOrder::ByChange {
            newest.sort_by_key(|it| std::cmp::Reverse((it.core().touched, it.core().id)));
            newest.truncate(self.page_max);
        }
        let mut page = Vec::new();
        for record in newest {
            let id = record.core().id;
            page.push((id, record.shown(self.paid(id))));
        }
        page
    }

    /// Takes over the records that a page of another world has just shown.
    pub(super) fn copy(&mut self, from: &Self, route: Route, ids: &[i64]) {
        for id in ids {
            match route {
                Route::Jobs => {
                    copy_one(&mut self.jobs, &from.jobs, *id);
                    self.paid.insert(*id, from.paid(*id));
                }
                Route::Customers => copy_one(&mut self.customers, &from.customers, *id),
                Route::Leads => copy_one(&mut self.leads, &from.leads, *id),
                Route::Payments => copy_one(&mut self.payments, &from.payments, *id),
                Route::JobStatusChanges => copy_one(&mut self.changes, &from.changes, *id),
                Route::OutsourcedJobs => copy_one(&mut self.outsourced, &from.outsourced, *id),
            }
        }
    }

    /// This world, but for the values that only a record's own row says: these are as a page showed
    /// them last.
    pub(super) fn as_last_seen(&self, shown: &Self) -> Self {
        let mut world = self.clone();
        for (id, lead) in &mut world.leads {
            copy_value(lead, shown.leads.get(id));
        }
        for (id, sent) in &mut world.outsourced {
            copy_value(sent, shown.outsourced.get(id));
        }
        for (id, payment) in &mut world.payments {
            copy_value(payment, shown.payments.get(id));
        }
        world.paid.clear();
        for payment in world.payments.values() {
            *world.paid.entry(payment.job).or_default() += payment.amount;
        }
        for (id, job) in &mut world.jobs {
            let status = job.status;
            copy_value(job, shown.jobs.get(id));
            job.status = status;
        }
        world
    }

    /// The world as last seen, but for what was paid for each repair: as its own row said it last, with
    /// the payments that pages have shown since.
    pub(super) fn as_repairs_said(&self, shown: &Self) -> Self {
        let mut world = self.as_last_seen(shown);
        for (id, job) in &shown.jobs {
            let mut paid = shown.paid(*id);
            for payment in shown.payments.values() {
                if payment.job == *id && payment.core.created > job.core.touched {
                    paid += payment.amount;
                }
            }
            world.paid.insert(*id, paid);
        }
        world
    }

    /// The repairs that moved to another business, and that the mirror takes to be in the old one.
    pub(super) fn moved_unseen(&self, places: &Places) -> BTreeSet<i64> {
        let mut moved = BTreeSet::new();
        for (id, job) in &self.jobs {
            let place = places.get(&(Route::Jobs, *id));
            if place.is_some_and(|place| *place != job.core.business) {
                moved.insert(*id);
            }
        }
        moved
    }

    /// This world, if the repairs were where the mirror takes them to be: what happened to one after it
    /// moved unseen has not happened.
    pub(super) fn unmoved(&self, places: &Places) -> Self {
        let mut world = self.clone();
        let moved = self.moved_unseen(places);
        for id in &moved {
            let job = world.jobs.get_mut(id).unwrap();
            job.core.business = places[&(Route::Jobs, *id)];
        }
        for (id, payment) in &mut world.payments {
            if let Some(place) = places.get(&(Route::Payments, *id)) {
                payment.core.business = *place;
            }
        }
        let jobs = &world.jobs;
        world.changes.retain(|id, change| {
            let place = places.get(&(Route::JobStatusChanges, *id)).copied();
            !moved.contains(&change.job)
                || place == jobs.get(&change.job).map(|job| job.core.business)
        });
        for id in &moved {
            let own = world.changes.values().filter(|change| change.job == *id);
            if let Some(last) = own.max_by_key(|change| (change.core.created, change.core.id)) {
                world.jobs.get_mut(id).unwrap().status = last.status;
            }
        }
        world
    }

    /// Every list of every business.
    pub(super) fn lists() -> Vec<(Route, Business)> {
        let mut lists = Vec::new();
        for route in Route::ALL {
            for business in BUSINESSES {
                lists.push((route, business));
            }
        }
        lists
    }
}

/// The ids of the records that a condition holds for.
pub(super) fn ids_where<T>(records: &Records<T>, holds: impl Fn(&T) -> bool) -> Vec<i64> {
    let found = records.iter().filter(|(_, record)| holds(record));
    found.map(|(id, _)| *id).collect()
}

fn copy_one<T: Clone>(to: &mut Records<T>, from: &Records<T>, id: i64) {
    if let Some(record) = from.get(&id) {
        to.insert(id, record.clone());
    }
}

fn copy_value<T: Clone>(to: &mut T, from: Option<&T>) {
    if let Some(from) = from {
        to.clone_from(from);
    }
}
