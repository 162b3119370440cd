//! Compares each number that the program tells with the truth, and counts.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use strum::VariantArray;

use super::told::{Mark, Number, Told};
use super::truth::Rows;

/// How a number stands to the truth.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display, strum::VariantArray,
)]
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
    /// It is told as about, and a note names amounts that cannot be read.
    AboutUnread,
    Unknown,
    /// It is told as unknown, although pages showed all of it.
    UnknownThoughShown,
    /// A row of single records is missing or too many, and a note says why that may be.
    RowsNoted,
    /// It counts records that were deleted, or moved to another business, and that no page could
    /// show, or has shown so far, as gone or there.
    NotFound,
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

/// In which way a number or a row is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
#[strum(serialize_all = "snake_case")]
pub(super) enum Fault {
    TooMuch,
    TooLittle,
    /// A list has a record that it should not have.
    RowTooMany,
    /// A list lacks a record.
    RowMissing,
}

impl Fault {
    /// How a number is wrong that is told as `number`, if it is.
    fn of(number: Number, truth: Option<f64>) -> Self {
        if number.value > truth {
            Self::TooMuch
        } else {
            Self::TooLittle
        }
    }
}

/// Where numbers are wrong, and how.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WrongPlace {
    pub(super) form: String,
    pub(super) report: String,
    pub(super) column: String,
    pub(super) fault: Fault,
}

impl fmt::Display for WrongPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            form,
            report,
            column,
            fault,
        } = self;
        write!(f, "{report}.{column} as {form}: {fault}")
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
    pub(super) wrong: BTreeMap<WrongPlace, usize>,
    pub(super) examples: Vec<String>,
    /// Records that were deleted, and how many of them the mirror still counts.
    pub(super) deleted: usize,
    pub(super) still_counted: usize,
}

/// The most examples of one column.
const EXAMPLES: usize = 2;

