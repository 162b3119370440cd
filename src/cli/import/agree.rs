//! Whether the ids of a file are those of the workspace: records that both have must agree in when
//! they were created, or in a name. An export may carry printed numbers in the place of ids.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use shopmirror_core::record::{Route, parse_timestamp};

use super::values::FileRecord;
use crate::store::{Reader, StoreError};

/// So many records of both are needed to judge.
const NEEDED: usize = 10;

/// How records of a file compare with those of the same id that the workspace has shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Agreement {
    /// Records of both.
    both: usize,
    /// Those that agree in when they were created, or in the name.
    agree: usize,
    /// Those that agree in when they were created.
    created_at: usize,
    /// Those that agree in the name.
    name: usize,
}

impl Agreement {
    /// Compares the records of a file with the mirror.
    pub(super) fn of(
        records: &[FileRecord],
        route: Route,
        reader: &Reader,
    ) -> Result<Self, StoreError> {
        let mut agreement = Self::default();
        for record in records {
            let Some(stored) = reader.record(route, record.id.as_str())? else {
                continue;
            };
            if stored.get("_via").and_then(Value::as_str) != Some("import") {
                agreement.add(record, &stored);
            }
        }
        Ok(agreement)
    }

    fn add(&mut self, record: &FileRecord, stored: &Map<String, Value>) {
        // As it was read when the record was stored: the settings may name another field.
        let created_at = stored.get("_created_at").and_then(Value::as_str);
        let created_at = created_at.and_then(|text| parse_timestamp(&format!("\"{text}\"")));
        let same_name = is_same_name(record.name.as_deref(), stored);
        let same_time = match is_same_time(record.created_at, created_at) {
            SameTime::Second => true,
            // In a minute a busy shop takes in several people.
            SameTime::Minute => same_name != Some(false),
            SameTime::No => false,
        };
        let same_name = same_name == Some(true);
        self.both += 1;
        self.created_at += usize::from(same_time);
        self.name += usize::from(same_name);
        self.agree += usize::from(same_time || same_name);
    }

    /// Refuses a file whose ids may be other numbers.
    pub(super) fn judge(&self, route: Route) -> Result<(), String> {
        if self.both < NEEDED {
            return Err(format!(
                "only {} of the ids are those of records that polls have shown, and {NEEDED} are \
                 needed to see that they are ids of {route} and not printed numbers. Nothing was \
                 stored: export newer records as well, or add --trust-ids if you are sure",
                self.both
            ));
        }
        if self.agree * 10 < self.both * 9 {
            return Err(format!(
                "{} of {} records that polls have shown have another name and time in the file: \
                 its ids may be printed numbers. Nothing was stored: look for another column \
                 with --map id=COLUMN, name the --date-format, or add --trust-ids if you are sure",
                self.both - self.agree,
                self.both
            ));
        }
        Ok(())
    }

    /// How they compare, for people.
    pub(super) fn told(&self) -> String {
        format!(
            "{} of the ids are those of records that polls have shown: {} agree ({} in created_at, \
             {} in the name)\n",
            self.both, self.agree, self.created_at, self.name
        )
    }
}

/// How far two times are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SameTime {
    Second,
    /// The file has no seconds, or none but 0.
    Minute,
    No,
}

fn is_same_time(file: Option<Timestamp>, stored: Option<Timestamp>) -> SameTime {
    let (Some(file), Some(stored)) = (file, stored) else {
        return SameTime::No;
    };
    let file = file.as_second();
    let stored = stored.as_second();
    if file == stored {
        SameTime::Second
    } else if file % 60 == 0 && file == stored / 60 * 60 {
        SameTime::Minute
    } else {
        SameTime::No
    }
}

/// Whether the names are the same; `None` if one of the two has none.
fn is_same_name(file: Option<&str>, stored: &Map<String, Value>) -> Option<bool> {
    let file = file?.trim().to_lowercase();
    let mut is_same = None;
    for field in ["name", "customer_name"] {
        if let Some(name) = stored.get(field).and_then(Value::as_str) {
            is_same = Some(is_same == Some(true) || name.trim().to_lowercase() == file);
        }
    }
    is_same
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_of_ten_records_must_agree_and_there_must_be_ten() {
        let judge = |both, agree| {
            let agreement = Agreement {
                both,
                agree,
                ..Agreement::default()
            };
            agreement.judge(Route::Jobs).is_ok()
        };
        assert!(judge(10, 9) && judge(40, 36));
        assert!(!judge(9, 9) && !judge(10, 8) && !judge(40, 35));
    }

    #[test]
    fn a_time_to_the_minute_agrees_with_any_second_of_it() {
        let at = |text: &str| Some(text.parse().unwrap());
        let stored = at("2026-03-01T08:30:12.5Z");
        let same = |text: &str| is_same_time(at(text), stored);
        assert_eq!(same("2026-03-01T08:30:12Z"), SameTime::Second);
        assert_eq!(same("2026-03-01T08:30:00Z"), SameTime::Minute);
        assert_eq!(same("2026-03-01T08:31:00Z"), SameTime::No);
        assert_eq!(same("2026-03-01T08:30:11Z"), SameTime::No);
        assert_eq!(is_same_time(None, stored), SameTime::No);
    }
}
