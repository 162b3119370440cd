//! One record with what belongs to it and its history, on only with `show_records = true`.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use shopmirror_core::record::Route;

use super::StatusPage;
use super::context::PageContext;
use super::frame::framed;
use super::not_shown::NotShown;
use super::text::{moment, money, shown};
use super::titles::{Fields, TIME, listed, value};
use super::words;
use crate::report::first_upper;
use crate::store::{JobState, QueryError, Reader, RecordHistory, RelatedRecord, StoreError};
use crate::text::escape;

/// Records of one kind that are shown with another one.
const MAX_RELATED: usize = 50;

/// Which record is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    route: Route,
    id: String,
}

/// One record with what belongs to it.
pub(super) fn one(
    reader: &mut Reader,
    context: &PageContext,
    Asked { route, id }: &Asked,
) -> Result<Response, NotShown> {
    let (shop, route, what) = (&context.page, *route, words::record(*route).0);
    let history = reader.history(route, id)?;
    if history.changes.is_empty() {
        let text = format!("There is no {what} {id:?} in the mirror.");
        return Err(NotShown::new(StatusCode::NOT_FOUND, text));
    }
    let body = reader.current_body(route, id)?;
    let fields = Fields::of(body.as_deref().unwrap_or_default(), shop);
    let title = fields.title(route, id);
    let last_seen = reader.last_seen_at(route, id)?;
    let state = if route == Route::Jobs {
        reader.job_state(id)?
    } else {
        None
    };
    let mut related = Vec::new();
    for (of, mut records) in related_to(reader, route, id)? {
        records.sort_by_key(|record| {
            std::cmp::Reverse(Fields::of(&record.body, shop).text("created_at"))
        });
        related.push((of, records.len(), listed(reader, shop, of, &records)?));
    }
    let page = html! {
        div {
            h1 { (title) }
            p.note { (first_upper(what)) " " (shown(id)) @if body.is_some() { ", made " (fields.created()) } }
        }
        @if let Some(state) = &state { (now(state, shop)) }
        section {
            h2 { "Details" }
            @if let Some(body) = &body {
                @if let Some(seen) = &last_seen {
                    p.note { "As it was last seen, " (moment(seen, &shop.zone, TIME)) ". It has left the newest 100 since." }
                }
                (fields.list())
                details { summary { "As the workspace sent it" } pre tabindex="0" { (pretty(body)) } }
            } @else {
                p { "The mirror does not hold this record any more. Its history is below." }
            }
        }
        @for (of, count, records) in &related {
            @if *count > 0 {
                section {
                    h2 { (words::list(*of)) " · " @if *count == MAX_RELATED { "the newest " } (count) }
                    (records)
                }
            }
        }
        (versions(&history, &fields, shop))
    };
    Ok(framed(context, &title, "records", &page).into_response())
}

/// The text of a record with a line for each field. Characters that turn the direction of text are
/// shown as `\u{..}`.
fn pretty(body: &str) -> String {
    let value: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let text = value.and_then(|value| serde_json::to_string_pretty(&value).ok());
    escape::shown_lines(text.as_deref().unwrap_or(body))
}

/// The records that belong to a record, and those that it belongs to.
fn related_to(
    reader: &Reader,
    route: Route,
    id: &str,
) -> Result<Vec<(Route, Vec<RelatedRecord>)>, QueryError> {
    let job = match route {
        Route::Jobs => Some(id.to_owned()),
        other => reader.job_of(other, id)?,
    };
    let customer = match (&job, route) {
        (Some(job), _) => reader.customer_of(Route::Jobs, job)?,
        (None, Route::Leads) => reader.customer_of(route, id)?,
        (None, _) => None,
    };
    let job = job.filter(|_| route != Route::Jobs);
    let mut related = vec![
        (Route::Jobs, one_of(reader, Route::Jobs, job)?),
        (
            Route::Customers,
            one_of(reader, Route::Customers, customer)?,
        ),
    ];
    if route == Route::Jobs {
        for of in [
            Route::JobStatusChanges,
            Route::Payments,
            Route::OutsourcedJobs,
        ] {
            related.push((of, reader.records_of_job(of, id, MAX_RELATED)?));
        }
    }
    if route == Route::Customers {
        for of in [Route::Jobs, Route::Leads] {
            related.push((of, reader.records_of_customer(of, id, MAX_RELATED)?));
        }
    }
    Ok(related)
}

/// The record with an id, if it is in the mirror.
fn one_of(
    reader: &Reader,
    route: Route,
    id: Option<String>,
) -> Result<Vec<RelatedRecord>, StoreError> {
    let Some(id) = id else { return Ok(Vec::new()) };
    let body = reader.current_body(route, &id)?;
    Ok(body
        .map(|body| RelatedRecord { id, body })
        .into_iter()
        .collect())
}

/// How a repair stands now.
fn now(state: &JobState, page: &StatusPage) -> Markup {
    let (zone, currency) = (&page.zone, page.reports.currency.as_deref());
    html! {
        section {
            h2 { "Now" }
            p.now {
                strong { (shown(state.status.as_deref().unwrap_or("no status"))) }
                @if let Some(since) = &state.since { " since " (moment(since, zone, TIME)) }
            }
            p.note {
                @if state.source == "status change" { "From its newest status change. " }
                @else { "From the details below. " }
                @if let Some(paid) = state.paid {
                    "Paid: " (money(paid, currency))
                    @if let Some(total) = state.total { " of " (money(total, currency)) }
                    "."
                } @else { "What is paid is unknown." }
            }
        }
    }
}

/// The versions that the log holds, the newest first.
fn versions(history: &RecordHistory, fields: &Fields<'_>, page: &StatusPage) -> Markup {
    let said = |name: &str, json: Option<&str>| match json {
        Some(json) => fields.written(name, &value(json)),
        None => html! { "(absent)" },
    };
    html! {
        section {
            h2 { "History" }
            @if history.has_older {
                p.note { "Only the newest " (history.changes.len()) " versions are shown. The table " code { "changes" } " of the database has all." }
            }
            @for change in history.changes.iter().rev() {
                h3 { "Version " (change.version) ", seen " (moment(&change.observed_at, &page.zone, "%Y-%m-%d %H:%M:%S")) }
                @let differences = change.changed();
                @if !differences.is_empty() {
                    div.scroll tabindex="0" role="region" aria-label=(format!("What version {} changed", change.version)) {
                        table.report.diff {
                            thead { tr { th scope="col" { "Field" } th scope="col" { "Before" } th scope="col" { "After" } } }
                            tbody { @for field in &differences { tr {
                                td { (words::field(&shown(&field.name))) }
                                td { del { (said(&field.name, field.before)) } }
                                td { ins { (said(&field.name, field.after)) } }
                            } } }
                        }
                    }
                }
            }
        }
    }
}
