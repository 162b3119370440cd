//! What happens in a simulated workspace, by a seed: ordinary days of two repair shops, and the
//! ugly things that a test asks for.

use std::collections::BTreeMap;

use fastrand::Rng;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use shopmirror_core::record::Route;

use super::records::{
    BUSINESSES, Business, CANCELLED, Change, Core, Customer, DELIVERED, DIAGNOSED, IN_REPAIR, Job,
    Lead, Outsourced, Payment, Person, READY, RECEIVED, Shape, Status,
};
use super::world::{ListOrder, Records, World, ids_where};

/// What is not ordinary in a shop's life. Each is on in a shop of its own, and all in one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display, strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub(super) enum Ugly {
    /// More records than a page existed before the mirror began.
    History,
    /// Repairs, payments, leads and customers are deleted.
    Deletions,
    /// Two customers become one: one record goes, and its repairs name the other.
    Merges,
    /// Records that left the newest page are edited: amounts, totals, due days, people.
    OldEdits,
    /// The workspace does not answer, or the daemon does not run, for minutes to days.
    Outages,
    /// More records than a page within a minute.
    Bursts,
    /// 300 customers with dates of the last 30 days come within an hour.
    Import,
    /// Amounts as text, times with a space, days as 27/11/2026.
    Foreign,
    /// Amounts, times of creation and days that are null.
    Nulls,
    /// The workspace shows 50 records, whatever is asked for.
    Capped,
    /// Others use the key, so that each list is read every twenty minutes only.
    Rival,
    /// Repairs are moved to the other business.
    Moves,
    /// Repairs are cancelled.
    Cancelled,
    /// Somebody else than the assigned person completes a repair.
    Finisher,
    /// Numbers and addresses are spelled with spaces, hyphens and capitals.
    Spellings,
}

const PEOPLE: [&str; 4] = ["Anna", "Ben", "Chris", "Dora"];
const BRANDS: [&str; 4] = ["Apple", "Samsung", "Xiaomi", "Sony"];
const SOURCES: [&str; 4] = ["Website", "Walk-in", "Phone", "Referral"];
const VENDORS: [&str; 3] = ["Board Clinic", "Glass Works", "Data Savers"];

/// What happens at a time.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// A new day: everything of it is drawn.
    Day,
    CheckIn(Business),
    Lead(Business),
    /// A repair goes on to its next status.
    Step(i64),
    Assign(i64),
    /// A lead becomes a customer.
    Convert(i64),
    CloseLead(i64),
    Return(i64),
    Refund(i64),
    DeleteOne,
    MergeOne,
    EditOld,
    MoveOne,
    Import(Business),
    Burst(Business),
}

/// A workspace and what will happen in it.
pub(super) struct Life {
    pub(super) world: World,
    pub(super) zone: TimeZone,
    uglies: Vec<Ugly>,
    rng: Rng,
    queue: BTreeMap<(Timestamp, u64), Event>,
    queued: u64,
    people: Vec<Person>,
    numbers: BTreeMap<Business, u32>,
}

impl Life {
    pub(super) fn new(
        start: Timestamp,
        zone: TimeZone,
        order: ListOrder,
        uglies: &[Ugly],
        seed: u64,
    ) -> Self {
        let mut life = Self {
            world: World::new(start, order),
            zone,
            uglies: uglies.to_vec(),
            rng: Rng::with_seed(seed),
            queue: BTreeMap::new(),
            queued: 0,
            people: Vec::new(),
            numbers: BTreeMap::new(),
        };
        if life.is(Ugly::Capped) {
            life.world.page_max = 50;
        }
        life.expect(start, Event::Day);
        life
    }

    pub(super) fn is(&self, ugly: Ugly) -> bool {
        self.uglies.contains(&ugly)
    }

    fn expect(&mut self, at: Timestamp, event: Event) {
        self.queued += 1;
        self.queue.insert((at, self.queued), event);
    }

    fn after(&mut self, hours: f64, event: Event) {
        // Half of the mean at least, and a long tail.
        let drawn = hours * (0.5 - 0.5 * (1.0 - self.rng.f64()).ln());
        let wait = SignedDuration::from_micros((drawn * 3.6e9) as i64);
        self.expect(self.world.now + wait, event);
    }

