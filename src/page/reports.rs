//! The pages of reports: the list, and one report with its chart, as HTML, CSV, SVG or JSON.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use maud::{Markup, html};

use super::context::PageContext;
use super::frame::{Frame, Tab, explained};
use super::request::{Query, link};
use super::text::shown;
use crate::report::{self, Answer, By, Guard, ListedReport, Question, Report, ReportError};

/// The parameters of a report's address that every report has.
const GIVEN: [&str; 6] = ["name", "from", "to", "by", "business", "format"];

/// The list of the reports.
pub(super) async fn list(State(context): State<Arc<PageContext>>) -> Response {
    let (reports, errors) = listed(&context).await;
    let body = html! {
        section {
            h1 { "Reports" }
            dl.reports {
                @for report in &reports {
                    dt { a href=(link("report", &[("name", &report.name)])) { (shown(&report.title)) } }
                    dd { (shown(&report.about)) }
                }
            }
            @for error in &errors { p.note { (shown(error)) } }
            @if !context.shows_records {
                p.note { "Reports that show single records or come from your own folder need " code { "show_records = true" } " in " code { "[status]" } "." }
            }
        }
    };
    Frame::of("Reports", Tab::Reports).around(&context, &body).into_response()
}

/// The list for programs.
pub(super) async fn list_json(State(context): State<Arc<PageContext>>) -> Response {
    let (reports, _) = listed(&context).await;
    let listed: Vec<ListedReport> = reports.iter().map(ListedReport::from).collect();
    json(&listed)
}

async fn listed(context: &Arc<PageContext>) -> (Vec<Report>, Vec<String>) {
    let shared = Arc::clone(context);
    context.read(move |_| shared.reports()).await.unwrap_or_default()
}

/// One report as a page, or in the `format` that is asked for.
pub(super) async fn one(State(context): State<Arc<PageContext>>, uri: Uri) -> Response {
    let query = Query::of(&uri);
    let format = query.get("format").unwrap_or("html").to_owned();
    respond(&context, query, format).await
}

/// One report for programs.
pub(super) async fn one_json(State(context): State<Arc<PageContext>>, uri: Uri) -> Response {
    respond(&context, Query::of(&uri), "json".to_owned()).await
}

async fn respond(context: &Arc<PageContext>, query: Query, format: String) -> Response {
    let is_page = format == "html";
    let shared = Arc::clone(context);
    // Finding the report, drawing and writing its answer take as long as reading it: all give way to polls.
    let made = context.read(move |reader| {
        let name = query.get("name").unwrap_or_default();
        let (reports, _) = shared.reports();
        let Some(report) = reports.into_iter().find(|report| report.name == name) else {
            let text = "There is no such report here.";
            return explained(&shared, StatusCode::NOT_FOUND, text, format == "html");
        };
        let question = match question(&query, shared.currency.clone()) {
            Ok(question) => question,
            Err(problem) => {
                let is_page = format == "html";
                return explained(&shared, StatusCode::BAD_REQUEST, &problem, is_page);
            }
        };
        let answered = report::answer(reader, &report, &question, &shared.zone, Timestamp::now());
        match answered {
            Ok(answer) => shown_as(&shared, &query, &format, &answer),
            Err(error) => not_answered(&shared, &error, format == "html"),
        }
    });
    made.await.unwrap_or_else(|| {
        explained(
            context,
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many reports are being made: try again in a few seconds.",
            is_page,
        )
    })
}

/// What is asked; a text that says what is wrong with it.
fn question(query: &Query, currency: Option<String>) -> Result<Question, String> {
    Ok(Question {
        from: query.date("from")?,
        to: query.date("to")?,
        by: match query.get("by") {
            Some("week") => By::Week,
            Some("month") => By::Month,
            Some("day") | None => By::Day,
            Some(other) => {
                return Err(format!("by is {other:?}; there are: day, week, month."));
            }
        },
        business: query.get("business").map(str::to_owned),
        at: None,
        set: query.others(&GIVEN),
        currency,
    })
}

fn not_answered(context: &PageContext, error: &ReportError, is_page: bool) -> Response {
    let code = match error {
        ReportError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        ReportError::NotSent { .. } | ReportError::NoJobLink(_) | ReportError::Query { .. } => {
            if is_page {
                StatusCode::OK
            } else {
                StatusCode::UNPROCESSABLE_ENTITY
            }
        }
        _ => StatusCode::BAD_REQUEST,
    };
    explained(context, code, &error.to_string(), is_page)
}

fn shown_as(context: &PageContext, query: &Query, format: &str, answer: &Answer) -> Response {
    let report = &answer.report;
    match format {
        "csv" => csv(&report.name, report::csv(answer, Guard::Formulas)),
        "json" => json(&report::json(answer)),
        "svg" => match report::svg(answer) {
            Some(chart) => ([(header::CONTENT_TYPE, "image/svg+xml")], chart).into_response(),
            None => explained(context, StatusCode::NOT_FOUND, "This report has no chart.", false),
        },
        _ => {
            let page = page(report, query, answer);
            Frame::of(&report.title, Tab::Reports).around(context, &page).into_response()
        }
    }
}

fn page(report: &Report, query: &Query, answer: &Answer) -> Markup {
    let (from, to) = (answer.period.from.to_string(), answer.period.to.to_string());
    let by = query.get("by").unwrap_or("day");
    let business = query.get("business").unwrap_or_default();
    let set = query.others(&GIVEN);
    let format = |format: &'static str| {
        let mut pairs = vec![
            ("name", report.name.as_str()),
            ("from", &from),
            ("to", &to),
            ("by", by),
            ("business", business),
            ("format", format),
        ];
        pairs.extend(set.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        link("report", &pairs)
    };
    html! {
        section {
            h1 { (shown(&report.title)) }
            p { (shown(&report.about)) }
            form.filter action="report" method="get" {
                input type="hidden" name="name" value=(report.name);
                @if report.has_period() {
                    label { "From " input type="date" name="from" value=(from); }
                    label { "To " input type="date" name="to" value=(to); }
                }
                @if report.counts_periods() {
                    label { "Count by "
                        select name="by" {
                            @for choice in ["day", "week", "month"] {
                                option value=(choice) selected[choice == by] { (choice) }
                            }
                        }
                    }
                }
                label { "Business " input type="text" name="business" size="6" value=(business); }
                @for parameter in &report.parameters {
                    @let value = set.iter().find(|(name, _)| *name == parameter.name).map_or(parameter.default.as_str(), |(_, value)| value);
                    label { (shown(&parameter.about)) " " input type="text" name=(parameter.name) size="6" value=(value); }
                }
                button { "Show" }
            }
            (report::fragment(answer))
            p.note { "Download: " a href=(format("csv")) { "CSV" } ", " a href=(format("json")) { "JSON" }
                @if report.chart.is_some() { ", " a href=(format("svg")) { "SVG" } } "." }
        }
    }
}

/// A file to download. The name holds no character that could end the header.
pub(super) fn csv(name: &str, text: String) -> Response {
    let name: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
    let disposition = format!("attachment; filename=\"{name}.csv\"");
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    (headers, text).into_response()
}

pub(super) fn json<T: serde::Serialize>(value: &T) -> Response {
    let mut text = serde_json::to_vec_pretty(value).expect("the values are plain");
    text.push(b'\n');
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
