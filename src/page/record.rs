//! One record with its related records and its history, on only with `show_records = true`.

use std::cmp::Reverse;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use shopmirror_core::reading::PaymentKind;
use shopmirror_core::record::{Change, Kind, Route};

use super::StatusPage;
use super::context::PageContext;
use super::frame::{framed, record_link};
use super::not_shown::NotShown;
use super::respond::DataFormat;
use super::rights::Rights;
use super::text::{label, list_title, moment, money, nouns, shown};
use super::titles::{RecordFields, listed, value};
use super::viewer::Viewer;
use crate::report::{self, CustomerMoney, ReportError, marked_amount};
use crate::store::{JobState, QueryError, Reader, RecordHistory, RelatedRecord, StoreError};
use crate::text::document;
use crate::text::first_upper;
use crate::text::locale::Locale;

/// The most related records of one route that are shown.
const MAX_RELATED: usize = 50;
/// The most repairs of a customer that are added up.
const MAX_ADDED: usize = 10_000;

/// The query of a record.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordQuery {
    route: Route,
    id: String,
    format: Option<DataFormat>,
}

/// One record with its related records.
pub(super) fn one(
    reader: &mut Reader,
    context: &PageContext,
    viewer: &Viewer,
    query: &RecordQuery,
) -> Result<Response, NotShown> {
    let RecordQuery { route, id, format } = query;
    let route = *route;
    let settings = &context.page;
    let rights = viewer.rights;
    rights.need(rights.shows_route(route))?;
    let noun = nouns(route).0;
    let history = reader.history(route, id)?;
    if history.changes.is_empty() {
        let text = format!("There is no {noun} {id:?} in the mirror.");
        return Err(NotShown::new(StatusCode::NOT_FOUND, text));
    }
    if *format == Some(DataFormat::Json) {
        rights.need_all()?;
        return Ok(Json(history).into_response());
    }
    let body = reader.current_body(route, id)?;
    let fields = RecordFields::parse(body.as_deref().unwrap_or_default(), settings, viewer);
    let title = fields.title(route, id);
    let is_vanished = history
        .changes
        .last()
        .is_some_and(|change| change.kind == Kind::Vanished);
    let last_seen = reader.last_seen_at(route, id)?;
    let mut state = None;
    if route == Route::Jobs {
        state = reader.job_state(id)?;
    }
    let mut related = Vec::new();
    let mut events = Vec::new();
    // What has more records than the time line shows.
    let mut cut = Vec::new();
    for (route, mut records) in related_to(reader, route, id)? {
        if !rights.shows_route(route) {
            continue;
        }
        let is_event = matches!(route, Route::JobStatusChanges | Route::Payments);
        if is_event && query.route == Route::Jobs {
            if records.len() == MAX_RELATED {
                cut.push(nouns(route).1);
            }
            events.extend(events_of(reader, route, &records, settings, viewer)?);
            continue;
        }
        records.sort_by_key(|record| {
            Reverse(RecordFields::parse(&record.body, settings, viewer).text("created_at"))
        });
        let list = listed(reader, settings, viewer, route, &records)?;
        related.push((route, records.len(), list));
    }
    if route == Route::Jobs {
        events.extend(edits(&history, rights));
        events.sort_by_key(|event| Reverse(event.at.parse::<Timestamp>().ok()));
    }
    let mut money = None;
    if route == Route::Customers && rights.shows_all() {
        money = Some(MoneyOfCustomer::read(reader, id, settings)?);
    }
    let page = html! {
        div {
            h1 dir="auto" { (title) }
            p.note {
                (first_upper(noun)) " " bdi { (shown(id)) }
                @if body.is_some() { ", made " (fields.created()) }
            }
        }
        @if let Some(state) = &state { (now(state, settings, viewer)) }
        @if let Some(money) = &money { (money.section(settings, viewer)) }
        @if !events.is_empty() { (time_line(&events, &cut, settings, &viewer.locale)) }
        section {
            h2 { "Details" }
            @if let Some(body) = &body {
                @if is_vanished {
                    p.note { "It is gone from the list, and no report counts it." }
                }
                @if let Some(seen) = &last_seen {
                    p.note {
                        "As it was last seen, " (moment(seen, &settings.zone, &viewer.locale))
                        @if is_vanished { "." } @else { ". It has left the newest 100 since." }
                    }
                }
                (fields.list())
                @if rights.shows_all() {
                    details {
                        summary { "As the workspace sent it" }
                        pre tabindex="0" dir="auto" { (pretty(body)) }
                    }
                }
            } @else {
                p { "The mirror does not hold this record any more. Its history is below." }
            }
        }
        @for (route, count, records) in &related {
            @if *count > 0 {
                section {
                    h2 {
                        (list_title(*route)) " · "
                        @if *count == MAX_RELATED { "the newest " }
                        (count)
                    }
                    (records)
                }
            }
        }
        (versions(&history, &fields, viewer, settings))
    };
    Ok(framed(context, viewer, &title, "records", &page).into_response())
}

