//! The records browser, on only with `show_records = true`: a list with search, filter, sort and
//! pages. What was found is also drawn and written where it is read, which gives way to polls.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::context::PageContext;
use super::frame::{explained, framed};
use super::reports::{csv, json as json_response};
use super::request::{Query, link};
use super::text::{moment, shown, zone_name};
use crate::record::{FoundRecord, Route};
use crate::report::{Guard, csv_text, shown as value_shown};
use crate::store::{Found, QueryError, QueryLimits, QueryRows, Reader, RecordPage, SqlValue};

/// Records on one screen, and in one CSV file.
const SCREEN: u32 = 50;
const CSV_MOST: u32 = 10_000;
const LIMITS: QueryLimits =
    QueryLimits { time: Duration::from_secs(5), rows: CSV_MOST as usize, bytes: 16 * 1024 * 1024 };
/// Records that a search shows.
const FOUND_MOST: usize = 50;
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

/// What the browser is asked for.
struct Asked {
    route: Route,
    page: RecordPage,
}

/// The parameters of the list.
const PARAMETERS: [&str; 8] = ["route", "column", "text", "sort", "order", "page", "format", "q"];

impl Asked {
    /// Reads what is asked for; a text that says what is wrong with it.
    fn of(query: &Query, limit: u32) -> Result<Self, String> {
        if let Some(problem) = query.problem(&PARAMETERS) {
            return Err(problem);
        }
        let one_of = |name: &str, values: &[&str]| match query.get(name) {
            Some(value) if !values.contains(&value) => {
                Err(format!("There is no {name} {value:?}; there are: {}.", values.join(", ")))
            }
            _ => Ok(()),
        };
        one_of("route", &Route::ALL.map(Route::as_str))?;
        one_of("order", &["up", "down"])?;
        one_of("format", &["csv"])?;
        if query.get("page").is_some() && query.number("page").is_none() {
            return Err("The page is a whole number from 0 on.".to_owned());
        }
        let route = query.get("route").and_then(|name| name.parse().ok()).unwrap_or(Route::Jobs);
        let number = query.number("page").unwrap_or(0).min(100_000);
        let contains = query
            .get("text")
            .map(|text| (query.get("column").unwrap_or("status").to_owned(), text.to_owned()));
        let sort =
            query.get("sort").map(|column| (column.to_owned(), query.get("order") != Some("up")));
        let page = RecordPage { route, contains, sort, offset: number * SCREEN, limit };
        Ok(Self { route, page })
    }

    /// What is wrong if the list is to be filtered or sorted by a column that the route does not have.
    fn unknown_column(&self, columns: &[String]) -> Option<String> {
        let RecordPage { contains, sort, .. } = &self.page;
        let filter = contains.iter().map(|(column, _)| column);
        let mut named = filter.chain(sort.iter().map(|(column, _)| column));
        let unknown = named.find(|column| !columns.contains(column))?;
        let route = self.route;
        Some(format!("{route} has no column {unknown:?}; it has: {}.", columns.join(", ")))
    }
}

/// The address asks for something that there is not.
fn refused(context: &PageContext, problem: &str, is_page: bool) -> Response {
    explained(context, StatusCode::BAD_REQUEST, problem, is_page)
}

pub(super) fn hidden(context: &PageContext, is_page: bool) -> Response {
    let text =
        "Records are not shown here: set `show_records = true` in `[status]` of the configuration.";
    explained(context, StatusCode::FORBIDDEN, text, is_page)
}

pub(super) fn failed(context: &PageContext, error: Option<&QueryError>, is_page: bool) -> Response {
    let text = match error {
        Some(error) => format!("The records cannot be listed: {error}."),
        None => "Too many requests are being answered: try again in a few seconds.".to_owned(),
    };
    explained(context, StatusCode::SERVICE_UNAVAILABLE, &text, is_page)
}

