//! The pages of reports: the list, and one report with its chart, as a page or as a file.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::civil::{Date, Time};
use jiff::{Timestamp, ToSpan, ZonedDateTime};
use maud::{Markup, html};
use serde::Deserialize;
use shopmirror_core::record::Route;

use super::context::PageContext;
use super::frame::{framed, link, ranges, record_link};
use super::list_form::{FilterColumn, ListAddress};
use super::not_shown::NotShown;
use super::rights::Rights;
use super::text::{label, shown};
use super::viewer::Viewer;
use crate::config::{CountedBy, ReportFormat};
use crate::report::{
    self, Answer, Cell, CsvForm, Parameter, Period, Question, Range, Report, ReportError,
    TableLinks, marked_count,
};
use crate::store::{ListQuery, Reader};
use crate::text::first_upper;
use crate::text::locale::Locale;

/// The query of a report.
#[derive(Deserialize)]
pub(super) struct ReportQuery {
    name: String,
    range: Option<Range>,
    from: Option<Date>,
    to: Option<Date>,
    by: Option<CountedBy>,
    business: Option<String>,
    #[serde(default)]
    format: ReportFormat,
    /// The program that a CSV file is for.
    #[serde(rename = "for")]
    target: Option<SpreadsheetProgram>,
    /// `1` if a CSV file ends with the notes.
    #[serde(default)]
    notes: String,
    #[serde(flatten)]
    set: BTreeMap<String, String>,
}

/// A spreadsheet program that reads CSV in a form of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SpreadsheetProgram {
    Excel,
}

/// The form of a CSV file for a program, and for programs that read data.
pub(super) fn csv_form(target: Option<SpreadsheetProgram>, locale: &Locale) -> CsvForm {
    match target {
        Some(SpreadsheetProgram::Excel) => CsvForm::for_excel(locale),
        None => CsvForm::DATA,
    }
}

/// The list of the reports.
pub(super) fn list(
    _: &mut Reader,
    context: &PageContext,
    viewer: &Viewer,
    (): &(),
) -> Result<Response, NotShown> {
    let (reports, errors) = context.reports(viewer.rights);
    let body = html! {
        section {
            h1 { "Reports" }
            @for (title, group) in &grouped(&reports) {
                h2 { (title) }
                dl.reports {
                    @for report in group {
                        @let address = link("report", &[("name", &report.name)]);
                        dt { a href=(address) dir="auto" { (shown(&report.title)) } }
                        dd dir="auto" { (shown(&report.about)) }
                    }
                }
            }
            @for error in &errors { p.note { (shown(error)) } }
            @if !viewer.rights.shows_records() {
                p.note {
                    "Reports that show single records or come from your own folder need "
                    code { "show_records = true" } " in " code { "[status]" } "."
                }
            }
        }
    };
    Ok(framed(context, viewer, "Reports", "reports", &body).into_response())
}

/// The reports by what they are about, each group with its title.
fn grouped(reports: &[Report]) -> Vec<(&'static str, Vec<&Report>)> {
    let mut groups: Vec<(&'static str, Vec<&Report>)> = Vec::new();
    for title in [
        "Money",
        "Repairs",
        "People",
        "Leads and customers",
        "System",
        "Own reports",
    ] {
        let mut group = Vec::new();
        for report in reports {
            if group_of(report) == title {
                group.push(report);
            }
        }
        if !group.is_empty() {
            groups.push((title, group));
        }
    }
    groups
}

fn group_of(report: &Report) -> &'static str {
    if report.is_own {
        return "Own reports";
    }
    match report.name.as_str() {
        "payments" | "outstanding" | "till-by-method" | "average-repair" | "money-by-brand"
        | "money-by-device" | "money-by-person" => "Money",
        "technicians" | "turnaround-by-person" => "People",
        "leads" | "sources" | "follow-ups" | "customers" => "Leads and customers",
        "mirror" => "System",
        _ => "Repairs",
    }
}

