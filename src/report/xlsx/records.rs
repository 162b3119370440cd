//! The records of a route as an Excel file: the fields as the shop names them, then what the mirror
//! knows about each record.
//!
//! What reports calculate with (amounts, times, days) is shown as they read it. A value that they
//! cannot read is shown as it was sent, and its field is named in the last column.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use shopmirror_core::reading::{FieldKind, ReadField};
use shopmirror_core::record::Route;

use super::book::{About, Book, Look};
use super::cell::ExcelCell;
use crate::report::error::ReportError;
use crate::report::value::is_amount;
use crate::store::SqlValue;
use crate::text::locale::Locale;
use crate::text::names::{label, list_title};

/// What the mirror knows about a record, each with its head.
const KNOWN: [(&str, &str); 6] = [
    ("_business", "Business"),
    ("_first_seen_at", "First seen"),
    ("_changed_at", "Changed"),
    ("_last_seen_at", "Last seen"),
    ("_vanished_at", "Gone from the list"),
    ("_unreadable", "Cannot be read"),
];
/// What a payment is.
const KIND: &str = "_kind";

/// What the file is about.
pub struct RecordSheet<'a> {
    /// The route of the records.
    pub route: Route,
    /// The columns of its table in the mirror.
    pub columns: &'a [String],
    /// Those of them that are fields of the record.
    pub fields: &'a [String],
    /// What reports read in its fields, each with the field that stands for it.
    pub read_fields: &'a [(ReadField, String)],
    /// The time zone of the shop.
    pub zone: &'a TimeZone,
    /// The currency of amounts.
    pub currency: Option<&'a str>,
    /// How days and amounts are written.
    pub locale: &'a Locale,
    /// When it is made.
    pub made_at: Timestamp,
}

/// A column of the file.
struct Column {
    /// The place of its values in a row of the mirror.
    sent: usize,
    /// The place of what reports read in them.
    read: Option<usize>,
    look: Look,
}

/// An Excel file of records, made row by row.
pub struct RecordsBook {
    book: Book,
    columns: Vec<Column>,
    notes: Vec<String>,
}

impl RecordsBook {
    /// A file with the heads of its columns.
    ///
    /// # Errors
    /// If there is no room for a temporary file.
    pub fn new(sheet: &RecordSheet<'_>) -> Result<Self, ReportError> {
        let mut heads = Vec::new();
        let mut columns = Vec::new();
        let mut shown = vec!["id".to_owned()];
        shown.extend_from_slice(sheet.fields);
        for field in &shown {
            let Some(sent) = sheet.place(field) else {
                continue;
            };
            heads.push(label(field));
            let read = sheet.read_of(field);
            columns.push(Column {
                sent,
                read: read.and_then(|read| sheet.place(&format!("_{}", read.name))),
                look: sheet.look(field),
            });
        }
        let mut known = KNOWN.to_vec();
        if sheet.route == Route::Payments {
            known.insert(0, (KIND, "Counts as"));
        }
        for (name, head) in known {
            let Some(sent) = sheet.place(name) else {
                continue;
            };
            heads.push(head.to_owned());
            columns.push(Column {
                sent,
                read: None,
                look: Look::Name,
            });
        }
        let title = list_title(sheet.route);
        let about = About {
            title: &title,
            made_at: sheet.made_at,
            zone: sheet.zone,
            currency: sheet.currency,
            locale: sheet.locale,
        };
        Ok(Self {
            book: Book::new(&about, &heads)?,
            columns,
            notes: sheet.notes(&title),
        })
    }

    /// Adds a record: its row in the mirror.
    ///
    /// # Errors
    /// If there is no room in the temporary file.
    pub fn add(&mut self, row: &[SqlValue]) -> Result<(), ReportError> {
        let mut cells = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            cells.push((column.cell(row, self.book.zone()), column.look));
        }
        Ok(self.book.row(&cells)?)
    }

    /// The bytes of the file, with one more note if there is one.
    ///
    /// # Errors
    /// If there is no room for a temporary file.
    pub fn finish(mut self, note: Option<String>) -> Result<Vec<u8>, ReportError> {
        self.notes.extend(note);
        Ok(self.book.finish(self.notes)?)
    }
}

impl Column {
    /// Its cell of a row. What reports cannot read stays the text that was sent.
    fn cell(&self, row: &[SqlValue], zone: &TimeZone) -> ExcelCell {
        let sent = &row[self.sent];
        let Some(read) = self.read else {
            return ExcelCell::of(sent, zone);
        };
        match (&row[read], sent) {
            (SqlValue::Null, SqlValue::Text(text)) => ExcelCell::text(text),
            (SqlValue::Null, sent) => ExcelCell::of(sent, zone),
            (value, _) => ExcelCell::of(value, zone),
        }
    }
}

impl RecordSheet<'_> {
    /// The place of a column of the mirror.
    fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// What reports read in a field of the record.
    fn read_of(&self, field: &str) -> Option<ReadField> {
        for (read, source) in self.read_fields {
            if source == field {
                return Some(*read);
            }
        }
        None
    }

    fn look(&self, field: &str) -> Look {
        match self.read_of(field) {
            Some(read) if read.kind == FieldKind::Amount => Look::Money,
            None if is_amount(field) => Look::Money,
            _ => Look::Name,
        }
    }

    fn notes(&self, title: &str) -> Vec<String> {
        let zone = self
            .zone
            .iana_name()
            .unwrap_or("the time zone of this machine");
        let at = self.made_at.to_zoned_datetime(self.zone.clone());
        let mut notes = vec![
            title.to_owned(),
            format!("As of {}, {zone}", self.locale.moment(&at)),
            format!("Times are those of {zone}"),
            "Amounts, times and days are as reports read them. If a value cannot be read, the last \
             column names its field, and the value is as it was sent: no sum may count it"
                .to_owned(),
            "A record with a time in \"Gone from the list\" is in no report".to_owned(),
            "A record without a time in \"Last seen\" is one of the newest 100 of its list. The \
             others are as they were seen then, and may have changed since"
                .to_owned(),
        ];
        if self.route == Route::Payments {
            notes.push(
                "The amount of a refund is negative. A payment that counts as void is in no report"
                    .to_owned(),
            );
        }
        notes
    }
}
