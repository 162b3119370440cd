//! One repair from the counter to the pick-up: its statuses, bills and outsourcing.
//!
//! Invariant: a job's status is that of its latest status change, and its paid amount the sum of
//! its payments.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::day::later;
use super::people::{self, Device, Person};
use super::{Event, Growth};
use crate::fields::Fields;
use crate::records::{Records, Row};
use crate::route::Route;

/// Days until a repair is promised, where repairs take days.
const PROMISED_DAYS: f64 = 3.0;
/// One repair of so many waits for a part.
const WAITS_FOR_PART: usize = 97;
/// A repair that waits for a part takes so many times as long.
const WITH_PART: f64 = 60.0;
/// One repair of so many is taken home on account.
const ON_ACCOUNT: usize = 151;

const MODES: &[&str] = &["Card", "Cash", "Bank transfer", "UPI"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Received,
    Diagnosed,
    Approved,
    InRepair,
    Ready,
    Gone,
}

impl Stage {
    const fn label(self) -> (&'static str, &'static str) {
        match self {
            Self::Received => ("Received", "open"),
            Self::Diagnosed => ("Diagnosed – awaiting approval", "open"),
            Self::Approved => ("Approved", "open"),
            Self::InRepair => ("In repair", "open"),
            Self::Ready => ("Ready for pickup", "open"),
            Self::Gone => ("Delivered", "completed"),
        }
    }
}

/// What the shop needs to continue a job.
pub(super) struct Repair {
    job: Row,
    business: i64,
    number: String,
    person: Person,
    device: Device,
    stage: Stage,
    total: i64,
    paid: i64,
    outsourced: Option<Row>,
}

fn money(cents: i64) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "bills are far below 2^53 cents")]
    Value::from(cents as f64 / 100.0)
}

/// A job as it is taken in.
pub(super) fn job(number: &str, person: &Person, device: Device, problem: &str) -> Fields {
    Fields::default()
        .with("job_number", number)
        .with("customer_name", person.name.as_str())
        .with("mobile_country_code", person.country_code.clone())
        .with("mobile_number", person.mobile.clone())
        .with("email", person.email.clone())
        .with("device_type", device.0)
        .with("device_brand", device.1)
        .with("device_model", device.2)
        .with("problem", problem)
        .with("accessories", json!([]))
        .with("status", "Received")
        .with("status_stage", "open")
        .with("assigned_to", Value::Null)
        .with("estimated_delivery", Value::Null)
        .with("total_amount", money(0))
        .with("paid_amount", money(0))
        .with(
            "custom_fields",
            json!({"Backup wanted": false, "Passcode given": null}),
        )
}

impl Growth {
    pub(super) fn check_in(
        &mut self,
        at: Timestamp,
        business: i64,
        person: Person,
        records: &mut Records,
    ) {
        let drawn = people::device(&mut self.rng);
        let device = people::brought(&person, drawn);
        let problem = people::problem(&mut self.rng);
        let number = format!("JOB-{:05}", self.repairs.len() + 1);
        let received_at = self.clock(at).strftime("%Y-%m-%dT%H:%M:%S").to_string();
        let serial = format!("SN{:010X}", self.rng.u32(..));
        let fields = job(&number, &person, device.clone(), problem)
            .with("serial_number", serial)
            .with("received_at", received_at);
        let job = self.create(records, Route::Jobs, business, at, fields);
        let repair = self.repairs.len();
        self.repairs.push(Repair {
            job,
            business,
            number,
            person,
            device,
            stage: Stage::Received,
            total: 0,
            paid: 0,
            outsourced: None,
        });
        self.enter(at, repair, Stage::Received, Value::Null, records);
    }

    /// Puts the job into a stage, notes the change, and plans the next step.
    fn enter(
        &mut self,
        at: Timestamp,
        repair: usize,
        stage: Stage,
        comment: Value,
        records: &mut Records,
    ) {
        let by = people::staff(&mut self.rng);
        self.repairs[repair].stage = stage;
        let this = &self.repairs[repair];
        let (status, status_stage) = stage.label();
        let place = (Route::Jobs, this.job);
        let changes = [
            ("status", status.into()),
            ("status_stage", status_stage.into()),
        ];
        self.edit(records, place, at, changes);
        let change = Fields::default()
            .with("job_number", this.number.as_str())
            .with("customer_name", this.person.name.as_str())
            .with("device_brand", this.device.1.clone())
            .with("device_model", this.device.2.clone())
            .with("status", status)
            .with("status_stage", status_stage)
            .with("changed_by", by)
            .with("comment", comment);
        self.create(records, Route::JobStatusChanges, this.business, at, change);
        if stage != Stage::Gone {
            let mean = self.pace.between_steps;
            let waits_for_part = stage == Stage::InRepair
                && self.pace.has_late_and_unpaid
                && repair % WAITS_FOR_PART == 7;
            let next = if waits_for_part {
                self.day.after(at, mean * WITH_PART)
            } else {
                self.wait(at, mean)
            };
            self.expect(next, Event::Step { repair });
        }
    }