/// One report as a page, or as a file of the `format` in the query.
pub(super) fn one(
    reader: &mut Reader,
    context: &PageContext,
    viewer: &Viewer,
    query: &ReportQuery,
) -> Result<Response, NotShown> {
    let report = &context.report(viewer.rights, &query.name)?;
    for name in query.set.keys() {
        viewer.rights.need(viewer.rights.shows_parameter(name))?;
    }
    let zone = &context.page.zone;
    let now = Timestamp::now();
    let today = now.to_zoned_datetime(zone.clone()).date();
    let currency = context.page.reports.currency.clone();
    let mut question = question(report, query, today, currency)?;
    if ![ReportFormat::Csv, ReportFormat::Json].contains(&query.format) {
        question.locale = viewer.locale.clone();
    }
    let answer = report::answer(reader, report, &question, zone, now)?;
    if query.format != ReportFormat::Html {
        let csv_form = csv_form(query.target, &viewer.locale).with_notes(query.notes == "1");
        let file = report::rendered(&answer, query.format, csv_form)?;
        return Ok(download(&report.name, query.format, file.into_bytes()));
    }
    let mut before = None;
    let mut before_until = None;
    if answer.totals.is_some() && answer.has_period {
        let question = before_of(&question, answer.period, &answer.as_of);
        before_until = question.until;
        before = report::answer(reader, report, &question, zone, now).ok();
    }
    let view = ReportView {
        question,
        answer: &answer,
        today,
        before,
        before_until,
        businesses: businesses(reader),
        rights: viewer.rights,
    };
    Ok(framed(context, viewer, &report.title, "reports", &view.page()).into_response())
}

/// The same question for the period before, up to the same hour if the period is not over.
fn before_of(question: &Question, period: Period, as_of: &ZonedDateTime) -> Question {
    let mut days = period.shifted(-1);
    let mut until = None;
    let today = as_of.date();
    if today <= period.to {
        let to_come = (period.to - today).get_days();
        days.to = days.to.saturating_sub(to_come.days()).max(days.from);
        until = Some(as_of.time());
    }
    Question {
        from: Some(days.from),
        to: Some(days.to),
        until,
        ..question.clone()
    }
}

/// The question that a query asks; a range counts before single days. A parameter of the report
/// counts before one of the list that has the same name.
fn question(
    report: &Report,
    query: &ReportQuery,
    today: Date,
    currency: Option<String>,
) -> Result<Question, NotShown> {
    let mut set = query.set.clone();
    let mut of_list = BTreeMap::new();
    for (name, text) in &query.set {
        if !report.parameters.contains_key(name) {
            set.remove(name);
            of_list.insert(name.clone(), text.clone());
        }
    }
    let list = ListQuery::take(&mut of_list).map_err(ReportError::from)?;
    // What is of neither is refused with the names of those that there are.
    set.append(&mut of_list);
    let mut question = Question {
        from: query.from,
        to: query.to,
        until: None,
        by: query.by.unwrap_or_default(),
        business: query.business.clone(),
        set: set.into_iter().collect(),
        currency,
        list,
        locale: Locale::default(),
    };
    if let Some(range) = query.range {
        let days = range.days(today);
        question.from = Some(days.from);
        question.to = Some(days.to);
        question.by = query.by.unwrap_or(range.by());
    }
    question.business.take_if(|business| business.is_empty());
    Ok(question)
}

/// The businesses that are polled, if there are several.
fn businesses(reader: &Reader) -> BTreeSet<String> {
    let mut businesses = BTreeSet::new();
    for poller in reader.pollers().unwrap_or_default() {
        businesses.extend(poller.business.or(poller.served_business));
    }
    if businesses.len() < 2 {
        businesses.clear();
    }
    businesses
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
struct ReportView<'a> {
    question: Question,
    answer: &'a Answer,
    today: Date,
    /// The answer for the days before, if the report has days and sums.
    before: Option<Answer>,
    /// The time of the last of these days up to which they are counted.
    before_until: Option<Time>,
    businesses: BTreeSet<String>,
    /// What the reader may see.
    rights: Rights,
}