    /// Lets everything happen until a second before this time: an answer of the workspace is read
    /// later than it was made.
    pub(super) fn go_on_until(&mut self, to: Timestamp) {
        let last = to - SignedDuration::from_secs(1);
        while let Some((&(at, _), _)) = self.queue.first_key_value()
            && at <= last
        {
            let (_, event) = self.queue.pop_first().unwrap();
            self.world.now = at;
            self.happen(event);
        }
        self.world.now = to;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Day => self.plan_a_day(),
            Event::CheckIn(business) => self.check_in(business),
            Event::Lead(business) => self.lead(business),
            Event::Step(job) => self.step(job),
            Event::Assign(job) => self.assign(job),
            Event::Convert(lead) => self.convert(lead),
            Event::CloseLead(lead) => self.close_lead(lead),
            Event::Return(sent) => self.come_back(sent),
            Event::Refund(payment) => self.refund(payment),
            Event::DeleteOne => self.delete_one(),
            Event::MergeOne => self.merge_one(),
            Event::EditOld => self.edit_old(),
            Event::MoveOne => self.move_one(),
            Event::Import(business) => self.import(business),
            Event::Burst(business) => self.burst(business),
        }
    }

    /// A moment of a local day, to the microsecond; now and then its first or its last one.
    fn moment(&mut self, day: Date) -> Timestamp {
        let start = self.start_of(day);
        match self.rng.u8(..40) {
            0 => start,
            1 => self.start_of(day.tomorrow().unwrap()) - SignedDuration::from_micros(1),
            _ => {
                let opens = day.to_datetime(Time::constant(8, 0, 0, 0));
                let opens = opens
                    .to_zoned_datetime(self.zone.clone())
                    .unwrap()
                    .timestamp();
                opens + SignedDuration::from_micros(self.rng.i64(0..11 * 3_600_000_000))
            }
        }
    }

    fn start_of(&self, day: Date) -> Timestamp {
        day.to_zoned_datetime(self.zone.clone())
            .unwrap()
            .timestamp()
    }

    fn today(&self) -> Date {
        self.world.now.to_zoned_datetime(self.zone.clone()).date()
    }

    fn plan_a_day(&mut self) {
        let day = self.today();
        let now = self.world.now;
        let mut plan: Vec<(u32, Event)> = Vec::new();
        for business in BUSINESSES {
            plan.push((self.rng.u32(7..14), Event::CheckIn(business)));
            plan.push((self.rng.u32(3..8), Event::Lead(business)));
        }
        for (ugly, times, event) in [
            (Ugly::Deletions, 3, Event::DeleteOne),
            (Ugly::Merges, 2, Event::MergeOne),
            (Ugly::OldEdits, 6, Event::EditOld),
            (Ugly::Moves, 2, Event::MoveOne),
        ] {
            if self.is(ugly) {
                plan.push((times, event));
            }
        }
        if self.is(Ugly::Bursts) && self.rng.u8(..3) == 0 {
            plan.push((1, Event::Burst(1 + self.rng.u8(..2))));
        }
        if self.is(Ugly::Import) && self.rng.u8(..8) == 0 {
            plan.push((1, Event::Import(1 + self.rng.u8(..2))));
        }
        for (times, event) in plan {
            for _ in 0..times {
                let at = self.moment(day);
                if at >= now {
                    self.expect(at, event);
                }
            }
        }
        let tomorrow = self.start_of(day.tomorrow().unwrap());
        self.expect(tomorrow, Event::Day);
    }

    // ---- who and what ----

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(..of.len())]
    }

    fn one_id(&mut self, ids: &[i64]) -> Option<i64> {
        (!ids.is_empty()).then(|| ids[self.rng.usize(..ids.len())])
    }

    fn shape(&mut self) -> Shape {
        if self.is(Ugly::Nulls) && self.rng.u8(..25) == 0 {
            return Shape::Null;
        }
        if self.is(Ugly::Foreign) && self.rng.bool() {
            return Shape::Foreign;
        }
        Shape::Usual
    }

    /// How the days of a field are shown: in one format in the whole shop.
    fn day_shape(&mut self) -> Shape {
        match self.shape() {
            Shape::Null => Shape::Null,
            _ if self.is(Ugly::Foreign) => Shape::Foreign,
            _ => Shape::Usual,
        }
    }

    fn core(&mut self, route: Route, business: Business) -> Core {
        let id = self.world.new_id(route);
        self.world.changed.insert((route, business));
        Core {
            id,
            business,
            created: self.world.now,
            touched: self.world.now,
            time: self.shape(),
        }
    }

    fn new_person(&mut self) -> Person {
        let number = self.people.len() + 1;
        let has_mobile = self.rng.u8(..10) > 0;
        let has_email = !has_mobile || self.rng.bool();
        let person = Person {
            name: format!("Person {number}"),
            mobile: has_mobile.then(|| format!("1511{number:06}")),
            email: has_email.then(|| format!("person{number}@example.com")),
        };
        self.people.push(person.clone());
        person
    }

    /// The same person as another hand spells them.
    fn spelled(&mut self, person: &Person) -> Person {
        if !self.is(Ugly::Spellings) || self.rng.bool() {
            return person.clone();
        }
        let mobile = person.mobile.as_ref();
        Person {
            name: person.name.clone(),
            mobile: mobile.map(|it| format!("{} {}-{}", &it[..4], &it[4..7], &it[7..])),
            email: person.email.as_ref().map(|it| it.to_uppercase()),
        }
    }

    fn add_customer(&mut self, business: Business, person: &Person) {
        let core = self.core(Route::Customers, business);
        let person = self.spelled(person);
        self.world
            .customers
            .insert(core.id, Customer { core, person });
    }

    // ---- repairs ----

    fn check_in(&mut self, business: Business) {
        let known = self.people.len();
        let person = if known > 10 && self.rng.u8(..10) < 3 {
            self.people[self.rng.usize(..known)].clone()
        } else {
            let person = self.new_person();
            self.add_customer(business, &person);
            person
        };
        let next = self.numbers.entry(business).or_default();
        *next += 1;
        let number = if self.uglies.contains(&Ugly::Moves) {
            format!("R{business}-{next:05}")
        } else {
            // Both shops use the same numbers.
            format!("R-{next:05}")
        };
        let core = self.core(Route::Jobs, business);
        let id = core.id;
        let brand = if self.rng.u8(..20) == 0 {
            None
        } else {
            Some(self.one_of(&BRANDS))
        };
        let job = Job {
            core,
            number,
            person,
            brand,
            assigned: None,
            status: RECEIVED,
            total: 0,
            due: None,
            total_shape: self.shape(),
            due_shape: self.day_shape(),
        };
        self.world.jobs.insert(id, job);
        self.enter(id, RECEIVED);
        self.after(2.0, Event::Assign(id));
        self.after(6.0, Event::Step(id));
    }

    /// Puts a repair into a status, with the record that says so.
    fn enter(&mut self, id: i64, status: Status) {
        let anybody = self.one_of(&PEOPLE);
        let is_any_finisher = self.is(Ugly::Finisher);
        let job = self.world.jobs.get_mut(&id).unwrap();
        job.status = status;
        let (number, business) = (job.number.clone(), job.core.business);
        let by = match job.assigned {
            Some(assigned) if !is_any_finisher => assigned,
            _ => anybody,
        };
        self.world.touch(Route::Jobs, id);
        let core = self.core(Route::JobStatusChanges, business);
        let change = Change {
            core,
            job: id,
            job_number: number,
            status,
            by,
        };
        self.world.changes.insert(change.core.id, change);
    }

    fn step(&mut self, id: i64) {
        let Some(job) = self.world.jobs.get(&id) else {
            return;
        };
        match job.status {
            RECEIVED => {
                let total = 1_000 + self.rng.i64(0..200_000);
                let due = self.today().saturating_add(self.rng.i64(1..8).days());
                let job = self.world.jobs.get_mut(&id).unwrap();
                job.total = total;
                job.set_due(due);
                self.enter(id, DIAGNOSED);
                if self.rng.u8(..3) == 0 {
                    self.pay(id, total / 3);
                }
                self.after(8.0, Event::Step(id));
            }
            DIAGNOSED if self.is(Ugly::Cancelled) && self.rng.u8(..6) == 0 => {
                self.enter(id, CANCELLED);
            }
            DIAGNOSED => {
                self.enter(id, IN_REPAIR);
                if self.rng.u8(..5) == 0 {
                    self.outsource(id);
                }
                let hours = if self.rng.u8(..8) == 0 { 300.0 } else { 14.0 };
                self.after(hours, Event::Step(id));
            }
            IN_REPAIR => {
                self.enter(id, READY);
                let hours = if self.rng.u8(..10) == 0 { 500.0 } else { 20.0 };
                self.after(hours, Event::Step(id));
            }
            READY => {
                let rest = job.total - self.world.paid(id);
                // Some are not paid in full.
                let amount = if self.rng.u8(..8) == 0 {
                    rest / 2
                } else {
                    rest
                };
                self.pay(id, amount);
                self.enter(id, DELIVERED);
                if self.rng.u8(..12) == 0 {
                    self.after(60.0, Event::Step(id));
                }
            }
            DELIVERED => {
                self.enter(id, IN_REPAIR);
                self.after(20.0, Event::Step(id));
            }
            _ => {}
        }
    }

    fn assign(&mut self, id: i64) {
        let person = self.one_of(&PEOPLE);
        if let Some(job) = self.world.jobs.get_mut(&id)
            && job.assigned.is_none()
        {
            job.assigned = Some(person);
            self.world.touch(Route::Jobs, id);
        }
    }

    fn pay(&mut self, id: i64, amount: i64) {
        if amount == 0 {
            return;
        }
        let job = &self.world.jobs[&id];
        let (number, business) = (job.number.clone(), job.core.business);
        let core = self.core(Route::Payments, business);
        let payment = Payment {
            core,
            job: id,
            job_number: number,
            amount,
            amount_shape: self.shape(),
        };
        let payment_id = payment.core.id;
        self.world.pay(payment);
        if amount > 0 && self.rng.u8(..25) == 0 {
            self.after(30.0, Event::Refund(payment_id));
        }
    }

    fn refund(&mut self, id: i64) {
        let Some(payment) = self.world.payments.get(&id) else {
            return;
        };
        let (job, amount) = (payment.job, payment.amount);
        if self.world.jobs.contains_key(&job) {
            self.pay(job, -amount / 2);
        }
    }

    fn outsource(&mut self, id: i64) {
        let job = &self.world.jobs[&id];
        let (number, business) = (job.number.clone(), job.core.business);
        let core = self.core(Route::OutsourcedJobs, business);
        let sent = Outsourced {
            core,
            job: id,
            job_number: number,
            vendor: self.one_of(&VENDORS),
            is_out: true,
        };
        let id = sent.core.id;
        self.world.outsourced.insert(id, sent);
        self.after(60.0, Event::Return(id));
    }

    fn come_back(&mut self, id: i64) {
        if let Some(sent) = self.world.outsourced.get_mut(&id) {
            sent.is_out = false;
            self.world.touch(Route::OutsourcedJobs, id);
        }
    }

    // ---- leads ----

    fn lead(&mut self, business: Business) {
        let person = self.new_person();
        let follow_up = self.today().saturating_add(self.rng.i64(0..6).days());
        let core = self.core(Route::Leads, business);
        let id = core.id;
        let has_source = self.rng.u8(..12) > 0;
        let source = self.one_of(&SOURCES);
        let shown = self.spelled(&person);
        let is_set = self.rng.u8(..5) > 0;
        let follow_up_shape = self.day_shape();
        // A day that is null is none.
        let has_follow_up = is_set && follow_up_shape != Shape::Null;
        let lead = Lead {
            core,
            person: shown,
            source: has_source.then_some(source),
            is_open: true,
            follow_up: has_follow_up.then_some(follow_up),
            follow_up_shape,
        };
        self.world.leads.insert(id, lead);
        if self.rng.u8(..5) < 2 {
            self.after(24.0, Event::Convert(id));
        } else if self.rng.u8(..3) > 0 {
            self.after(30.0, Event::CloseLead(id));
        }
    }

    fn convert(&mut self, id: i64) {
        let Some(lead) = self.world.leads.get(&id) else {
            return;
        };
        let (person, business) = (lead.person.clone(), lead.core.business);
        self.add_customer(business, &person);
        self.close_lead(id);
    }

    fn close_lead(&mut self, id: i64) {
        if let Some(lead) = self.world.leads.get_mut(&id) {
            lead.is_open = false;
            self.world.touch(Route::Leads, id);
        }
    }

    // ---- what is not ordinary ----

    fn delete_one(&mut self) {
        let (route, ids) = match self.rng.u8(..4) {
            0 => (Route::Jobs, recent(&self.world.jobs)),
            1 => (Route::Payments, recent(&self.world.payments)),
            2 => (Route::Leads, recent(&self.world.leads)),
            _ => (Route::Customers, recent(&self.world.customers)),
        };
        if let Some(id) = self.one_id(&ids) {
            self.world.delete(route, id);
        }
    }

    fn merge_one(&mut self) {
        let customers = recent(&self.world.customers);
        let (Some(kept), Some(gone)) = (self.one_id(&customers), self.one_id(&customers)) else {
            return;
        };
        let (kept_person, gone_person) = (
            self.world.customers[&kept].person.clone(),
            self.world.customers[&gone].person.clone(),
        );
        if kept == gone {
            return;
        }
        self.world.delete(Route::Customers, gone);
        for id in ids_where(&self.world.jobs, |job| job.person == gone_person) {
            let job = self.world.jobs.get_mut(&id).unwrap();
            job.person = kept_person.clone();
            self.world.touch(Route::Jobs, id);
        }
    }

    /// Edits a record of any age.
    fn edit_old(&mut self) {
        match self.rng.u8(..4) {
            0 => {
                let payments: Vec<i64> = self.world.payments.keys().copied().collect();
                if let Some(id) = self.one_id(&payments) {
                    let amount = self.world.payments[&id].amount + self.rng.i64(1..5_000);
                    self.world.set_amount(id, amount);
                }
            }
            1 => {
                let jobs: Vec<i64> = self.world.jobs.keys().copied().collect();
                if let Some(id) = self.one_id(&jobs) {
                    let added = self.rng.i64(1..9_000);
                    let job = self.world.jobs.get_mut(&id).unwrap();
                    job.total += added;
                    self.world.touch(Route::Jobs, id);
                }
            }
            2 => {
                let jobs = ids_where(&self.world.jobs, |job| job.due.is_some());
                if let Some(id) = self.one_id(&jobs) {
                    let due = self.today().saturating_add(self.rng.i64(-2..6).days());
                    self.world.jobs.get_mut(&id).unwrap().set_due(due);
                    self.world.touch(Route::Jobs, id);
                }
            }
            _ => {
                let jobs: Vec<i64> = self.world.jobs.keys().copied().collect();
                let person = self.one_of(&PEOPLE);
                if let Some(id) = self.one_id(&jobs) {
                    let job = self.world.jobs.get_mut(&id).unwrap();
                    job.assigned = Some(person);
                    self.world.touch(Route::Jobs, id);
                }
            }
        }
    }

    /// A repair goes to the other business with its records.
    fn move_one(&mut self) {
        let open = ids_where(&self.world.jobs, |job| job.status.1 == "open");
        let Some(id) = self.one_id(&open) else {
            return;
        };
        let job = self.world.jobs.get_mut(&id).unwrap();
        let (from, to) = (job.core.business, 3 - job.core.business);
        job.core.business = to;
        for change in self.world.changes.values_mut() {
            if change.job == id {
                change.core.business = to;
            }
        }
        for payment in self.world.payments.values_mut() {
            if payment.job == id {
                payment.core.business = to;
            }
        }
        for route in [Route::Jobs, Route::JobStatusChanges, Route::Payments] {
            self.world.changed.insert((route, from));
            self.world.changed.insert((route, to));
        }
        self.world.touch(Route::Jobs, id);
    }

    fn import(&mut self, business: Business) {
        let now = self.world.now;
        for nth in 0..300_i64 {
            let person = self.new_person();
            let mut core = self.core(Route::Customers, business);
            core.created = now - SignedDuration::from_mins((300 - nth) * 144);
            self.world
                .customers
                .insert(core.id, Customer { core, person });
        }
    }

    /// A campaign brings leads, and a day's repairs are set to their next status in one go.
    fn burst(&mut self, business: Business) {
        for _ in 0..self.rng.u32(110..180) {
            self.lead(business);
        }
        for id in ids_where(&self.world.jobs, |job| job.core.business == business) {
            if self.world.jobs[&id].status.1 == "open" {
                self.step(id);
            }
        }
        for _ in 0..120 {
            let jobs = ids_where(&self.world.jobs, |job| job.core.business == business);
            if let Some(id) = self.one_id(&jobs) {
                self.pay(id, 500);
            }
        }
    }
}

/// The newest 80 records of a list, of which most are on a page.
fn recent<T>(records: &Records<T>) -> Vec<i64> {
    let ids: Vec<i64> = records.keys().copied().collect();
    ids[ids.len().saturating_sub(80)..].to_vec()
}