/// One thing that happened to a repair.
struct Event {
    at: String,
    /// Where it is shown whole.
    address: String,
    what: String,
    note: String,
}

/// The status changes or payments of a repair.
fn events_of(
    reader: &Reader,
    route: Route,
    records: &[RelatedRecord],
    page: &StatusPage,
    viewer: &Viewer,
) -> Result<Vec<Event>, StoreError> {
    let mut events = Vec::new();
    for RelatedRecord { id, body } in records {
        let fields = RecordFields::parse(body, page, viewer);
        let what = match route {
            Route::Payments => {
                let kind = match reader.payment_kind(id)? {
                    Some(PaymentKind::Void) => "Void payment",
                    Some(PaymentKind::Refund) => "Refund",
                    Some(PaymentKind::Payment) | None => "Payment",
                };
                format!("{kind}: {}", fields.text("amount"))
            }
            _ => fields.text("status"),
        };
        events.push(Event {
            at: fields.text("created_at"),
            address: record_link(route, id),
            what,
            note: fields.about(route),
        });
    }
    Ok(events)
}

/// The edits of a record, each with the names of the fields that it changed.
fn edits(history: &RecordHistory, rights: Rights) -> Vec<Event> {
    let mut events = Vec::new();
    for change in &history.changes {
        let mut names = Vec::new();
        for field in change.changed() {
            if rights.shows_field(&field.name) {
                names.push(label(&shown(&field.name)));
            }
        }
        if !names.is_empty() && change.version > 1 {
            events.push(Event {
                at: change.observed_at.clone(),
                address: format!("#version-{}", change.version),
                what: "Edited".to_owned(),
                note: names.join(", "),
            });
        }
    }
    events
}

/// What happened to a repair, the newest first: statuses, payments and edits. There are more of
/// `cut`.
fn time_line(events: &[Event], cut: &[&str], page: &StatusPage, locale: &Locale) -> Markup {
    html! {
        section {
            h2 { "Time line" }
            @for nouns in cut {
                p.note { "Only the newest " (MAX_RELATED) " " (nouns) " are shown." }
            }
            ul.found {
                @for event in events {
                    li {
                        a href=(event.address) dir="auto" { (shown(&event.what)) }
                        span.note dir="auto" { (event.note) }
                        span.when { (moment(&event.at, &page.zone, locale)) }
                    }
                }
            }
        }
    }
}

/// The money of a customer: what was paid and is owed, and the payments.
struct MoneyOfCustomer {
    /// `None` if there are too many repairs to add up.
    sums: Option<CustomerMoney>,
    payments: Vec<RelatedRecord>,
}

impl MoneyOfCustomer {
    fn read(reader: &mut Reader, customer: &str, page: &StatusPage) -> Result<Self, ReportError> {
        let repairs = reader.repairs_of_customer(customer, MAX_ADDED + 1)?;
        let mut sums = None;
        if repairs.len() <= MAX_ADDED {
            sums = Some(report::customer_money(
                reader,
                &repairs,
                &page.zone,
                Timestamp::now(),
            )?);
        }
        Ok(Self {
            sums,
            payments: reader.payments_of(&repairs, MAX_RELATED)?,
        })
    }

