//! The records of a list, the last changed first, on only with `show_records = true`.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use maud::html;
use serde::Deserialize;
use shopmirror_core::record::Route;

use super::context::PageContext;
use super::frame::{framed, link, marked, pages};
use super::not_shown::NotShown;
use super::reports::download;
use super::text::list_title;
use super::titles::listed;
use crate::config::ReportFormat;
use crate::report::{RecordSheet, RecordsBook, csv_head, csv_values};
use crate::store::{QueryLimits, QueryRows, Reader};
use crate::text::number::whole;

/// Records on one page, and in one file.
const PAGE_SIZE: usize = 50;
const MAX_FILE: i64 = 10_000;
const LIMITS: QueryLimits = QueryLimits {
    time: Duration::from_secs(5),
    bytes: 48 * 1024 * 1024,
    value_bytes: 16 * 1024 * 1024,
};

/// The query of a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordsQuery {
    route: Option<Route>,
    #[serde(default)]
    page: u16,
}

/// One page of a list.
pub(super) fn list(
    reader: &mut Reader,
    context: &PageContext,
    query: &RecordsQuery,
) -> Result<Response, NotShown> {
    let route = query.route.unwrap_or(Route::Jobs);
    let before = usize::from(query.page) * PAGE_SIZE;
    // One record more than is shown: it shows whether there is another page.
    let mut records = reader.newest_records(route, before, PAGE_SIZE + 1)?;
    let has_next = records.len() > PAGE_SIZE;
    records.truncate(PAGE_SIZE);
    let parameter = ("route", route.as_str());
    let page = html! {
        section {
            h1 { "Records" }
            nav.ranges aria-label="List" {
                @for each in Route::ALL {
                    @let address = link("records", &[("route", each.as_str())]);
                    @let current = marked(each == route, "true");
                    a href=(address) aria-current=[current] { (list_title(each)) }
                }
            }
            @if records.is_empty() { p { "There are no more records." } }
            (listed(reader, &context.page, route, &records)?)
            (pages("records", parameter, query.page, has_next))
            p.note {
                "The last changed first. "
                a href=(link("records.xlsx", &[parameter])) { "Excel" } ", "
                a href=(link("records.csv", &[parameter])) { "CSV" }
                ", at most " (whole(MAX_FILE)) " records"
            }
        }
    };
    Ok(framed(context, &list_title(route), "records", &page).into_response())
}

/// A list with the columns of the mirror as CSV.
pub(super) fn csv(
    reader: &mut Reader,
    _: &PageContext,
    query: &RecordsQuery,
) -> Result<Response, NotShown> {
    let route = query.route.unwrap_or(Route::Jobs);
    let rows = newest(reader, route)?;
    let mut text = csv_head(&rows.columns);
    for row in &rows.rows {
        text += &csv_values(row);
    }
    let bytes = text.into_bytes();
    Ok(download(route.as_str(), ReportFormat::Csv, bytes))
}

/// A list as an Excel file.
pub(super) fn excel(
    reader: &mut Reader,
    context: &PageContext,
    query: &RecordsQuery,
) -> Result<Response, NotShown> {
    let route = query.route.unwrap_or(Route::Jobs);
    let rows = newest(reader, route)?;
    let mut book = RecordsBook::new(&RecordSheet {
        route,
        columns: &rows.columns,
        fields: &reader.field_columns(route)?,
        zone: &context.page.zone,
        currency: context.page.reports.currency.as_deref(),
        made_at: Timestamp::now(),
    })?;
    for row in &rows.rows {
        book.add(row)?;
    }
    let mut note = None;
    if rows.rows.len() as i64 == MAX_FILE {
        let most = whole(MAX_FILE);
        note = Some(format!("These are the {most} records that changed last"));
    }
    let bytes = book.finish(note)?;
    Ok(download(route.as_str(), ReportFormat::Xlsx, bytes))
}

/// The rows of a file, the last changed first.
fn newest(reader: &mut Reader, route: Route) -> Result<QueryRows, NotShown> {
    let sql = format!("SELECT * FROM \"{route}\" ORDER BY _seq DESC LIMIT {MAX_FILE}");
    Ok(reader.query(&sql, &[], LIMITS)?)
}
