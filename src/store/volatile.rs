//! Finds fields that keep changing by themselves, such as "5 minutes ago": each poll then makes
//! updates that mean nothing.
//!
//! The sign is a record of which the same field or few fields change again and again, and nothing
//! else. A person changes a status a few times a day; such a field changes at every look. Several such
//! fields are named one after the other, as the operator has them ignored.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;

use jiff::{SignedDuration, Timestamp};

use super::error::StoreError;
use super::log;
use super::reader::Reader;
use crate::record::{Change, Kind, Route, changed_field_names};

/// This many repeats …
const REPEATS: usize = 30;
/// … within this time make a field volatile. A repeat is an update in which the same fields changed as
/// in the record's update before.
const WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// An update of more fields than this is an edit.
const MOST_TOGETHER: usize = 3;
/// Records that are remembered; past this number all are forgotten, which only delays the finding.
const MOST_RECORDS: usize = 2_000;
/// The newest rows of the log that [`Reader::volatile_fields`] looks at.
const MOST_ROWS: i64 = 5_000;

/// What the updates of one route showed lately.
#[derive(Debug, Default)]
pub struct VolatileFields {
    /// The fields that changed in each record's last update, and when.
    last: HashMap<String, (Vec<String>, Timestamp)>,
    /// Repeats within the window, the oldest first.
    repeats: VecDeque<(Timestamp, String)>,
}

impl VolatileFields {
    /// Notes an update in which these fields changed.
    pub fn note(&mut self, id: &str, fields: &[String], at: Timestamp) {
        if fields.is_empty() || fields.len() > MOST_TOGETHER {
            self.last.remove(id);
            return;
        }
        if self.last.len() >= MOST_RECORDS && !self.last.contains_key(id) {
            self.last.clear();
        }
        let before = self.last.insert(id.to_owned(), (fields.to_vec(), at));
        if before.is_some_and(|(names, seen)| names == fields && is_recent(seen, at)) {
            let repeated = fields.iter().filter(|field| !is_state(field));
            self.repeats.extend(repeated.map(|field| (at, field.clone())));
        }
        // More than can be needed to decide on several fields at once.
        while self.repeats.len() > 4 * REPEATS
            || self.repeats.front().is_some_and(|(seen, _)| !is_recent(*seen, at))
        {
            self.repeats.pop_front();
        }
    }

    /// The field that repeats most, if it repeats often enough to be volatile now.
    #[must_use]
    pub fn field(&self, now: Timestamp) -> Option<&str> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for (_, field) in self.repeats.iter().filter(|(at, _)| is_recent(*at, now)) {
            *counts.entry(field).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|&(field, count)| (count, field))?;
        (most.1 >= REPEATS).then_some(most.0)
    }
}

/// Whether a field says how far a record has got, which nobody may ignore however often it changes.
fn is_state(field: &str) -> bool {
    field.to_ascii_lowercase().starts_with("status")
}

fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at).abs() <= WINDOW
}

impl Reader {
    /// The routes and businesses with a volatile field, from the newest rows of the log, without the
    /// fields that a route ignores now. Use [`super::Store::read_long`].
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn volatile_fields(
        &self,
        ignored: &HashMap<Route, Vec<String>>,
    ) -> Result<Vec<(Route, Option<String>, String)>, StoreError> {
        let last = log::last_seq(&self.connection)?;
        let newest: Option<Change> = log::by_seq(&self.connection, &[last])?.pop();
        let Some(newest) = newest.and_then(|row| row.observed_at.parse::<Timestamp>().ok()) else {
            return Ok(Vec::new());
        };
        let since = newest.checked_sub(WINDOW).map(crate::clock::stamp).unwrap_or_default();
        let from = log::position_at(&self.connection, &since)?.max(last - MOST_ROWS);
        let mut routes: HashMap<(Route, Option<String>), VolatileFields> = HashMap::new();
        log::scan(&self.connection, from, usize::MAX, |change| {
            let ignored = ignored.get(&change.route).map_or(&[][..], Vec::as_slice);
            if let Some((id, fields, at)) = changed(&change, ignored) {
                let route = routes.entry((change.route, change.business.clone())).or_default();
                route.note(id, &fields, at);
            }
            ControlFlow::Continue(())
        })?;
        let found = routes.into_iter().filter_map(|((route, business), fields)| {
            Some((route, business, fields.field(newest)?.to_owned()))
        });
        let mut found: Vec<_> = found.collect();
        found.sort_unstable();
        Ok(found)
    }
}

fn changed<'a>(
    change: &'a Change,
    ignored: &[String],
) -> Option<(&'a str, Vec<String>, Timestamp)> {
    if change.kind != Kind::Updated {
        return None;
    }
    let fields = changed_field_names(change.before.as_deref()?, &change.body, ignored);
    Some((change.record_id.as_deref()?, fields, change.observed_at.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_repeats_is_found_but_never_a_status() {
        let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap();
        let found = |fields: &[&str]| {
            let names: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
            let mut volatile = VolatileFields::default();
            (0..40).for_each(|second| volatile.note("1", &names, at(second)));
            volatile.field(at(40)).map(str::to_owned)
        };
        assert_eq!(found(&["age", "status"]), Some("age".to_owned()));
        assert_eq!(found(&["status"]), None);
        assert_eq!(found(&["Status_stage"]), None);
    }
}
