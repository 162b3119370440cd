//! The fields of each route that reports calculate with, and reading all of them in one record.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::words::PaymentReader;
use super::{
    DateFormat, PaymentKind, Question, ReadAs, Reading, Rule, RuleSet, read_amount, read_day,
    read_instant,
};
use crate::record::{Fields, Route};

/// A field that reports calculate with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadField {
    /// Its name in reports and, unless the configuration names another one, in records.
    pub name: &'static str,
    /// How it is read.
    pub kind: FieldKind,
}

/// How a field is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// An amount of money.
    Amount,
    /// A time that the workspace writes.
    Instant,
    /// A day that the shop enters.
    Day,
}

impl FieldKind {
    /// What may be in doubt about its values.
    #[must_use]
    pub fn questions(self) -> &'static [Question] {
        match self {
            Self::Amount => &[Question::Decimals],
            Self::Instant => &[],
            Self::Day => &[Question::DayOrder, Question::Midnight],
        }
    }
}

const fn instant(name: &'static str) -> ReadField {
    let kind = FieldKind::Instant;
    ReadField { name, kind }
}

const fn day(name: &'static str) -> ReadField {
    let kind = FieldKind::Day;
    ReadField { name, kind }
}

const fn amount(name: &'static str) -> ReadField {
    let kind = FieldKind::Amount;
    ReadField { name, kind }
}

const JOBS: &[ReadField] = &[
    instant("created_at"),
    instant("updated_at"),
    day("scheduled_on"),
    day("received_at"),
    day("estimated_delivery"),
    amount("total_amount"),
    amount("paid_amount"),
];
const LEADS: &[ReadField] = &[
    instant("created_at"),
    instant("updated_at"),
    day("scheduled_on"),
    day("next_follow_up"),
];
/// What was paid.
const AMOUNT: &str = "amount";
const PAYMENTS: &[ReadField] = &[instant("created_at"), instant("updated_at"), amount(AMOUNT)];
const OTHERS: &[ReadField] = &[instant("created_at"), instant("updated_at")];

/// The fields of a route that reports calculate with.
#[must_use]
pub fn fields_of(route: Route) -> &'static [ReadField] {
    match route {
        Route::Jobs => JOBS,
        Route::Leads => LEADS,
        Route::Payments => PAYMENTS,
        Route::Customers | Route::JobStatusChanges | Route::OutsourcedJobs => OTHERS,
    }
}

/// What the configuration says of how values are read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadSettings {
    /// The IANA name of the shop's time zone.
    pub time_zone: String,
    /// The formats of days, by field.
    #[serde(default)]
    pub date_formats: BTreeMap<String, DateFormat>,
    /// The rule of all amounts.
    #[serde(default)]
    pub decimals: Option<Rule>,
    /// The fields of records that stand for those of reports; an empty name stands for none.
    #[serde(default)]
    pub fields: BTreeMap<Route, BTreeMap<String, String>>,
    /// The types of payments that are refunds.
    #[serde(default)]
    pub refund_types: Vec<String>,
    /// The statuses of payments that do not count.
    #[serde(default)]
    pub void_statuses: Vec<String>,
}

impl ReadSettings {
    /// The zone of the shop's days; UTC if this machine does not know its name.
    #[must_use]
    pub fn zone(&self) -> TimeZone {
        TimeZone::get(&self.time_zone).unwrap_or(TimeZone::UTC)
    }

    /// The answer to a question about a field, if the configuration has one.
    #[must_use]
    pub fn answer(&self, field: &str, question: Question) -> Option<Rule> {
        let format = self.date_formats.get(field);
        match (question, format) {
            (Question::Decimals, _) => self.decimals,
            (Question::Midnight, Some(DateFormat::Dates)) => Some(Rule::Dates),
            (Question::Midnight, Some(DateFormat::Moments)) => Some(Rule::Moments),
            (Question::DayOrder, Some(DateFormat::Pattern(pattern))) => order_of(pattern),
            _ => None,
        }
    }

    /// The field of a record that stands for a field of reports; `None` if none does.
    #[must_use]
    pub fn source(&self, route: Route, field: &'static str) -> Option<&str> {
        match self.configured_source(route, field) {
            Some("") => None,
            Some(name) => Some(name),
            None => Some(field),
        }
    }

    /// The field of a record that the configuration names for one of reports; an empty name stands
    /// for none.
    #[must_use]
    pub fn configured_source(&self, route: Route, field: &str) -> Option<&str> {
        let own = self.fields.get(&route)?;
        own.get(field).map(String::as_str)
    }
}

/// Whether a format has the day or the month first.
fn order_of(pattern: &str) -> Option<Rule> {
    let day = pattern.find("%d").or_else(|| pattern.find("%e"))?;
    let month = pattern.find("%m")?;
    if day < month {
        Some(Rule::DayFirst)
    } else {
        Some(Rule::MonthFirst)
    }
}

/// A value as reports calculate with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReadValue {
    /// An amount.
    Amount(f64),
    /// A time.
    Instant(Timestamp),
    /// A day of the shop.
    Day(Date),
}

/// How the values of every route are read: what a copy of the mirror needs to read the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRules {
    /// What the configuration says.
    pub settings: ReadSettings,
    /// The rules of each field that has some.
    pub rules: BTreeMap<Route, BTreeMap<String, Vec<Rule>>>,
}

