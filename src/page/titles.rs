//! How a person recognises a record: its title, its date, and its fields in the API's order.

use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde_json::Value;

use super::StatusPage;
use super::request::record_link;
use super::text::{moment, money, shown};
use super::words;
use crate::record::{self, Route};
use crate::report::first_upper;

/// How a time of a record is written.
const TIME: &str = "%Y-%m-%d %H:%M";

/// The fields of a record in the order in which the API sent them, for a page.
pub(super) struct Fields<'p> {
    fields: record::Fields<'p>,
    zone: &'p TimeZone,
    currency: Option<&'p str>,
}

impl<'p> Fields<'p> {
    /// The fields of a record's text; none if it is no object.
    pub(super) fn of(body: &'p str, page: &'p StatusPage) -> Self {
        let fields = record::Fields::of(body).unwrap_or_default();
        Self { fields, zone: &page.zone, currency: page.currency.as_deref() }
    }

    /// A field as text; `None` if it is absent, empty or no text and no number.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        match value(self.fields.get(name)?) {
            Value::String(text) if !text.trim().is_empty() => Some(text),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok()
    }

    fn joined(&self, names: &[&str], between: &str) -> Option<String> {
        let found: Vec<String> = names.iter().filter_map(|name| self.text(name)).collect();
        (!found.is_empty()).then(|| found.join(between))
    }

    /// By what a person recognises the record: `JOB-09587 · Qi Schwarz, Galaxy A54`.
    pub(super) fn title(&self, route: Route, id: &str) -> String {
        let device = || {
            self.joined(&["device_model"], "")
                .or_else(|| self.joined(&["device_brand", "device_type"], " "))
        };
        let name = || {
            self.joined(&["name"], "")
                .or_else(|| self.joined(&["contact_person_name", "email", "mobile_number"], " "))
        };
        let who = |what: Option<String>| {
            let parts: Vec<String> = self.text("customer_name").into_iter().chain(what).collect();
            (!parts.is_empty()).then(|| parts.join(", "))
        };
        let number = || self.text("job_number");
        let parts = match route {
            Route::Jobs => [number(), who(device())],
            Route::Customers => [name(), None],
            Route::Leads => [name(), device()],
            Route::Payments => {
                let amount = self
                    .number("amount")
                    .map(|amount| format!("Payment of {}", money(amount, self.currency)));
                [amount.or_else(number), who(None)]
            }
            Route::JobStatusChanges => [number().or_else(|| who(None)), self.text("status")],
            Route::OutsourcedJobs => [number(), self.text("vendor_name").or_else(|| who(device()))],
        };
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() {
            return shown(&format!("{} {id}", first_upper(words::record(route).0)));
        }
        shown(&parts.join(" · "))
    }

    /// What else a person looks for in a list of them.
    pub(super) fn about(&self, route: Route) -> String {
        let names = match route {
            Route::Jobs => ["status", "problem"],
            Route::Customers => ["mobile_number", "email"],
            Route::Leads => ["status", "comment"],
            Route::Payments => ["payment_mode", "reference"],
            Route::JobStatusChanges => ["changed_by", "comment"],
            Route::OutsourcedJobs => ["status", "returned_on"],
        };
        shown(&self.joined(&names, " · ").unwrap_or_default())
    }

    /// When it was made.
    pub(super) fn created(&self) -> Markup {
        let at = self.text("created_at");
        html! { @if let Some(at) = at { (moment(&at, self.zone, TIME)) } }
    }

    /// The record in a list.
    pub(super) fn item(&self, route: Route, id: &str, title: &str, note: &Markup) -> Markup {
        html! {
            li {
                a href=(record_link(route, id)) { (title) }
                span.note { (note) }
                span.when { (self.created()) }
            }
        }
    }

    /// When it was made, as the API wrote it; text sorts as time.
    pub(super) fn created_at(&self) -> String {
        self.text("created_at").unwrap_or_default()
    }

    /// Every field with its value.
    pub(super) fn list(&self) -> Markup {
        html! {
            dl.record {
                @for (name, json) in self.fields.iter() { dt { (shown(&words::field(name))) } dd { (self.written(name, &value(json))) } }
            }
        }
    }

    /// A value of a field for people.
    fn written(&self, name: &str, value: &Value) -> Markup {
        let is_amount =
            || ["amount", "cost", "price", "total"].iter().any(|end| name.ends_with(end));
        html! {
            @match value {
                Value::Null => "–",
                Value::Bool(yes) => { @if *yes { "yes" } @else { "no" } }
                Value::String(text) => { @if text.is_empty() { "–" } @else { (moment(text, self.zone, TIME)) } }
                Value::Number(number) => {
                    @match number.as_f64().filter(|_| is_amount()) {
                        Some(amount) => (money(amount, self.currency)),
                        None => (shown(&number.to_string())),
                    }
                }
                Value::Array(items) if items.is_empty() => "–",
                Value::Array(items) => {
                    @for (index, item) in items.iter().enumerate() { @if index > 0 { ", " } (self.written(name, item)) }
                }
                Value::Object(members) => {
                    @for (index, (name, value)) in members.iter().enumerate() {
                        @if index > 0 { br; }
                        (shown(&words::field(name))) ": " (self.written(name, value))
                    }
                }
            }
        }
    }
}

fn value(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'z>(body: &'z str, zone: &'z TimeZone) -> Fields<'z> {
        let fields = record::Fields::of(body).unwrap_or_default();
        Fields { fields, zone, currency: Some("EUR") }
    }

    #[test]
    fn a_record_is_named_as_a_person_would_name_it() {
        let title = |route, body: &str| of(body, &TimeZone::UTC).title(route, "7");
        let job = r#"{"job_number":"JOB-09587","customer_name":"Qi Schwarz","device_model":"Galaxy A54"}"#;
        assert_eq!(title(Route::Jobs, job), "JOB-09587 · Qi Schwarz, Galaxy A54");
        let payment = r#"{"amount":1365.95,"job_number":"JOB-1","customer_name":"Ann"}"#;
        assert_eq!(title(Route::Payments, payment), "Payment of EUR\u{a0}1,365.95 · Ann");
        assert_eq!(title(Route::Leads, r#"{"name":"Bo","device_model":null}"#), "Bo");
        assert_eq!(title(Route::OutsourcedJobs, "{}"), "Outsourced repair 7");
        assert_eq!(title(Route::Jobs, "no object"), "Repair 7");
    }

    #[test]
    fn fields_keep_the_order_of_the_api_and_are_written_for_people() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let body = r#"{"zip":"1","created_at":"2026-07-01T22:30:05Z","total_amount":1250,
            "address":{"city":"Łódź","lines":["a","b"]},"paid":false,"note":null,"tags":[]}"#;
        let list = of(body, &berlin).list().into_string();
        let places: Vec<_> = [
            "Zip",
            "2026-07-02 00:30",
            "EUR\u{a0}1,250.00",
            "City: Łódź<br>Lines: a, b",
            "no",
            "Tags",
        ]
        .map(|part| list.find(part).unwrap_or_else(|| panic!("{part}: {list}")))
        .into();
        assert!(places.is_sorted(), "{places:?}: {list}");
    }
}
