//! The page of a technician: what is open, the oldest first, what was finished in the last 30 days,
//! how long that took and what it came to. On only with `show_records = true`.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use shopmirror_core::record::Route;

use super::context::PageContext;
use super::frame::{framed, link, record_link};
use super::not_shown::NotShown;
use super::text::shown;
use super::viewer::Viewer;
use crate::report::{
    self, Answer, Cell, Exactness, Question, Range, ReportError, TableLinks, marked_amount,
    marked_count,
};
use crate::store::{Filter, FilterWay, ListQuery, Reader};
use crate::text::locale::Locale;
use crate::text::number::count;

/// The query of a person.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PersonQuery {
    name: String,
}

/// The links of a table that leads to its records only.
struct RecordLinks;

impl TableLinks for RecordLinks {
    fn record(&self, route: Route, id: &str) -> Option<String> {
        Some(record_link(route, id))
    }
}

/// The page of a technician.
pub(super) fn one(
    reader: &mut Reader,
    context: &PageContext,
    viewer: &Viewer,
    query: &PersonQuery,
) -> Result<Response, NotShown> {
    let name = query.name.as_str();
    viewer
        .rights
        .need(viewer.rights.shows_field("assigned_to"))?;
    if name.is_empty() {
        let text = "Name a person: the report “Technician load” has all of them.";
        return Err(NotShown::new(StatusCode::BAD_REQUEST, text));
    }
    let now = Timestamp::now();
    let days = Range::Last30Days.days(now.to_zoned_datetime(context.page.zone.clone()).date());
    let of_days = Question {
        from: Some(days.from),
        to: Some(days.to),
        locale: viewer.locale.clone(),
        ..Question::default()
    };
    let open = Question {
        set: repairs_of(name, "open"),
        locale: viewer.locale.clone(),
        ..Question::default()
    };
    let completed = Question {
        set: repairs_of(name, "completed"),
        ..of_days.clone()
    };
    let turnaround = Question {
        list: ListQuery {
            filters: vec![Filter {
                column: "person".to_owned(),
                way: FilterWay::Is,
                text: name.to_owned(),
            }],
            ..ListQuery::default()
        },
        ..of_days
    };
    let mut open = answer(reader, context, viewer, "repairs", &open, now)?;
    let mut completed = answer(reader, context, viewer, "repairs", &completed, now)?;
    let turnaround = answer(
        reader,
        context,
        viewer,
        "turnaround-by-person",
        &turnaround,
        now,
    )
    .ok();
    // Each table has a name of its own for who hears the page.
    open.report.title = "open repairs".to_owned();
    completed.report.title = "completed repairs".to_owned();
    let (sum, unpriced) = sum_of(reader, &completed)?;
    let came_to = Cell::of(sum.into(), sum_exactness(&completed, unpriced > 0));
    let address = link(
        "report",
        &[
            ("name", "repairs"),
            ("state", "completed"),
            ("person", name),
            ("from", &days.from.to_string()),
            ("to", &days.to.to_string()),
        ],
    );
    let currency = context.page.reports.currency.as_deref();
    let page = html! {
        section {
            h1 dir="auto" { (shown(name)) }
            dl.sums {
                (figure("Open", &open.found, None, &viewer.locale))
                (figure(
                    "Completed in the last 30 days",
                    &completed.found,
                    Some(&address),
                    &viewer.locale,
                ))
                @if viewer.rights.shows_all() {
                    div {
                        dt { "What these came to" }
                        dd { strong { (marked_amount(&came_to, currency, &viewer.locale)) } }
                    }
                }
                @if let Some(days) = turnaround.as_ref().and_then(median) {
                    div {
                        dt { "Days until completed, half of them at most" }
                        dd { strong { (days) } }
                    }
                }
            }
            @if unpriced > 0 && viewer.rights.shows_all() {
                p.note { (count(unpriced, "repair has", "repairs have")) " no total that can be read." }
            }
        }
        section {
            h2 { "Open, the oldest first" }
            (report::fragment(&open, &RecordLinks))
        }
        section {
            h2 { "Completed in the last 30 days" }
            (report::fragment(&completed, &RecordLinks))
        }
    };
    Ok(framed(context, viewer, name, "reports", &page).into_response())
}

/// The parameters of the report `repairs` for those of a person in a state.
fn repairs_of(name: &str, state: &str) -> Vec<(String, String)> {
    vec![
        ("person".to_owned(), name.to_owned()),
        ("state".to_owned(), state.to_owned()),
    ]
}

fn answer(
    reader: &mut Reader,
    context: &PageContext,
    viewer: &Viewer,
    report: &str,
    question: &Question,
    now: Timestamp,
) -> Result<Answer, NotShown> {
    let report = context.report(viewer.rights, report)?;
    Ok(report::answer(
        reader,
        &report,
        question,
        &context.page.zone,
        now,
    )?)
}

/// A number of rows, as a link if there is an address.
fn figure(title: &str, found: &Option<Cell>, address: Option<&str>, locale: &Locale) -> Markup {
    html! {
        @if let Some(found) = found {
            div {
                dt { (title) }
                dd { strong {
                    @match address {
                        Some(address) => a href=(address) { (marked_count(found, locale)) },
                        None => (marked_count(found, locale)),
                    }
                } }
            }
        }
    }
}

/// What the repairs of a list came to, and how many of them have no total that can be read.
fn sum_of(reader: &Reader, repairs: &Answer) -> Result<(f64, usize), ReportError> {
    let Some(column) = repairs.columns.iter().position(|name| name == "job_id") else {
        return Ok((0.0, 0));
    };
    // In ten-thousandths, because sums of fractions would not be exact.
    let mut sum = 0.0;
    let mut unpriced = 0;
    for row in &repairs.rows {
        let id = report::shown(&row[column].value, None);
        let state = reader.job_state(&id)?;
        match state.and_then(|state| state.total) {
            Some(total) => sum += (total * 10_000.0).round(),
            None => unpriced += 1,
        }
    }
    Ok((sum / 10_000.0, unpriced))
}

/// How sure the sum of a list of repairs is, some of which may have no total.
fn sum_exactness(repairs: &Answer, is_more: bool) -> Exactness {
    let rows = repairs.found.as_ref().map(|found| found.exactness);
    match rows {
        Some(Exactness::Exact) if is_more => Exactness::AtLeast,
        Some(Exactness::AtMost) if is_more => Exactness::About,
        Some(Exactness::Between { .. }) => Exactness::AtLeast,
        Some(rows) => rows,
        None => Exactness::Unknown,
    }
}

/// The median of the one row of turnaround, with how sure it is.
fn median(turnaround: &Answer) -> Option<String> {
    let column = turnaround
        .columns
        .iter()
        .position(|name| name == "median_days")?;
    let row = turnaround.rows.first()?;
    Some(turnaround.shown_cell(row, column))
}
