//! The pages of reports: the list, and one report with its chart, as a page or as a file.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use jiff::civil::Date;
use maud::{Markup, html};
use serde::Deserialize;

use super::context::PageContext;
use super::frame::{framed, link, ranges, record_link};
use super::not_shown::NotShown;
use super::text::shown;
use super::words;
use crate::config::{CountedBy, ReportFormat};
use crate::report::{self, Answer, Period, Question, Range, Report, ReportError};
use crate::store::{Reader, word};

/// What is asked of a report.
#[derive(Deserialize)]
pub(super) struct Asked {
    name: String,
    range: Option<Range>,
    from: Option<Date>,
    to: Option<Date>,
    by: Option<CountedBy>,
    business: Option<String>,
    #[serde(default)]
    format: ReportFormat,
    #[serde(flatten)]
    set: BTreeMap<String, String>,
}

/// The list of the reports.
pub(super) fn list(_: &mut Reader, context: &PageContext, (): &()) -> Result<Response, NotShown> {
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
    Ok(framed(context, "Reports", "reports", &body).into_response())
}

/// One report as a page, or as a file of the `format` that is asked for.
pub(super) fn one(
    reader: &mut Reader,
    context: &PageContext,
    asked: &Asked,
) -> Result<Response, NotShown> {
    let report = context
        .reports()
        .0
        .into_iter()
        .find(|report| report.name == asked.name);
    let absent = || NotShown::new(StatusCode::NOT_FOUND, "There is no such report here.");
    let report = report.ok_or_else(absent)?;
    let (now, format) = (Timestamp::now(), asked.format);
    let today = now.to_zoned_datetime(context.page.zone.clone()).date();
    let question = question(asked, today, context.page.reports.currency.clone());
    let mut answer = |report: &Report, question: &Question| {
        report::answer(reader, report, question, &context.page.zone, now)
    };
    let answered = answer(&report, &question)?;
    if format != ReportFormat::Html {
        return Ok(download(
            &report.name,
            format,
            report::rendered(&answered, format)?,
        ));
    }
    let days = answered.period.shifted(-1);
    let of_before = Question {
        from: Some(days.from),
        to: Some(days.to),
        ..question.clone()
    };
    let before = match &answered.totals {
        Some(_) if report.has_period() => answer(&report, &of_before).ok(),
        _ => None,
    };
    let businesses = businesses(reader);
    let view = View {
        question,
        answer: &answered,
        today,
        before,
        businesses,
    };
    Ok(framed(context, &report.title, "reports", &view.page()).into_response())
}

fn question(asked: &Asked, today: Date, currency: Option<String>) -> Question {
    let days = asked.range.map(|range| range.days(today));
    Question {
        from: days.map(|days| days.from).or(asked.from),
        to: days.map(|days| days.to).or(asked.to),
        by: asked.by.or(asked.range.map(Range::by)).unwrap_or_default(),
        business: asked
            .business
            .clone()
            .filter(|business| !business.is_empty()),
        set: asked.set.clone().into_iter().collect(),
        currency,
    }
}

/// The businesses that are polled, if there are several.
fn businesses(reader: &Reader) -> BTreeSet<String> {
    let pollers = reader.pollers().unwrap_or_default().into_iter();
    let served = pollers.filter_map(|poller| poller.business.or(poller.served_business));
    let distinct: BTreeSet<String> = served.collect();
    if distinct.len() > 1 {
        distinct
    } else {
        BTreeSet::new()
    }
}

impl From<ReportError> for NotShown {
    fn from(error: ReportError) -> Self {
        let code = match error {
            ReportError::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            ReportError::NotSent(_) | ReportError::Unanswered(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            ReportError::Refused(_) => StatusCode::BAD_REQUEST,
        };
        Self::new(code, error.to_string())
    }
}

/// One report as a page.
struct View<'a> {
    question: Question,
    answer: &'a Answer,
    today: Date,
    /// The answer for the days before, if the report has days and sums.
    before: Option<Answer>,
    businesses: BTreeSet<String>,
}

