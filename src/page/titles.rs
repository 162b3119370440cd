//! How a person recognises a record: its title, its date, and its fields in the API's order.

use std::fmt;

use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::text::{moment, money, shown};
use super::words;
use crate::record::Route;

/// How a time of a record is written.
const TIME: &str = "%Y-%m-%d %H:%M";

/// The fields of a record in the order in which the API sent them.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a record")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

impl Fields {
    /// The fields of a record's text; none if it is no object.
    pub(super) fn of(body: &str) -> Self {
        serde_json::from_str(body).unwrap_or_default()
    }

    /// A field as text; `None` if it is absent, empty or no text and no number.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let (_, value) = self.0.iter().rev().find(|(known, _)| known == name)?;
        match value {
            Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
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
                    .map(|amount| format!("Payment of {}", money(amount, None)));
                [amount.or_else(number), who(None)]
            }
            Route::JobStatusChanges => [number().or_else(|| who(None)), self.text("status")],
            Route::OutsourcedJobs => [number(), self.text("vendor_name").or_else(|| who(device()))],
        };
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() {
            return shown(&format!("{} {id}", words::first_upper(words::record(route).0)));
        }
        shown(&parts.join(" · "))
    }

    /// When it was made.
    pub(super) fn created(&self, zone: &TimeZone) -> Markup {
        html! { @if let Some(at) = self.text("created_at") { (moment(&at, zone, TIME)) } }
    }

    /// When it was made, as the API wrote it; text sorts as time.
    pub(super) fn created_at(&self) -> String {
        self.text("created_at").unwrap_or_default()
    }

    /// Every field with its value.
    pub(super) fn list(&self, zone: &TimeZone) -> Markup {
        html! {
            dl.record {
                @for (name, value) in &self.0 { dt { (shown(&words::field(name))) } dd { (written(name, value, zone)) } }
            }
        }
    }
}

/// A value of a field for people.
fn written(name: &str, value: &Value, zone: &TimeZone) -> Markup {
    let is_amount = || ["amount", "cost", "price", "total"].iter().any(|end| name.ends_with(end));
    html! {
        @match value {
            Value::Null => "–",
            Value::Bool(yes) => { @if *yes { "yes" } @else { "no" } }
            Value::String(text) => { @if text.is_empty() { "–" } @else { (moment(text, zone, TIME)) } }
            Value::Number(number) => {
                @match number.as_f64().filter(|_| is_amount()) {
                    Some(amount) => (money(amount, None)),
                    None => (shown(&number.to_string())),
                }
            }
            Value::Array(items) if items.is_empty() => "–",
            Value::Array(items) => {
                @for (index, item) in items.iter().enumerate() { @if index > 0 { ", " } (written(name, item, zone)) }
            }
            Value::Object(members) => {
                @for (index, (name, value)) in members.iter().enumerate() {
                    @if index > 0 { br; }
                    (shown(&words::field(name))) ": " (written(name, value, zone))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_named_as_a_person_would_name_it() {
        let title = |route, body: &str| Fields::of(body).title(route, "7");
        let job = r#"{"job_number":"JOB-09587","customer_name":"Qi Schwarz","device_model":"Galaxy A54"}"#;
        assert_eq!(title(Route::Jobs, job), "JOB-09587 · Qi Schwarz, Galaxy A54");
        let payment = r#"{"amount":1365.95,"job_number":"JOB-1","customer_name":"Ann"}"#;
        assert_eq!(title(Route::Payments, payment), "Payment of 1,365.95 · Ann");
        assert_eq!(title(Route::Leads, r#"{"name":"Bo","device_model":null}"#), "Bo");
        assert_eq!(title(Route::OutsourcedJobs, "{}"), "Outsourced repair 7");
        assert_eq!(title(Route::Jobs, "no object"), "Repair 7");
    }

    #[test]
    fn fields_keep_the_order_of_the_api_and_are_written_for_people() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let body = r#"{"zip":"1","created_at":"2026-07-01T22:30:05Z","total_amount":1250,
            "address":{"city":"Łódź","lines":["a","b"]},"paid":false,"note":null,"tags":[]}"#;
        let list = Fields::of(body).list(&berlin).into_string();
        let places: Vec<_> =
            ["Zip", "2026-07-02 00:30", "1,250.00", "City: Łódź<br>Lines: a, b", "no", "Tags"]
                .map(|part| list.find(part).unwrap_or_else(|| panic!("{part}: {list}")))
                .into();
        assert!(places.is_sorted(), "{places:?}: {list}");
    }
}
