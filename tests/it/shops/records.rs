//! The records of a simulated workspace, as they are true, and the JSON that its API shows of them.
//!
//! What is true and what is shown are apart: a payment has an amount, even if its page shows null.

use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::{Value, json};

/// One of the two shops of the workspace, as the API calls it.
pub(super) type Business = u8;

/// The businesses of every simulated workspace.
pub(super) const BUSINESSES: [Business; 2] = [1, 2];

/// A status of repairs: its label, and the stage that the API gives it.
pub(super) type Status = (&'static str, &'static str);

pub(super) const RECEIVED: Status = ("Received", "open");
pub(super) const DIAGNOSED: Status = ("Diagnosed", "open");
pub(super) const IN_REPAIR: Status = ("In repair", "open");
pub(super) const READY: Status = ("Ready for pickup", "open");
pub(super) const DELIVERED: Status = ("Delivered", "completed");
pub(super) const CANCELLED: Status = ("Cancelled", "completed");

/// How one value of a record is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Shape {
    /// As the contract says.
    #[default]
    Usual,
    /// A text that only one reading fits: `"1,234.50"`, `2026-03-01 10:00:00`, `27/11/2026`.
    Foreign,
    Null,
}

/// What every record has.
#[derive(Debug, Clone)]
pub(super) struct Core {
    pub(super) id: i64,
    pub(super) business: Business,
    pub(super) created: Timestamp,
    /// When it was changed last; a list by change has the newest of these first.
    pub(super) touched: Timestamp,
    /// How its time of creation is shown.
    pub(super) time: Shape,
}

/// A customer's name, and what identifies them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Person {
    pub(super) name: String,
    /// The national number, if it is known.
    pub(super) mobile: Option<String>,
    pub(super) email: Option<String>,
}

/// A repair.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) core: Core,
    pub(super) number: String,
    pub(super) person: Person,
    pub(super) brand: Option<&'static str>,
    pub(super) assigned: Option<&'static str>,
    pub(super) status: Status,
    /// In cents.
    pub(super) total: i64,
    pub(super) due: Option<Date>,
    /// How the total and the due day are shown.
    pub(super) total_shape: Shape,
    pub(super) due_shape: Shape,
}

const DEVICES: [&str; 3] = ["A54", "S23", "Pixel 8"];
const METHODS: [&str; 3] = ["Card", "Cash", "Transfer"];

impl Job {
    /// What is repaired; of some it is not known.
    pub(super) fn device(&self) -> Option<&'static str> {
        let nth = usize::try_from(self.core.id % 4).unwrap();
        DEVICES.get(nth).copied()
    }

    /// Sets the day of delivery. A day that is null is none.
    pub(super) fn set_due(&mut self, day: Date) {
        if self.due_shape != Shape::Null {
            self.due = Some(day);
        }
    }
}

/// A customer.
#[derive(Debug, Clone)]
pub(super) struct Customer {
    pub(super) core: Core,
    pub(super) person: Person,
}

/// A lead.
#[derive(Debug, Clone)]
pub(super) struct Lead {
    pub(super) core: Core,
    pub(super) person: Person,
    pub(super) source: Option<&'static str>,
    pub(super) is_open: bool,
    pub(super) follow_up: Option<Date>,
    pub(super) follow_up_shape: Shape,
}

/// A payment, or a refund if its amount is negative.
#[derive(Debug, Clone)]
pub(super) struct Payment {
    pub(super) core: Core,
    /// The id of its repair.
    pub(super) job: i64,
    pub(super) job_number: String,
    /// In cents.
    pub(super) amount: i64,
    pub(super) amount_shape: Shape,
}

impl Payment {
    /// How it was made.
    pub(super) fn method(&self) -> &'static str {
        METHODS[usize::try_from(self.core.id % 3).unwrap()]
    }
}

/// A change of a repair's status.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) core: Core,
    /// The id of its repair.
    pub(super) job: i64,
    pub(super) job_number: String,
    pub(super) status: Status,
    pub(super) by: &'static str,
}

/// A repair that is with another firm.
#[derive(Debug, Clone)]
pub(super) struct Outsourced {
    pub(super) core: Core,
    /// The id of its repair.
    pub(super) job: i64,
    pub(super) job_number: String,
    pub(super) vendor: &'static str,
    pub(super) is_out: bool,
}

