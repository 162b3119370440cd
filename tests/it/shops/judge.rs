//! Compares each number that the program tells with the truth, and counts.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use super::told::{Mark, Number, Told};
use super::truth::Rows;

/// How a number stands to the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub(super) enum Verdict {
    /// It is told as exact, and is true.
    Right,
    /// It was true when the lists were read last, and says so.
    RightAsOf,
    /// It is as a page showed it last, and a note says so.
    AsLastSeen,
    /// Its range holds the truth.
    Held,
    About,
    Unknown,
    /// A row of single records is missing or too many, and a note says why that may be.
    RowsNoted,
    /// It is told as exact, and is not true.
    Wrong,
    /// Its range does not hold the truth.
    Outside,
}

impl Verdict {
    pub(super) fn is_bad(self) -> bool {
        matches!(self, Self::Wrong | Self::Outside)
    }
}

/// The counts of one report in one form.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    pub(super) of: BTreeMap<Verdict, usize>,
}

impl Counts {
    pub(super) fn get(&self, verdict: Verdict) -> usize {
        self.of.get(&verdict).copied().unwrap_or_default()
    }

    pub(super) fn all(&self) -> usize {
        self.of.values().sum()
    }
}

/// All counts, and the first wrong numbers with what reproduces them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// By form and report.
    pub(super) counts: BTreeMap<(String, String), Counts>,
    /// By form, report and column.
    pub(super) wrong_columns: BTreeMap<(String, String, String), usize>,
    pub(super) examples: Vec<String>,
}

/// The most examples of one column.
const EXAMPLES: usize = 2;

impl Tally {
    pub(super) fn count(&mut self, place: &Place<'_>, column: &str, verdict: Verdict, why: &str) {
        let key = (place.form.to_owned(), place.report.to_owned());
        let counts = self.counts.entry(key).or_default();
        *counts.of.entry(verdict).or_default() += 1;
        if !verdict.is_bad() {
            return;
        }
        let key = (
            place.form.to_owned(),
            place.report.to_owned(),
            column.to_owned(),
        );
        let wrong = self.wrong_columns.entry(key).or_default();
        *wrong += 1;
        // What is wrong in JSON is wrong in CSV in the same way.
        if *wrong <= EXAMPLES && place.form != "csv" {
            let Place {
                form,
                report,
                asked,
                ..
            } = place;
            self.examples
                .push(format!("{report} {asked} as {form}, {column}: {why}"));
        }
    }

    pub(super) fn total(&self, verdict: Verdict) -> usize {
        self.counts.values().map(|counts| counts.get(verdict)).sum()
    }

    pub(super) fn all(&self) -> usize {
        self.counts.values().map(Counts::all).sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdicts = [
            Verdict::Right,
            Verdict::RightAsOf,
            Verdict::AsLastSeen,
            Verdict::Held,
            Verdict::About,
            Verdict::Unknown,
            Verdict::RowsNoted,
            Verdict::Wrong,
            Verdict::Outside,
        ];
        for ((form, report), counts) in &self.counts {
            write!(f, "{form:4} {report:21} {:7}", counts.all())?;
            for verdict in verdicts {
                if counts.get(verdict) > 0 {
                    write!(f, " {verdict} {}", counts.get(verdict))?;
                }
            }
            writeln!(f)?;
        }
        for ((form, report, column), wrong) in &self.wrong_columns {
            writeln!(f, "wrong: {form} {report}.{column} {wrong}")?;
        }
        for example in &self.examples {
            writeln!(f, "  {example}")?;
        }
        write!(f, "all {}", self.all())?;
        for verdict in verdicts {
            write!(f, ", {verdict} {}", self.total(verdict))?;
        }
        Ok(())
    }
}

