//! How a person recognises a record: its title, its date, and its fields in the API's order.

use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde_json::{Number, Value};
use shopmirror_core::record::{self, Route};

use super::StatusPage;
use super::frame::record_link;
use super::text::{LENGTH_MAX, label, moment, money, nouns, shown};
use super::viewer::Viewer;
use crate::report::is_amount;
use crate::store::{QueryError, Reader, RelatedRecord};
use crate::text::document;
use crate::text::escape::cut;
use crate::text::first_upper;

/// The fields of a record in the order in which the API sent them, for a page.
pub(super) struct RecordFields<'p> {
    fields: record::Fields<'p>,
    zone: &'p TimeZone,
    currency: Option<&'p str>,
    viewer: &'p Viewer,
}

impl<'p> RecordFields<'p> {
    /// The fields of a record's text that the reader may see; none if it is no object.
    pub(super) fn parse(body: &'p str, page: &'p StatusPage, viewer: &'p Viewer) -> Self {
        let fields = record::Fields::parse(body).unwrap_or_default();
        Self {
            fields,
            zone: &page.zone,
            currency: page.reports.currency.as_deref(),
            viewer,
        }
    }

    /// A field that is shown, as JSON.
    fn get(&self, name: &str) -> Option<Value> {
        if !self.viewer.rights.shows_field(name) {
            return None;
        }
        self.fields.get(name).map(value)
    }

    /// A field as text; empty if it is absent or hidden, or no text and no number.
    pub(super) fn text(&self, name: &str) -> String {
        match self.get(name) {
            Some(Value::String(text)) => text,
            Some(Value::Number(number)) => self.number(name, &number),
            _ => String::new(),
        }
    }

    /// The texts of all fields that are shown.
    pub(super) fn all_texts(&self) -> String {
        let mut texts = String::new();
        for (name, _) in self.fields.iter() {
            texts += &self.text(name);
            texts.push(' ');
        }
        texts
    }

    fn number(&self, name: &str, number: &Number) -> String {
        match number.as_f64() {
            Some(amount) if is_amount(name) => money(amount, self.currency, &self.viewer.locale),
            _ => number.to_string(),
        }
    }

    fn joined(&self, names: &[&str]) -> String {
        shown(&self.joined_lines(names))
    }

    fn joined_lines(&self, names: &[&str]) -> String {
        let mut texts = Vec::new();
        for name in names {
            let text = self.text(name);
            if !text.trim().is_empty() {
                texts.push(text);
            }
        }
        texts.join(" · ")
    }

    /// The fields by which a person recognises the record: `JOB-09587 · Qi Schwarz · Galaxy A54`.
    pub(super) fn title(&self, route: Route, id: &str) -> String {
        let title = self.joined(match route {
            Route::Jobs => &["job_number", "customer_name", "device_model"],
            Route::Customers => &["name"],
            Route::Leads => &["name", "device_model"],
            Route::Payments => &["amount", "customer_name"],
            Route::JobStatusChanges => &["job_number", "status"],
            Route::OutsourcedJobs => &["job_number", "vendor_name"],
        });
        if title.is_empty() {
            return shown(&format!("{} {id}", first_upper(nouns(route).0)));
        }
        title
    }

    /// The fields that are shown after the title in a list, with their breaks of lines.
    pub(super) fn about(&self, route: Route) -> String {
        let text = self.joined_lines(match route {
            Route::Jobs => &["status", "problem"],
            Route::Customers => &["mobile_number", "email"],
            Route::Leads => &["status", "comment"],
            Route::Payments => &["payment_mode", "reference"],
            Route::JobStatusChanges => &["changed_by", "comment"],
            Route::OutsourcedJobs => &["status", "returned_on"],
        });
        document::lines(&cut(&text, LENGTH_MAX))
    }

    /// When it was created.
    pub(super) fn created(&self) -> Markup {
        moment(&self.text("created_at"), self.zone, &self.viewer.locale)
    }

    /// Every field that is shown with its value.
    pub(super) fn list(&self) -> Markup {
        html! {
            dl.record {
                @for (name, json) in self.fields.iter() {
                    @if self.viewer.rights.shows_field(name) {
                        dt dir="auto" { (shown(&label(name))) }
                        dd { (self.written(name, &value(json))) }
                    }
                }
            }
        }
    }