impl ReportView<'_> {
    fn page(&self) -> Markup {
        let report = &self.answer.report;
        let days = self.answer.period;
        let csv = self.address_for(days, &[("format", "csv")]);
        let json = self.address_for(days, &[("format", "json")]);
        let excel = self.address_for(days, &[("format", "xlsx")]);
        let excel_csv = self.address_for(days, &[("format", "csv"), ("for", "excel")]);
        html! {
            section {
                h1 dir="auto" { (shown(&report.title)) }
                p dir="auto" { (shown(&report.about)) }
                @if self.answer.has_period {
                    (ranges(
                        &Range::REPORT,
                        |range| range.days(self.today) == days,
                        |range| self.address(&[("range", range)]),
                    ))
                    (self.steps())
                }
                (self.form())
                p.note { (first_upper(&shown(&self.answer.subject()))) "." }
                (self.sums())
                (self.filter_form())
                (report::fragment(self.answer, self))
                p.note {
                    "Download: " a href=(excel) { "Excel" } ", " a href=(csv) { "CSV" } ", "
                    a href=(excel_csv) { "CSV for Excel" } ", "
                    a href=(json) { "JSON" } "."
                }
            }
        }
    }

    /// An address of the report with these parameters, and with the business, the parameters, the
    /// order and the filters that are chosen now.
    fn address(&self, parameters: &[(&str, &str)]) -> String {
        self.list_address(parameters).with(&self.question.list)
    }

    fn address_for(&self, days: Period, parameters: &[(&str, &str)]) -> String {
        self.list_address_for(days, parameters)
            .with(&self.question.list)
    }

    /// The same, with another order or other filters.
    fn list_address(&self, parameters: &[(&str, &str)]) -> ListAddress<'_> {
        let mut pairs = vec![("name".to_owned(), self.answer.report.name.clone())];
        for (name, value) in parameters {
            pairs.push(((*name).to_owned(), (*value).to_owned()));
        }
        if let Some(business) = &self.question.business {
            pairs.push(("business".to_owned(), business.clone()));
        }
        pairs.extend_from_slice(&self.question.set);
        ListAddress {
            path: "report",
            parameters: pairs,
            list: &self.question.list,
        }
    }

    fn list_address_for(&self, days: Period, parameters: &[(&str, &str)]) -> ListAddress<'_> {
        let from = days.from.to_string();
        let to = days.to.to_string();
        let by = self.answer.by.as_str();
        let mut pairs = Vec::new();
        if self.answer.has_period {
            pairs.extend([("from", from.as_str()), ("to", &to)]);
        }
        if self.answer.period_column().is_some() {
            pairs.push(("by", by));
        }
        pairs.extend_from_slice(parameters);
        self.list_address(&pairs)
    }

    /// A value of a parameter of the list behind a number.
    fn filled(&self, value: &str, row: &[Cell], days: Period) -> String {
        match value {
            "{from}" => return days.from.to_string(),
            "{to}" => return days.to.to_string(),
            _ => {}
        }
        for (name, cell) in self.answer.columns.iter().zip(row) {
            if value == format!("{{{name}}}") {
                return report::shown(&cell.value, None);
            }
        }
        value.to_owned()
    }

    /// The form that chooses rows. Their days are chosen above it.
    fn filter_form(&self) -> Markup {
        let answer = self.answer;
        let mut columns = Vec::new();
        for index in report::shown_columns(answer) {
            if answer.period_column() != Some(index) {
                columns.push(FilterColumn {
                    name: &answer.columns[index],
                    kind: &answer.listed.kinds[index],
                });
            }
        }
        let address = self.list_address_for(answer.period, &[]);
        address.filter_form(&columns)
    }

    /// The links to the days before and after.
    fn steps(&self) -> Markup {
        let days = self.answer.period;
        let previous = days.shifted(-1);
        let next = days.shifted(1);
        html! {
            nav.steps aria-label="Period" {
                a rel="prev" href=(self.address_for(previous, &[])) { "Previous" }
                strong { (days.in_words()) }
                @if next.from <= self.today {
                    a rel="next" href=(self.address_for(next, &[])) { "Next" }
                }
            }
        }
    }

    fn form(&self) -> Markup {
        let report = &self.answer.report;
        let days = self.answer.period;
        let business = self.question.business.as_deref().unwrap_or_default();
        let units = CountedBy::ALL.map(|unit| (unit.as_str(), unit.as_str()));
        let mut businesses = vec![("", "all")];
        for business in &self.businesses {
            businesses.push((business, business));
        }
        let has_choice =
            self.answer.has_period || !report.parameters.is_empty() || !self.businesses.is_empty();
        html! {
            @if has_choice {
                form.filter action="report" method="get" {
                    input type="hidden" name="name" value=(report.name);
                    @for (name, text) in self.question.list.parameters() {
                        input type="hidden" name=(name) value=(text);
                    }
                    @if self.answer.has_period {
                        label { "From " input type="date" name="from" value=(days.from) required; }
                        label { "To " input type="date" name="to" value=(days.to) required; }
                    }
                    @if self.answer.period_column().is_some() {
                        (select("Count by", "by", &units, self.answer.by.as_str()))
                    }
                    @if !self.businesses.is_empty() {
                        (select("Business", "business", &businesses, business))
                    }
                    @for (name, parameter) in &report.parameters {
                        @if self.rights.shows_parameter(name) {
                            (self.parameter(name, parameter))
                        }
                    }
                    button { "Show" }
                }
            }
        }
    }

    /// What sets a parameter of the report, in the words of its meaning.
    fn parameter(&self, name: &str, parameter: &Parameter) -> Markup {
        let value = self.value_of(name).unwrap_or_else(|| parameter.default());
        let about = shown(&parameter.about);
        let (before, after) = about.split_once('…').unwrap_or((&about, ""));
        let mut choices = Vec::with_capacity(parameter.choices.len());
        for choice in &parameter.choices {
            choices.push((choice.as_str(), choice.as_str()));
        }
        html! {
            @if parameter.is_flag {
                // A box that is off sends nothing: without this one its default would count.
                @if parameter.default() != "0" { input type="hidden" name=(name) value="0"; }
                label {
                    input type="checkbox" name=(name) value="1" checked[value != "0"];
                    " " bdi { (about) }
                }
            } @else if !choices.is_empty() {
                (select(&label(&about), name, &choices, &value))
            } @else {
                label {
                    bdi { (before) } " "
                    input type="text" name=(name) size="6" value=(value);
                    @if !after.is_empty() { " " bdi { (after) } }
                }
            }
        }
    }

    /// The value of a parameter of the report, if one is chosen.
    fn value_of(&self, parameter: &str) -> Option<String> {
        let mut set = self.question.set.iter().rev();
        let (_, value) = set.find(|(name, _)| name == parameter)?;
        Some(value.clone())
    }

    /// The number of rows and the sums; beside these those of the days before, if there are some.
    fn sums(&self) -> Markup {
        if let Some(sums) = self.sums_and_before() {
            return sums;
        }
        let Some(found) = &self.answer.found else {
            return html! {};
        };
        let sums = self.answer.shown_totals().unwrap_or_default();
        let totals = self.answer.totals.as_deref().unwrap_or_default();
        html! {
            dl.sums {
                div { dt { "Rows" } dd { strong { (marked_count(found, &self.answer.locale)) } } }
                @for (index, total) in totals.iter().enumerate() {
                    @if total.is_number() {
                        div {
                            dt { (label(&shown(&self.answer.columns[index]))) }
                            dd { strong { (shown(&sums[index])) } }
                        }
                    }
                }
            }
        }
    }

    fn sums_and_before(&self) -> Option<Markup> {
        let totals = self.answer.totals.as_ref()?;
        let sums = self.answer.shown_totals()?;
        let before = self.before.as_ref()?.shown_totals()?;
        let mut rows = Vec::new();
        for (index, total) in totals.iter().enumerate() {
            // What stands now was not counted before.
            let is_standing = self.answer.report.is_standing(&self.answer.columns[index]);
            if total.is_number() && !is_standing {
                let column = self.answer.columns.get(index)?;
                rows.push((column, sums.get(index)?, before.get(index)?));
            }
        }
        Some(html! {
            dl.sums {
                @for (column, sum, before) in rows {
                    div {
                        dt { (label(&shown(column))) }
                        dd { strong { (shown(sum)) } " " span.note { (shown(before)) " before" } }
                    }
                }
            }
            p.note {
                "Before: " (self.before.as_ref()?.period.in_words())
                @if let Some(until) = self.before_until { ", until " (until.strftime("%H:%M")) }
                "."
            }
        })
    }
}

