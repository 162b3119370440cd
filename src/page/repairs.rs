//! The repairs behind a number of Home, on only with `show_records = true`.

use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use maud::{Markup, html};

use super::StatusPage;
use super::context::PageContext;
use super::frame::{Frame, pages};
use super::not_shown::NotShown;
use super::request::Query;
use super::text::{moment, shown};
use super::titles::Fields;
use crate::number::count;
use crate::record::Route;
use crate::report::{self, ListedRepair, RepairList};
use crate::store::{QueryError, Reader};

/// Repairs on one page.
const SCREEN: usize = 50;

/// One list as a page.
pub(super) fn list(
    reader: &mut Reader,
    context: &PageContext,
    query: &Query,
) -> Result<Response, NotShown> {
    query.allow(&["list", "page"])?;
    let number = query.page()?;
    let list = query.choice("list", &RepairList::ALL, RepairList::as_str)?;
    let list = list.unwrap_or(RepairList::Open);
    let StatusPage { ready_status, zone, .. } = &context.page;
    let found = report::repairs(reader, list, ready_status, zone, Timestamp::now())?;
    let shown = found.iter().skip(number * SCREEN).take(SCREEN);
    let rows = shown.map(|repair| row(&context.page, reader, repair));
    let rows = rows.collect::<Result<Vec<Markup>, QueryError>>()?;
    let page = html! {
        div {
            h1 { (list.title()) }
            p { (count(found.len() as i64, "repair", "repairs")) ". The first taken in come first." }
        }
        section { ul.found { @for row in rows { (row) } } }
        (pages("repairs", &[("list", list.as_str())], number, found.len() > (number + 1) * SCREEN))
    };
    Ok(Frame::of(list.title(), ".").around(context, &page).into_response())
}

fn row(page: &StatusPage, reader: &Reader, repair: &ListedRepair) -> Result<Markup, QueryError> {
    let ListedRepair { id, status, since } = repair;
    let body = reader.current_body(Route::Jobs, id)?.unwrap_or_default();
    let fields = Fields::of(&body, page);
    let due = fields.text("estimated_delivery");
    let note = html! {
        (shown(status.as_deref().unwrap_or("no status")))
        @if let Some(since) = since { " since " (moment(since, &page.zone, "%Y-%m-%d")) }
        @if let Some(due) = due { ", delivery estimated for " (moment(&due, &page.zone, "%Y-%m-%d")) }
    };
    Ok(fields.item(Route::Jobs, id, &fields.title(Route::Jobs, id), &note))
}
