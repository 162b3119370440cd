//! One record with its history, on only with `show_records = true`. It is drawn where it is read, which
//! gives way to polls.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::context::PageContext;
use super::frame::{explained, framed};
use super::records::{failed, hidden};
use super::reports::json as json_response;
use super::request::Query;
use super::text::{moment, plain, shown};
use crate::record::Route;
use crate::store::{Reader, RecordHistory, StoreError};

/// One record as it is asked for.
struct OneRecord {
    route: Route,
    id: String,
    /// Its text in the mirror; `None` if it was forgotten.
    body: Option<String>,
    history: RecordHistory,
}

/// One record and its history.
pub(super) async fn one(State(context): State<Arc<PageContext>>, uri: Uri) -> Response {
    if !context.shows_records {
        return hidden(&context, true);
    }
    let shared = Arc::clone(&context);
    let answer = move |found: OneRecord| {
        let OneRecord { route, id, history, .. } = &found;
        if history.changes.is_empty() {
            let text = format!("{route} {id:?} is not in the mirror.");
            return explained(&shared, StatusCode::NOT_FOUND, &text, true);
        }
        let title = format!("{route} {id}");
        framed(&shared, &title, &record_page(&found, &shared.zone)).into_response()
    };
    let made = record(&context, &Query::of(&uri), answer).await;
    made.unwrap_or_else(|| failed(&context, None, true))
}

/// One record and its history for programs.
pub(super) async fn one_json(State(context): State<Arc<PageContext>>, uri: Uri) -> Response {
    if !context.shows_records {
        return hidden(&context, false);
    }
    let shared = Arc::clone(&context);
    let answer = move |found: OneRecord| {
        if found.history.changes.is_empty() {
            let text = "There is no such record.";
            return explained(&shared, StatusCode::NOT_FOUND, text, false);
        }
        json_response(&found.history.changes)
    };
    let made = record(&context, &Query::of(&uri), answer).await;
    made.unwrap_or_else(|| failed(&context, None, false))
}

/// The answer made of the record that a query names; `None` if it cannot be read.
async fn record<F>(context: &PageContext, query: &Query, answer: F) -> Option<Response>
where
    F: FnOnce(OneRecord) -> Response + Send + 'static,
{
    let route: Route = query.get("route").and_then(|name| name.parse().ok()).unwrap_or(Route::Jobs);
    let id = query.get("id").unwrap_or_default().to_owned();
    let read = move |reader: &mut Reader| -> Result<Response, StoreError> {
        let body = reader.current_body(route, &id)?;
        let history = reader.history(route, &id)?;
        Ok(answer(OneRecord { route, id, body, history }))
    };
    context.read(read).await?.ok()
}

fn record_page(found: &OneRecord, zone: &TimeZone) -> Markup {
    let OneRecord { route, id, body, history } = found;
    let fields: Option<Map<String, Value>> =
        body.as_deref().map(|body| serde_json::from_str(body).unwrap_or_default());
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    html! {
        section {
            h2 { (route.as_str()) " " (shown(id)) }
            @if let Some(fields) = &fields {
                dl.record { @for (name, value) in fields { dt { (shown(name)) } dd { (shown(&text(value))) } } }
            } @else {
                p { "The mirror does not hold this record any more. Its history is below." }
            }
        }
        section {
            h2 { "History" }
            @if history.has_older {
                p.note { "Only the newest " (history.changes.len()) " versions are shown. " code { "shopmirror log --route " (route.as_str()) " --id " (shown(id)) " --limit 1000" } " lists more." }
            }
            @for change in history.changes.iter().rev() {
                h3 { "Version " (change.version) ", " (change.kind.as_str()) ", " (moment(&change.observed_at, zone, "%Y-%m-%d %H:%M:%S %Z")) }
                @let differences = change.changed();
                @if !differences.is_empty() {
                    div.scroll tabindex="0" role="region" aria-label=(format!("What version {} changed", change.version)) {
                        table.report.diff {
                            thead { tr { th scope="col" { "field" } th scope="col" { "before" } th scope="col" { "after" } } }
                            tbody { @for field in &differences { tr {
                                td { (shown(&field.name)) }
                                td { del { (shown(&plain(field.before))) } }
                                td { ins { (shown(&plain(field.after))) } }
                            } } }
                        }
                    }
                }
            }
        }
    }
}
