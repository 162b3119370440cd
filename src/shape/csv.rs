//! Rows of CSV that a spreadsheet can open safely, and a change as one of them.
//!
//! Texts are in quotes and numbers are bare, so that a spreadsheet can keep `00123` as a text. The
//! columns of a change are fixed by the configuration, so that every row of a file has the same
//! ones. Its row is one line: line breaks inside a value become spaces.

use std::borrow::Cow;

use serde_json::value::RawValue;
use shopmirror_core::record::{Change, Kind, field_text};

use crate::text::document;

/// The first columns of every row of a change.
const OWN: [&str; 8] = [
    "event_id",
    "seq",
    "route",
    "record_id",
    "kind",
    "version",
    "observed_at",
    "business",
];
/// The last column if the configuration names none: the whole record.
const WHOLE: &str = "record";
/// How a formula begins, also in full width, as some spreadsheets read it.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
/// Where the text of a cell ends for a reader that uses another separator or no quotes.
const ENDS: [char; 5] = [';', '\t', '"', '\n', '\r'];

/// One cell of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CsvCell {
    /// A text, which gets quotes.
    Text(String),
    /// A number, or a value that is absent.
    Bare(String),
}

impl CsvCell {
    /// The name of a column: in quotes only if it needs them.
    #[must_use]
    pub fn name(name: &str) -> Self {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ');
        if !name.is_empty() && name.chars().all(is_plain) && *name == *guarded(name) {
            Self::Bare(name.to_owned())
        } else {
            Self::Text(guarded(name).into_owned())
        }
    }
}

/// One row as RFC 4180 describes it, with this character between cells, without the end of the line.
#[must_use]
pub fn csv_row(cells: impl IntoIterator<Item = CsvCell>, separator: char) -> String {
    let mut row = String::new();
    for (index, cell) in cells.into_iter().enumerate() {
        if index > 0 {
            row.push(separator);
        }
        match cell {
            CsvCell::Bare(text) => row.push_str(&text),
            CsvCell::Text(text) => {
                row.push('"');
                row.push_str(&text.replace('"', "\"\""));
                row.push('"');
            }
        }
    }
    row
}

/// A text with an apostrophe in front if a spreadsheet would run it as a formula, also one behind
/// white space. The same for a part of it that a reader with another separator would take for a
/// cell. A number is no formula.
#[must_use]
pub fn guarded(text: &str) -> Cow<'_, str> {
    let mut guarded = String::new();
    if starts_formula(text) {
        guarded.push('\'');
    }
    let mut kept = 0;
    for (end, _) in text.match_indices(ENDS) {
        let rest = &text[end + 1..];
        let cell = rest.trim_start();
        let place = text.len() - cell.len();
        if starts_inner_formula(cell) && place >= kept {
            guarded.push_str(&text[kept..place]);
            guarded.push('\'');
            kept = place;
        }
    }
    if kept == 0 && guarded.is_empty() {
        return Cow::Borrowed(text);
    }
    guarded.push_str(&text[kept..]);
    Cow::Owned(guarded)
}

fn starts_formula(text: &str) -> bool {
    let start = text.trim_start();
    let is_formula = start.starts_with(FORMULA)
        || start.starts_with(['|', '%'])
        || text.starts_with(['\t', '\r', '\n']);
    is_formula && text.parse::<f64>().is_err()
}

/// Whether a part of a text would be a formula; a hyphen before a space begins an item of a list.
fn starts_inner_formula(rest: &str) -> bool {
    let cell = rest.split(ENDS).next().unwrap_or_default();
    let mut characters = cell.chars();
    let sign = characters.next();
    let is_item = sign == Some('-') && characters.next().is_none_or(char::is_whitespace);
    sign.is_some_and(|sign| FORMULA.contains(&sign))
        && !is_item
        && cell.trim_end().parse::<f64>().is_err()
}

/// The columns of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// The record's top-level fields that are columns; empty for one column with the whole record.
    fields: Vec<String>,
}

impl Columns {
    /// Columns for these fields of the record.
    #[must_use]
    pub fn new(fields: Vec<String>) -> Self {
        Self { fields }
    }

    /// The first line of a file, without its end.
    #[must_use]
    pub fn header(&self) -> String {
        let mut names: Vec<CsvCell> = OWN.into_iter().map(CsvCell::name).collect();
        if self.fields.is_empty() {
            names.push(CsvCell::name(WHOLE));
        }
        for field in &self.fields {
            names.push(CsvCell::name(&document::line(field)));
        }
        csv_row(names, ',')
    }