/// The list as a page, or as CSV with `format=csv`.
pub(super) async fn list(State(context): State<Arc<PageContext>>, uri: Uri) -> Response {
    if !context.shows_records {
        return hidden(&context, true);
    }
    let query = Query::of(&uri);
    if let Some(problem) = query.problem(&PARAMETERS) {
        return refused(&context, &problem, true);
    }
    if let Some(term) = query.get("q") {
        return found(&context, term).await;
    }
    let is_csv = query.get("format") == Some("csv");
    // One more than is shown says whether there is another screen.
    let asked = match Asked::of(&query, if is_csv { CSV_MOST } else { SCREEN + 1 }) {
        Ok(asked) => asked,
        Err(problem) => return refused(&context, &problem, true),
    };
    let route = asked.route;
    let shared = Arc::clone(&context);
    let made = context.read(move |reader| {
        let columns = match reader.columns(route) {
            Ok(columns) => columns,
            Err(error) => return failed(&shared, Some(&error.into()), true),
        };
        if let Some(problem) = asked.unknown_column(&columns) {
            return refused(&shared, &problem, true);
        }
        match reader.browse(&asked.page, LIMITS).map(|rows| (columns, rows)) {
            Err(error) => failed(&shared, Some(&error), true),
            Ok((_, rows)) if is_csv => csv(route.as_str(), table_csv(&rows)),
            Ok((columns, rows)) => {
                let shown = screen(route, &query, &columns, &rows, &shared.zone);
                framed(&shared, route.as_str(), &shown).into_response()
            }
        }
    });
    made.await.unwrap_or_else(|| failed(&context, None, true))
}

/// What is wrong if a program asks for another format than JSON.
fn no_format(query: &Query) -> Option<String> {
    query.get("format")?;
    Some("The answer is always JSON: leave out format, or ask /records with format=csv.".to_owned())
}

/// The list for programs.
pub(super) async fn list_json(State(context): State<Arc<PageContext>>, uri: Uri) -> Response {
    if !context.shows_records {
        return hidden(&context, false);
    }
    let query = Query::of(&uri);
    if let Some(problem) = query.problem(&PARAMETERS).or_else(|| no_format(&query)) {
        return refused(&context, &problem, false);
    }
    if let Some(term) = query.get("q").map(str::to_owned) {
        let answer = |found: Found| {
            let found =
                found.changes.into_iter().filter_map(|change| FoundRecord::try_from(change).ok());
            json_response(&found.collect::<Vec<_>>())
        };
        return find(&context, term, false, answer).await;
    }
    let asked = match Asked::of(&query, SCREEN) {
        Ok(asked) => asked,
        Err(problem) => return refused(&context, &problem, false),
    };
    let shared = Arc::clone(&context);
    let read = move |reader: &mut Reader| -> Result<Response, QueryError> {
        if let Some(problem) = asked.unknown_column(&reader.columns(asked.route)?) {
            return Ok(refused(&shared, &problem, false));
        }
        Ok(json_response(&objects(&reader.browse(&asked.page, LIMITS)?)))
    };
    match context.read(read).await {
        None => failed(&context, None, false),
        Some(Err(error)) => failed(&context, Some(&error), false),
        Some(Ok(response)) => response,
    }
}

fn objects(rows: &QueryRows) -> Vec<Map<String, Value>> {
    let value = |value: &SqlValue| match value {
        SqlValue::Null => Value::Null,
        SqlValue::Integer(number) => (*number).into(),
        SqlValue::Real(number) => (*number).into(),
        other => value_shown(other, None).into(),
    };
    rows.rows
        .iter()
        .map(|row| rows.columns.iter().cloned().zip(row.iter().map(value)).collect())
        .collect()
}

fn table_csv(rows: &QueryRows) -> String {
    let mut text = String::new();
    let names = rows.columns.iter().map(|name| csv_text(name, Guard::Formulas));
    text.push_str(&names.collect::<Vec<_>>().join(","));
    text.push_str("\r\n");
    for row in &rows.rows {
        let cells = row.iter().map(|value| csv_text(&value_shown(value, None), Guard::Formulas));
        text.push_str(&cells.collect::<Vec<_>>().join(","));
        text.push_str("\r\n");
    }
    text
}

