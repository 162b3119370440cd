//! What the box at the top of every page finds, on only with `show_records = true`. What belongs to
//! a repair leads to the repair.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::html;
use serde::Deserialize;
use shopmirror_core::record::Route;

use super::context::PageContext;
use super::frame::{framed, pages};
use super::not_shown::NotShown;
use super::text::shown;
use super::titles::listed;
use super::words;
use crate::store::{Found, Reader, RelatedRecord};
use crate::text::number::count;

/// Records that are looked at; a search with more matches says so.
const MAX: usize = 1_000;
/// Records of each list on one page.
const SCREEN: usize = 20;
/// The lists in which records are shown: people, repairs, and records whose repair is not known.
const LISTS: [Route; 6] = [
    Route::Customers,
    Route::Leads,
    Route::Jobs,
    Route::Payments,
    Route::JobStatusChanges,
    Route::OutsourcedJobs,
];

/// What is to be found.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    #[serde(default)]
    q: String,
    #[serde(default)]
    page: u16,
}

/// The page of what was found.
pub(super) fn found(
    reader: &mut Reader,
    context: &PageContext,
    asked: &Asked,
) -> Result<Response, NotShown> {
    if asked.q.is_empty() {
        let text = "Write what to find into the box: a name, a phone number, a repair.";
        return Err(NotShown::new(StatusCode::BAD_REQUEST, text));
    }
    let Found { changes, searched } = reader.find(&asked.q, None, MAX)?;
    let has_more = changes.len() >= MAX;
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
    let before = usize::from(asked.page) * SCREEN;
    let (mut sections, mut has_next) = (Vec::new(), false);
    for list in LISTS {
        let ids: Vec<&String> = found
            .iter()
            .filter(|(route, _)| *route == list)
            .map(|(_, id)| id)
            .collect();
        let mut records = Vec::new();
        for id in ids.iter().skip(before).take(SCREEN) {
            let body = reader.current_body(list, id)?.unwrap_or_default();
            records.push(RelatedRecord {
                id: (*id).clone(),
                body,
            });
        }
        if !records.is_empty() {
            sections.push((
                list,
                ids.len(),
                listed(reader, &context.page, list, &records)?,
            ));
        }
        has_next |= ids.len() > before + SCREEN;
    }
    let title = format!("Found: {}", asked.q);
    let page = html! {
        div {
            h1 { (shown(&title)) }
            @if found.is_empty() {
                p { "Nothing found. Each word must be in the record; the last may be the beginning of a word." }
            }
            @if has_more {
                p { "Only the " (MAX) " records that match and changed last are shown. Add a word to find fewer." }
            }
            @if !searched.is_whole() {
                p.note {
                    "The newest " (count(searched.last_seq - searched.indexed, "change is", "changes are"))
                    " not in the search index yet, so records may be missing here: try again in a minute."
                }
            }
        }
        @for (list, all, records) in &sections {
            section { h2 { (words::list(*list)) " · " (all) } (records) }
        }
        (pages("find", ("q", &asked.q), asked.page, has_next))
    };
    Ok(framed(context, &title, "", &page).into_response())
}
