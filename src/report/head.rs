//! Reads a report from its text: a comment of TOML, the SELECT, then its notes.
//!
//! A note is a line `-- note`, then a SELECT of one text. If it gives no row, there is no note.

use std::collections::BTreeMap;

use serde::Deserialize;
use shopmirror_core::record::Route;
use toml::Value;

use crate::store::SqlValue;

/// The names that every report may use as `:name`.
pub(super) const GIVEN: [&str; 6] = ["from", "to", "today", "now", "business", "default_business"];

/// The column with the day, week or month that a row counts.
pub(super) const PERIOD: &str = "period";

/// What some editors write at the start of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';
const REMARKS: &str = "the comment at the start of a report is TOML: write a remark as `-- # text`";

/// The list of what a number counts: `list` is a report or `records`, the others are its parameters.
/// `{from}` and `{to}` stand for the days of the row, `{COLUMN}` for its value.
pub type RowsBehind = BTreeMap<String, String>;

/// Columns, by the route that they are about.
type Columns = BTreeMap<Route, Vec<String>>;

/// A report. The fields that are read are the keys of its comment.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Report {
    /// The name on the command line and in the page's address.
    #[serde(skip)]
    pub name: String,
    /// The title.
    pub title: String,
    /// What it shows.
    pub about: String,
    /// The columns of the mirror without which it cannot be answered.
    pub needs: Columns,
    /// Whether status changes must name their job.
    pub needs_job_link: bool,
    /// The columns that count or add records of the period, or of the day, week or month of the
    /// row.
    counts: Columns,
    /// The same for columns that a missing record could make more, such as shares.
    measures: Columns,
    /// The same for columns that describe the records that are known, such as a median.
    samples: Columns,
    /// The columns of which a missing record makes the number of a row more.
    grown_by: Columns,
    /// The columns of which a missing record makes the number of a row less; in a list, the row may
    /// not belong there at all.
    reduced_by: Columns,
    /// The columns that compare with all records before the period.
    before: Columns,
    /// The columns that compare with all records until now.
    after: Columns,
    /// The columns that count records that are not completed now.
    standing: Columns,
    /// The columns that count records that were not completed at the end of the row's time.
    stood: Columns,
    /// The columns that count or add up repairs which are completed now: one that was opened again
    /// unseen does not belong there.
    completed: Vec<String>,
    /// The lists of which it reads the records of every business, whatever business is asked for.
    every_business: Vec<Route>,
    /// How the rows divide the repairs that such columns count.
    pub(super) open_by: OpenBy,
    /// The columns of these that count only repairs that were taken in less than so many days ago.
    pub(super) max_days: BTreeMap<String, i64>,
    /// The parameters that choose rows by the current state of repairs.
    filters_by_state: Vec<String>,
    /// The columns that have a sum.
    pub totals: Vec<String>,
    /// The columns of amounts.
    money: Vec<String>,
    /// The columns of shares.
    percent: Vec<String>,
    /// The columns whose cells are the darker on a page the more they count.
    shaded: Vec<String>,
    /// What can be set beside the period and the business, by its `:name` in the SELECT.
    pub parameters: BTreeMap<String, Parameter>,
    /// The values of parameters with which it is about no days, but about now.
    timeless: BTreeMap<String, String>,
    /// For a column the list of what its numbers count.
    leads_to: BTreeMap<String, RowsBehind>,
    /// The chart, if it has one.
    pub chart: Option<Chart>,
    /// Whether each row is one record.
    pub is_list: bool,
    /// Whether it is one of the shop's own, whose meaning this program does not know.
    #[serde(skip)]
    pub is_own: bool,
    /// The SELECT, with its comment.
    #[serde(skip)]
    pub sql: String,
    /// The SELECTs of the notes for the reader.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// The whole text.
    #[serde(skip)]
    pub text: String,
}

/// The time span that a column counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CountedTime {
    /// Of the period, or of the day, week or month of the row.
    Period,
    /// Of this time, compared with all records before it.
    Before,
    /// From the beginning of this time until now.
    After,
    /// Those that are not completed now, of any time.
    Standing,
    /// Those that were not completed at the end of this time.
    Stood,
}

/// How the rows of a report divide the open repairs that its columns count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OpenBy {
    /// They count those of some statuses: one may have come from any other status.
    #[default]
    Some,
    /// Each row counts all that are open.
    All,
    /// Each row counts those of one status, and all rows together those that are open.
    Status,
    /// By what only the repair's own row says, such as a person: it may have changed unseen.
    LastSeen,
}

/// What records that are missing would do to the numbers of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// Make them more, as a count.
    More,
    /// Change them in a way of which nothing can be said, as a sum with refunds.
    Any,
    /// Change them little, as a median.
    Sample,
}

/// A parameter of a report.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    default: Value,
    /// What it means. `…` stands for the value.
    #[serde(default)]
    pub about: String,
    /// The values that it can have, if not every one.
    #[serde(default)]
    pub choices: Vec<String>,
    /// Whether it is on, 1, or off, 0.
    #[serde(default)]
    pub is_flag: bool,
}