fn time(at: Timestamp, shape: Shape) -> Value {
    match shape {
        Shape::Usual => json!(format!("{at:.6}")),
        Shape::Foreign => json!(format!("{at:.0}").replace('T', " ").replace('Z', "")),
        Shape::Null => Value::Null,
    }
}

/// An amount of cents; `foreign` is never a text that can be read in two ways.
fn amount(cents: i64, shape: Shape) -> Value {
    match shape {
        Shape::Usual => json!(cents as f64 / 100.0),
        Shape::Foreign => {
            let sign = if cents < 0 { "-" } else { "" };
            let (units, rest) = (cents.abs() / 100, cents.abs() % 100);
            let (thousands, units) = (units / 1_000, units % 1_000);
            if thousands > 0 {
                json!(format!("{sign}{thousands},{units:03}.{rest:02}"))
            } else {
                json!(format!("{sign}{units}.{rest:02}"))
            }
        }
        Shape::Null => Value::Null,
    }
}

fn day(day: Option<Date>, shape: Shape) -> Value {
    match (day, shape) {
        (None, _) | (_, Shape::Null) => Value::Null,
        (Some(day), Shape::Usual) => json!(day.to_string()),
        (Some(day), Shape::Foreign) => json!(day.strftime("%d/%m/%Y").to_string()),
    }
}

fn with_core(core: &Core, mut value: Value) -> Value {
    value["id"] = core.id.into();
    value["created_at"] = time(core.created, core.time);
    value["updated_at"] = time(core.touched, Shape::Usual);
    value
}

/// A record of one of the lists.
pub(super) trait Record: Clone {
    fn core(&self) -> &Core;
    fn core_mut(&mut self) -> &mut Core;
    /// What a page shows of it; `paid` is what was paid for it in cents, if it is a repair.
    fn shown(&self, paid: i64) -> Value;
}

macro_rules! has_core {
    () => {
        fn core(&self) -> &Core {
            &self.core
        }
        fn core_mut(&mut self) -> &mut Core {
            &mut self.core
        }
    };
}

impl Record for Job {
    has_core!();
    fn shown(&self, paid: i64) -> Value {
        let (status, stage) = self.status;
        let fields = json!({
            "job_number": self.number,
            "customer_name": self.person.name,
            "mobile_number": self.person.mobile,
            "email": self.person.email,
            "device_brand": self.brand,
            "device_model": self.device(),
            "assigned_to": self.assigned,
            "status": status,
            "status_stage": stage,
            "total_amount": amount(self.total, self.total_shape),
            "paid_amount": amount(paid, Shape::Usual),
            "estimated_delivery": day(self.due, self.due_shape),
        });
        with_core(&self.core, fields)
    }
}

impl Record for Customer {
    has_core!();
    fn shown(&self, _: i64) -> Value {
        let fields = json!({
            "name": self.person.name,
            "mobile_country_code": "+49",
            "mobile_number": self.person.mobile,
            "email": self.person.email,
        });
        with_core(&self.core, fields)
    }
}

impl Record for Lead {
    has_core!();
    fn shown(&self, _: i64) -> Value {
        let (status, stage) = if self.is_open {
            ("New", "open")
        } else {
            ("Closed", "completed")
        };
        let fields = json!({
            "name": self.person.name,
            "mobile_country_code": "+49",
            "mobile_number": self.person.mobile,
            "email": self.person.email,
            "source": self.source,
            "status": status,
            "status_stage": stage,
            "next_follow_up": day(self.follow_up, self.follow_up_shape),
        });
        with_core(&self.core, fields)
    }
}

impl Record for Payment {
    has_core!();
    fn shown(&self, _: i64) -> Value {
        let fields = json!({
            "job_number": self.job_number,
            "amount": amount(self.amount, self.amount_shape),
            "payment_mode": self.method(),
        });
        with_core(&self.core, fields)
    }
}

impl Record for Change {
    has_core!();
    fn shown(&self, _: i64) -> Value {
        let (status, stage) = self.status;
        let fields = json!({
            "job_number": self.job_number,
            "status": status,
            "status_stage": stage,
            "changed_by": self.by,
        });
        with_core(&self.core, fields)
    }
}

impl Record for Outsourced {
    has_core!();
    fn shown(&self, _: i64) -> Value {
        let (status, stage) = if self.is_out {
            ("Sent", "open")
        } else {
            ("Returned", "completed")
        };
        let fields = json!({
            "job_number": self.job_number,
            "vendor_name": self.vendor,
            "status": status,
            "status_stage": stage,
        });
        with_core(&self.core, fields)
    }
}
