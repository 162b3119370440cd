//! The records browser, on only with `show_records = true`: a list with search, filter, sort and
//! pages.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::context::PageContext;
use super::frame::{Frame, pages};
use super::not_shown::NotShown;
use super::reports::{csv, json as json_response};
use super::request::{Query, link, record_link};
use super::text::{moment, shown, zone_name};
use super::words;
use crate::number::whole;
use crate::record::{FoundRecord, Route};
use crate::report::{csv_head, csv_values, json_of, shown as value_shown};
use crate::store::{QueryLimits, QueryRows, Reader, RecordPage};

/// Records on one screen, and in one CSV file.
const SCREEN: u32 = 50;
const MAX_CSV: u32 = 10_000;
const LIMITS: QueryLimits = QueryLimits { time: Duration::from_secs(5), bytes: 16 * 1024 * 1024 };
/// Records that a search shows.
const MAX_FOUND: usize = 50;
/// The columns of the list, those that exist.
const SHOWN: [&str; 9] = [
    "id",
    "name",
    "customer_name",
    "job_number",
    "device_brand",
    "status",
    "amount",
    "created_at",
    "_changed_at",
];

/// The parameters of the list.
const PARAMETERS: [&str; 7] = ["route", "column", "text", "sort", "order", "page", "format"];
/// Those of the list for programs, which finds as well.
const PARAMETERS_JSON: [&str; 7] = ["route", "column", "text", "sort", "order", "page", "q"];

/// Reads what is asked for; a text that says what is wrong with it.
fn asked(query: &Query, limit: u32) -> Result<RecordPage, String> {
    query.choice("format", &["csv"], |format| format)?;
    let route = query.choice("route", &Route::ALL, Route::as_str)?.unwrap_or(Route::Jobs);
    let is_up = query.choice("order", &["up", "down"], |order| order)? == Some("up");
    let contains = query
        .get("text")
        .map(|text| (query.get("column").unwrap_or("status").to_owned(), text.to_owned()));
    let sort = query.get("sort").map(|column| (column.to_owned(), !is_up));
    Ok(RecordPage { route, contains, sort, offset: query.page()? as u32 * SCREEN, limit })
}

/// What is wrong if the list is to be filtered or sorted by a column that the route does not have.
fn allow(page: &RecordPage, columns: &[String]) -> Result<(), String> {
    let RecordPage { route, contains, sort, .. } = page;
    let filter = contains.iter().map(|(column, _)| column);
    let mut named = filter.chain(sort.iter().map(|(column, _)| column));
    let Some(unknown) = named.find(|column| !columns.contains(column)) else { return Ok(()) };
    Err(format!("{route} has no column {unknown:?}; it has: {}.", columns.join(", ")))
}

/// The list as a page, or as CSV with `format=csv`.
pub(super) fn list(
    reader: &mut Reader,
    context: &PageContext,
    query: &Query,
) -> Result<Response, NotShown> {
    query.allow(&PARAMETERS)?;
    let is_csv = query.get("format") == Some("csv");
    // One more than is shown says whether there is another screen.
    let asked = asked(query, if is_csv { MAX_CSV } else { SCREEN + 1 })?;
    let route = asked.route;
    let columns = reader.columns(route)?;
    allow(&asked, &columns)?;
    let rows = reader.browse(&asked, LIMITS)?;
    if is_csv {
        return Ok(csv(route.as_str(), table_csv(&rows)));
    }
    let shown = screen(&asked, query, &columns, &rows, &context.page.zone);
    Ok(Frame::of(&words::list(route), "records").around(context, &shown).into_response())
}

/// The list for programs, which also finds.
pub(super) fn list_json(
    reader: &mut Reader,
    _: &PageContext,
    query: &Query,
) -> Result<Response, NotShown> {
    query.allow(&PARAMETERS_JSON)?;
    if let Some(term) = query.get("q") {
        let found = reader.find(term, None, MAX_FOUND)?.changes.into_iter();
        let found = found.filter_map(|change| FoundRecord::try_from(change).ok());
        return Ok(json_response(&found.collect::<Vec<_>>()));
    }
    let asked = asked(query, SCREEN)?;
    allow(&asked, &reader.columns(asked.route)?)?;
    Ok(json_response(&objects(&reader.browse(&asked, LIMITS)?)))
}

fn objects(rows: &QueryRows) -> Vec<Map<String, Value>> {
    let names = || rows.columns.iter().cloned();
    rows.rows.iter().map(|row| names().zip(row.iter().map(json_of)).collect()).collect()
}

fn table_csv(rows: &QueryRows) -> String {
    let head = csv_head(&rows.columns);
    rows.rows.iter().fold(head, |text, row| text + &csv_values(row))
}

fn screen(
    asked: &RecordPage,
    query: &Query,
    columns: &[String],
    rows: &QueryRows,
    zone: &TimeZone,
) -> Markup {
    let (route, page) = (asked.route, asked.offset / SCREEN);
    let get = |name: &str| query.get(name).unwrap_or_default();
    let given = ["column", "text", "sort", "order"].map(|name| (name, get(name)));
    let given = [&[("route", route.as_str())], &given[..]].concat();
    let as_csv = link("records", &[&given[..], &[("format", "csv")]].concat());
    let choices = |chosen: &str| {
        html! {
            @for name in columns { option value=(name) selected[name == chosen] { (words::field(&shown(name))) } }
        }
    };
    html! {
        section {
            h1 { "Records" }
            form.filter action="records" method="get" {
                label { "List " select name="route" {
                    @for each in Route::ALL { option value=(each.as_str()) selected[each == route] { (words::list(each)) } }
                } }
                label { "Field " select name="column" { (choices(query.get("column").unwrap_or("status"))) } }
                label { "contains " input type="text" name="text" value=(get("text")); }
                label { "Sort by " select name="sort" { option value="" { "last change" } (choices(get("sort"))) } }
                label { "Order " select name="order" {
                    option value="down" { "highest first" }
                    option value="up" selected[get("order") == "up"] { "lowest first" }
                } }
                button { "Show" }
            }
            (listing(route, rows, zone))
            p.note {
                "Times are those of " (zone_name(zone)) ". The filter and the CSV have them in UTC, as they are stored: "
                "near midnight, search for the day in UTC."
            }
            (pages("records", &given, page as usize, rows.rows.len() > SCREEN as usize))
            p.note { a href=(as_csv) { "CSV" } ", at most " (whole(MAX_CSV.into())) " records" }
        }
    }
}

fn listing(route: Route, rows: &QueryRows, zone: &TimeZone) -> Markup {
    let places: Vec<(usize, &str)> = SHOWN
        .iter()
        .filter_map(|name| Some((rows.columns.iter().position(|column| column == name)?, *name)))
        .collect();
    html! {
        @if rows.rows.is_empty() { p { "No record matches." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Table of records" {
                table.report #records {
                    thead { tr { @for (_, name) in &places { th scope="col" { (words::field(name)) } } } }
                    tbody {
                        @for row in rows.rows.iter().take(SCREEN as usize) {
                            tr { @for (index, name) in &places {
                                @let text = value_shown(&row[*index], None);
                                @if *name == "id" {
                                    td { a href=(record_link(route, &text)) { (shown(&text)) } }
                                } @else { td { (moment(&text, zone, "%Y-%m-%d %H:%M")) } }
                            } }
                        }
                    }
                }
            }
        }
    }
}
