//! The results of the search box at the top of every page, on only with `show_records = true`. A
//! match that belongs to a repair leads to the repair.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::html;
use serde::Deserialize;
use shopmirror_core::record::{Change, FoundRecord, Route};

use super::StatusPage;
use super::context::PageContext;
use super::frame::{framed, pages};
use super::not_shown::NotShown;
use super::respond::DataFormat;
use super::text::{list_title, shown};
use super::titles::{RecordFields, listed};
use super::viewer::Viewer;
use crate::store::{Found, Reader, RelatedRecord};
use crate::text::number::count;

/// The most matches that are read; the page says if there are more.
const MAX: usize = 1_000;
/// Records of each list on one page.
const PAGE_SIZE: usize = 20;
/// The lists in which records are shown: people, repairs, and records whose repair is not known.
const LISTS: [Route; 6] = [
    Route::Customers,
    Route::Leads,
    Route::Jobs,
    Route::Payments,
    Route::JobStatusChanges,
    Route::OutsourcedJobs,
];

/// The query of a search.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FindQuery {
    #[serde(default)]
    q: String,
    #[serde(default)]
    page: u16,
    format: Option<DataFormat>,
}

/// The page with the results.
pub(super) fn found(
    reader: &mut Reader,
    context: &PageContext,
    viewer: &Viewer,
    query: &FindQuery,
) -> Result<Response, NotShown> {
    if query.q.is_empty() {
        let text = "Write what to find into the box: a name, a phone number, a repair.";
        return Err(NotShown::new(StatusCode::BAD_REQUEST, text));
    }
    let Found {
        mut changes,
        searched,
    } = reader.find(&query.q, None, MAX)?;
    let has_more = changes.len() >= MAX;
    if !viewer.rights.shows_all() {
        changes.retain(|change| is_found_in_shown(change, &query.q, &context.page, viewer));
    }
    if query.format == Some(DataFormat::Json) {
        viewer.rights.need_all()?;
        let before = usize::from(query.page) * PAGE_SIZE;
        let records = found_records(changes.into_iter().skip(before).take(PAGE_SIZE))?;
        return Ok(Json(records).into_response());
    }
    let mut found: Vec<(Route, String)> = Vec::new();
    for change in changes {
        let Some(id) = change.record_id else { continue };
        let one = match reader.job_of(change.route, &id)? {
            Some(job) => (Route::Jobs, job),
            None => (change.route, id),
        };
        if !found.contains(&one) {
            found.push(one);
        }
    }
    let before = usize::from(query.page) * PAGE_SIZE;
    let mut sections = Vec::new();
    let mut has_next = false;
    for list in LISTS {
        let mut ids = Vec::new();
        for (route, id) in &found {
            if *route == list {
                ids.push(id);
            }
        }
        let mut records = Vec::new();
        for &id in ids.iter().skip(before).take(PAGE_SIZE) {
            records.push(RelatedRecord {
                id: id.clone(),
                body: reader.current_body(list, id)?.unwrap_or_default(),
            });
        }
        if !records.is_empty() {
            let records = listed(reader, &context.page, viewer, list, &records)?;
            sections.push((list, ids.len(), records));
        }
        has_next |= ids.len() > before + PAGE_SIZE;
    }
    let title = format!("Found: {}", query.q);
    let unindexed = searched.last_seq - searched.indexed;
    let page = html! {
        div {
            h1 dir="auto" { (shown(&title)) }
            @if found.is_empty() {
                p {
                    "Nothing found. Each word must be in the record; the last may be the beginning "
                    "of a word."
                }
            }
            @if has_more {
                p {
                    "Only the " (MAX) " records that match and changed last are shown. Add a word "
                    "to find fewer."
                }
            }
            @if !searched.is_whole() {
                p.note {
                    "The newest " (count(unindexed, "change is", "changes are"))
                    " not in the search index yet, so records may be missing here: try again in a "
                    "minute."
                }
            }
        }
        @for (list, all, records) in &sections {
            section { h2 { (list_title(*list)) " · " (all) } (records) }
        }
        (pages("find", ("q", &query.q), query.page, has_next))
    };
    Ok(framed(context, viewer, &title, "", &page).into_response())
}

/// Whether each word of a search is in a field that the reader may see: the index has the words of
/// all fields.
fn is_found_in_shown(change: &Change, words: &str, page: &StatusPage, viewer: &Viewer) -> bool {
    if !viewer.rights.shows_route(change.route) {
        return false;
    }
    let fields = RecordFields::parse(&change.body, page, viewer);
    let text = fields.all_texts().to_lowercase();
    let words = words.to_lowercase();
    words.split_whitespace().all(|word| text.contains(word))
}

/// Records in their latest state for programs.
pub(super) fn found_records(
    changes: impl IntoIterator<Item = Change>,
) -> Result<Vec<FoundRecord>, NotShown> {
    let mut records = Vec::new();
    for change in changes {
        let Ok(record) = FoundRecord::try_from(change) else {
            let text = "A record of the mirror is no JSON: run `shopmirror verify`.";
            return Err(NotShown::new(StatusCode::INTERNAL_SERVER_ERROR, text));
        };
        records.push(record);
    }
    Ok(records)
}