fn screen(
    route: Route,
    query: &Query,
    columns: &[String],
    rows: &QueryRows,
    zone: &TimeZone,
) -> Markup {
    let page = query.number("page").unwrap_or(0);
    let get = |name: &str| query.get(name).unwrap_or_default();
    let (column, text, sort, order) = (get("column"), get("text"), get("sort"), get("order"));
    let address = |page: u32, format: &str| {
        let number = page.to_string();
        let page = if page == 0 { "" } else { &number };
        link(
            "records",
            &[
                ("route", route.as_str()),
                ("column", column),
                ("text", text),
                ("sort", sort),
                ("order", order),
                ("page", page),
                ("format", format),
            ],
        )
    };
    let choices = |chosen: &str| {
        html! {
            @for name in columns { option value=(name) selected[name == chosen] { (shown(name)) } }
        }
    };
    html! {
        section {
            h2 { "Records" }
            form.filter action="records" method="get" role="search" {
                label { "Find in all records " input type="search" name="q"; }
                button { "Find" }
            }
            form.filter action="records" method="get" {
                label { "Route " select name="route" {
                    @for each in Route::ALL { option value=(each.as_str()) selected[each == route] { (each.as_str()) } }
                } }
                label { "Column " select name="column" { (choices(if column.is_empty() { "status" } else { column })) } }
                label { "contains " input type="text" name="text" value=(text); }
                label { "Sort by " select name="sort" { option value="" { "last change" } (choices(sort)) } }
                label { "Order " select name="order" {
                    option value="down" { "highest first" }
                    option value="up" selected[order == "up"] { "lowest first" }
                } }
                button { "Show" }
            }
            (listing(route, rows, zone))
            p.note {
                "Times are those of " (zone_name(zone)) ". The filter and the CSV have them in UTC, as they are stored: "
                "near midnight, search for the day in UTC."
            }
            p.note {
                @if page > 0 { a rel="prev" href=(address(page - 1, "")) { "Previous page" } " " }
                @if rows.rows.len() > SCREEN as usize { a rel="next" href=(address(page + 1, "")) { "Next page" } " " }
                a href=(address(0, "csv")) { "CSV" }
            }
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
                    thead { tr { @for (_, name) in &places { th scope="col" { (name) } } } }
                    tbody {
                        @for row in rows.rows.iter().take(SCREEN as usize) {
                            tr { @for (index, name) in &places {
                                @let text = value_shown(&row[*index], None);
                                @if *name == "id" {
                                    td { a href=(link("record", &[("route", route.as_str()), ("id", &text)])) { (shown(&text)) } }
                                } @else { td { (moment(&text, zone, "%Y-%m-%d %H:%M")) } }
                            } }
                        }
                    }
                }
            }
        }
    }
}

/// The answer made of the records that hold every word of a term.
async fn find<F>(context: &PageContext, term: String, is_page: bool, answer: F) -> Response
where
    F: FnOnce(Found) -> Response + Send + 'static,
{
    match context.read(move |reader| reader.find(&term, None, FOUND_MOST).map(answer)).await {
        None => failed(context, None, is_page),
        Some(Ok(response)) => response,
        Some(Err(error)) => failed(context, Some(&error.into()), is_page),
    }
}

async fn found(context: &Arc<PageContext>, term: &str) -> Response {
    let (shared, asked) = (Arc::clone(context), term.to_owned());
    let answer =
        move |found: Found| framed(&shared, "Found", &found_page(&asked, &found)).into_response();
    find(context, term.to_owned(), true, answer).await
}

fn found_page(term: &str, Found { changes, searched }: &Found) -> Markup {
    html! {
        section {
            h2 { "Found" }
            form.filter action="records" method="get" role="search" {
                label { "Find in all records " input type="search" name="q" value=(term); }
                button { "Find" }
            }
            @if !searched.is_whole() {
                p.note {
                    "Changes " (searched.indexed + 1) " to " (searched.last_seq) " are not in the search index yet, "
                    "so records may be missing here: try again in a minute."
                }
            }
            @if changes.is_empty() { p { "Nothing found." } } @else {
                div.scroll tabindex="0" role="region" aria-label="Table of what was found" {
                    table.report #found {
                        thead { tr { th scope="col" { "route" } th scope="col" { "id" } th scope="col" { "record" } } }
                        tbody { @for change in changes {
                            @let id = change.record_id.as_deref().unwrap_or_default();
                            tr {
                                td { (change.route.as_str()) }
                                td { a href=(link("record", &[("route", change.route.as_str()), ("id", id)])) { (shown(id)) } }
                                td { (shown(&summary(&change.body))) }
                            }
                        } }
                    }
                }
            }
        }
    }
}

/// The texts of a record by which a person recognises it.
fn summary(body: &str) -> String {
    let record: Map<String, Value> = serde_json::from_str(body).unwrap_or_default();
    let texts = [
        "name",
        "customer_name",
        "job_number",
        "device_brand",
        "device_model",
        "status",
        "mobile_number",
        "email",
    ];
    let texts = texts.iter().filter_map(|name| record.get(*name)?.as_str());
    texts.collect::<Vec<_>>().join(" · ")
}