/// How the values of a column are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnFormat {
    /// With two decimals.
    Money,
    /// With one decimal and a percent sign.
    Percent,
}

/// The chart of a report: which columns it draws.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    /// The column of the labels, then those of the values.
    pub bars: Vec<String>,
}

impl Report {
    /// Reads a report of this name.
    ///
    /// # Errors
    /// The first problem of a comment, with its line.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut sql = String::new();
        let mut notes: Vec<String> = Vec::new();
        for line in text.trim_start_matches(BYTE_ORDER_MARK).lines() {
            if line.trim() == "-- note" {
                notes.push(String::new());
                continue;
            }
            let part = notes.last_mut().unwrap_or(&mut sql);
            part.push_str(line);
            part.push('\n');
        }
        let mut report = comment(&sql)?;
        if let Some(name) = report
            .parameters
            .keys()
            .find(|name| GIVEN.contains(&name.as_str()))
        {
            return Err(format!(
                "every report has the parameter `{name}`: choose another name"
            ));
        }
        if report.title.is_empty() {
            name.clone_into(&mut report.title);
        }
        Ok(Self {
            name: name.to_owned(),
            sql,
            notes,
            text: text.to_owned(),
            ..report
        })
    }

    /// Whether its rows show single records, or may do so.
    #[must_use]
    pub fn shows_records(&self) -> bool {
        self.is_list || self.is_own
    }

    /// The routes of which the records of every business count, whatever business is asked for;
    /// `paid_sums` if it shows what was paid for repairs.
    pub(super) fn routes_of_every_business(&self, paid_sums: bool) -> Vec<Route> {
        let mut routes = self.every_business.clone();
        // A repair of one business may be paid in another one.
        if paid_sums {
            routes.push(Route::Payments);
        }
        routes
    }

    /// The routes whose records a column's numbers count, each with the time span.
    pub(super) fn counted_routes(&self, column: &str) -> Vec<(Route, CountedTime)> {
        let mut counted = Vec::new();
        for (columns, time) in [
            (&self.counts, CountedTime::Period),
            (&self.measures, CountedTime::Period),
            (&self.samples, CountedTime::Period),
            (&self.before, CountedTime::Before),
            (&self.after, CountedTime::After),
            (&self.standing, CountedTime::Standing),
            (&self.stood, CountedTime::Stood),
        ] {
            for (route, names) in columns {
                if is_named(names, column) {
                    counted.push((*route, time));
                }
            }
        }
        counted
    }

    /// What records that are missing would do to a column's numbers.
    pub(super) fn missing(&self, column: &str) -> Missing {
        if has(&self.measures, column) {
            Missing::Any
        } else if has(&self.samples, column) {
            Missing::Sample
        } else {
            Missing::More
        }
    }

    /// Whether a column counts what stands now, whatever the period.
    #[must_use]
    pub fn is_standing(&self, column: &str) -> bool {
        has(&self.standing, column)
    }

    /// Whether it has a column of amounts.
    #[must_use]
    pub fn has_money(&self) -> bool {
        !self.money.is_empty()
    }

    /// Whether it has a column that counts what stands now.
    pub(super) fn has_standing(&self) -> bool {
        !self.standing.is_empty()
    }

    /// Whether it has a column that counts repairs which are completed now.
    pub(super) fn has_completed(&self) -> bool {
        !self.completed.is_empty()
    }

    /// Whether a column counts repairs which are completed now.
    pub(super) fn is_of_completed(&self, column: &str) -> bool {
        is_named(&self.completed, column)
    }

    /// Whether a missing record of a route makes the number of a row more.
    pub(super) fn is_grown_by(&self, route: Route, column: &str) -> bool {
        has_of(&self.grown_by, route, column)
    }

    /// Whether a missing record of a route makes the number of a row less.
    pub(super) fn is_reduced_by(&self, route: Route, column: &str) -> bool {
        has_of(&self.reduced_by, route, column)
    }

    /// Whether a missing record of a route may mean that a row does not belong to the list.
    pub(super) fn is_shortened_by(&self, route: Route) -> bool {
        self.is_list && self.reduced_by.contains_key(&route)
    }

    /// Whether these values of its parameters choose rows by the current state of repairs.
    pub(super) fn is_filtered_by_state(&self, values: &[(String, SqlValue)]) -> bool {
        for name in &self.filters_by_state {
            let Some(parameter) = self.parameters.get(name) else {
                continue;
            };
            let value = values.iter().find(|(own, _)| own == name);
            let default = parameter.read(&parameter.default());
            if value.is_some_and(|(_, value)| default.as_ref() != Ok(value)) {
                return true;
            }
        }
        false
    }

    /// Whether it is about no days with these values of its parameters.
    pub(super) fn is_timeless(&self, values: &[(String, SqlValue)]) -> bool {
        let mut timeless = self.timeless.iter();
        timeless.any(|(name, value)| {
            let value = SqlValue::Text(value.clone());
            values.contains(&(name.clone(), value))
        })
    }

    /// Whether the cells of a column are the darker the more they count.
    #[must_use]
    pub fn is_shaded(&self, column: &str) -> bool {
        is_named(&self.shaded, column)
    }

    /// The list of what the numbers of a column count.
    #[must_use]
    pub fn rows_behind(&self, column: &str) -> Option<&RowsBehind> {
        self.leads_to.get(column)
    }

    /// How a column is shown.
    #[must_use]
    pub fn format(&self, column: &str) -> Option<ColumnFormat> {
        if is_named(&self.money, column) {
            return Some(ColumnFormat::Money);
        }
        if is_named(&self.percent, column) {
            return Some(ColumnFormat::Percent);
        }
        None
    }
}

