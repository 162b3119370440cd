//! The pages of reports: the list, and one report with its chart, as HTML, CSV or JSON.

use std::collections::BTreeSet;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use jiff::civil::Date;
use maud::{Markup, html};

use super::context::PageContext;
use super::frame::Frame;
use super::not_shown::NotShown;
use super::ranges::range_of;
use super::request::{Query, link, record_link};
use super::text::{exact, percent, shown};
use super::words;
use crate::config::CountedBy;
use crate::report::{self, Answer, Period, Question, Range, ReportError};
use crate::store::Reader;

/// The parameters of a report's address that every report has.
const GIVEN: [&str; 7] = ["name", "range", "from", "to", "by", "business", "format"];
/// The forms of an answer.
const FORMATS: [&str; 3] = ["html", "csv", "json"];

/// The list of the reports.
pub(super) fn list(_: &mut Reader, context: &PageContext, _: &Query) -> Result<Response, NotShown> {
    let (reports, errors) = context.reports();
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
            @if !context.shows_records() {
                p.note { "Reports that show single records or come from your own folder need " code { "show_records = true" } " in " code { "[status]" } "." }
            }
        }
    };
    Ok(Frame::of("Reports", "reports").around(context, &body).into_response())
}

/// The list for programs.
pub(super) fn list_json(
    _: &mut Reader,
    context: &PageContext,
    _: &Query,
) -> Result<Response, NotShown> {
    Ok(json(&report::listed(&context.reports().0)))
}

/// One report as a page, or in the `format` that is asked for.
pub(super) fn one(
    reader: &mut Reader,
    context: &PageContext,
    query: &Query,
) -> Result<Response, NotShown> {
    let format = query.choice("format", &FORMATS, |format| format)?.unwrap_or("html");
    respond(reader, context, query, format)
}

/// One report for programs.
pub(super) fn one_json(
    reader: &mut Reader,
    context: &PageContext,
    query: &Query,
) -> Result<Response, NotShown> {
    respond(reader, context, query, "json")
}

fn respond(
    reader: &mut Reader,
    context: &PageContext,
    query: &Query,
    format: &str,
) -> Result<Response, NotShown> {
    let name = query.get("name").unwrap_or_default();
    let report = context.reports().0.into_iter().find(|report| report.name == name);
    let report = report.ok_or_else(|| NotShown::absent("There is no such report here."))?;
    let now = Timestamp::now();
    let today = now.to_zoned(context.page.zone.clone()).date();
    let question = question(query, today, context.page.currency.clone())?;
    let answer = report::answer(reader, &report, &question, &context.page.zone, now)
        .map_err(|error| not_answered(&error, format == "html"))?;
    match format {
        "csv" => Ok(csv(&answer.report.name, report::csv(&answer))),
        "json" => Ok(json(&report::json(&answer))),
        _ => {
            let before = Compared::read(reader, context, &question, &answer, now);
            let businesses = businesses(reader);
            let view = View { query, answer: &answer, today, before, businesses };
            Ok(Frame::of(&report.title, "reports").around(context, &view.page()).into_response())
        }
    }
}

/// What is asked; a text that says what is wrong with it.
fn question(query: &Query, today: Date, currency: Option<String>) -> Result<Question, String> {
    let range = range_of(query)?;
    let (from, to) = match range.map(|range| range.days(today)) {
        Some(days) => (Some(days.from), Some(days.to)),
        None => (query.date("from")?, query.date("to")?),
    };
    Ok(Question {
        from,
        to,
        by: query
            .choice("by", &CountedBy::ALL, CountedBy::as_str)?
            .unwrap_or_else(|| range.map_or(CountedBy::Day, Range::by)),
        business: query.get("business").map(str::to_owned),
        set: query.others(&GIVEN),
        currency,
    })
}

/// The businesses that are polled, if there are several.
fn businesses(reader: &Reader) -> Vec<String> {
    let pollers = reader.pollers().unwrap_or_default().into_iter();
    let served = pollers.filter_map(|poller| poller.business.or(poller.served_business));
    let distinct: BTreeSet<String> = served.collect();
    if distinct.len() > 1 { distinct.into_iter().collect() } else { Vec::new() }
}

fn not_answered(error: &ReportError, is_page: bool) -> NotShown {
    let code = match error {
        ReportError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        ReportError::Unanswered(_) if is_page => StatusCode::OK,
        ReportError::Unanswered(_) => StatusCode::UNPROCESSABLE_ENTITY,
        ReportError::Refused(_) => StatusCode::BAD_REQUEST,
    };
    NotShown::new(code, error.to_string())
}

/// The sums of a report beside those of the period before.
struct Compared {
    days: Period,
    /// For each sum: its name, the sum in words, and how it was before.
    sums: Vec<(String, String, String)>,
}

