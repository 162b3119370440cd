//! Rows of CSV that a spreadsheet can open safely, and a change as one of them.
//!
//! The columns of a change are fixed by the configuration, so that every row of a file has the same
//! ones. Its row is one line: line breaks inside a value become spaces.

use std::borrow::Cow;

use serde_json::value::RawValue;
use shopmirror_core::record::{Change, Kind, field_text};

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

/// One row as RFC 4180 describes it, without the end of the line.
#[must_use]
pub fn csv_row<C: AsRef<str>>(cells: impl IntoIterator<Item = C>) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    for cell in cells {
        writer
            .write_field(cell.as_ref())
            .expect("memory takes every cell");
    }
    writer
        .write_record(None::<&[u8]>)
        .expect("memory takes the end of a row");
    let row = writer.into_inner().expect("memory has nothing to flush");
    let row = String::from_utf8(row).expect("cells are text");
    row.trim_end_matches('\n').to_owned()
}

/// A text with an apostrophe in front if a spreadsheet would run it as a formula; also one behind
/// white space and one in full width, as some spreadsheets read them. A number is no formula.
#[must_use]
pub fn guarded(text: &str) -> Cow<'_, str> {
    let signs = ['=', '+', '-', '@', '＝', '＋', '－', '＠', '|', '%'];
    let is_formula = text.trim_start().starts_with(signs) || text.starts_with(['\t', '\r', '\n']);
    let is_number = text.parse::<f64>().is_ok();
    if is_formula && !is_number {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
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
        let mut names: Vec<String> = OWN.into_iter().map(cell).collect();
        if self.fields.is_empty() {
            names.push(cell(WHOLE));
        }
        for field in &self.fields {
            names.push(cell(field));
        }
        csv_row(names)
    }

    /// One change, without the end of the line.
    #[must_use]
    pub fn row(&self, change: &Change) -> String {
        let seq = match change.row() {
            Some(seq) => seq.to_string(),
            None => String::new(),
        };
        let mut cells = vec![
            cell(&change.event_id),
            seq,
            change.route_name().unwrap_or_default().to_owned(),
            cell(change.record_id.as_deref().unwrap_or_default()),
            change.kind.as_str().to_owned(),
            change.version.to_string(),
            change.observed_at.clone(),
            cell(change.business.as_deref().unwrap_or_default()),
        ];
        if self.fields.is_empty() {
            cells.push(cell(&change.body));
        }
        for name in &self.fields {
            let value = match field_text(&change.body, name) {
                Some(json) if change.kind != Kind::Gap => shown(json),
                _ => String::new(),
            };
            cells.push(value);
        }
        csv_row(cells)
    }
}

/// A field's value: a text without quotes, nothing for null, other values as JSON.
fn shown(json: &str) -> String {
    match json.as_bytes().first() {
        Some(b'"') => cell(&serde_json::from_str::<String>(json).unwrap_or_else(|_| json.into())),
        Some(b'n') => String::new(),
        // A number is no formula, whatever its form.
        Some(b'-' | b'0'..=b'9') if serde_json::from_str::<&RawValue>(json).is_ok() => json.into(),
        _ => cell(json),
    }
}

/// A text as one cell of one line.
fn cell(text: &str) -> String {
    guarded(&text.replace(['\n', '\r', '\0'], " ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shopmirror_core::record::fixtures;

    fn row(body: &str, fields: &[&str]) -> String {
        let columns = Columns::new(fields.iter().map(|&name| name.to_owned()).collect());
        let row = columns.row(&fixtures::change(body));
        row.split_once(",2026-01-02T03:04:05.000000Z,,")
            .unwrap()
            .1
            .to_owned()
    }

    #[test]
    fn no_text_becomes_a_formula_and_a_number_stays_one() {
        for (json, cell) in [
            (r#""=HYPERLINK(\"x\")""#, r#""'=HYPERLINK(""x"")""#),
            (r#""+49 30 1""#, "'+49 30 1"),
            (r#""-1""#, "-1"),
            (r#""-x""#, "'-x"),
            (r#"" @SUM(A1)""#, "' @SUM(A1)"),
            (r#""＝1+1""#, "'＝1+1"),
            (r#""|calc""#, "'|calc"),
            (r#""%0""#, "'%0"),
            (r#""\t=1""#, "'\t=1"),
            (r#""\r=1""#, "' =1"),
            (r#""\n=1""#, "' =1"),
            ("-10.50", "-10.50"),
            ("null", ""),
            ("true", "true"),
            (r#""a\nb,c""#, r#""a b,c""#),
            (r#""Zoë""#, "Zoë"),
            (r#"["=1"]"#, r#""[""=1""]""#),
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