impl TableLinks for ReportView<'_> {
    fn record(&self, route: Route, id: &str) -> Option<String> {
        Some(record_link(route, id))
    }

    fn sorted(&self, column: &str) -> Option<String> {
        let address = self.list_address_for(self.answer.period, &[]);
        Some(address.sorted(column))
    }

    fn rows_behind(&self, row: &[Cell], column: usize) -> Option<String> {
        if !self.rights.shows_records() {
            return None;
        }
        if self.answer.columns[column] == "person" {
            let name = report::shown(&row[column].value, None);
            return Some(link("person", &[("name", &name)]));
        }
        let number = row[column].number()?;
        if number == 0.0 {
            return None;
        }
        let behind = self
            .answer
            .report
            .rows_behind(&self.answer.columns[column])?;
        let days = self.answer.days_of(row)?;
        let mut list = "";
        let mut pairs = Vec::new();
        for (name, value) in behind {
            if name == "list" {
                list = value;
            } else {
                pairs.push((name.as_str(), self.filled(value, row, days)));
            }
        }
        if let Some(business) = &self.question.business {
            pairs.push(("business", business.clone()));
        }
        let mut path = "records";
        if list != path {
            path = "report";
            pairs.insert(0, ("name", list.to_owned()));
        }
        let pairs: Vec<(&str, &str)> = pairs
            .iter()
            .map(|(name, value)| (*name, &**value))
            .collect();
        Some(link(path, &pairs))
    }
}

