//! The records of a file as the workspace would send them: times in UTC, amounts as numbers where
//! they leave no doubt. What is left in doubt stays as written, for the readers of the store.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;
use serde::Serialize;
use shopmirror_core::clock::stamp;
use shopmirror_core::reading::{
    FieldKind, FieldReader, ReadSettings, Reading, RuleSet, fields_of, read_amount, read_instant,
};
use shopmirror_core::record::{Fields, RecordId, Route};

use super::columns::Columns;
use super::sheet::{NULL, Sheet};
use crate::store::Reader;

/// A row of a file as a record.
#[derive(Debug, Clone)]
pub(super) struct FileRecord {
    pub(super) id: RecordId,
    /// The record as JSON.
    pub(super) text: String,
    /// When it was created, if the row says it.
    pub(super) created_at: Option<Timestamp>,
    /// The latest time that the row says of it.
    pub(super) newest_at: Option<Timestamp>,
    /// Its field `name` or `customer_name`.
    pub(super) name: Option<String>,
}

/// What was read of a file.
#[derive(Debug)]
pub(super) struct FileRecords {
    pub(super) records: Vec<FileRecord>,
    pub(super) left_out: LeftOut,
    pub(super) unread: Vec<Unread>,
}

/// The rows of a file that are left out.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct LeftOut {
    /// Rows without an id that can be used.
    pub(super) without_id: usize,
    /// Rows with the id of an earlier one.
    pub(super) repeated: usize,
    /// Rows with more cells than there are columns.
    pub(super) too_many_cells: usize,
    /// The first line of these.
    pub(super) first_line: Option<u64>,
}

impl LeftOut {
    /// Whether records of the file are not read.
    pub(super) fn has_records(&self) -> bool {
        self.without_id + self.too_many_cells > 0
    }
}

/// The values of a field that cannot be read.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Unread {
    /// The field.
    pub(super) field: String,
    /// How many.
    pub(super) values: usize,
    /// One of them.
    pub(super) example: String,
}

/// How the values of a file are read.
pub(super) struct Values {
    /// The fields that reports calculate with, by the name that records have.
    kinds: BTreeMap<String, FieldKind>,
    reader: FieldReader,
    settings: ReadSettings,
    route: Route,
    zone: TimeZone,
    date_format: Option<String>,
}

impl Values {
    /// A reader of values by the rules of the store. `zone` is the shop's.
    pub(super) fn new(
        route: Route,
        store: &Reader,
        zone: &TimeZone,
        date_format: Option<&str>,
    ) -> anyhow::Result<Self> {
        let rules = store.read_rules()?;
        let settings = rules.settings.clone();
        let mut kinds = BTreeMap::new();
        for field in fields_of(route) {
            if let Some(source) = settings.source(route, field.name) {
                kinds.insert(source.to_owned(), field.kind);
            }
        }
        Ok(Self {
            kinds,
            reader: rules.reader(route),
            settings,
            route,
            zone: zone.clone(),
            date_format: date_format.map(str::to_owned),
        })
    }

    /// Reads the rows of a file.
    pub(super) fn read(&self, sheet: &Sheet, columns: &Columns) -> anyhow::Result<FileRecords> {
        let mut records = Vec::with_capacity(sheet.rows.len());
        let mut ids = HashSet::with_capacity(sheet.rows.len());
        let mut unread = BTreeMap::new();
        let mut left_out = LeftOut {
            too_many_cells: sheet.too_long.len(),
            first_line: sheet.too_long.first().copied(),
            ..LeftOut::default()
        };
        for row in &sheet.rows {
            let Some(record) = self.record(row, columns) else {
                left_out.without_id += 1;
                continue;
            };
            if ids.insert(record.id.as_str().to_owned()) {
                self.note_unread(&record, &mut unread);
                records.push(record);
            } else {
                left_out.repeated += 1;
            }
        }
        Ok(FileRecords {
            left_out,
            records,
            unread: unread.into_values().collect(),
        })
    }

    /// A row as a record; `None` without an id that can be used.
    fn record(&self, row: &[String], columns: &Columns) -> Option<FileRecord> {
        let mut text = String::from("{");
        let mut id = None;
        let mut name = None;
        let mut created_at = None;
        let mut newest_at = None;
        for (value, field) in row.iter().zip(&columns.fields) {
            let Some(field) = field else { continue };
            let value = if field == "id" {
                let (json, read) = id_of(value)?;
                id = Some(read);
                json
            } else {
                self.value(field, value)
            };
            let kind = self.kinds.get(field);
            if kind == Some(&FieldKind::Instant) {
                let at = read_instant(Some(&value), &self.zone)
                    .reading
                    .by(RuleSet::default());
                newest_at = newest_at.max(at);
                if self.settings.source(self.route, "created_at") == Some(field) {
                    created_at = at;
                }
            }
            if ["name", "customer_name"].contains(&field.as_str()) {
                name = name.or(serde_json::from_str::<String>(&value).ok());
            }
            if text.len() > 1 {
                text.push(',');
            }
            text += &serde_json::to_string(field).expect("a name is text");
            text.push(':');
            text += &value;
        }
        text.push('}');
        Some(FileRecord {
            id: id?,
            text,
            created_at,
            newest_at,
            name,
        })
    }

    /// A value as the workspace would send it.
    fn value(&self, field: &str, json: &str) -> String {
        let changed = match self.kinds.get(field) {
            Some(FieldKind::Instant) => self.instant(json),
            Some(FieldKind::Day) => self.day(json),
            Some(FieldKind::Amount) => amount(json),
            None => None,
        };
        changed.unwrap_or_else(|| json.to_owned())
    }

