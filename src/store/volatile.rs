//! Finds fields that keep changing by themselves, such as "5 minutes ago": each poll then makes
//! updates that mean nothing.
//!
//! The sign is a record of which one and the same field changes again and again, and nothing else. A
//! person changes a status a few times a day; such a field changes at every look.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;

use jiff::{SignedDuration, Timestamp};

use super::error::StoreError;
use super::log;
use super::reader::Reader;
use crate::record::{Change, Kind, Route, only_changed_field};

/// This many repeats …
const REPEATS: usize = 30;
/// … within this time make a field volatile. A repeat is an update in which only the field changed
/// that was also the only one to change in the record's update before.
const WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// Records that are remembered; past this number all are forgotten, which only delays the finding.
const MOST_RECORDS: usize = 2_000;
/// The newest rows of the log that [`Reader::volatile_fields`] looks at.
const MOST_ROWS: i64 = 5_000;

/// What the updates of one route showed lately.
#[derive(Debug, Default)]
pub struct VolatileFields {
    /// The only field that changed in each record's last update, and when.
    last: HashMap<String, (String, Timestamp)>,
    /// Repeats within the window, the oldest first.
    repeats: VecDeque<(Timestamp, String)>,
}

impl VolatileFields {
    /// Notes an update in which only this field changed.
    pub fn note(&mut self, id: &str, field: &str, at: Timestamp) {
        if self.last.len() >= MOST_RECORDS && !self.last.contains_key(id) {
            self.last.clear();
        }
        let before = self.last.insert(id.to_owned(), (field.to_owned(), at));
        if before.is_some_and(|(name, seen)| name == field && is_recent(seen, at)) {
            self.repeats.push_back((at, field.to_owned()));
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

fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at).abs() <= WINDOW
}

impl Reader {
    /// The routes and businesses with a volatile field, from the newest rows of the log. Use
    /// [`super::Store::read_long`].
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn volatile_fields(&self) -> Result<Vec<(Route, Option<String>, String)>, StoreError> {
        let last = log::last_seq(&self.connection)?;
        let newest: Option<Change> = log::by_seq(&self.connection, &[last])?.pop();
        let Some(newest) = newest.and_then(|row| row.observed_at.parse::<Timestamp>().ok()) else {
            return Ok(Vec::new());
        };
        let since = newest.checked_sub(WINDOW).map(crate::clock::stamp).unwrap_or_default();
        let from = log::position_at(&self.connection, &since)?.max(last - MOST_ROWS);
        let mut routes: HashMap<(Route, Option<String>), VolatileFields> = HashMap::new();
        log::scan(&self.connection, from, usize::MAX, |change| {
            if let Some((id, field, at)) = changed_alone(&change) {
                let route = routes.entry((change.route, change.business.clone())).or_default();
                route.note(id, &field, at);
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

fn changed_alone(change: &Change) -> Option<(&str, String, Timestamp)> {
    if change.kind != Kind::Updated {
        return None;
    }
    let field = only_changed_field(change.before.as_deref()?, &change.body)?;
    Some((change.record_id.as_deref()?, field, change.observed_at.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fixtures::{Poll, open};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn a_field_that_changes_on_the_same_records_again_and_again_is_volatile_for_ten_minutes() {
        let mut fields = VolatileFields::default();
        for second in 0..4 {
            assert_eq!(fields.field(at(second)), None);
            for id in 0..10 {
                fields.note(&id.to_string(), "age", at(second));
            }
        }
        assert_eq!(fields.field(at(4)), Some("age"));
        assert_eq!(fields.field(at(700)), None);
    }

    #[test]
    fn a_busy_day_of_edits_makes_no_field_volatile() {
        let mut fields = VolatileFields::default();
        for minute in 0..600 {
            // Two records a minute get another status, one of them a second time soon after.
            for id in [2 * minute, 2 * minute + 1, 2 * minute - 6] {
                fields.note(&id.to_string(), "status", at(60 * minute));
                assert_eq!(fields.field(at(60 * minute)), None);
            }
        }
        for second in 0..100 {
            fields.note("1", if second % 2 == 0 { "a" } else { "b" }, at(36_000 + second));
        }
        assert_eq!(fields.field(at(36_100)), None);
    }

    #[tokio::test]
    async fn the_log_alone_names_the_volatile_field_of_a_route() {
        let (_dir, store) = open();
        let shown = |age: i64| -> Vec<String> {
            let record = |id| format!(r#"{{"id":{id},"name":"N","age":"{age} min ago"}}"#);
            (1..=20).map(record).collect()
        };
        for second in 0..3 {
            let named = store.read_long(Reader::volatile_fields).await.unwrap();
            assert_eq!(named, [], "{second}");
            Poll { second, ..Poll::USUAL }.shows(&store, &shown(second)).await;
        }
        Poll { second: 3, ..Poll::USUAL }.shows(&store, &shown(3)).await;
        let named = store.read_long(Reader::volatile_fields).await.unwrap();
        assert_eq!(named, [(Route::Leads, None, "age".to_owned())]);
    }
}