/// Where a number is told.
pub(super) struct Place<'a> {
    pub(super) form: &'a str,
    pub(super) report: &'a str,
    /// When it was asked for.
    pub(super) now: Timestamp,
    /// What it was asked for, in a few words.
    pub(super) asked: &'a str,
    /// Whether each row of the report is one record.
    pub(super) is_list: bool,
    /// The columns that have a sum.
    pub(super) summed: &'a [String],
}

/// The truths that a number may tell.
pub(super) struct Truths<'a> {
    /// As it is now.
    pub(super) now: Rows,
    /// As it was when the lists were read last.
    pub(super) when_read: Lazy<'a>,
    /// As pages showed it last.
    pub(super) last_seen: Lazy<'a>,
}

/// A truth that is counted when it is needed.
pub(super) type Lazy<'a> = LazyCell<Rows, Box<dyn FnOnce() -> Rows + 'a>>;

/// A truth that is counted when it is needed.
pub(super) fn lazy<'a>(count: impl FnOnce() -> Rows + 'a) -> Lazy<'a> {
    LazyCell::new(Box::new(count))
}

fn is_same(told: f64, truth: f64, most: f64) -> bool {
    (told - truth).abs() <= most
}

/// Compares one number with one truth. `most` is what rounding may do.
pub(super) fn judge(told: Number, truth: Option<f64>, most: f64) -> Verdict {
    let (value, truth) = match (told.value, truth, told.mark) {
        (_, _, Mark::About) => return Verdict::About,
        (_, _, Mark::Unknown) | (None, Some(_), _) => return Verdict::Unknown,
        (None, None, _) => return Verdict::Right,
        (Some(_), None, Mark::Exact) => return Verdict::Wrong,
        (Some(_), None, _) => return Verdict::Outside,
        (Some(value), Some(truth), _) => (value, truth),
    };
    let holds = match told.mark {
        Mark::Exact => {
            return if is_same(value, truth, most) {
                Verdict::Right
            } else {
                Verdict::Wrong
            };
        }
        Mark::AtLeast => value <= truth + most,
        Mark::AtMost => value >= truth - most,
        Mark::Between { upper } => value <= truth + most && truth <= upper + most,
        Mark::About | Mark::Unknown => true,
    };
    if holds {
        Verdict::Held
    } else {
        Verdict::Outside
    }
}

/// What rounding may do to a number of this column.
fn rounding(column: &str) -> f64 {
    match column {
        "oldest_days" | "converted_percent" => 0.0501,
        "median_days" | "p90_days" => 0.0051,
        // Money and counts.
        _ => 1e-9,
    }
}

/// Notes that say that some values are as they were seen last.
fn tells_last_seen(notes: &[String]) -> bool {
    notes.iter().any(|note| {
        note.contains("was not seen since")
            || note.contains("last seen")
            || note.contains("as seen")
    })
}

/// Notes that say that records may be missing or may be too many.
fn tells_doubt(notes: &[String]) -> bool {
    let words = [
        "complete since",
        "may be missing",
        "last read on",
        "never read",
    ];
    tells_last_seen(notes)
        || notes
            .iter()
            .any(|note| words.iter().any(|word| note.contains(word)))
}

/// Compares every number of a report.
pub(super) fn compare(tally: &mut Tally, place: &Place<'_>, told: &Told, truths: &Truths<'_>) {
    let mut keys: Vec<&Vec<String>> = told.rows.keys().chain(truths.now.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        match (told.rows.get(key), truths.now.get(key)) {
            (Some(row), Some(truth)) => {
                for (column, truth) in truth {
                    let number = *row
                        .get(*column)
                        .unwrap_or_else(|| panic!("{} has no column {column}", place.report));
                    compare_number(tally, place, told, truths, (key, column), (number, *truth));
                }
            }
            (row, truth) if place.is_list => {
                compare_presence(
                    tally,
                    place,
                    told,
                    truths,
                    key,
                    (row.is_some(), truth.is_some()),
                );
            }
            (row, truth) => {
                for column in place.summed {
                    let true_number = match truth {
                        Some(truth) => truth.get(column.as_str()).copied().flatten(),
                        None => Some(0.0),
                    };
                    // A row that is not there tells 0, as sure as the sum is.
                    let sum = told.totals.as_ref().and_then(|totals| totals.get(column));
                    let number = match (row, sum) {
                        (Some(row), _) => row[column],
                        (None, Some(sum)) => Number::of(Some(0.0), sum.mark),
                        (None, None) if told.rows.is_empty() => Number::of(None, Mark::Unknown),
                        (None, None) => Number::of(Some(0.0), Mark::Exact),
                    };
                    let at = (key, column.as_str());
                    compare_number(tally, place, told, truths, at, (number, true_number));
                }
            }
        }
    }
    compare_totals(tally, place, told, truths);
}