    fn section(&self, page: &StatusPage, viewer: &Viewer) -> Markup {
        let locale = &viewer.locale;
        let currency = page.reports.currency.as_deref();
        html! {
            section {
                h2 { "Money" }
                @if let Some(CustomerMoney { paid, owed, notes }) = &self.sums {
                    p.now {
                        "Paid " strong { (marked_amount(paid, currency, locale)) }
                        ", owed " strong { (marked_amount(owed, currency, locale)) }
                    }
                    @for note in notes { p.note { (first_upper(note)) "." } }
                } @else {
                    p.note {
                        "There are more than " (MAX_ADDED) " repairs, which are not added up here. \
                         The report “Outstanding amounts” has those that are not paid."
                    }
                }
                @if !self.payments.is_empty() {
                    @if self.payments.len() == MAX_RELATED {
                        p.note { "The newest " (MAX_RELATED) " payments:" }
                    }
                    ul.found {
                        @for RelatedRecord { id, body } in &self.payments {
                            @let fields = RecordFields::parse(body, page, viewer);
                            li {
                                a href=(record_link(Route::Payments, id)) dir="auto" {
                                    (fields.title(Route::Payments, id))
                                }
                                span.note dir="auto" { (fields.about(Route::Payments)) }
                                span.when { (fields.created()) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The text of a record with a line for each field.
fn pretty(body: &str) -> String {
    let mut text = None;
    if let Ok(value) = serde_json::from_str::<serde_json::Value>(body) {
        text = serde_json::to_string_pretty(&value).ok();
    }
    document::lines(text.as_deref().unwrap_or(body))
}

/// The records that belong to a record, and those that it belongs to.
fn related_to(
    reader: &Reader,
    route: Route,
    id: &str,
) -> Result<Vec<(Route, Vec<RelatedRecord>)>, QueryError> {
    let mut related = Vec::new();
    let customer = if route == Route::Jobs {
        reader.customer_of(Route::Jobs, id)?
    } else if let Some(job) = reader.job_of(route, id)? {
        let customer = reader.customer_of(Route::Jobs, &job)?;
        related.push((Route::Jobs, stored_record(reader, Route::Jobs, job)?));
        customer
    } else if route == Route::Leads {
        reader.customer_of(route, id)?
    } else {
        None
    };
    if let Some(id) = customer {
        let customer = stored_record(reader, Route::Customers, id)?;
        related.push((Route::Customers, customer));
    }
    if route == Route::Jobs {
        for of_job in [
            Route::JobStatusChanges,
            Route::Payments,
            Route::OutsourcedJobs,
        ] {
            related.push((of_job, reader.records_of_job(of_job, id, MAX_RELATED)?));
        }
    }
    if route == Route::Customers {
        for of_customer in [Route::Jobs, Route::Leads] {
            let records = reader.records_of_customer(of_customer, id, MAX_RELATED)?;
            related.push((of_customer, records));
        }
    }
    Ok(related)
}

/// The record with an id; empty if it is not in the mirror.
fn stored_record(
    reader: &Reader,
    route: Route,
    id: String,
) -> Result<Vec<RelatedRecord>, StoreError> {
    match reader.current_body(route, &id)? {
        Some(body) => Ok(vec![RelatedRecord { id, body }]),
        None => Ok(Vec::new()),
    }
}

/// The current state of a repair.
fn now(state: &JobState, page: &StatusPage, viewer: &Viewer) -> Markup {
    let locale = &viewer.locale;
    let zone = &page.zone;
    let currency = page.reports.currency.as_deref();
    html! {
        section {
            h2 { "Now" }
            p.now {
                strong dir="auto" { (shown(state.status.as_deref().unwrap_or("no status"))) }
                @if let Some(since) = &state.since { " since " (moment(since, zone, locale)) }
            }
            p.note {
                @if state.source == "status change" { "From its newest status change. " }
                @else { "From the details below. " }
                @if !viewer.rights.shows_all() {
                } @else if let Some(paid) = state.paid {
                    "Paid: "
                    @if state.paid_mark == "at_least" { "at least " }
                    @if state.paid_mark == "about" { "about " }
                    (money(paid, currency, locale))
                    @if let Some(max) = state.paid_max { " to " (money(max, currency, locale)) }
                    @if let Some(total) = state.total { " of " (money(total, currency, locale)) }
                    "."
                } @else { "What is paid is unknown." }
            }
        }
    }
}

/// The versions that the log holds, the newest first.
fn versions(
    history: &RecordHistory,
    fields: &RecordFields<'_>,
    viewer: &Viewer,
    page: &StatusPage,
) -> Markup {
    let Viewer { locale, rights, .. } = viewer;
    html! {
        section {
            h2 { "History" }
            @if history.has_older {
                p.note {
                    "Only the newest " (history.changes.len()) " versions are shown. The table "
                    code { "changes" } " of the database has all."
                }
            }
            @for change in history.changes.iter().rev() {
                h3 id={ "version-" (change.version) } {
                    "Version " (change.version) ", seen "
                    (moment(&change.observed_at, &page.zone, locale))
                }
                (differences(change, fields, *rights))
            }
        }
    }
}

/// The fields that a change changed, with their values before and after.
fn differences(change: &Change, fields: &RecordFields<'_>, rights: Rights) -> Markup {
    let mut changed = change.changed();
    changed.retain(|field| rights.shows_field(&field.name));
    if changed.is_empty() {
        return html! {};
    }
    let title = format!("What version {} changed", change.version);
    html! {
        div.scroll tabindex="0" role="region" aria-label=(title) {
            table.report.diff {
                thead {
                    tr {
                        th scope="col" { "Field" }
                        th scope="col" { "Before" }
                        th scope="col" { "After" }
                    }
                }
                tbody {
                    @for field in &changed {
                        tr {
                            td dir="auto" { (label(&shown(&field.name))) }
                            td { del { (side(fields, &field.name, field.before)) } }
                            td { ins { (side(fields, &field.name, field.after)) } }
                        }
                    }
                }
            }
        }
    }
}

fn side(fields: &RecordFields<'_>, name: &str, json: Option<&str>) -> Markup {
    match json {
        Some(json) => fields.written(name, &value(json)),
        None => html! { "(absent)" },
    }
}
