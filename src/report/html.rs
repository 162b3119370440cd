//! An answer as HTML: a part of a page, or a document of its own.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use shopmirror_core::record::Route;

use super::answer::{Answer, NOTHING};
use super::chart::{NARROW, WIDE, svg};
use super::exactness::Exactness;
use super::value::heading;
use crate::text::document;
use crate::text::escape::cut;
use crate::text::first_upper;

/// The longest text of a cell, in characters.
const CELL_MAX: usize = 2_000;
/// For a document of its own, which may load nothing.
const STYLE: &str = "\
:root{color-scheme:light dark}\
body{margin:1rem auto;max-width:60rem;padding:0 1rem;font:1rem/1.45 system-ui,sans-serif}\
table{border-collapse:collapse;width:100%}\
th,td{padding:.25rem .5rem;border-top:1px solid #8a969166;text-align:left;vertical-align:top}\
.number{text-align:right;font-variant-numeric:tabular-nums}\
.day{white-space:nowrap}\
tfoot{font-weight:600}\
.unknown{opacity:.7}\
figure{margin:0}\
svg{width:100%;min-width:36rem;height:auto}\
figure,.scroll{overflow-x:auto}";

/// A document of its own loads nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The chart, the table and the notes. The chart is there twice: drawn for a wide window, and for a
/// phone. A record that a row names by its id is a link.
#[must_use]
pub fn fragment(answer: &Answer, link: impl Fn(Route, &str) -> String) -> Markup {
    html! {
        (figure("chart wide", answer, WIDE))
        (figure("chart narrow", answer, NARROW))
        (table(answer, |route, id| Some(link(route, id))))
    }
}

/// The chart, if the report has one.
fn figure(class: &str, answer: &Answer, width: f64) -> Markup {
    let label = format!(
        "Chart of {}; the table below has its numbers",
        cell(&answer.report.title)
    );
    html! {
        @if let Some(chart) = svg(answer, width) {
            // Every text in it is escaped.
            figure class=(class) tabindex="0" role="img" aria-label=(label) { (PreEscaped(chart)) }
        }
    }
}

/// The table and the notes; a table of days begins with the newest.
fn table(answer: &Answer, link: impl Fn(Route, &str) -> Option<String>) -> Markup {
    let label = format!("Table of {}", cell(&answer.report.title));
    html! {
        @if answer.rows.is_empty() {
            p { (first_upper(NOTHING)) "." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label=(label) {
                table.report {
                    thead { tr {
                        @for (index, column) in answer.columns.iter().enumerate() {
                            th.number[answer.has_numbers(index)] scope="col" dir="auto" {
                                (cell(&heading(column)))
                            }
                        }
                    } }
                    (body(answer, link))
                    @if let Some(totals) = answer.shown_totals() {
                        tfoot { tr {
                            @for (index, total) in totals.iter().enumerate() {
                                td.number[answer.has_numbers(index)] dir="auto" { (cell(total)) }
                            }
                        } }
                    }
                }
            }
        }
        @for note in answer.shown_notes() { p.note dir="auto" { (cell(&first_upper(&note))) "." } }
    }
}

/// The rows; a value that names a record is a link.
fn body(answer: &Answer, link: impl Fn(Route, &str) -> Option<String>) -> Markup {
    let period = answer.period_column();
    let mut rows: Vec<_> = answer.shown_rows().iter().collect();
    if period == Some(0) {
        rows.reverse();
    }
    let address = |column: usize, text: &str| match named_route(&answer.columns[column]) {
        Some(route) if !text.is_empty() => link(route, text),
        _ => None,
    };
    html! {
        tbody {
            @for row in rows {
                tr {
                    @for (index, (value, text)) in row.iter().zip(answer.shown(row)).enumerate() {
                        @let is_unknown = value.exactness == Exactness::Unknown;
                        @let is_day = period == Some(index);
                        td.number[value.is_number()] .unknown[is_unknown] .day[is_day] dir="auto" {
                            @if let Some(address) = address(index, &text) {
                                a href=(address) { (cell(&text)) }
                            } @else {
                                (cell(&text))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The route of whose records a column holds the ids, as `job_id` those of `jobs`.
fn named_route(column: &str) -> Option<Route> {
    let one = column.strip_suffix("_id")?;
    Route::ALL
        .into_iter()
        .find(|route| route.as_str().strip_suffix('s') == Some(one))
}

/// A whole document.
#[must_use]
pub fn document(answer: &Answer) -> String {
    let title = cell(&answer.report.title);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 dir="auto" { (title) }
                p dir="auto" { (cell(&answer.report.about)) }
                p { (cell(&first_upper(&answer.subject()))) }
                (figure("chart", answer, WIDE))
                (table(answer, |_, _| None))
            }
        }
    }
    .into_string()
}

/// Text of a cell. Where it may hold values of records, its element has `dir="auto"`: the text
/// takes the direction of its first letter and turns nothing around it.
fn cell(text: &str) -> String {
    document::lines(&cut(text, CELL_MAX))
}