/// A choice of one of several values, each with the word for it.
fn select(label: &str, name: &str, values: &[(&str, &str)], chosen: &str) -> Markup {
    html! {
        label {
            (label) " "
            select name=(name) {
                @for (value, word) in values {
                    option value=(value) dir="auto" selected[*value == chosen] { (shown(word)) }
                }
            }
        }
    }
}

/// A file to download. The name holds no character that could end the header.
pub(super) fn download(name: &str, format: ReportFormat, bytes: Vec<u8>) -> Response {
    let mut name = name.to_owned();
    name.retain(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let (_, end, kind) = report::form(format);
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}.{end}\""),
        ),
    ];
    (headers, bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_that_is_not_over_is_compared_up_to_the_same_hour() {
        let of = |from: &str, to: &str, as_of: &str| {
            let [from, to] = [from, to].map(|day| day.parse().unwrap());
            let as_of: ZonedDateTime = format!("{as_of}[Europe/Berlin]").parse().unwrap();
            let before = before_of(&Question::default(), Period { from, to }, &as_of);
            let days = [before.from, before.to].map(|day| day.unwrap().to_string());
            (days, before.until.map(|until| until.to_string()))
        };
        let day = |from: &str, to: &str| [from, to].map(str::to_owned);
        let (read, hour) = ("2026-11-28T15:04:00", Some("15:04:00".to_owned()));
        let today = of("2026-11-28", "2026-11-28", read);
        assert_eq!(today, (day("2026-11-27", "2026-11-27"), hour.clone()));
        let month = of("2026-11-01", "2026-11-28", read);
        assert_eq!(month, (day("2026-10-01", "2026-10-28"), hour.clone()));
        // It was last read a day before its last day.
        let stale = of("2026-11-22", "2026-11-29", read);
        assert_eq!(stale, (day("2026-11-14", "2026-11-20"), hour));
        let over = of("2026-11-26", "2026-11-26", read);
        assert_eq!(over, (day("2026-11-25", "2026-11-25"), None));
    }
}
