//! Every record of the workspace, newest last, with all of its versions.
//!
//! Owns ids, order, versions and rendered pages; does not know how records come about. A record
//! is rendered once a version and a page once a generation of its route, so that reading costs a
//! look-up. Nothing is ever removed, because nothing on the service's API deletes.

use std::collections::{BTreeMap, HashMap};

use axum::body::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::fields::Fields;
use super::formats::DateFormats;
use super::route::Route;

/// Records of one route after which the shop stops growing by itself.
pub(super) const MAX_RECORDS: usize = 1_000_000;
/// Rendered pages kept a route; more limits and businesses than this are rendered each time.
const MAX_PAGES: usize = 64;

/// One version of a record, for the ground truth.
#[derive(Debug, Clone, Serialize)]
pub struct Version {
    /// Counted from 1.
    pub version: usize,
    /// The id exactly as this version was sent.
    pub id: Value,
    /// The sandbox's clock when the version came about.
    pub at: String,
    /// Names of the fields that differ from the version before; empty for the first.
    pub changed: Vec<String>,
}

/// One record with its history, as `GET /_sandbox/truth` tells it.
#[derive(Debug, Clone, Serialize)]
pub struct Truth {
    /// The id as it is sent now.
    pub id: Value,
    /// The business whose reads show the record.
    pub business: i64,
    /// How many versions there have been.
    pub versions: usize,
    /// Each version, oldest first.
    pub history: Vec<Version>,
    /// The record's present JSON text.
    pub record: Box<RawValue>,
}

/// Why a record could not be added or edited.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The id given for a new record is taken.
    #[error("{route} already has a record with id {id}; edit it, or choose another id")]
    Taken {
        /// The route.
        route: Route,
        /// The id as text.
        id: String,
    },
    /// There is no record to edit.
    #[error("{route} has no record with id {id}; GET /_sandbox/truth lists those there are")]
    Unknown {
        /// The route.
        route: Route,
        /// The id as text.
        id: String,
    },
    /// The id is neither an integer nor a string, or an edit tries to change it.
    #[error("an id is an integer or a string, and stays as it was given")]
    Id,
}

/// A record's index in its route's list; it never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row(usize);

struct Entry {
    id: Value,
    business: i64,
    fields: Fields,
    history: Vec<Version>,
    text: Option<Bytes>,
}

#[derive(Default)]
struct List {
    entries: Vec<Entry>,
    by_id: HashMap<String, usize>,
    by_business: BTreeMap<i64, Vec<usize>>,
    next_id: u64,
    pages: HashMap<(i64, usize), Bytes>,
}

/// All six lists.
pub(super) struct Records {
    lists: [List; 6],
    date_formats: DateFormats,
    string_ids: bool,
    by_change: bool,
}