impl View<'_> {
    fn page(&self) -> Markup {
        let report = &self.answer.report;
        let days = self.answer.period;
        let file = |format: &str| self.of_days(days, &[("format", format)]);
        html! {
            section {
                h1 { (shown(&report.title)) }
                p { (shown(&report.about)) }
                @if report.has_period() {
                    (ranges(&Range::REPORT, |range| range.days(self.today) == days, |range| self.address(&[("range", range)])))
                    (self.steps())
                }
                (self.form())
                p.note { (report::first_upper(&shown(&self.answer.subject()))) "." }
                (self.sums())
                (report::fragment(self.answer, record_link))
                p.note { "Download: " a href=(file("csv")) { "CSV" } ", " a href=(file("json")) { "JSON" } "." }
            }
        }
    }

    /// An address of the report with what else is asked of it.
    fn address(&self, more: &[(&str, &str)]) -> String {
        let Question { business, set, .. } = &self.question;
        let mut pairs = vec![("name", self.answer.report.name.as_str())];
        pairs.extend_from_slice(more);
        pairs.extend(
            business
                .iter()
                .map(|business| ("business", business.as_str())),
        );
        pairs.extend(
            set.iter()
                .map(|(name, value)| (name.as_str(), value.as_str())),
        );
        link("report", &pairs)
    }

    fn of_days(&self, days: Period, more: &[(&str, &str)]) -> String {
        let (from, to) = (days.from.to_string(), days.to.to_string());
        let by = word(&self.answer.by);
        let days = [("from", from.as_str()), ("to", &to), ("by", &by)];
        self.address(&[&days, more].concat())
    }

    /// The links to the days before and after.
    fn steps(&self) -> Markup {
        let days = self.answer.period;
        let next = days.shifted(1);
        html! {
            nav.steps aria-label="Period" {
                a rel="prev" href=(self.of_days(days.shifted(-1), &[])) { "Previous" }
                strong { (days.said()) }
                @if next.from <= self.today { a rel="next" href=(self.of_days(next, &[])) { "Next" } }
            }
        }
    }

    fn form(&self) -> Markup {
        let (report, days) = (&self.answer.report, self.answer.period);
        let business = self.question.business.as_deref().unwrap_or_default();
        let set: BTreeMap<&String, &String> = self
            .question
            .set
            .iter()
            .map(|(name, value)| (name, value))
            .collect();
        let by = [CountedBy::Day, CountedBy::Week, CountedBy::Month].map(|by| word(&by));
        let by: Vec<_> = by.iter().map(|by| (by.as_str(), by.as_str())).collect();
        let known = self
            .businesses
            .iter()
            .map(|known| (known.as_str(), known.as_str()));
        let known: Vec<_> = [("", "all")].into_iter().chain(known).collect();
        let has_choice =
            report.has_period() || !report.parameters.is_empty() || !self.businesses.is_empty();
        html! {
            @if has_choice {
                form.filter action="report" method="get" {
                    input type="hidden" name="name" value=(report.name);
                    @if report.has_period() {
                        label { "From " input type="date" name="from" value=(days.from) required; }
                        label { "To " input type="date" name="to" value=(days.to) required; }
                    }
                    @if self.answer.period_column().is_some() { (select("Count by", "by", &by, &word(&self.answer.by))) }
                    @if !self.businesses.is_empty() { (select("Business", "business", &known, business)) }
                    @for (name, parameter) in &report.parameters {
                        @let value = set.get(name).map_or_else(|| parameter.default(), |value| (*value).clone());
                        label { (shown(&parameter.about)) " " input type="text" name=(name) size="6" value=(value); }
                    }
                    button { "Show" }
                }
            }
        }
    }

    /// The sums beside those of the days before.
    fn sums(&self) -> Markup {
        let before = self.before.as_ref().and_then(Answer::shown_totals);
        let sums = self.answer.shown_totals().zip(before);
        let Some(((sums, were), totals)) = sums.zip(self.answer.totals.as_ref()) else {
            return html! {};
        };
        let columns = self
            .answer
            .columns
            .iter()
            .zip(totals)
            .zip(sums.iter().zip(&were));
        html! {
            dl.sums {
                @for ((column, _), (sum, was)) in columns.filter(|((_, total), _)| total.is_number()) {
                    div {
                        dt { (words::field(&shown(column))) }
                        dd { strong { (shown(sum)) } " " span.note { (shown(was)) " before" } }
                    }
                }
            }
            p.note { "Before: " (self.answer.period.shifted(-1).said()) "." }
        }
    }
}

/// A choice of one of several values, each with the word for it.
fn select(label: &str, name: &str, values: &[(&str, &str)], chosen: &str) -> Markup {
    html! {
        label {
            (label) " "
            select name=(name) {
                @for (value, word) in values { option value=(value) selected[*value == chosen] { (shown(word)) } }
            }
        }
    }
}

/// A file to download. The name holds no character that could end the header.
pub(super) fn download(name: &str, format: ReportFormat, text: String) -> Response {
    let name: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c))
        .collect();
    let (_, end, kind) = report::form(format);
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}.{end}\""),
        ),
    ];
    (headers, text).into_response()
}
