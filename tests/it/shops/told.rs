//! What the program tells: the numbers of a report in one of its forms, each with its mark.
//!
//! A form is read as a stranger would read it: JSON by its documented members, CSV by the columns
//! `NAME_mark` and `NAME_max`.

mod tables;

use std::collections::BTreeMap;

use serde_json::Value;

pub(super) use tables::{html, text};

/// How sure the program says that a number is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Mark {
    Exact,
    AtLeast,
    AtMost,
    Between { upper: f64 },
    About,
    Unknown,
}

/// A number as it is told; `None` is an empty cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number {
    pub(super) value: Option<f64>,
    pub(super) mark: Mark,
}

impl Number {
    pub(super) fn of(value: Option<f64>, mark: Mark) -> Self {
        Self { value, mark }
    }
}

/// A report in one form.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// By the texts that name a row, then by column.
    pub(super) rows: BTreeMap<Vec<String>, BTreeMap<String, Number>>,
    /// The line of sums, if the form has one.
    pub(super) totals: Option<BTreeMap<String, Number>>,
    /// What a reader adds up, if the form has no line of sums.
    pub(super) sums: BTreeMap<String, Number>,
    pub(super) notes: Vec<String>,
    /// Up to when the lists were read, if the form says so.
    pub(super) as_of: Option<jiff::Timestamp>,
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The mark of a place that the lists of a document name: `[row, column]`, or `[row, column, upper]`.
fn marked(document: &Value, row: usize, column: usize) -> Mark {
    let find = |list: &str| {
        let places = document[list].as_array()?;
        places.iter().find(|it| it[0] == row && it[1] == column)
    };
    if let Some(place) = find("between") {
        let upper = place[2].as_f64().unwrap();
        return Mark::Between { upper };
    }
    for (list, mark) in [
        ("at_least", Mark::AtLeast),
        ("at_most", Mark::AtMost),
        ("about", Mark::About),
    ] {
        if find(list).is_some() {
            return mark;
        }
    }
    Mark::Exact
}

/// The mark of a sum of this column: the lists name columns, or `[column, upper]`.
fn marked_total(document: &Value, column: usize) -> Mark {
    for range in list(&document["totals_between"]) {
        if range[0] == column {
            let upper = range[1].as_f64().unwrap();
            return Mark::Between { upper };
        }
    }
    for (name, mark) in [
        ("totals_at_least", Mark::AtLeast),
        ("totals_at_most", Mark::AtMost),
        ("totals_about", Mark::About),
    ] {
        let columns = list(&document[name]);
        if columns.iter().any(|it| *it == column) {
            return mark;
        }
    }
    Mark::Exact
}

/// Reads the JSON of a report; `names` are the columns that name a row.
pub(super) fn json(text: &str, names: &[&str]) -> Told {
    let document: Value = serde_json::from_str(text).unwrap();
    let columns: Vec<String> = list(&document["columns"]).iter().map(text_of).collect();
    let mut told = Told {
        notes: list(&document["notes"]).iter().map(text_of).collect(),
        as_of: document["as_of"].as_str().map(|at| at.parse().unwrap()),
        ..Told::default()
    };
    for (row, cells) in list(&document["rows"]).iter().enumerate() {
        let key = names.iter().map(|name| {
            let column = columns.iter().position(|it| it == name).unwrap();
            text_of(&cells[column])
        });
        let mut numbers = BTreeMap::new();
        for (column, name) in columns.iter().enumerate() {
            let mark = marked(&document, row, column);
            numbers.insert(name.clone(), Number::of(cells[column].as_f64(), mark));
        }
        told.rows.insert(key.collect(), numbers);
    }
    if let Some(totals) = document["totals"].as_array() {
        let mut numbers = BTreeMap::new();
        for (column, name) in columns.iter().enumerate() {
            let mark = marked_total(&document, column);
            numbers.insert(name.clone(), Number::of(totals[column].as_f64(), mark));
        }
        told.totals = Some(numbers);
    }
    told
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// Reads the CSV of a report. No name of these shops has a comma or a quotation mark of its own.
pub(super) fn csv(text: &str, names: &[&str]) -> Told {
    let text = text.replace('"', "");
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let columns: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let mut told = Told::default();
    for line in lines {
        let row: BTreeMap<&str, &str> = columns.iter().copied().zip(line.split(',')).collect();
        let key = names.iter().map(|name| row[name].to_owned()).collect();
        let mut numbers = BTreeMap::new();
        for (name, cell) in &row {
            let mark = match row.get(format!("{name}_mark").as_str()).copied() {
                None | Some("") => Mark::Exact,
                Some("at_least") => Mark::AtLeast,
                Some("at_most") => Mark::AtMost,
                Some("about") => Mark::About,
                Some("unknown") => Mark::Unknown,
                Some("between") => {
                    let upper = row[format!("{name}_max").as_str()].parse().unwrap();
                    Mark::Between { upper }
                }
                Some(other) => panic!("the mark {other} is not known"),
            };
            let value = cell.trim_end_matches(" %").parse().ok();
            numbers.insert((*name).to_owned(), Number::of(value, mark));
        }
        told.rows.insert(key, numbers);
    }
    told.sums = sums_of(&told);
    told
}

/// The sums that a reader makes of the rows, each as sure as its rows are.
fn sums_of(told: &Told) -> BTreeMap<String, Number> {
    let mut sums: BTreeMap<String, Number> = BTreeMap::new();
    for row in told.rows.values() {
        for (name, number) in row {
            let sum = sums
                .entry(name.clone())
                .or_insert(Number::of(Some(0.0), Mark::Exact));
            sum.value = Some(sum.value.unwrap_or_default() + number.value.unwrap_or_default());
            sum.mark = match (sum.mark, number.mark) {
                (mark, Mark::Exact) => mark,
                (Mark::About, _) | (_, Mark::About | Mark::AtMost) => Mark::About,
                _ => Mark::AtLeast,
            };
        }
    }
    sums
}
