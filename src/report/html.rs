//! An answer as HTML: a part of a page, or a document of its own.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use shopmirror_core::record::Route;

use super::answer::{Answer, NOTHING};
use super::chart::{NARROW, WIDE, svg};
use super::exactness::{Cell, Exactness};
use super::links::{NoLinks, TableLinks};
use super::value::{heading, shown};
use crate::text::document;
use crate::text::escape::cut;
use crate::text::first_upper;

/// How dark a cell of a map can be; the style of the page has a class for each.
const SHADES: f64 = 5.0;
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
/// phone.
#[must_use]
pub fn fragment(answer: &Answer, links: &impl TableLinks) -> Markup {
    html! {
        (figure("chart wide", answer, WIDE, links))
        (figure("chart narrow", answer, NARROW, links))
        (table(answer, links))
    }
}

/// The chart, if the report has one.
fn figure(class: &str, answer: &Answer, width: f64, links: &impl TableLinks) -> Markup {
    let label = format!(
        "Chart of {}; the table below has its numbers",
        cell(&answer.report.title)
    );
    html! {
        @if let Some(chart) = svg(answer, width, links) {
            // Every text in it is escaped.
            figure class=(class) tabindex="0" role="group" aria-label=(label) { (PreEscaped(chart)) }
        }
    }
}

/// The table and the notes; a table of days begins with the newest.
fn table(answer: &Answer, links: &impl TableLinks) -> Markup {
    let label = format!("Table of {}", cell(&answer.report.title));
    let columns = shown_columns(answer);
    html! {
        @if answer.rows.is_empty() {
            p { (first_upper(NOTHING)) "." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label=(label) {
                table.report.list[answer.report.is_list] role="table" {
                    thead role="rowgroup" { tr role="row" { @for &column in &columns { (head(answer, column, links)) } } }
                    (body(answer, &columns, links))
                    @if let Some(totals) = answer.shown_totals() {
                        tfoot role="rowgroup" { tr role="row" {
                            @for &column in &columns {
                                @let label = heading(&answer.columns[column]);
                                td.number[answer.has_numbers(column)] role="cell" data-label=(label)
                                    dir="auto"
                                {
                                    (cell(&totals[column]))
                                }
                            }
                        } }
                    }
                }
            }
        }
        @for note in answer.shown_notes() { p.note dir="auto" { (cell(&first_upper(&note))) "." } }
    }
}

/// The head of a column, by which the table can be sorted.
fn head(answer: &Answer, column: usize, links: &impl TableLinks) -> Markup {
    let name = &answer.columns[column];
    let title = cell(&heading(name));
    let order = match &answer.listed.query.sort {
        Some(sort) if sort.column == *name && sort.is_descending => Some("descending"),
        Some(sort) if sort.column == *name => Some("ascending"),
        _ => None,
    };
    html! {
        th.number[answer.has_numbers(column)] role="columnheader" scope="col" dir="auto"
            aria-sort=[order]
        {
            @match links.sorted(name) {
                Some(address) => a href=(address) { (title) },
                None => (title),
            }
        }
    }
}

/// The columns that a page shows: all, but an id beside the name by which people know the record.
#[must_use]
pub fn shown_columns(answer: &Answer) -> Vec<usize> {
    let mut shown = Vec::with_capacity(answer.columns.len());
    for (index, column) in answer.columns.iter().enumerate() {
        let is_beside_name = match named_route(column) {
            Some(route) => name_column(answer, route).is_some(),
            None => false,
        };
        if !is_beside_name {
            shown.push(index);
        }
    }
    shown
}

/// The column with the name by which people know the records of a route.
fn name_column(answer: &Answer, route: Route) -> Option<usize> {
    let name = match route {
        Route::Jobs => "job_number",
        Route::Leads | Route::Customers => "name",
        _ => return None,
    };
    answer.columns.iter().position(|column| column == name)
}

/// The rows; the name or the id of a record is a link to it.
fn body(answer: &Answer, columns: &[usize], links: &impl TableLinks) -> Markup {
    let mut rows: Vec<_> = answer.shown_rows().iter().collect();
    if answer.period_column() == Some(0) && answer.listed.query.sort.is_none() {
        rows.reverse();
    }
    let darkest = answer.highest_shaded();
    html! {
        tbody role="rowgroup" {
            @for row in rows {
                tr role="row" {
                    @for &column in columns { (one_cell(answer, row, column, darkest, links)) }
                }
            }
        }
    }
}

fn one_cell(
    answer: &Answer,
    row: &[Cell],
    column: usize,
    darkest: f64,
    links: &impl TableLinks,
) -> Markup {
    let value = &row[column];
    let mut text = cell(&answer.shown_cell(row, column));
    let record = record_of(answer, row, column);
    let address = match &record {
        Some((route, id)) => links.record(*route, id),
        None => links.rows_behind(row, column),
    };
    if let Some((_, id)) = record
        && text.is_empty()
    {
        text = cell(&id);
    }
    let label = heading(&answer.columns[column]);
    html! {
        td class=(class_of(answer, value, column, darkest)) role="cell" data-label=(label) dir="auto" {
            @match address {
                Some(address) => a href=(address) { (text) },
                None => (text),
            }
        }
    }
}

/// How a cell looks: numbers stand to the right, and those of a map are the darker the more they
/// count, up to `darkest`.
fn class_of(answer: &Answer, value: &Cell, column: usize, darkest: f64) -> String {
    let mut classes = Vec::new();
    if value.is_number() {
        classes.push("number".to_owned());
    }
    if value.exactness == Exactness::Unknown {
        classes.push("unknown".to_owned());
    }
    if answer.period_column() == Some(column) {
        classes.push("day".to_owned());
    }
    if answer.report.is_shaded(&answer.columns[column])
        && let Some(number) = value.number()
    {
        let share = number / darkest.max(1.0);
        let shade = (share * SHADES).ceil();
        if shade >= 1.0 {
            classes.push(format!("shade-{shade}"));
        }
    }
    classes.join(" ")
}

/// The record to which a cell leads: the one of its id, or the one that it is the name of.
fn record_of(answer: &Answer, row: &[Cell], column: usize) -> Option<(Route, String)> {
    for (index, name) in answer.columns.iter().enumerate() {
        let Some(route) = named_route(name) else {
            continue;
        };
        let id = shown(&row[index].value, None);
        let leading = name_column(answer, route).unwrap_or(index);
        if leading == column && !id.is_empty() {
            return Some((route, id));
        }
    }
    None
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
                (figure("chart", answer, WIDE, &NoLinks))
                (table(answer, &NoLinks))
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