    /// A time in UTC. One without an offset is the shop's clock, as people write it.
    fn instant(&self, json: &str) -> Option<String> {
        let text: Option<String> = serde_json::from_str(json).ok();
        let at = match text {
            Some(text) => self.formatted(&text).or_else(|| self.local(&text)),
            None => None,
        };
        let at = match at {
            Some(at) => at,
            None => read_instant(Some(json), &self.zone)
                .reading
                .by(RuleSet::default())?,
        };
        Some(format!("\"{}\"", stamp(at)))
    }

    /// A time in the format that the operator names.
    fn formatted(&self, text: &str) -> Option<Timestamp> {
        let parts = BrokenDownTime::parse(self.date_format.as_ref()?, text.trim()).ok()?;
        if parts.offset().is_some() {
            return parts.to_timestamp().ok();
        }
        let at = match parts.to_datetime() {
            Ok(at) => at,
            Err(_) => parts.to_date().ok()?.into(),
        };
        self.in_zone(at)
    }

    /// A time in the usual form without an offset.
    fn local(&self, text: &str) -> Option<Timestamp> {
        if text.len() <= "2026-11-27".len() || text.parse::<Timestamp>().is_ok() {
            return None;
        }
        self.in_zone(text.trim().parse().ok()?)
    }

    fn in_zone(&self, at: DateTime) -> Option<Timestamp> {
        Some(at.to_zoned_datetime(self.zone.clone()).ok()?.timestamp())
    }

    /// A day in the format that the operator names.
    fn day(&self, json: &str) -> Option<String> {
        let text: String = serde_json::from_str(json).ok()?;
        let at = self.formatted(&text)?;
        let day = at.to_zoned_datetime(self.zone.clone()).date();
        Some(format!("\"{day}\""))
    }

    /// Counts the values of a record that the store cannot read by the rules that it has now.
    fn note_unread(&self, record: &FileRecord, unread: &mut BTreeMap<String, Unread>) {
        let fields = Fields::parse(&record.text).unwrap_or_default();
        for reading in self.reader.read(&fields).fields {
            if !reading.is_unreadable {
                continue;
            }
            let source = self.settings.source(self.route, reading.field);
            let field = source.unwrap_or(reading.field);
            let of_field = unread.entry(field.to_owned()).or_insert_with(|| Unread {
                field: field.to_owned(),
                values: 0,
                example: fields
                    .get(field)
                    .unwrap_or(NULL)
                    .trim_matches('"')
                    .to_owned(),
            });
            of_field.values += 1;
        }
    }
}

/// An id as JSON and as it is compared; `None` if it cannot be used. Digits are a number, as the
/// workspace sends them.
fn id_of(json: &str) -> Option<(String, RecordId)> {
    let id = RecordId::from_json(json).ok()?;
    let is_number = id
        .as_integer()
        .is_some_and(|number| number.to_string() == id.as_str());
    if is_number {
        return Some((id.as_str().to_owned(), id));
    }
    Some((json.to_owned(), id))
}

/// An amount as a number, if its text leaves no doubt.
fn amount(json: &str) -> Option<String> {
    if !json.starts_with('"') {
        return None;
    }
    match read_amount(Some(json)).reading {
        Reading::Certain(amount) => Some(amount.to_string()),
        Reading::Absent | Reading::Ambiguous(_) | Reading::Unreadable => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(date_format: Option<&str>) -> Values {
        let settings = ReadSettings::default();
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let mut kinds = BTreeMap::new();
        for field in fields_of(Route::Jobs) {
            kinds.insert(field.name.to_owned(), field.kind);
        }
        Values {
            kinds,
            reader: FieldReader::new(Route::Jobs, &settings, &zone, |_| RuleSet::default()),
            settings,
            route: Route::Jobs,
            zone,
            date_format: date_format.map(str::to_owned),
        }
    }

    #[test]
    fn a_time_is_written_in_utc_and_without_an_offset_it_is_the_clock_of_the_shop() {
        let german = values(Some("%d.%m.%Y %H:%M"));
        let utc = "\"2026-05-03T12:30:00.000000Z\"";
        for text in [
            "03.05.2026 14:30",
            "2026-05-03 14:30:00",
            "2026-05-03T12:30:00Z",
        ] {
            let json = format!("\"{text}\"");
            assert_eq!(german.value("created_at", &json), utc, "{text}");
        }
        let day = "\"2026-05-02T22:00:00.000000Z\"";
        assert_eq!(german.value("created_at", "\"2026-05-03\""), day);
        assert_eq!(values(None).value("created_at", "\"3.5.26\""), "\"3.5.26\"");
        let dates = values(Some("%d.%m.%Y"));
        assert_eq!(
            dates.value("received_at", "\"03.05.2026\""),
            "\"2026-05-03\""
        );
        assert_eq!(dates.value("received_at", "\"soon\""), "\"soon\"");
    }

    #[test]
    fn an_amount_is_a_number_unless_it_has_two_readings() {
        let values = values(None);
        for (text, number) in [("1.234,50 €", "1234.5"), ("120.50", "120.5"), ("7", "7")] {
            assert_eq!(values.value("total_amount", &format!("\"{text}\"")), number);
        }
        assert_eq!(values.value("total_amount", "\"1.234\""), "\"1.234\"");
        assert_eq!(values.value("total_amount", "10.10"), "10.10");
        assert_eq!(values.value("comment", "\"120.50\""), "\"120.50\"");
        assert_eq!(id_of("\"007\"").unwrap().0, "\"007\"");
        assert_eq!(id_of("\"12\"").unwrap().0, "12");
        assert!(id_of(NULL).is_none());
    }
}
