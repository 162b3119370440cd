//! CSV as RFC 4180 describes it, safe to open in a spreadsheet: texts are in quotes and numbers bare,
//! text that it would read as a formula gets a `'` in front, and control characters are replaced.

use super::answer::Answer;
use super::exactness::Marking;
use super::head::ColumnFormat;
use super::value;
use crate::shape::{CsvCell, csv_row, guarded};
use crate::store::SqlValue;
use crate::text::document;
use crate::text::locale::Locale;

/// The mark of UTF-8.
const MARK: &str = "\u{feff}";

/// How the rows of a file are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsvForm {
    /// The sign before the fraction of a number.
    decimal: &'static str,
    /// What stands between cells.
    separator: char,
    /// Whether the file begins with the mark of UTF-8, by which Excel recognises it.
    has_mark: bool,
    /// Whether the file of a report ends with its notes.
    has_notes: bool,
}

impl CsvForm {
    /// For programs.
    pub const DATA: Self = Self {
        decimal: ".",
        separator: ',',
        has_mark: false,
        has_notes: false,
    };

    /// As Excel opens it in a country, by a click on the file.
    #[must_use]
    pub fn for_excel(locale: &Locale) -> Self {
        let decimal = locale.decimal_sign();
        Self {
            decimal,
            separator: if decimal == "," { ';' } else { ',' },
            has_mark: true,
            has_notes: false,
        }
    }

    /// The same form, with the notes of a report if they are asked for.
    #[must_use]
    pub const fn with_notes(self, has_notes: bool) -> Self {
        Self { has_notes, ..self }
    }

    /// One row with its end.
    fn line(self, cells: impl IntoIterator<Item = CsvCell>) -> String {
        let cells = cells.into_iter().map(|cell| match cell {
            CsvCell::Bare(number) => CsvCell::Bare(number.replace('.', self.decimal)),
            text @ CsvCell::Text(_) => text,
        });
        csv_row(cells, self.separator) + "\r\n"
    }
}

/// The answer of a report as CSV. Beside each column of numbers that can be unsure are its marks,
/// and the upper bounds if they can be ranges.
#[must_use]
pub fn csv(answer: &Answer, form: CsvForm) -> String {
    let mut head = Vec::new();
    for (column, marking) in answer.columns.iter().zip(&answer.markings) {
        head.push(column.clone());
        if *marking != Marking::None {
            head.push(format!("{column}_mark"));
        }
        if *marking == Marking::Range {
            head.push(format!("{column}_max"));
        }
    }
    let mut text = csv_head(&head, form);
    for row in &answer.rows {
        let mut cells = Vec::with_capacity(head.len());
        for (index, cell) in row.iter().enumerate() {
            let format = answer.report.format(&answer.columns[index]);
            cells.push(csv_value(&cell.value, format));
            let marking = answer.markings[index];
            if marking != Marking::None {
                cells.push(csv_mark(cell.exactness.word()));
            }
            if marking == Marking::Range {
                cells.push(match cell.upper() {
                    Some(upper) => csv_value(&upper, format),
                    None => CsvCell::Bare(String::new()),
                });
            }
        }
        text.push_str(&form.line(cells));
    }
    if form.has_notes {
        text.push_str(&notes(answer));
    }
    text
}

/// The time that a report is about and its notes, as lines that begin with `#`.
fn notes(answer: &Answer) -> String {
    let mut text = format!("# {}\r\n", document::line(&answer.subject()));
    for note in &answer.notes {
        text.push_str(&format!("# {}\r\n", document::line(note)));
    }
    text
}

/// The names of columns as a row.
#[must_use]
pub fn csv_head<'a>(names: impl IntoIterator<Item = &'a String>, form: CsvForm) -> String {
    let mark = if form.has_mark { MARK } else { "" };
    let mut cells = Vec::new();
    for name in names {
        // A point in a name is no sign of a number.
        cells.push(match CsvCell::name(&document::line(name)) {
            CsvCell::Bare(name) if name.contains('.') => CsvCell::Text(name),
            cell => cell,
        });
    }
    format!("{mark}{}", form.line(cells))
}

/// Values of the mirror as a row.
#[must_use]
pub fn csv_values<'a>(values: impl IntoIterator<Item = &'a SqlValue>, form: CsvForm) -> String {
    form.line(values.into_iter().map(|value| match value {
        // With every digit that the mirror has.
        SqlValue::Real(number) => CsvCell::Bare(number.to_string()),
        other => csv_value(other, None),
    }))
}

/// One value as a cell: a number as programs read it.
fn csv_value(value: &SqlValue, format: Option<ColumnFormat>) -> CsvCell {
    match value {
        SqlValue::Text(_) | SqlValue::Blob(_) => {
            let text = value::shown(value, None);
            CsvCell::Text(document::lines(&guarded(&text)))
        }
        number => CsvCell::Bare(value::shown(
            number,
            format.filter(|format| *format == ColumnFormat::Money),
        )),
    }
}

