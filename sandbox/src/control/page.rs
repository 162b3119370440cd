//! The portal's page for people: the sandbox's content and a form for every control.
//!
//! Everything it does goes through the control API; the script only sends JSON and reloads.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use super::{intake, keys};
use crate::route::Route;
use crate::state::Inner;

/// Deliveries shown.
const MAX_SHOWN: usize = 50;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;\
padding:0 1rem}table{border-collapse:collapse;width:100%;margin-bottom:1rem}td,th{text-align:left;\
padding:.2rem .6rem;border-bottom:1px solid #8884}textarea{width:100%;font:13px monospace}\
code,pre{font-size:13px}.mark{background:#fd08;padding:.2rem .5rem}";

const SCRIPT: &str = "for(const form of document.forms)form.onsubmit=async event=>{\
event.preventDefault();const answer=await fetch(form.dataset.path,{method:form.dataset.method,\
headers:{'content-type':'application/json'},body:form.body.value});\
form.querySelector('pre').textContent=answer.status+' '+await answer.text()};";

/// Every control with a body to begin from.
const CONTROLS: [(&str, &str, &str, &str); 16] = [
    (
        "Make a key",
        "POST",
        "keys",
        r#"{"provider": "website", "name": "my site"}"#,
    ),
    (
        "Reveal a key",
        "POST",
        "keys/reveal",
        r#"{"integration": 1}"#,
    ),
    (
        "Disable a key, let it expire, give it a signing secret",
        "PATCH",
        "keys",
        r#"{"key": "", "disabled": false, "expires_at": null, "signing_secret": null}"#,
    ),
    ("Rotate a key", "POST", "keys/rotate", r#"{"key": ""}"#),
    ("Revoke a key", "DELETE", "keys", r#"{"key": ""}"#),
    (
        "Define custom fields",
        "PUT",
        "custom-fields",
        r#"{"form_type": "Lead", "fields": [{"field_name": "Colour", "type": "text"}]}"#,
    ),
    (
        "Map, pin and activate a form",
        "PUT",
        "forms",
        r#"{"integration": 1, "form_id": "", "map": {"q1": "name"}, "destination": "lead", "active": true}"#,
    ),
    (
        "Retry a delivery",
        "POST",
        "deliveries/retry",
        r#"{"id": 1}"#,
    ),
    (
        "Edit a record",
        "PATCH",
        "records",
        r#"{"route": "leads", "id": 1, "fields": {}}"#,
    ),
    (
        "Add a record",
        "POST",
        "records",
        r#"{"route": "leads", "record": {}}"#,
    ),
    (
        "Make a burst",
        "POST",
        "burst",
        r#"{"route": "leads", "count": 150}"#,
    ),
    (
        "Script a fault",
        "POST",
        "faults",
        r#"{"kind": "status", "code": 429, "retry_after": "3"}"#,
    ),
    ("Forget the faults", "DELETE", "faults", "{}"),
    ("Move the clock", "POST", "clock", r#"{"advance_s": 86400}"#),
    (
        "Stop growth or let it go on",
        "POST",
        "pause",
        r#"{"paused": true}"#,
    ),
    (
        "Set limits and the rival",
        "PATCH",
        "settings",
        r#"{"requests_per_minute": 60, "rival_per_minute": 0}"#,
    ),
];

/// The page.
pub(super) fn render(inner: &Inner) -> Markup {
    let mut deliveries: Vec<Value> = inner
        .intake
        .ledger
        .deliveries()
        .map(intake::listed_delivery)
        .collect();
    deliveries.reverse();
    deliveries.truncate(MAX_SHOWN);
    let counts = Route::ALL.map(|route| (route.segment(), inner.records.len(route)));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { "Sandbox portal" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Sandbox portal" }
                p { span.mark { "Nothing here is real." } " The clock shows "
                    (format!("{:.0}", inner.now())) "; " (inner.requests_per_minute)
                    " requests a minute a key; " (inner.log.total()) " requests so far." }
                p { "As JSON: " @for path in ["truth", "requests", "checkins", "openapi.json"] {
                    a href={ "/_sandbox/" (path) } { (path) } " " } }
                h2 { "Records" }
                table { tr { @for (name, _) in counts { th { (name) } } }
                    tr { @for (_, count) in counts { td { (count) } } } }
                h2 { "Keys" }
                (table(&keys::listed(inner), &["integration", "name", "provider", "key",
                    "disabled", "expires_at", "signing_secret"]))
                h2 { "Forms" }
                (table(&intake::listed_forms(inner), &["integration", "form_id", "destination",
                    "active", "duplicates", "map"]))
                h2 { "Deliveries" }
                (table(&deliveries, &["id", "at", "key", "route", "form_id", "status", "outcome",
                    "record", "request_id"]))
                h2 { "Controls" }
                @for (title, method, path, body) in CONTROLS {
                    details { summary { (title) }
                        form data-method=(method) data-path={ "/_sandbox/" (path) } {
                            textarea name="body" rows="3" aria-label=(title) { (body) }
                            button { (method) " " (path) }
                            pre {}
                        } }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

fn table(rows: &[Value], columns: &[&str]) -> Markup {
    html! {
        @if rows.is_empty() { p { "None." } } @else {
            table {
                tr { @for column in columns { th { (column) } } }
                @for row in rows {
                    tr { @for column in columns { td { (cell(&row[*column])) } } }
                }
            }
        }
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