fn plain(id: &Value) -> Option<String> {
    match id {
        Value::Number(number) if number.is_u64() || number.is_i64() => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

impl Records {
    /// Empty lists whose ids start at `first_ids`, one for each route.
    pub(super) fn new(first_ids: [u64; 6], date_formats: DateFormats) -> Self {
        let lists = first_ids.map(|next_id| List {
            next_id,
            ..List::default()
        });
        Self {
            lists,
            date_formats,
            string_ids: false,
            by_change: false,
        }
    }

    /// Adds a record under the next id of its route.
    pub(super) fn create(
        &mut self,
        route: Route,
        business: i64,
        fields: Fields,
        at: Timestamp,
    ) -> Row {
        let list = &self.lists[route.index()];
        let mut id = list.next_id;
        while list.by_id.contains_key(&id.to_string()) {
            id += 1;
        }
        self.lists[route.index()].next_id = id + 1;
        self.insert(route, business, id.into(), fields, at)
    }

    /// Adds a record under an id of the caller's choice.
    pub(super) fn create_as(
        &mut self,
        route: Route,
        business: i64,
        id: Value,
        fields: Fields,
        at: Timestamp,
    ) -> Result<Row, RecordError> {
        self.free(route, &id)?;
        Ok(self.insert(route, business, id, fields, at))
    }

    /// Refuses an id that is taken or invalid.
    pub(super) fn free(&self, route: Route, id: &Value) -> Result<(), RecordError> {
        let key = plain(id).ok_or(RecordError::Id)?;
        if self.lists[route.index()].by_id.contains_key(&key) {
            return Err(RecordError::Taken { route, id: key });
        }
        Ok(())
    }

    fn insert(
        &mut self,
        route: Route,
        business: i64,
        id: Value,
        fields: Fields,
        at: Timestamp,
    ) -> Row {
        let sent = self.sent(&id);
        let list = &mut self.lists[route.index()];
        let index = list.entries.len();
        list.by_id.insert(plain(&id).unwrap_or_default(), index);
        list.by_business.entry(business).or_default().push(index);
        let first = Version {
            version: 1,
            id: sent,
            at: format!("{at:.6}"),
            changed: Vec::new(),
        };
        list.entries.push(Entry {
            id,
            business,
            fields,
            history: vec![first],
            text: None,
        });
        list.pages.clear();
        Row(index)
    }

    /// Changes fields of a record; a change that changes nothing makes no version.
    pub(super) fn edit(
        &mut self,
        route: Route,
        row: Row,
        changes: Map<String, Value>,
        at: Timestamp,
    ) {
        let sent = self.sent(&self.lists[route.index()].entries[row.0].id);
        let list = &mut self.lists[route.index()];
        let entry = &mut list.entries[row.0];
        let changed = entry.fields.merge(changes);
        if changed.is_empty() {
            return;
        }
        let version = entry.history.len() + 1;
        let business = entry.business;
        entry.history.push(Version {
            version,
            id: sent,
            at: format!("{at:.6}"),
            changed,
        });
        entry.text = None;
        list.pages.clear();
        if let Some(rows) = list
            .by_business
            .get_mut(&business)
            .filter(|_| self.by_change)
        {
            // Recent records change most, so the place is near the end.
            if let Some(at) = rows.iter().rposition(|index| *index == row.0) {
                rows[at..].rotate_left(1);
            }
        }
    }

    /// Lists records newest first by their last change from now on, or by creation again.
    pub(super) fn list_by_last_change(&mut self, yes: bool) {
        self.by_change = yes;
        for list in &mut self.lists {
            list.pages.clear();
            if !yes {
                list.by_business
                    .values_mut()
                    .for_each(|rows| rows.sort_unstable());
            }
        }
    }

    /// The row of an id given as an integer or a string.
    pub(super) fn find(&self, route: Route, id: &Value) -> Result<Row, RecordError> {
        let key = plain(id).ok_or(RecordError::Id)?;
        let row = self.lists[route.index()].by_id.get(&key).copied().map(Row);
        row.ok_or(RecordError::Unknown { route, id: key })
    }

    pub(super) fn id(&self, route: Route, row: Row) -> Value {
        self.sent(&self.lists[route.index()].entries[row.0].id)
    }

    /// The business of a record and its fields.
    pub(super) fn get(&self, route: Route, row: Row) -> (i64, &Fields) {
        let entry = &self.lists[route.index()].entries[row.0];
        (entry.business, &entry.fields)
    }

    pub(super) fn len(&self, route: Route) -> usize {
        self.lists[route.index()].entries.len()
    }

    /// An id in the form that answers show: an integer, or a string once ids are strings.
    pub(super) fn sent(&self, id: &Value) -> Value {
        match id {
            Value::Number(number) if self.string_ids => Value::String(number.to_string()),
            other => other.clone(),
        }
    }

    /// Sends integer ids as strings from now on, or as integers again. No record changes by it.
    pub(super) fn send_ids_as_strings(&mut self, yes: bool) {
        self.string_ids = yes;
        for list in &mut self.lists {
            list.pages.clear();
            for entry in &mut list.entries {
                entry.text = None;
            }
        }
    }

    fn text(&mut self, route: Route, index: usize) -> Bytes {
        let id = self.sent(&self.lists[route.index()].entries[index].id);
        let entry = &mut self.lists[route.index()].entries[index];
        entry
            .text
            .get_or_insert_with(|| Bytes::from(entry.fields.render(&id, &self.date_formats)))
            .clone()
    }

    /// The newest `limit` records of a business as one JSON array.
    pub(super) fn page(&mut self, route: Route, business: i64, limit: usize) -> Bytes {
        if let Some(page) = self.lists[route.index()].pages.get(&(business, limit)) {
            return page.clone();
        }
        let newest: Vec<usize> = self.newest(route, business).take(limit).collect();
        let page = self.array(route, &newest);
        let pages = &mut self.lists[route.index()].pages;
        if pages.len() < MAX_PAGES {
            pages.insert((business, limit), page.clone());
        }
        page
    }

    fn newest(&self, route: Route, business: i64) -> impl Iterator<Item = usize> {
        let rows = self.lists[route.index()].by_business.get(&business);
        rows.into_iter().flat_map(|rows| rows.iter().rev().copied())
    }

    fn array(&mut self, route: Route, indices: &[usize]) -> Bytes {
        let mut page = Vec::with_capacity(2 + indices.len() * 640);
        page.push(b'[');
        for (nth, index) in indices.iter().enumerate() {
            if nth > 0 {
                page.push(b',');
            }
            page.extend_from_slice(&self.text(route, *index));
        }
        page.push(b']');
        page.into()
    }

    /// The newest `most` records of which one of `names` contains `term`, in any case.
    pub(super) fn search(
        &mut self,
        route: Route,
        business: i64,
        names: &[&str],
        term: &str,
        most: usize,
    ) -> Bytes {
        let term = term.to_lowercase();
        let entries = &self.lists[route.index()].entries;
        let matching = |index: &usize| {
            let fields = &entries[*index].fields;
            names
                .iter()
                .any(|name| fields.text(name).to_lowercase().contains(&term))
        };
        let found: Vec<usize> = self
            .newest(route, business)
            .filter(matching)
            .take(most)
            .collect();
        self.array(route, &found)
    }

    /// The integer id of the newest record that fits, in any business.
    pub(super) fn find_newest(
        &self,
        route: Route,
        mut fits: impl FnMut(&Fields) -> bool,
    ) -> Option<u64> {
        let mut newest = self.lists[route.index()].entries.iter().rev();
        newest.find_map(|entry| entry.id.as_u64().filter(|_| fits(&entry.fields)))
    }

    /// A record by its integer id as intake shows it, with the name of its kind; null if unknown.
    pub(super) fn shown(&self, route: Route, id: u64, object: &str) -> Value {
        let list = &self.lists[route.index()];
        let Some(index) = list.by_id.get(&id.to_string()) else {
            return Value::Null;
        };
        let entry = &list.entries[*index];
        let mut shown = Map::new();
        shown.insert("id".to_owned(), self.sent(&entry.id));
        shown.insert("object".to_owned(), object.into());
        shown.extend(
            entry
                .fields
                .iter()
                .map(|(name, value)| (name.to_owned(), value.clone())),
        );
        Value::Object(shown)
    }

    /// Every record of a route ever made, oldest first.
    pub(super) fn truth(&mut self, route: Route) -> Vec<Truth> {
        (0..self.len(route))
            .map(|index| {
                let text = String::from_utf8_lossy(&self.text(route, index)).into_owned();
                let id = self.id(route, Row(index));
                let entry = &self.lists[route.index()].entries[index];
                Truth {
                    id,
                    business: entry.business,
                    versions: entry.history.len(),
                    history: entry.history.clone(),
                    record: RawValue::from_string(text)
                        .expect("a record is rendered as one JSON object"),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(name: &str) -> Fields {
        Fields::default().with("name", name)
    }

    fn object(value: Value) -> Map<String, Value> {
        let Value::Object(map) = value else {
            unreachable!("an object literal")
        };
        map
    }

    fn page(records: &mut Records, business: i64, limit: usize) -> Value {
        serde_json::from_slice(&records.page(Route::Leads, business, limit)).unwrap()
    }

    #[test]
    fn a_page_holds_the_newest_first_of_its_own_business() {
        let mut records = Records::new([10; 6], DateFormats::default());
        for (name, business) in [("a", 1), ("b", 2), ("c", 1), ("d", 1)] {
            records.create(Route::Leads, business, named(name), Timestamp::UNIX_EPOCH);
        }
        let expected = json!([{"id": 13, "name": "d"}, {"id": 12, "name": "c"}]);
        assert_eq!(page(&mut records, 1, 2), expected);
        assert_eq!(page(&mut records, 3, 2), json!([]));
    }

    #[test]
    fn an_edit_shows_at_once_and_makes_a_version_only_when_it_changes_something() {
        let mut records = Records::new([1; 6], DateFormats::default());
        let row = records.create(Route::Leads, 1, named("a"), Timestamp::UNIX_EPOCH);
        page(&mut records, 1, 5);
        records.edit(
            Route::Leads,
            row,
            object(json!({"name": "b"})),
            Timestamp::UNIX_EPOCH,
        );
        records.edit(
            Route::Leads,
            row,
            object(json!({"name": "b"})),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(page(&mut records, 1, 5), json!([{"id": 1, "name": "b"}]));
        let truth = records.truth(Route::Leads);
        assert_eq!(truth[0].versions, 2);
        assert_eq!(truth[0].history[1].changed, ["name"]);
    }

    #[test]
    fn ids_sent_as_strings_are_the_same_records() {
        let mut records = Records::new([1; 6], DateFormats::default());
        let row = records.create(Route::Leads, 1, named("a"), Timestamp::UNIX_EPOCH);
        records.send_ids_as_strings(true);
        assert_eq!(page(&mut records, 1, 5), json!([{"id": "1", "name": "a"}]));
        assert_eq!(records.find(Route::Leads, &json!(1)).unwrap(), row);
        assert_eq!(records.find(Route::Leads, &json!("1")).unwrap(), row);
        assert_eq!(records.truth(Route::Leads)[0].versions, 1);
    }

    #[test]
    fn a_chosen_id_is_taken_once_and_never_given_again() {
        let mut records = Records::new([1; 6], DateFormats::default());
        let at = Timestamp::UNIX_EPOCH;
        records
            .create_as(Route::Leads, 1, json!(1), named("a"), at)
            .unwrap();
        let again = records.create_as(Route::Leads, 1, json!("1"), named("b"), at);
        assert!(matches!(again, Err(RecordError::Taken { .. })));
        let next = records.create(Route::Leads, 1, named("c"), at);
        assert_eq!(records.id(Route::Leads, next), json!(2));
    }
}