    pub(super) fn step(&mut self, at: Timestamp, repair: usize, records: &mut Records) {
        let place = (Route::Jobs, self.repairs[repair].job);
        match self.repairs[repair].stage {
            Stage::Received => {
                let total = 100 * self.rng.i64(25..900) + 95;
                self.repairs[repair].total = total;
                let promised = if self.pace.has_late_and_unpaid {
                    later(at, PROMISED_DAYS * 86_400.0)
                } else {
                    at
                };
                let changes = [
                    ("total_amount", money(total)),
                    ("assigned_to", people::staff(&mut self.rng).into()),
                    (
                        "estimated_delivery",
                        promised.strftime("%Y-%m-%d").to_string().into(),
                    ),
                ];
                self.edit(records, place, at, changes);
                let quoted = format!("Quoted {:.2}", money(total).as_f64().unwrap_or_default());
                self.enter(at, repair, Stage::Diagnosed, quoted.into(), records);
            }
            Stage::Diagnosed => {
                if self.rng.u8(..3) == 0 {
                    let part = self.repairs[repair].total / 4;
                    self.pay(at, repair, part, records);
                }
                self.enter(at, repair, Stage::Approved, Value::Null, records);
            }
            Stage::Approved => {
                if self.rng.u8(..3) == 0 {
                    self.outsource(at, repair, records);
                }
                self.enter(at, repair, Stage::InRepair, Value::Null, records);
            }
            Stage::InRepair => {
                self.enter(at, repair, Stage::Ready, "Tested ✓".into(), records);
            }
            Stage::Ready => {
                let rest = self.repairs[repair].total - self.repairs[repair].paid;
                let is_on_account = self.pace.has_late_and_unpaid && repair % ON_ACCOUNT == 11;
                if !is_on_account {
                    self.pay(at, repair, rest, records);
                }
                self.enter(at, repair, Stage::Gone, Value::Null, records);
            }
            Stage::Gone => {}
        }
    }

    fn pay(&mut self, at: Timestamp, repair: usize, cents: i64, records: &mut Records) {
        self.repairs[repair].paid += cents;
        let mode = *people::one_of(&mut self.rng, MODES);
        let by = people::staff(&mut self.rng);
        let reference = (mode != "Cash").then(|| format!("{:08}", self.rng.u32(..100_000_000)));
        let this = &self.repairs[repair];
        let payment = Fields::default()
            .with("amount", money(cents))
            .with("payment_mode", mode)
            .with("job_number", this.number.as_str())
            .with("customer_name", this.person.name.as_str())
            .with("received_by", by)
            .with("reference", reference);
        self.create(records, Route::Payments, this.business, at, payment);
        let paid = [("paid_amount", money(this.paid))];
        self.edit(records, (Route::Jobs, this.job), at, paid);
    }

    fn outsource(&mut self, at: Timestamp, repair: usize, records: &mut Records) {
        let vendor = people::vendor(&mut self.rng);
        let this = &self.repairs[repair];
        let fields = Fields::default()
            .with("job_number", this.number.as_str())
            .with("customer_name", this.person.name.as_str())
            .with("vendor_name", vendor)
            .with("device_type", this.device.0.clone())
            .with("device_brand", this.device.1.clone())
            .with("device_model", this.device.2.clone())
            .with("status", "Sent")
            .with("status_stage", "open")
            .with("cost", Value::Null)
            .with("returned_on", Value::Null);
        let row = self.create(records, Route::OutsourcedJobs, this.business, at, fields);
        self.repairs[repair].outsourced = Some(row);
        let next = self.wait(at, self.pace.between_steps / 2.0);
        self.expect(next, Event::Returned { repair });
    }

    pub(super) fn returned(&mut self, at: Timestamp, repair: usize, records: &mut Records) {
        let Some(row) = self.repairs[repair].outsourced else {
            return;
        };
        let changes = [
            ("status", "Returned".into()),
            ("status_stage", "completed".into()),
            ("cost", money(self.repairs[repair].total / 3)),
            ("returned_on", at.strftime("%Y-%m-%d").to_string().into()),
        ];
        self.edit(records, (Route::OutsourcedJobs, row), at, changes);
    }
}
