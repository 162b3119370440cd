//! Who comes in: leads, their follow-up and conversion, customers old and new, nightly imports.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::people::{self, Person};
use super::{Event, Growth};
use crate::fields::Fields;
use crate::records::{Records, Row};
use crate::route::Route;

/// A customer who may come back with another device.
pub(super) type Known = Person;

fn lead(person: &Person, device: people::Device, source: &str, comment: &str) -> Fields {
    Fields::default()
        .with("name", person.name.as_str())
        .with("contact_person_name", person.contact.clone())
        .with("mobile_country_code", person.country_code.clone())
        .with("mobile_number", person.mobile.clone())
        .with("phone_number", person.phone.clone())
        .with("email", person.email.clone())
        .with("source", source)
        .with("status", "New")
        .with("status_stage", "open")
        .with("assigned_to", "Reception")
        .with("next_follow_up", Value::Null)
        .with("device_type", device.0)
        .with("device_brand", device.1)
        .with("device_model", device.2)
        .with("comment", comment)
        .with("address", person.address.clone())
        .with(
            "custom_fields",
            json!({"How did you hear of us?": source, "Urgent": null}),
        )
}

fn customer(person: &Person) -> Fields {
    let kind = if person.contact.is_some() {
        "Business"
    } else {
        "Individual"
    };
    Fields::default()
        .with("name", person.name.as_str())
        .with("customer_type", kind)
        .with("contact_person_name", person.contact.clone())
        .with("mobile_country_code", person.country_code.clone())
        .with("mobile_number", person.mobile.clone())
        .with("phone_number", person.phone.clone())
        .with("email", person.email.clone())
        .with("address", person.address.clone())
        .with(
            "custom_fields",
            json!({"VAT": {"number": null, "exempt": false}, "Tags": []}),
        )
}

impl Growth {
    pub(super) fn happen(&mut self, at: Timestamp, event: Event, records: &mut Records) {
        match event {
            Event::Arrival { business } => self.arrival(at, business, records),
            Event::FollowUp {
                lead,
                business,
                person,
                contacted,
            } => {
                self.follow_up(at, (lead, business), person, contacted, records);
            }
            Event::Step { repair } => self.step(at, repair, records),
            Event::Returned { repair } => self.returned(at, repair, records),
            Event::Import { business } => self.import(at, business, records),
            Event::Booked {
                checkin,
                business,
                person,
            } => {
                self.came_in.push(checkin);
                self.welcome(at, business, &person, records);
                self.check_in(at, business, *person, records);
            }
        }
    }

    /// Lets the shop follow up a lead that came in from outside at `now` on the clock.
    pub(crate) fn follow(&mut self, now: Timestamp, lead: Row, business: i64, fields: &Fields) {
        let next = self.wait(self.own(now), self.pace.between_steps);
        let person = Box::new(Person::of(fields));
        self.expect(
            next,
            Event::FollowUp {
                lead,
                business,
                person,
                contacted: false,
            },
        );
    }

    /// Lets the customer of a self check-in come to the counter some time after `now`.
    pub(crate) fn book(&mut self, now: Timestamp, checkin: usize, business: i64, fields: &Fields) {
        let next = self.wait(self.own(now), self.pace.between_steps);
        let person = Box::new(Person::of(fields));
        self.expect(
            next,
            Event::Booked {
                checkin,
                business,
                person,
            },
        );
    }

    fn someone(&mut self) -> Person {
        self.people += 1;
        people::person(&mut self.rng, self.people)
    }

    fn arrival(&mut self, at: Timestamp, business: i64, records: &mut Records) {
        let next = self.wait(at, self.pace.between_arrivals / self.day.rush(at));
        self.expect(next, Event::Arrival { business });
        let returning = self
            .known
            .get(&business)
            .is_some_and(|known| known.len() > 20);
        match self.rng.u8(..10) {
            0..4 => {
                let person = self.someone();
                let source = *people::one_of(&mut self.rng, people::SOURCES);
                self.enquiry(at, business, person, source, records);
            }
            4..6 if returning => {
                let known = self.known.entry(business).or_default();
                let person = known[self.rng.usize(..known.len())].clone();
                self.check_in(at, business, person, records);
            }
            _ => {
                let person = self.someone();
                self.welcome(at, business, &person, records);
                self.check_in(at, business, person, records);
            }
        }
    }