/// How sure a number is; nothing for one that is exact.
fn csv_mark(word: &str) -> CsvCell {
    if word.is_empty() {
        CsvCell::Bare(String::new())
    } else {
        CsvCell::Text(word.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use jiff::civil::date;
    use jiff::tz::TimeZone;

    use super::*;
    use crate::config::{CountedBy, ReportFormat};
    use crate::report::delivery::{Rendered, rendered};
    use crate::report::exactness::{Cell, Exactness};
    use crate::report::head::Report;
    use crate::report::list::Listed;
    use crate::report::period::Period;

    /// An answer with a row for each exactness, and a range as the sum.
    fn answer() -> Answer {
        let text = "-- money = [\"owed\"]\n-- chart.bars = [\"status\", \"open\"]\nSELECT 1";
        let all = [
            (7, Exactness::Exact),
            (7, Exactness::AtLeast),
            (7, Exactness::AtMost),
            (181, Exactness::Between { upper: 265.0 }),
            (7, Exactness::About),
            (7, Exactness::Unknown),
        ];
        let mut rows = Vec::new();
        for (number, exactness) in all {
            let name = Cell::of(exactness.word().to_owned().into(), Exactness::Exact);
            let open = Cell::of(number.into(), exactness);
            let owed = Cell::of(SqlValue::Real(1.5), Exactness::Exact);
            rows.push(vec![name, open, owed]);
        }
        let none = || Cell::of(SqlValue::Null, Exactness::Exact);
        let sum = Cell::of(202.into(), Exactness::Between { upper: 286.0 });
        let day = date(2026, 3, 1);
        Answer {
            report: Report::parse("forms", text).unwrap(),
            has_period: false,
            period: Period { from: day, to: day },
            by: CountedBy::Day,
            as_of: Timestamp::UNIX_EPOCH.to_zoned_datetime(TimeZone::UTC),
            columns: ["status", "open", "owed"].map(str::to_owned).to_vec(),
            markings: vec![Marking::None, Marking::Range, Marking::Word],
            rows,
            totals: Some(vec![none(), sum, none()]),
            notes: vec!["a note\nof two lines".to_owned()],
            currency: None,
            found: None,
            listed: Listed::default(),
            locale: Locale::default(),
        }
    }

    #[test]
    fn the_marks_of_numbers_stand_beside_them_in_every_row_of_csv() {
        let answer = answer();
        assert_eq!(
            csv(&answer, CsvForm::DATA),
            "status,open,open_mark,open_max,owed,owed_mark\r\n\
             \"\",7,,,1.50,\r\n\
             \"at_least\",7,\"at_least\",,1.50,\r\n\
             \"at_most\",7,\"at_most\",,1.50,\r\n\
             \"between\",181,\"between\",265,1.50,\r\n\
             \"about\",7,\"about\",,1.50,\r\n\
             \"unknown\",,\"unknown\",,1.50,\r\n"
        );
        let german = CsvForm::for_excel(&Locale::named("de-DE").unwrap());
        let rows = csv(&answer, german);
        assert!(rows.starts_with("\u{feff}status;open;open_mark;"), "{rows}");
        assert!(
            rows.contains("\r\n\"between\";181;\"between\";265;1,50;\r\n"),
            "{rows}"
        );
        let british = CsvForm::for_excel(&Locale::named("en-GB").unwrap());
        assert_eq!(
            csv(&answer, british),
            format!("\u{feff}{}", csv(&answer, CsvForm::DATA))
        );
        let with_notes = csv(&answer, CsvForm::DATA.with_notes(true));
        let notes = with_notes
            .strip_prefix(&csv(&answer, CsvForm::DATA))
            .unwrap();
        assert_eq!(notes.lines().count(), 2, "{notes}");
        assert!(notes.starts_with("# as of 1970-01-01 00:00, UTC\r\n# a note"));
    }

    #[test]
    fn the_marks_of_numbers_are_in_every_other_form() {
        let answer = answer();
        let document = rendered(&answer, ReportFormat::Json, CsvForm::DATA)
            .unwrap()
            .into_bytes();
        let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
        assert_eq!(document["rows"][3][1], 181);
        assert_eq!(document["rows"][5][1], serde_json::Value::Null);
        for (list, places) in [
            ("at_least", "[[1,1]]"),
            ("at_most", "[[2,1]]"),
            ("between", "[[3,1,265]]"),
            ("about", "[[4,1]]"),
            ("totals_at_least", "[]"),
            ("totals_at_most", "[]"),
            ("totals_about", "[]"),
            ("totals_between", "[[1,286]]"),
        ] {
            assert_eq!(document[list].to_string(), places, "{list}");
        }
        for format in [ReportFormat::Table, ReportFormat::Html, ReportFormat::Svg] {
            let Rendered::Text(text) = rendered(&answer, format, CsvForm::DATA).unwrap() else {
                panic!("{format:?} is a text");
            };
            for part in ["≥ 7", "≤ 7", "181 to 265", "about 7", "unknown"] {
                assert!(text.contains(part), "{format:?}, {part}: {text}");
            }
            let has_sums = format != ReportFormat::Svg;
            assert_eq!(text.contains("202 to 286"), has_sums, "{format:?}: {text}");
        }
    }
}