impl ReadRules {
    /// The reader of a route.
    #[must_use]
    pub fn reader(&self, route: Route) -> FieldReader {
        let own = self.rules.get(&route);
        FieldReader::new(route, &self.settings, &self.settings.zone(), |field| {
            let rules = own.and_then(|own| own.get(field));
            rules.into_iter().flatten().copied().collect()
        })
    }
}

/// What was read of one field of a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FieldReading {
    /// The name of the field in reports.
    pub field: &'static str,
    /// The value; `None` if there is none, or if it cannot be read.
    pub value: Option<ReadValue>,
    /// Whether there is a value that cannot be read.
    pub is_unreadable: bool,
    /// Of an amount that can be read in two ways: 1 or -1, the sign of both. Of a refund without an
    /// amount that can be read it is -1.
    pub sign: Option<i64>,
    /// The rule for which the value is evidence.
    pub supports: Option<Rule>,
    /// Whether the record has the field, be it null.
    pub is_sent: bool,
}

impl FieldReading {
    /// A number with the sign of an amount, as far as it is known.
    fn known_sign(&self) -> Option<f64> {
        match (self.value, self.sign) {
            (Some(ReadValue::Amount(amount)), _) => Some(amount),
            (_, Some(sign)) => Some(sign as f64),
            _ => None,
        }
    }

    /// Makes an amount one that was paid back.
    fn pay_back(&mut self) {
        if let Some(ReadValue::Amount(amount)) = self.value {
            self.value = Some(ReadValue::Amount(0.0 - amount.abs()));
        } else {
            self.sign = Some(-1);
        }
    }
}

/// What was read of one record.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordReading {
    /// Its fields, in the order of [`fields_of`]. The amount of a refund is negative.
    pub fields: Vec<FieldReading>,
    /// Of a payment: what it is; `None` if it may be a payment or a refund.
    pub kind: Option<PaymentKind>,
}

/// Reads the fields of the records of one route.
#[derive(Debug, Clone)]
pub struct FieldReader {
    fields: Vec<OneField>,
    /// If they are payments.
    payments: Option<PaymentReader>,
    zone: TimeZone,
}

/// One field, and how its values are read.
#[derive(Debug, Clone)]
struct OneField {
    field: ReadField,
    source: Option<String>,
    format: Option<DateFormat>,
    rules: RuleSet,
}

impl FieldReader {
    /// The reader of a route; `rules` are those of each field.
    #[must_use]
    pub fn new(
        route: Route,
        settings: &ReadSettings,
        zone: &TimeZone,
        rules: impl Fn(&str) -> RuleSet,
    ) -> Self {
        let mut fields = Vec::new();
        for field in fields_of(route) {
            fields.push(OneField {
                field: *field,
                source: settings.source(route, field.name).map(str::to_owned),
                format: settings.date_formats.get(field.name).cloned(),
                rules: rules(field.name),
            });
        }
        let payments = (route == Route::Payments).then(|| PaymentReader::new(settings));
        let zone = zone.clone();
        Self {
            fields,
            payments,
            zone,
        }
    }

    /// Takes other rules for a field.
    pub fn set_rules(&mut self, field: &str, rules: RuleSet) {
        for one in &mut self.fields {
            if one.field.name == field {
                one.rules = rules;
            }
        }
    }

    /// Reads a record.
    #[must_use]
    pub fn read(&self, fields: &Fields<'_>) -> RecordReading {
        let mut readings = Vec::with_capacity(self.fields.len());
        for one in &self.fields {
            let json = one.source.as_deref().and_then(|name| fields.get(name));
            readings.push(one.read(json, &self.zone));
        }
        let mut kind = None;
        if let Some(payments) = &self.payments {
            for reading in &mut readings {
                if reading.field != AMOUNT {
                    continue;
                }
                kind = payments.kind(fields, reading.known_sign());
                if kind == Some(PaymentKind::Refund) {
                    reading.pay_back();
                }
            }
        }
        RecordReading {
            fields: readings,
            kind,
        }
    }
}

impl OneField {
    fn read(&self, json: Option<&str>, zone: &TimeZone) -> FieldReading {
        let mut sign = None;
        let (value, is_unreadable, supports) = match self.field.kind {
            FieldKind::Amount => {
                let read = read_amount(json);
                let resolved = self.resolve(read, ReadValue::Amount);
                if let (None, Reading::Ambiguous([(_, amount), _])) = (resolved.0, read.reading) {
                    sign = Some(if amount < 0.0 { -1 } else { 1 });
                }
                resolved
            }
            FieldKind::Instant => self.resolve(read_instant(json, zone), ReadValue::Instant),
            FieldKind::Day => {
                let mut read = read_day(json, self.format.as_ref(), zone);
                if self.format.is_some() {
                    // What a value is evidence for does not depend on the configuration.
                    read.supports = read_day(json, None, zone).supports;
                }
                self.resolve(read, ReadValue::Day)
            }
        };
        FieldReading {
            field: self.field.name,
            value,
            is_unreadable,
            sign,
            supports,
            // A field that the configuration takes for none is not missed.
            is_sent: json.is_some() || self.source.is_none(),
        }
    }

    /// The value by the rules of the field, whether there is one that cannot be read, and the
    /// evidence.
    fn resolve<T: Copy>(
        &self,
        read: ReadAs<T>,
        value: impl Fn(T) -> ReadValue,
    ) -> (Option<ReadValue>, bool, Option<Rule>) {
        let found = read.reading.by(self.rules);
        let is_absent = matches!(read.reading, Reading::Absent);
        let is_unreadable = found.is_none() && !is_absent;
        (found.map(value), is_unreadable, read.supports)
    }
}