/// Whether a column is one of them, of any route.
fn has(columns: &Columns, column: &str) -> bool {
    columns.values().any(|names| is_named(names, column))
}

/// Whether a column is one of those of this route.
fn has_of(columns: &Columns, route: Route, column: &str) -> bool {
    match columns.get(&route) {
        Some(names) => is_named(names, column),
        None => false,
    }
}

/// Whether these names have that of a column.
fn is_named(names: &[String], column: &str) -> bool {
    names.iter().any(|name| name == column)
}

/// The TOML in the comment at the start of a text. Empty lines may stand in it.
fn comment(text: &str) -> Result<Report, String> {
    let lines = text.lines().map(str::trim).map_while(|line| match line {
        "" => Some(line),
        _ => line.strip_prefix("--"),
    });
    let toml = lines.collect::<Vec<_>>().join("\n");
    toml::from_str(&toml).map_err(|error| {
        let place = error.span().map_or(0, |place| place.start);
        let line = toml[..place].matches('\n').count() + 1;
        format!("line {line}: {}; {REMARKS}", error.message())
    })
}

impl Parameter {
    /// The text of its value if none is given.
    #[must_use]
    pub fn default(&self) -> String {
        self.default
            .as_str()
            .map_or_else(|| self.default.to_string(), str::to_owned)
    }

    /// A value as the default is one: a number or a text. An empty text is no number: it stands for
    /// the default, as a form sends it for an empty box.
    pub(super) fn read(&self, text: &str) -> Result<SqlValue, String> {
        if !self.choices.is_empty() && !self.choices.iter().any(|choice| choice == text) {
            return Err(format!("must be one of {}", self.choices.join(", ")));
        }
        if !matches!(self.default, Value::Integer(_) | Value::Float(_)) {
            return Ok(text.to_owned().into());
        }
        let default = self.default();
        let text = if text.is_empty() { &default } else { text };
        if let Ok(whole) = text.parse::<i64>() {
            return Ok(whole.into());
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number.into()),
            _ => Err("must be a number".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_follow_the_select() {
        let text = "-- needs_job_link = true\n-- counts.leads = [\"all\", \"some\"]\nSELECT 1\n\
                    -- note\nSELECT 2\n-- note\nSELECT 3\n";
        let report = Report::parse("noted", text).unwrap();
        assert!(report.needs_job_link && report.needs.is_empty());
        assert_eq!(
            report.counted_routes("some"),
            [(Route::Leads, CountedTime::Period)]
        );
        assert!(report.sql.ends_with("\nSELECT 1\n") && report.text == text);
        assert_eq!(report.notes, ["SELECT 2\n", "SELECT 3\n"]);
    }

    #[test]
    fn a_file_of_any_editor_keeps_its_comment_and_notes() {
        let text =
            "\u{feff}-- # ours\r\n\r\n  -- title = \"T\"\r\nSELECT 1\r\n-- note \r\nSELECT 2\r\n";
        let report = Report::parse("x", text).unwrap();
        assert_eq!((report.title.as_str(), report.notes.len()), ("T", 1));
    }

    #[test]
    fn a_problem_of_the_comment_is_named_with_its_line() {
        for (line, part) in [
            ("-- needs = [\"jobs.status\"]", "expected a map"),
            (
                "-- needs.repairs = [\"status\"]",
                "unknown variant `repairs`",
            ),
            ("-- chart.pie = [\"a\"]", "unknown field `pie`"),
            ("-- colour = \"red\"", "unknown field `colour`"),
            ("-- parameters.word.default = ", "string"),
            ("-- by Anna, for the till", "write a remark as `-- # text`"),
        ] {
            let error =
                Report::parse("x", &format!("-- title = \"T\"\n{line}\nSELECT 1")).unwrap_err();
            assert!(
                error.starts_with("line 2: ") && error.contains(part),
                "{line}: {error}"
            );
        }
        let taken = Report::parse("x", "-- parameters.from.default = 1\nSELECT 1").unwrap_err();
        assert!(
            taken.contains("every report has the parameter `from`"),
            "{taken}"
        );
    }
}