fn compare_totals(tally: &mut Tally, place: &Place<'_>, told: &Told, truths: &Truths<'_>) {
    let Some(totals) = &told.totals else {
        return;
    };
    let key = vec!["Total".to_owned()];
    for column in place.summed {
        let sum = sum_of(&truths.now, column);
        let truths = Truths {
            now: Rows::new(),
            when_read: lazy(|| summed(&truths.when_read, column)),
            last_seen: lazy(|| summed(&truths.last_seen, column)),
        };
        let at = (&key, column.as_str());
        compare_number(tally, place, told, &truths, at, (totals[column], Some(sum)));
    }
}

fn sum_of(rows: &Rows, column: &str) -> f64 {
    let numbers = rows
        .values()
        .filter_map(|row| row.get(column).copied().flatten());
    // In hundredths, because sums of fractions would not be exact.
    numbers.map(|number| (number * 100.0).round()).sum::<f64>() / 100.0
}

/// A table with the sum of a column as its one row.
fn summed(rows: &Rows, column: &str) -> Rows {
    let names = rows.values().flat_map(|row| row.keys().copied());
    let name = names.into_iter().find(|name| *name == column);
    let sum = Some(sum_of(rows, column));
    let row = name.map(|name| [(name, sum)].into()).unwrap_or_default();
    [(vec!["Total".to_owned()], row)].into()
}

fn compare_number(
    tally: &mut Tally,
    place: &Place<'_>,
    told: &Told,
    truths: &Truths<'_>,
    (key, column): (&Vec<String>, &str),
    (number, truth): (Number, Option<f64>),
) {
    let most = rounding(column);
    let mut verdict = judge(number, truth, most);
    let other = |rows: &Rows| match rows.get(key) {
        Some(row) => row.get(column).copied().flatten(),
        None => Some(0.0),
    };
    let tells_when_read = told.as_of.is_none_or(|as_of| as_of < place.now);
    if verdict.is_bad()
        && tells_when_read
        && !judge(number, other(&truths.when_read), most).is_bad()
    {
        verdict = Verdict::RightAsOf;
    }
    if verdict.is_bad()
        && tells_last_seen(&told.notes)
        && !judge(number, other(&truths.last_seen), most).is_bad()
    {
        verdict = Verdict::AsLastSeen;
    }
    let why = format!("row {key:?} is {number:?}, true {truth:?}");
    tally.count(place, column, verdict, &why);
}

fn compare_presence(
    tally: &mut Tally,
    place: &Place<'_>,
    told: &Told,
    truths: &Truths<'_>,
    key: &Vec<String>,
    (is_told, is_true): (bool, bool),
) {
    let is_as_read = truths.when_read.contains_key(key) == is_told;
    let is_as_seen = truths.last_seen.contains_key(key) == is_told;
    let verdict = if is_as_read {
        Verdict::RightAsOf
    } else if is_as_seen && tells_last_seen(&told.notes) {
        Verdict::AsLastSeen
    } else if tells_doubt(&told.notes) {
        Verdict::RowsNoted
    } else {
        Verdict::Wrong
    };
    let why = format!("row {key:?} is told: {is_told}, true: {is_true}");
    tally.count(place, "(row)", verdict, &why);
}