    /// One change, without the end of the line.
    #[must_use]
    pub fn row(&self, change: &Change) -> String {
        let seq = match change.row() {
            Some(seq) => seq.to_string(),
            None => String::new(),
        };
        let mut cells = vec![
            text(&change.event_id),
            CsvCell::Bare(seq),
            optional(change.route_name()),
            optional(change.record_id.as_deref()),
            text(change.kind.as_str()),
            CsvCell::Bare(change.version.to_string()),
            text(&change.observed_at),
            optional(change.business.as_deref()),
        ];
        if self.fields.is_empty() {
            cells.push(json_text(&change.body));
        }
        for name in &self.fields {
            let value = match field_text(&change.body, name) {
                Some(json) if change.kind != Kind::Gap => value(json),
                _ => optional(None),
            };
            cells.push(value);
        }
        csv_row(cells, ',')
    }
}

/// A field's value: a text without the quotes of JSON, nothing for null, other values as JSON.
fn value(json: &str) -> CsvCell {
    match json.as_bytes().first() {
        Some(b'"') => text(&serde_json::from_str::<String>(json).unwrap_or_else(|_| json.into())),
        Some(b'n') => optional(None),
        Some(b'-' | b'0'..=b'9') if serde_json::from_str::<&RawValue>(json).is_ok() => {
            CsvCell::Bare(json.into())
        }
        _ => json_text(json),
    }
}

/// A text as one cell of one line.
fn text(text: &str) -> CsvCell {
    CsvCell::Text(guarded(&document::line(text)).into_owned())
}

/// JSON as one cell of one line, with the same meaning: a sign that would begin a formula behind a
/// semicolon, which stands inside of a string, is written as an escape.
fn json_text(json: &str) -> CsvCell {
    let line = json.replace(['\n', '\r'], " ");
    let mut guarded = String::with_capacity(line.len());
    let mut kept = 0;
    for (end, _) in line.match_indices(';') {
        let cell = line[end + 1..].trim_start();
        let place = line.len() - cell.len();
        if let Some(sign) = cell.chars().next()
            && place >= kept
            && starts_inner_formula(cell)
        {
            guarded.push_str(&line[kept..place]);
            guarded.push_str(&format!("\\u{:04x}", u32::from(sign)));
            kept = place + sign.len_utf8();
        }
    }
    guarded.push_str(&line[kept..]);
    CsvCell::Text(guarded)
}

fn optional(value: Option<&str>) -> CsvCell {
    match value {
        Some(value) => text(value),
        None => CsvCell::Bare(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shopmirror_core::record::fixtures;

    fn row(body: &str, fields: &[&str]) -> String {
        let columns = Columns::new(fields.iter().map(|&name| name.to_owned()).collect());
        let row = columns.row(&fixtures::change(body));
        row.split_once(",\"2026-01-02T03:04:05.000000Z\",,")
            .unwrap()
            .1
            .to_owned()
    }

    #[test]
    fn no_text_becomes_a_formula_and_a_number_stays_one() {
        for (json, cell) in [
            (r#""=HYPERLINK(\"x\")""#, r#""'=HYPERLINK(""x"")""#),
            (r#""+49 30 1""#, r#""'+49 30 1""#),
            (r#""-1""#, r#""-1""#),
            (r#""-x""#, r#""'-x""#),
            (r#"" @SUM(A1)""#, r#""' @SUM(A1)""#),
            (r#""＝1+1""#, r#""'＝1+1""#),
            (r#""|calc""#, r#""'|calc""#),
            (r#""%0""#, r#""'%0""#),
            (r#""\t=1""#, r#""' =1""#),
            (r#""\r=1""#, r#""' =1""#),
            (r#""\n=1""#, r#""' =1""#),
            // What another separator would make a cell.
            (r#""a; =1+1;b""#, r#""a; '=1+1;b""#),
            (r#""x\",\"=1""#, r#""x"",""'=1""#),
            (r#""a;;;@b;-c""#, r#""a;;;'@b;'-c""#),
            (r#""old; - screen; -5; +2""#, r#""old; - screen; -5; +2""#),
            ("-10.50", "-10.50"),
            ("1e5", "1e5"),
            ("null", ""),
            (r#""""#, r#""""#),
            (r#""00123""#, r#""00123""#),
            ("true", r#""true""#),
            (r#""a\nb,c""#, r#""a b,c""#),
            (r#""Zoë""#, r#""Zoë""#),
            (r#"["=1; =2;-x;- y"]"#, r#""[""=1; \u003d2;\u002dx;- y""]""#),
        ] {
            assert_eq!(
                row(&format!(r#"{{"id":1,"x":{json}}}"#), &["x"]),
                cell,
                "{json}"
            );
        }
        assert_eq!(row("{\"id\":1}", &["missing", "id"]), ",1");
        assert_eq!(row("{\"id\":1,\n\"a\":2}", &[]), r#""{""id"":1, ""a"":2}""#);
    }
}