    fn enquiry(
        &mut self,
        at: Timestamp,
        business: i64,
        mut person: Person,
        source: &str,
        records: &mut Records,
    ) {
        let device = people::device(&mut self.rng);
        let problem = people::problem(&mut self.rng);
        let (kind, brand, model) = device.clone();
        person.device = [kind, brand, model].map(|part| Some(part.into_owned()));
        let fields = lead(&person, device, source, problem);
        let lead = self.create(records, Route::Leads, business, at, fields);
        let next = self.wait(at, self.pace.between_steps);
        let person = Box::new(person);
        self.expect(
            next,
            Event::FollowUp {
                lead,
                business,
                person,
                contacted: false,
            },
        );
    }

    fn follow_up(
        &mut self,
        at: Timestamp,
        (lead, business): (Row, i64),
        person: Box<Person>,
        contacted: bool,
        records: &mut Records,
    ) {
        let place = (Route::Leads, lead);
        if !contacted {
            let changes = [
                ("status", "Contacted".into()),
                ("assigned_to", people::staff(&mut self.rng).into()),
                ("next_follow_up", at.strftime("%Y-%m-%d").to_string().into()),
            ];
            self.edit(records, place, at, changes);
            let next = self.wait(at, self.pace.between_steps);
            self.expect(
                next,
                Event::FollowUp {
                    lead,
                    business,
                    person,
                    contacted: true,
                },
            );
        } else if self.rng.u8(..10) < 6 {
            let changes = [
                ("status", "Converted".into()),
                ("status_stage", "completed".into()),
            ];
            self.edit(records, place, at, changes);
            self.welcome(at, business, &person, records);
            self.check_in(at, business, *person, records);
        } else {
            let changes = [
                ("status", "Not interested".into()),
                ("status_stage", "completed".into()),
            ];
            self.edit(records, place, at, changes);
        }
    }

    fn welcome(&mut self, at: Timestamp, business: i64, person: &Person, records: &mut Records) {
        self.create(records, Route::Customers, business, at, customer(person));
        // A returning customer brings another device.
        let known = Person {
            device: [const { None }; 3],
            ..person.clone()
        };
        self.known.entry(business).or_default().push(known);
    }

    fn import(&mut self, at: Timestamp, business: i64, records: &mut Records) {
        let next = self.day.next_import(at);
        self.expect(next, Event::Import { business });
        for _ in 0..self.rng.usize(110..170) {
            let person = self.someone();
            self.enquiry(at, business, person, "Marketplace import", records);
        }
    }
}

/// A plausible record of a route for bursts and tests; `nth` keeps numbers apart.
pub(crate) fn invented(rng: &mut fastrand::Rng, route: Route, nth: usize) -> Fields {
    let person = people::person(rng, 50_000_000 + nth);
    let device = people::device(rng);
    let job = format!("JOB-X{nth:06}");
    let of_job = || {
        Fields::default()
            .with("job_number", job.as_str())
            .with("customer_name", person.name.as_str())
    };
    match route {
        Route::Leads => lead(&person, device, "Website", people::problem(rng)),
        Route::Customers => customer(&person),
        Route::Jobs => super::repair::job(&job, &person, device, people::problem(rng)),
        Route::Payments => of_job()
            .with("amount", f64::from(rng.u32(500..90_000)) / 100.0)
            .with("payment_mode", "Card")
            .with("received_by", people::staff(rng))
            .with("reference", Value::Null),
        Route::JobStatusChanges => of_job()
            .with("status", "Received")
            .with("status_stage", "open")
            .with("changed_by", people::staff(rng))
            .with("comment", Value::Null),
        Route::OutsourcedJobs => of_job()
            .with("vendor_name", people::vendor(rng))
            .with("device_brand", device.1)
            .with("device_model", device.2)
            .with("status", "Sent")
            .with("status_stage", "open")
            .with("cost", Value::Null),
    }
}
