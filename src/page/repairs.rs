//! The repairs behind a number of Home, on only with `show_records = true`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use maud::{Markup, html};

use super::context::PageContext;
use super::frame::{Frame, Tab, explained};
use super::records::{failed, hidden};
use super::request::{Query, link};
use super::text::{count, moment, shown};
use super::titles::Fields;
use crate::record::Route;
use crate::report::{self, ListedRepair, RepairList};
use crate::store::{QueryError, Reader};

/// Repairs on one page.
const SCREEN: usize = 50;
/// The lists by their names in addresses.
const LISTS: [(&str, &str, RepairList); 6] = [
    ("open", "Open repairs", RepairList::Open),
    ("overdue", "Overdue repairs", RepairList::Overdue),
    ("ready", "Ready for pickup", RepairList::Ready),
    ("ready-long", "Ready for pickup for more than 14 days", RepairList::ReadyLong),
    ("open-long", "Open for more than 30 days", RepairList::OpenLong),
    ("unpaid", "Unpaid, completed in the last 90 days", RepairList::Unpaid),
];

/// One list as a page.
pub(super) async fn list(State(context): State<Arc<PageContext>>, uri: Uri) -> Response {
    if !context.shows_records {
        return hidden(&context, true);
    }
    let query = Query::of(&uri);
    let asked = query.get("list").unwrap_or("open");
    let problem = query.problem(&["list", "page"]).or_else(|| {
        let names = LISTS.map(|(name, ..)| name).join(", ");
        let is_known = LISTS.iter().any(|(name, ..)| *name == asked);
        (!is_known).then(|| format!("There is no list {asked:?}; there are: {names}."))
    });
    let number = query.page();
    let (Some(number), None) = (number, &problem) else {
        let text = problem.unwrap_or_else(|| "The page is a whole number from 0 on.".to_owned());
        return explained(&context, StatusCode::BAD_REQUEST, &text, true);
    };
    let Some((name, title, list)) = LISTS.into_iter().find(|(name, ..)| *name == asked) else {
        return explained(&context, StatusCode::NOT_FOUND, "There is no such list.", true);
    };
    let shared = Arc::clone(&context);
    let made = context.read(move |reader| {
        let now = Timestamp::now();
        let found = report::repairs(reader, list, &shared.ready_status, &shared.zone, now);
        let page = found.and_then(|found| {
            let first = number * SCREEN;
            let rows: Result<Vec<Markup>, QueryError> = found
                .iter()
                .skip(first)
                .take(SCREEN)
                .map(|repair| row(&shared, reader, repair))
                .collect();
            let order = match list {
                RepairList::Unpaid => "Those that were completed last come first.",
                _ => "Those that are longest in their status come first.",
            };
            let address = |number: usize| {
                let page = number.to_string();
                link("repairs", &[("list", name), ("page", if number == 0 { "" } else { &page })])
            };
            Ok(html! {
                div {
                    h1 { (title) }
                    p { (count(found.len() as i64, "repair", "repairs")) ". " (order) }
                }
                section { ul.found { @for row in rows? { (row) } } }
                p.pages {
                    @if number > 0 { a rel="prev" href=(address(number - 1)) { "Previous page" } }
                    @if found.len() > first + SCREEN { a rel="next" href=(address(number + 1)) { "Next page" } }
                }
            })
        });
        match page {
            Ok(page) => Frame::of(title, Tab::Home).around(&shared, &page).into_response(),
            Err(error) => failed(&shared, Some(&error), true),
        }
    });
    made.await.unwrap_or_else(|| failed(&context, None, true))
}

fn row(
    context: &PageContext,
    reader: &Reader,
    repair: &ListedRepair,
) -> Result<Markup, QueryError> {
    let ListedRepair { id, status, since } = repair;
    let body = reader.current_body(Route::Jobs, id)?.unwrap_or_default();
    let fields = Fields::of(&body);
    let due = fields.text("estimated_delivery");
    Ok(html! {
        li {
            a href=(link("record", &[("route", Route::Jobs.as_str()), ("id", id)])) { (fields.title(Route::Jobs, id)) }
            span.note {
                (shown(status.as_deref().unwrap_or("no status")))
                @if let Some(since) = since { " since " (moment(since, &context.zone, "%Y-%m-%d")) }
                @if let Some(due) = due { ", delivery estimated for " (moment(&due, &context.zone, "%Y-%m-%d")) }
            }
            span.when { (fields.created(&context.zone)) }
        }
    })
}
