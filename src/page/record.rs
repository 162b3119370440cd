//! One record with what belongs to it and its history, on only with `show_records = true`.

use axum::response::{IntoResponse, Response};
use jiff::tz::TimeZone;
use maud::{Markup, html};

use super::StatusPage;
use super::context::PageContext;
use super::frame::Frame;
use super::not_shown::NotShown;
use super::reports::json as json_response;
use super::request::Query;
use super::text::{moment, money, plain, shown};
use super::titles::Fields;
use super::words;
use crate::escape;
use crate::record::Route;
use crate::report::first_upper;
use crate::store::{JobState, QueryError, Reader, RecordHistory, RelatedRecord, StoreError};

/// Records of one kind that are shown with another one.
const MAX_RELATED: usize = 50;

/// One record as it is asked for.
struct OneRecord {
    route: Route,
    id: String,
    /// Its text in the mirror; `None` if it was forgotten.
    body: Option<String>,
    /// When a page showed it last, if it is no longer on the newest one.
    last_seen_at: Option<String>,
    history: RecordHistory,
}

/// One record with what belongs to it.
pub(super) fn one(
    reader: &mut Reader,
    context: &PageContext,
    query: &Query,
) -> Result<Response, NotShown> {
    let found = OneRecord::read(reader, query)?;
    let (route, shop) = (found.route, &context.page);
    let fields = Fields::of(found.body.as_deref().unwrap_or_default(), shop);
    let title = fields.title(route, &found.id);
    let related = Related::read(reader, route, &found.id)?;
    let page = html! {
        div {
            h1 { (title) }
            p.note { (first_upper(words::record(route).0)) " " (shown(&found.id)) @if found.body.is_some() { ", made " (fields.created()) } }
        }
        (related.state(shop))
        (details(&found, &fields, &shop.zone))
        (related.lists(shop))
        (versions(&found, &shop.zone))
    };
    Ok(Frame::of(&title, "records").around(context, &page).into_response())
}

/// One record and its history for programs.
pub(super) fn one_json(
    reader: &mut Reader,
    _: &PageContext,
    query: &Query,
) -> Result<Response, NotShown> {
    Ok(json_response(&OneRecord::read(reader, query)?.history.changes))
}

/// The route and the id that a query names.
fn named(query: &Query) -> Result<(Route, String), String> {
    query.allow(&["route", "id"])?;
    match (query.choice("route", &Route::ALL, Route::as_str)?, query.get("id")) {
        (Some(route), Some(id)) => Ok((route, id.to_owned())),
        _ => {
            Err("Name a record by its list and its id, for example route=jobs and id=1042."
                .to_owned())
        }
    }
}

impl OneRecord {
    fn read(reader: &Reader, query: &Query) -> Result<Self, NotShown> {
        let (route, id) = named(query)?;
        let history = reader.history(route, &id)?;
        if history.changes.is_empty() {
            let text = format!("There is no {} {id:?} in the mirror.", words::record(route).0);
            return Err(NotShown::absent(text));
        }
        let body = reader.current_body(route, &id)?;
        let last_seen_at = reader.last_seen_at(route, &id)?;
        Ok(Self { route, id, body, last_seen_at, history })
    }
}

/// Its fields, and what the workspace sent.
fn details(found: &OneRecord, fields: &Fields<'_>, zone: &TimeZone) -> Markup {
    html! {
        section {
            h2 { "Details" }
            @if let Some(body) = &found.body {
                @if let Some(seen) = &found.last_seen_at {
                    p.note { "As it was last seen, " (moment(seen, zone, "%Y-%m-%d %H:%M")) ". It has left the newest 100 since." }
                }
                (fields.list())
                details { summary { "As the workspace sent it" } pre tabindex="0" { (pretty(body)) } }
            } @else {
                p { "The mirror does not hold this record any more. Its history is below." }
            }
        }
    }
}

/// The text of a record with a line for each field. Characters that turn the direction of text are shown
/// as `\u{..}`.
fn pretty(body: &str) -> String {
    let value: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let text = value.and_then(|value| serde_json::to_string_pretty(&value).ok());
    escape::shown_lines(text.as_deref().unwrap_or(body))
}

