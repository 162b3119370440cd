//! What a destination must hold: pure.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// A change as a destination shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) event_id: String,
    pub(super) record_id: String,
    pub(super) version: i64,
    /// The field `name` of the record, which may hold any text.
    pub(super) name: String,
}

impl Arrival {
    /// Reads a `data` object.
    pub(super) fn of(data: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            event_id: text(&data["event_id"]),
            record_id: text(&data["record_id"]),
            version: data["version"].as_i64().unwrap_or_default(),
            name: text(&data["record"]["name"]),
        }
    }

    /// Reads the line that [`LINE`] makes of a change.
    pub(super) fn of_line(line: &str) -> Self {
        let mut words = line.split_whitespace().map(|word| {
            percent_encoding::percent_decode_str(word)
                .decode_utf8_lossy()
                .into_owned()
        });
        let mut next = || words.next().unwrap_or_default();
        let (event_id, version) = (next(), next().parse().unwrap_or_default());
        Self {
            event_id,
            version,
            record_id: next(),
            name: next(),
        }
    }
}

/// A template that writes a change as one line without any other space.
pub(super) const LINE: &str =
    "{{ event_id }} {{ version }} {{ record_id|urlencode }} {{ record.name|urlencode }}";

/// What is wrong with what arrived, if anything is: a change is missing or foreign, a text is not
/// the record's, a version came before an earlier one, or, with `once`, a change is there twice.
pub(super) fn wrong(log: &[Arrival], arrived: &[Arrival], once: bool) -> Option<String> {
    let by_id: HashMap<&str, &Arrival> = log
        .iter()
        .map(|change| (change.event_id.as_str(), change))
        .collect();
    let mut seen = HashSet::new();
    let mut newest: HashMap<&str, i64> = HashMap::new();
    for arrival in arrived {
        let Some(wanted) = by_id.get(arrival.event_id.as_str()) else {
            return Some(format!("{arrival:?} is not in the log"));
        };
        if *wanted != arrival {
            return Some(format!("{arrival:?} instead of {wanted:?}"));
        }
        if !seen.insert(arrival.event_id.as_str()) {
            if once {
                return Some(format!("{arrival:?} is there twice"));
            }
            continue;
        }
        let before = newest.insert(arrival.record_id.as_str(), arrival.version);
        if before.is_some_and(|before| before >= arrival.version) {
            return Some(format!("{arrival:?} came after version {before:?}"));
        }
    }
    let missing = log
        .iter()
        .filter(|change| !seen.contains(change.event_id.as_str()));
    let missing: Vec<&str> = missing.map(|change| change.event_id.as_str()).collect();
    let first = missing.first()?;
    Some(format!(
        "{} of {} are missing, the first is {first}",
        missing.len(),
        log.len()
    ))
}