impl Compared {
    /// `None` if the report has no period or no sums, or if the period before is not known.
    fn read(
        reader: &mut Reader,
        context: &PageContext,
        question: &Question,
        answer: &Answer,
        now: Timestamp,
    ) -> Option<Self> {
        let totals = answer.totals.as_ref().filter(|_| answer.report.has_period())?;
        let days = answer.period.before();
        let asked = Question { from: Some(days.from), to: Some(days.to), ..question.clone() };
        let before =
            report::answer(reader, &answer.report, &asked, &context.page.zone, now).ok()?;
        let (shown, shown_before) = (answer.shown_totals()?, before.shown_totals()?);
        let before = before.totals?;
        let sums = answer.columns.iter().enumerate().filter_map(|(index, column)| {
            let (sum, was) = (exact(totals.get(index)?)?, exact(before.get(index)?)?);
            let change = percent(sum, was).map_or_else(String::new, |change| change + ", ");
            let words = format!("{change}{} before", shown_before[index]);
            let is_something = sum != 0.0 || was != 0.0;
            is_something.then(|| (column.clone(), shown[index].clone(), words))
        });
        Some(Self { days, sums: sums.collect() })
    }
}

/// One report as a page.
struct View<'a> {
    query: &'a Query,
    answer: &'a Answer,
    today: Date,
    before: Option<Compared>,
    businesses: Vec<String>,
}

impl View<'_> {
    fn page(&self) -> Markup {
        let report = &self.answer.report;
        html! {
            section {
                h1 { (shown(&report.title)) }
                p { (shown(&report.about)) }
                @if report.has_period() { (self.ranges()) }
                (self.form())
                p.note { (report::first_upper(&shown(&self.answer.subject()))) "." }
                (self.compared())
                (report::fragment(self.answer, record_link))
                p.note { "Download: " a href=(self.format("csv")) { "CSV" } ", " a href=(self.format("json")) { "JSON" } "." }
            }
        }
    }

    /// An address of the report with what else is asked of it.
    fn address(&self, more: &[(&str, &str)]) -> String {
        let set = self.query.others(&GIVEN);
        let business = self.query.get("business").unwrap_or_default();
        let mut pairs = vec![("name", self.answer.report.name.as_str())];
        pairs.extend_from_slice(more);
        pairs.push(("business", business));
        pairs.extend(set.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        link("report", &pairs)
    }

    fn of_days(&self, days: Period, by: &str, format: &str) -> String {
        let (from, to) = (days.from.to_string(), days.to.to_string());
        self.address(&[("from", &from), ("to", &to), ("by", by), ("format", format)])
    }

    fn format(&self, format: &str) -> String {
        self.of_days(self.answer.period, self.by(), format)
    }

    fn by(&self) -> &'static str {
        self.answer.by.as_str()
    }

    fn ranges(&self) -> Markup {
        let days = self.answer.period;
        let next = days.neighbour(1);
        html! {
            nav.ranges aria-label="Range" {
                @for range in Range::REPORT {
                    a href=(self.address(&[("range", range.as_str())])) aria-current=[(range.days(self.today) == days).then_some("true")] { (range.title()) }
                }
            }
            nav.steps aria-label="Period" {
                a rel="prev" href=(self.of_days(days.neighbour(-1), self.by(), "")) { "Previous" }
                strong { (days.said()) }
                @if next.from <= self.today { a rel="next" href=(self.of_days(next, self.by(), "")) { "Next" } }
            }
        }
    }

    fn form(&self) -> Markup {
        let report = &self.answer.report;
        let days = self.answer.period;
        let business = self.query.get("business").unwrap_or_default();
        let set = self.query.others(&GIVEN);
        let has_choice =
            report.has_period() || !report.parameters.is_empty() || !self.businesses.is_empty();
        html! {
            @if has_choice {
                form.filter action="report" method="get" {
                    input type="hidden" name="name" value=(report.name);
                    @if report.has_period() {
                        label { "From " input type="date" name="from" value=(days.from); }
                        label { "To " input type="date" name="to" value=(days.to); }
                    }
                    @if self.answer.period_column().is_some() {
                        label { "Count by "
                            select name="by" {
                                @for choice in CountedBy::ALL.map(CountedBy::as_str) {
                                    option value=(choice) selected[choice == self.by()] { (choice) }
                                }
                            }
                        }
                    }
                    @if !self.businesses.is_empty() {
                        label { "Business "
                            select name="business" {
                                option value="" { "all" }
                                @for known in &self.businesses {
                                    option value=(known) selected[known == business] { (shown(known)) }
                                }
                            }
                        }
                    }
                    @for (name, parameter) in &report.parameters {
                        @let given = set.iter().find(|(known, _)| known == name);
                        @let value = given.map_or_else(|| parameter.default(), |(_, value)| value.clone());
                        label { (shown(&parameter.about)) " " input type="text" name=(name) size="6" value=(value); }
                    }
                    button { "Show" }
                }
            }
        }
    }

    /// The sums beside those of the period before.
    fn compared(&self) -> Markup {
        let Some(Compared { days, sums }) = &self.before else { return html! {} };
        html! {
            @if sums.is_empty() {
                p.note { "No comparison with " (days.said()) ": not all of it is known." }
            } @else {
                dl.sums {
                    @for (name, sum, was) in sums {
                        div {
                            dt { (words::field(&shown(name))) }
                            dd { strong { (shown(sum)) } " " span.note { (shown(was)) } }
                        }
                    }
                }
                p.note { "Before: " (days.said()) "." }
            }
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