    /// A value of a field for people. What is inside of an object is a field of its own.
    pub(super) fn written(&self, name: &str, value: &Value) -> Markup {
        html! {
            @match value {
                Value::Object(_) if !self.viewer.rights.shows_all() => "–",
                Value::Null => "–",
                Value::Bool(yes) => { @if *yes { "yes" } @else { "no" } }
                Value::String(text) if text.is_empty() => "–",
                Value::String(text) => (moment(text, self.zone, &self.viewer.locale)),
                Value::Number(number) => (shown(&self.number(name, number))),
                Value::Array(items) if items.is_empty() => "–",
                Value::Array(items) => {
                    @for (index, item) in items.iter().enumerate() {
                        @if index > 0 { ", " }
                        (self.written(name, item))
                    }
                }
                Value::Object(members) => {
                    @for (index, (name, value)) in members.iter().enumerate() {
                        @if index > 0 { br; }
                        bdi { (shown(&label(name))) } ": " (self.written(name, value))
                    }
                }
            }
        }
    }
}

/// A value of a record; null if its text is no JSON.
pub(super) fn value(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

/// A list of records of one route, each as a link. A repair has its current status.
pub(super) fn listed(
    reader: &mut Reader,
    page: &StatusPage,
    viewer: &Viewer,
    route: Route,
    records: &[RelatedRecord],
) -> Result<Markup, QueryError> {
    let mut items = Vec::new();
    for RelatedRecord { id, body } in records {
        let fields = RecordFields::parse(body, page, viewer);
        let mut note = fields.about(route);
        if route == Route::Jobs
            && let Some(state) = reader.job_state(id)?
            && let Some(status) = state.status
        {
            note = shown(&status);
        }
        items.push(html! {
            li {
                a href=(record_link(route, id)) dir="auto" { (fields.title(route, id)) }
                span.note dir="auto" { (note) }
                span.when { (fields.created()) }
            }
        });
    }
    Ok(html! { ul.found { @for item in items { (item) } } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Role;
    use crate::page::rights::Rights;
    use crate::text::locale::Locale;

    fn parse<'z>(body: &'z str, zone: &'z TimeZone, viewer: &'z Viewer) -> RecordFields<'z> {
        let fields = record::Fields::parse(body).unwrap_or_default();
        RecordFields {
            fields,
            zone,
            currency: Some("EUR"),
            viewer,
        }
    }

    fn owner() -> Viewer {
        Viewer {
            locale: Locale::default(),
            rights: Rights::new(Role::Owner, true),
            wants_data: false,
        }
    }

    #[test]
    fn a_record_is_named_as_a_person_would_name_it() {
        let title = |route, body: &str| parse(body, &TimeZone::UTC, &owner()).title(route, "7");
        let job = r#"{"job_number":"JOB-09587","customer_name":"Qi Schwarz",
            "device_model":"Galaxy A54"}"#;
        assert_eq!(
            title(Route::Jobs, job),
            "JOB-09587 · Qi Schwarz · Galaxy A54"
        );
        let payment = r#"{"amount":1365.95,"job_number":"JOB-1","customer_name":"Ann"}"#;
        assert_eq!(title(Route::Payments, payment), "EUR\u{a0}1,365.95 · Ann");
        assert_eq!(
            title(Route::Leads, r#"{"name":"Bo","device_model":null}"#),
            "Bo"
        );
        assert_eq!(title(Route::OutsourcedJobs, "{}"), "Outsourced repair 7");
        assert_eq!(title(Route::Jobs, "no object"), "Repair 7");
    }

    #[test]
    fn a_break_of_a_line_in_a_comment_is_one_in_the_list() {
        let body = r#"{"status":"New","comment":"glass\r\nand frame"}"#;
        let (zone, owner) = (TimeZone::UTC, owner());
        let lead = parse(body, &zone, &owner);
        assert_eq!(lead.about(Route::Leads), "New · glass\nand frame");
    }

    #[test]
    fn fields_keep_the_order_of_the_api_and_are_written_for_people() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let body = r#"{"zip":"1","created_at":"2026-07-01T22:30:05Z","total_amount":1250,
            "address":{"city":"Łódź","lines":["a","b"]},"paid":false,"note":null,"tags":[]}"#;
        let list = parse(body, &berlin, &owner()).list().into_string();
        let places: Vec<_> = [
            "Zip",
            "2026-07-02 00:30",
            "EUR\u{a0}1,250.00",
            "<bdi>City</bdi>: <bdi>Łódź</bdi><br><bdi>Lines</bdi>: <bdi>a</bdi>, <bdi>b</bdi>",
            "no",
            "Tags",
        ]
        .map(|part| list.find(part).unwrap_or_else(|| panic!("{part}: {list}")))
        .into();
        assert!(places.is_sorted(), "{places:?}: {list}");
    }
}
