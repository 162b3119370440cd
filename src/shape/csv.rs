//! A change as one row of a CSV file that a spreadsheet can open safely.
//!
//! The columns are fixed by the configuration, so that every row of a file has the same ones. A text
//! that a spreadsheet would run as a formula gets an apostrophe in front. A row is one line: line
//! breaks inside a value become spaces.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::record::{Change, Kind, field};

/// What every row begins with. The event id is first, so that a row can be recognised by it.
const OWN: [&str; 8] =
    ["event_id", "seq", "route", "record_id", "kind", "version", "observed_at", "business"];
/// The last column if the configuration names none: the whole record.
const WHOLE: &str = "record";

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

    /// Whether a file has a column of this name before those of the record.
    #[must_use]
    pub fn is_own(name: &str) -> bool {
        OWN.contains(&name)
    }

    /// The first line of a file, without its end.
    #[must_use]
    pub fn header(&self) -> String {
        let whole = self.fields.is_empty().then_some(WHOLE);
        let names = OWN.into_iter().chain(self.fields.iter().map(String::as_str)).chain(whole);
        names.map(|name| cell(name).into_owned()).collect::<Vec<_>>().join(",")
    }

    /// One change, without the end of the line.
    #[must_use]
    pub fn row(&self, change: &Change) -> String {
        let seq = change.row().map_or_else(String::new, |row| row.to_string());
        let version = change.version.to_string();
        let mut cells: Vec<Cow<'_, str>> = vec![
            cell(&change.event_id),
            Cow::Borrowed(&seq),
            Cow::Borrowed(change.route_name().unwrap_or_default()),
            cell(change.record_id.as_deref().unwrap_or_default()),
            Cow::Borrowed(change.kind.as_str()),
            Cow::Borrowed(&version),
            Cow::Borrowed(&change.observed_at),
            cell(change.business.as_deref().unwrap_or_default()),
        ];
        if self.fields.is_empty() {
            cells.push(cell(&change.body));
        }
        let gap = change.kind == Kind::Gap;
        cells.extend(self.fields.iter().map(|name| match field(&change.body, name) {
            Some(json) if !gap => shown(json),
            _ => Cow::Borrowed(""),
        }));
        cells.join(",")
    }
}

/// A field's value: a text without quotes, nothing for null, other values as JSON.
fn shown(json: &str) -> Cow<'_, str> {
    match json.as_bytes().first() {
        Some(b'"') => match serde_json::from_str::<String>(json) {
            Ok(text) => Cow::Owned(cell(&text).into_owned()),
            Err(_) => cell(json),
        },
        Some(b'n') => Cow::Borrowed(""),
        // A number is no formula, also with a sign.
        Some(b'-' | b'0'..=b'9') if serde_json::from_str::<&RawValue>(json).is_ok() => {
            Cow::Borrowed(json)
        }
        _ => cell(json),
    }
}

/// A text as one cell.
fn cell(text: &str) -> Cow<'_, str> {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    let special = text.contains([',', '"', '\n', '\r', '\t', ';', '\0']);
    if !formula && !special {
        return Cow::Borrowed(text);
    }
    let guard = if formula { "'" } else { "" };
    let line = text.replace(['\n', '\r', '\0'], " ").replace('"', "\"\"");
    Cow::Owned(format!("\"{guard}{line}\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Route;

    fn row(body: &str, fields: &[&str]) -> String {
        let change = Change {
            seq: 7,
            event_id: "evt_1".into(),
            route: Route::Leads,
            record_id: Some("=12".into()),
            kind: Kind::Created,
            version: 1,
            observed_at: "2026-01-02T03:04:05.000000Z".into(),
            business: None,
            body: body.into(),
            before: None,
            job: None,
        };
        let columns = Columns::new(fields.iter().map(|&name| name.to_owned()).collect());
        let row = columns.row(&change);
        row.split_once(",2026-01-02T03:04:05.000000Z,,").unwrap().1.to_owned()
    }

    #[test]
    fn no_text_becomes_a_formula_and_a_number_stays_one() {
        for (json, cell) in [
            (r#""=HYPERLINK(\"x\")""#, r#""'=HYPERLINK(""x"")""#),
            (r#""+49 30 1""#, r#""'+49 30 1""#),
            (r#""-1""#, r#""'-1""#),
            (r#""@SUM(A1)""#, r#""'@SUM(A1)""#),
            (r#""\t=1""#, "\"'\t=1\""),
            (r#""\r=1""#, r#""' =1""#),
            (r#""\n=1""#, r#""' =1""#),
            ("-10.50", "-10.50"),
            ("null", ""),
            ("true", "true"),
            (r#""a\nb;c""#, r#""a b;c""#),
            (r#""Zoë""#, "Zoë"),
            (r#"["=1"]"#, r#""[""=1""]""#),
        ] {
            assert_eq!(row(&format!(r#"{{"id":1,"x":{json}}}"#), &["x"]), cell, "{json}");
        }
        assert_eq!(row("{\"id\":1}", &["missing", "id"]), ",1");
        assert_eq!(row("{\"id\":1,\n\"a\":2}", &[]), r#""{""id"":1, ""a"":2}""#);
    }
}
