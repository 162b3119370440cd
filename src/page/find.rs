//! What the box at the top of every page finds, on only with `show_records = true`: people, and repairs
//! with what belongs to them.

use std::collections::BTreeMap;

use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::StatusPage;
use super::context::PageContext;
use super::frame::{Frame, pages};
use super::not_shown::NotShown;
use super::request::Query;
use super::text::shown;
use super::titles::Fields;
use super::words;
use crate::number::count;
use crate::record::{Change, Route};
use crate::store::{Found, QueryError, Reader, StoreError};

/// Records that are looked at; a search with more matches says so.
const MAX: usize = 1_000;
/// People and repairs on one page, each.
const SCREEN: usize = 20;

/// People, or repairs with what belongs to them.
struct Group {
    route: Route,
    id: String,
    /// The text of the record, if it was found itself.
    body: Option<String>,
    /// What else of it was found: how many records of each route.
    also: BTreeMap<Route, usize>,
}

impl Group {
    fn add(&mut self, change: Change) {
        if change.route == self.route && change.record_id.as_deref() == Some(&self.id) {
            self.body = Some(change.body);
            return;
        }
        *self.also.entry(change.route).or_default() += 1;
    }
}

/// The sections of the page with the routes of their groups; the last one is of records whose repair is not known.
const SECTIONS: [(&str, &[Route]); 3] = [
    ("People", &[Route::Customers, Route::Leads]),
    ("Repairs", &[Route::Jobs]),
    ("Other records", &[Route::Payments, Route::JobStatusChanges, Route::OutsourcedJobs]),
];

/// What was found, with the records of a repair below it; the last changed first.
fn grouped(reader: &Reader, changes: Vec<Change>) -> Result<Vec<Group>, StoreError> {
    let mut found: Vec<Group> = Vec::new();
    for change in changes {
        let Some(id) = change.record_id.clone() else { continue };
        let (route, id) = match reader.job_of(change.route, &id)? {
            Some(job) => (Route::Jobs, job),
            None => (change.route, id),
        };
        let known = found.iter().position(|group| group.route == route && group.id == id);
        let place = known.unwrap_or_else(|| {
            found.push(Group { route, id, body: None, also: BTreeMap::new() });
            found.len() - 1
        });
        found[place].add(change);
    }
    Ok(found)
}

/// The page of what was found.
pub(super) fn found(
    reader: &mut Reader,
    context: &PageContext,
    query: &Query,
) -> Result<Response, NotShown> {
    query.allow(&["q", "page"])?;
    let number = query.page()?;
    let Some(term) = query.get("q") else {
        let text = "Write what to find into the box: a name, a phone number, a repair.";
        return Err(text.to_owned().into());
    };
    let Found { changes, searched } = reader.find(term, None, MAX)?;
    let has_more = changes.len() >= MAX;
    let found = grouped(reader, changes)?;
    let (mut sections, mut has_next) = (Vec::new(), false);
    for (title, routes) in SECTIONS {
        let groups: Vec<&Group> =
            found.iter().filter(|group| routes.contains(&group.route)).collect();
        let shown = groups.iter().skip(number * SCREEN).take(SCREEN);
        let rows = shown.map(|group| row(reader, &context.page, group));
        sections.push((title, groups.len(), rows.collect::<Result<Vec<Markup>, _>>()?));
        has_next |= groups.len() > (number + 1) * SCREEN;
    }
    let page = html! {
        div {
            h1 { "Found" }
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
        @for (title, groups, rows) in sections.iter().filter(|(.., rows)| !rows.is_empty()) {
            section {
                h2 { (title) " · " (groups) }
                ul.found { @for row in rows { (row) } }
            }
        }
        (pages("find", &[("q", term)], number, has_next))
    };
    let frame = Frame { term, ..Frame::of("Found", "") };
    Ok(frame.around(context, &page).into_response())
}

fn row(reader: &mut Reader, shop: &StatusPage, group: &Group) -> Result<Markup, QueryError> {
    let Group { route, id, body, also } = group;
    let body = match body {
        Some(body) => Some(body.clone()),
        None => reader.current_body(*route, id)?,
    };
    let body = body.unwrap_or_default();
    let fields = Fields::of(&body, shop);
    let also = also.iter().map(|(route, found)| {
        let (one, many) = words::record(*route);
        count(*found, one, many)
    });
    let also = also.collect::<Vec<_>>().join(", ");
    // A repair says how it stands now.
    let what = match route {
        Route::Jobs => reader.job_state(id)?.and_then(|state| state.status),
        other => Some(words::record(*other).0.to_owned()),
    };
    let about = if *route == Route::Jobs { String::new() } else { fields.about(*route) };
    let with = if also.is_empty() { also } else { format!("with {also}") };
    let note = [what.unwrap_or_default(), about, with];
    let note = note.iter().filter(|part| !part.is_empty()).map(|part| shown(part));
    let note = note.collect::<Vec<_>>().join(" · ");
    Ok(fields.item(*route, id, &fields.title(*route, id), &html! { (note) }))
}