/// What belongs to a record.
struct Related {
    /// How it stands now, if it is a repair.
    state: Option<JobState>,
    /// The records that belong to it, and those that it belongs to.
    lists: Vec<(Route, Vec<RelatedRecord>)>,
}

impl Related {
    fn read(reader: &mut Reader, route: Route, id: &str) -> Result<Self, QueryError> {
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
        let mut lists = vec![
            (Route::Jobs, one_of(reader, Route::Jobs, job.as_deref())?),
            (Route::Customers, one_of(reader, Route::Customers, customer.as_deref())?),
        ];
        if route == Route::Jobs {
            for of in [Route::JobStatusChanges, Route::Payments, Route::OutsourcedJobs] {
                lists.push((of, reader.records_of_job(of, id, MAX_RELATED)?));
            }
        }
        if route == Route::Customers {
            for of in [Route::Jobs, Route::Leads] {
                lists.push((of, reader.records_of_customer(of, id, MAX_RELATED)?));
            }
        }
        lists.retain(|(_, list)| !list.is_empty());
        let state = if route == Route::Jobs { reader.job_state(id)? } else { None };
        Ok(Self { state, lists })
    }

    /// How a repair stands now.
    fn state(&self, page: &StatusPage) -> Markup {
        let (zone, currency) = (&page.zone, page.currency.as_deref());
        let Some(state) = &self.state else { return html! {} };
        let is_from_change = state.source == "status change";
        html! {
            section {
                h2 { "Now" }
                p.now {
                    strong { (shown(state.status.as_deref().unwrap_or("no status"))) }
                    @if let Some(since) = &state.since { " since " (moment(since, zone, "%Y-%m-%d %H:%M")) }
                }
                p.note {
                    @if is_from_change { "From its newest status change. " }
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

    fn lists(&self, page: &StatusPage) -> Markup {
        html! {
            @for (route, list) in &self.lists {
                section {
                    h2 { (words::list(*route)) " · " @if list.len() == MAX_RELATED { "the newest " } (list.len()) }
                    ul.found { @for record in newest_first(list, page) { (item(*route, record, page)) } }
                }
            }
        }
    }
}

/// The record with an id, if it is in the mirror.
fn one_of(
    reader: &Reader,
    route: Route,
    id: Option<&str>,
) -> Result<Vec<RelatedRecord>, StoreError> {
    let Some(id) = id else { return Ok(Vec::new()) };
    let body = reader.current_body(route, id)?;
    Ok(body.map(|body| RelatedRecord { id: id.to_owned(), body }).into_iter().collect())
}

fn newest_first<'r>(list: &'r [RelatedRecord], page: &StatusPage) -> Vec<&'r RelatedRecord> {
    let mut sorted: Vec<&RelatedRecord> = list.iter().collect();
    sorted.sort_by_key(|record| std::cmp::Reverse(Fields::of(&record.body, page).created_at()));
    sorted
}

/// One record of a list: what says it to a person who knows to what it belongs.
fn item(route: Route, record: &RelatedRecord, page: &StatusPage) -> Markup {
    let RelatedRecord { id, body } = record;
    let fields = Fields::of(body, page);
    let status = fields.text("status").filter(|_| route == Route::JobStatusChanges);
    let title = status.map_or_else(|| fields.title(route, id), |status| shown(&status));
    fields.item(route, id, &title, &html! { (fields.about(route)) })
}

/// The versions that the log holds, the newest first.
fn versions(found: &OneRecord, zone: &TimeZone) -> Markup {
    let OneRecord { history, .. } = found;
    html! {
        section {
            h2 { "History" }
            @if history.has_older {
                p.note { "Only the newest " (history.changes.len()) " versions are shown. The table " code { "changes" } " of the database has all." }
            }
            @for change in history.changes.iter().rev() {
                h3 { "Version " (change.version) ", seen " (moment(&change.observed_at, zone, "%Y-%m-%d %H:%M:%S")) }
                @let differences = change.changed();
                @if !differences.is_empty() {
                    div.scroll tabindex="0" role="region" aria-label=(format!("What version {} changed", change.version)) {
                        table.report.diff {
                            thead { tr { th scope="col" { "Field" } th scope="col" { "Before" } th scope="col" { "After" } } }
                            tbody { @for field in &differences { tr {
                                td { (words::field(&shown(&field.name))) }
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
