//! The records of a list, the last changed first, on only with `show_records = true`.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use maud::html;
use serde::Deserialize;
use shopmirror_core::record::Route;

use super::context::PageContext;
use super::frame::{framed, link, pages};
use super::not_shown::NotShown;
use super::reports::download;
use super::titles::listed;
use super::words;
use crate::config::ReportFormat;
use crate::report::{csv_head, csv_values};
use crate::store::{QueryLimits, Reader};
use crate::text::number::whole;

/// Records on one screen, and in one CSV file.
const SCREEN: usize = 50;
const MAX_CSV: i64 = 10_000;
const LIMITS: QueryLimits = QueryLimits {
    time: Duration::from_secs(5),
    bytes: 16 * 1024 * 1024,
};

/// Which list is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    route: Option<Route>,
    #[serde(default)]
    page: u16,
}

/// One screen of a list.
pub(super) fn list(
    reader: &mut Reader,
    context: &PageContext,
    asked: &Asked,
) -> Result<Response, NotShown> {
    let (route, before) = (
        asked.route.unwrap_or(Route::Jobs),
        usize::from(asked.page) * SCREEN,
    );
    // One more than is shown says whether there is another screen.
    let mut records = reader.newest_records(route, before, SCREEN + 1)?;
    let has_next = records.len() > SCREEN;
    records.truncate(SCREEN);
    let of = |route: Route| ("route", route.as_str());
    let page = html! {
        section {
            h1 { "Records" }
            nav.ranges aria-label="List" {
                @for each in Route::ALL {
                    a href=(link("records", &[of(each)])) aria-current=[(each == route).then_some("true")] { (words::list(each)) }
                }
            }
            @if records.is_empty() { p { "There are no more records." } }
            (listed(reader, &context.page, route, &records)?)
            (pages("records", of(route), asked.page, has_next))
            p.note { "The last changed first. " a href=(link("records.csv", &[of(route)])) { "CSV" } ", at most " (whole(MAX_CSV)) " records" }
        }
    };
    Ok(framed(context, &words::list(route), "records", &page).into_response())
}

/// A list with the columns of the mirror as CSV.
pub(super) fn csv(
    reader: &mut Reader,
    _: &PageContext,
    asked: &Asked,
) -> Result<Response, NotShown> {
    let route = asked.route.unwrap_or(Route::Jobs);
    let sql = format!("SELECT * FROM \"{route}\" ORDER BY _seq DESC LIMIT {MAX_CSV}");
    let rows = reader.query(&sql, &[], LIMITS)?;
    let head = csv_head(&rows.columns);
    let text = rows
        .rows
        .iter()
        .fold(head, |text, row| text + &csv_values(row));
    Ok(download(route.as_str(), ReportFormat::Csv, text))
}