impl Tally {
    pub(super) fn count(
        &mut self,
        place: &Place<'_>,
        column: &str,
        verdict: Verdict,
        fault: Fault,
        why: &str,
    ) {
        let key = (place.form.to_owned(), place.report.to_owned());
        let counts = self.counts.entry(key).or_default();
        *counts.of.entry(verdict).or_default() += 1;
        if !verdict.is_bad() {
            return;
        }
        let wrong_place = WrongPlace {
            form: place.form.to_owned(),
            report: place.report.to_owned(),
            column: column.to_owned(),
            fault,
        };
        let wrong = self.wrong.entry(wrong_place).or_default();
        *wrong += 1;
        // What is wrong in JSON is wrong in the other forms in the same way.
        if *wrong <= EXAMPLES && ["json", "home"].contains(&place.form) {
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
        for ((form, report), counts) in &self.counts {
            write!(f, "{form:4} {report:21} {:7}", counts.all())?;
            for verdict in Verdict::VARIANTS {
                if counts.get(*verdict) > 0 {
                    write!(f, " {verdict} {}", counts.get(*verdict))?;
                }
            }
            writeln!(f)?;
        }
        for (place, wrong) in &self.wrong {
            writeln!(f, "wrong: {wrong} of {place}")?;
        }
        for example in &self.examples {
            writeln!(f, "  {example}")?;
        }
        let (deleted, still) = (self.deleted, self.still_counted);
        writeln!(
            f,
            "{deleted} records were deleted, {still} are still counted"
        )?;
        write!(f, "all {}", self.all())?;
        for verdict in Verdict::VARIANTS {
            write!(f, ", {verdict} {}", self.total(*verdict))?;
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
    /// Others, and what a number is that tells one of them.
    pub(super) others: Vec<(Verdict, Lazy<'a>)>,
    /// The total of each repair as a page showed it last, whatever is owed.
    pub(super) shown_totals: Lazy<'a>,
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
        "oldest_days" | "converted_percent" | "reopened_percent" => 0.0501,
        "median_days" | "p90_days" | "average" => 0.0051,
        // Money and counts.
        _ => 1e-9,
    }
}

/// The columns of amounts, and the numbers of Home that are amounts.
const MONEY: [&str; 10] = [
    "billed",
    "average",
    "received",
    "refunded",
    "net",
    "total",
    "paid",
    "outstanding",
    "money_in",
    "unpaid",
];

/// Notes that say that amounts cannot be read.
fn tells_unread_amounts(notes: &[String]) -> bool {
    let of_amounts = ["amount", "payment", "cost"];
    notes.iter().any(|note| {
        let is_unread = note.contains("nothing says what")
            || note.contains("can be read")
            || note.contains("cannot be read")
            || note.contains("cannot all be read");
        is_unread && of_amounts.iter().any(|word| note.contains(word))
    })
}

/// Notes that say that some values are as they were seen last.
fn tells_last_seen(notes: &[String]) -> bool {
    notes.iter().any(|note| {
        note.contains("was not seen since")
            || note.contains("last seen")
            || note.contains("as seen")
    })
}

/// The words of a note that says why a list may lack a row of this report, or have one too many;
/// all words of one line stand in one part of one note.
fn doubts_of_rows(report: &str, is_told: bool) -> &'static [&'static [&'static str]] {
    match (report, is_told) {
        // Closed since, as far as a page could have shown it.
        ("follow-ups", true) => &[&["leads", "was not seen since"], &["leads", "last read on"]],
        ("follow-ups", false) => &[
            &["leads", "complete since"],
            &["leads", "may be missing"],
            &["leads", "last read on"],
            &["next_follow_up that cannot be read"],
        ],
        // Completed since.
        ("repairs", true) => &[&["open repair", "not heard of since"]],
        ("repairs", false) => &[
            &["jobs", "complete since"],
            &["jobs may be missing"],
            &["more open repairs if completed ones were reopened"],
            &["more if completed repairs were reopened"],
        ],
        // Paid since, or cancelled since, or its total was changed.
        ("outstanding", true) => &[
            &["payments may be missing"],
            &["payments", "last read on"],
            &["job status changes may be missing"],
            &["payment has no amount that can be read"],
            &["a total_amount that cannot be read"],
        ],
        ("outstanding", false) => &[
            &["jobs", "complete since"],
            &["jobs may be missing"],
            &["no total_amount"],
            &["if one of them was a refund, more is owed"],
            &["payment has no amount that can be read"],
        ],
        _ => &[],
    }
}

/// Whether notes say why the list of a report may lack a row, or have one too many.
fn tells_doubt(notes: &[String], report: &str, is_told: bool) -> bool {
    let mut parts = notes.iter().flat_map(|note| note.split("; "));
    parts.any(|part| {
        let mut doubts = doubts_of_rows(report, is_told).iter();
        doubts.any(|words| words.iter().all(|word| part.contains(word)))
    })
}

/// A report in one form, beside its truths.
struct Judge<'a, 't> {
    tally: &'a mut Tally,
    place: &'a Place<'a>,
    told: &'a Told,
    truths: &'a Truths<'t>,
}

/// Compares every number of a report.
pub(super) fn compare(tally: &mut Tally, place: &Place<'_>, told: &Told, truths: &Truths<'_>) {
    let mut judge = Judge {
        tally,
        place,
        told,
        truths,
    };
    let not_found_before = judge.not_found();
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
                    judge.number(key, column, number, *truth);
                }
            }
            (row, truth) if place.is_list => judge.presence(key, row.is_some(), truth.is_some()),
            (row, truth) => judge.row_of_one_side(key, row, truth),
        }
    }
    let has_not_found = judge.not_found() > not_found_before;
    judge.totals(has_not_found);
}

impl Judge<'_, '_> {
    /// How many numbers of this report and form were not true because of deleted records.
    fn not_found(&self) -> usize {
        let key = (self.place.form.to_owned(), self.place.report.to_owned());
        let counts = self.tally.counts.get(&key);
        counts.map_or(0, |counts| counts.get(Verdict::NotFound))
    }

    /// Whether the report says what makes a number one of another truth.
    fn tells(&self, verdict: Verdict) -> bool {
        match verdict {
            Verdict::RightAsOf => self.told.as_of.is_none_or(|as_of| as_of < self.place.now),
            Verdict::AsLastSeen => tells_last_seen(&self.told.notes),
            Verdict::UnknownThoughShown => false,
            _ => true,
        }
    }

    fn number(&mut self, key: &[String], column: &str, number: Number, truth: Option<f64>) {
        let verdict = self.verdict(&self.truths.others, key, column, number, truth);
        self.count(key, column, verdict, number, truth);
    }

    fn verdict(
        &self,
        others: &[(Verdict, Lazy<'_>)],
        key: &[String],
        column: &str,
        number: Number,
        truth: Option<f64>,
    ) -> Verdict {
        let most = rounding(column);
        let mut verdict = judge(number, truth, most);
        for (other_verdict, rows) in others {
            if !verdict.is_bad() && verdict != Verdict::Unknown {
                break;
            }
            let other = match rows.get(key) {
                Some(row) => row.get(column).copied().flatten(),
                None => Some(0.0),
            };
            let is_other = self.tells(*other_verdict) && !judge(number, other, most).is_bad();
            if verdict.is_bad() && is_other {
                verdict = *other_verdict;
            }
            if verdict == Verdict::Unknown
                && *other_verdict == Verdict::UnknownThoughShown
                && truth.is_some_and(|truth| truth > 0.0)
                && other == truth
            {
                verdict = Verdict::UnknownThoughShown;
            }
        }
        if verdict.is_bad()
            && self.tells(Verdict::AsLastSeen)
            && let Some(row) = self.truths.shown_totals.get(key)
            && let Some(shown) = row.get(column)
            && !judge(number, *shown, most).is_bad()
        {
            verdict = Verdict::AsLastSeen;
        }
        let name = match self.place.form {
            "home" => key[0].split('.').next().unwrap_or_default(),
            _ => column,
        };
        if verdict == Verdict::About
            && MONEY.contains(&name)
            && tells_unread_amounts(&self.told.notes)
        {
            return Verdict::AboutUnread;
        }
        verdict
    }

    fn count(
        &mut self,
        key: &[String],
        column: &str,
        verdict: Verdict,
        number: Number,
        truth: Option<f64>,
    ) {
        let why = format!("row {key:?} is {number:?}, true {truth:?}");
        // A number of Home is a row of its own.
        let column = match self.place.form {
            "home" => key[0].split(".days").next().unwrap_or_default(),
            _ => column,
        };
        let fault = Fault::of(number, truth);
        self.tally.count(self.place, column, verdict, fault, &why);
    }

    /// A row that only the report has, or only the truth. A row that is not there tells 0, as sure
    /// as the sum is.
    fn row_of_one_side(
        &mut self,
        key: &[String],
        row: Option<&BTreeMap<String, Number>>,
        truth: Option<&BTreeMap<&'static str, Option<f64>>>,
    ) {
        let told = self.told;
        for column in self.place.summed {
            let true_number = match truth {
                Some(truth) => truth.get(column.as_str()).copied().flatten(),
                None => Some(0.0),
            };
            let sums = told.totals.as_ref().unwrap_or(&told.sums);
            let sum = sums.get(column);
            let number = match (row, sum) {
                (Some(row), _) => row[column],
                (None, Some(sum)) => Number::of(Some(0.0), sum.mark),
                (None, None) if told.rows.is_empty() => Number::of(None, Mark::Unknown),
                (None, None) => Number::of(Some(0.0), Mark::Exact),
            };
            self.number(key, column, number, true_number);
        }
    }

    /// A record that only the report has in its list, or only the truth.
    fn presence(&mut self, key: &[String], is_told: bool, is_true: bool) {
        let mut verdict = Verdict::Wrong;
        for (other, rows) in &self.truths.others {
            if verdict.is_bad() && self.tells(*other) && rows.contains_key(key) == is_told {
                verdict = *other;
            }
        }
        if verdict.is_bad() && tells_doubt(&self.told.notes, self.place.report, is_told) {
            verdict = Verdict::RowsNoted;
        }
        let why = format!("row {key:?} is told: {is_told}, true: {is_true}");
        let fault = if is_told {
            Fault::RowTooMany
        } else {
            Fault::RowMissing
        };
        let column = "(row)";
        self.tally.count(self.place, column, verdict, fault, &why);
    }

    /// The line of sums. If rows of it count deleted records, the sum does.
    fn totals(&mut self, has_not_found: bool) {
        let Some(totals) = &self.told.totals else {
            return;
        };
        let key = ["Total".to_owned()];
        for column in self.place.summed {
            let sum = Some(sum_of(&self.truths.now, column));
            let others = self.truths.others.iter();
            let others = others.map(|(verdict, rows)| (*verdict, lazy(|| summed(rows, column))));
            let others: Vec<_> = others.collect();
            let mut verdict = self.verdict(&others, &key, column, totals[column], sum);
            if verdict.is_bad() && has_not_found {
                verdict = Verdict::NotFound;
            }
            self.count(&key, column, verdict, totals[column], sum);
        }
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
    let mut names = rows.values().flat_map(|row| row.keys().copied());
    let mut row = BTreeMap::new();
    if let Some(name) = names.find(|name| *name == column) {
        row.insert(name, Some(sum_of(rows, column)));
    }
    [(vec!["Total".to_owned()], row)].into()
}
