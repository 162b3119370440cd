//! Reads a report from its text: the comment at its start, the SELECT, then its notes.
//!
//! Each line of the comment is `-- key: value`. Other comment lines are ignored. A note is a line
//! `-- note: TEXT`, then a SELECT of one row: the note is shown if its first value is more than 0.

use crate::record::Route;
use crate::store::SqlValue;

/// The names that every report may use as `:name`.
pub(super) const GIVEN: [&str; 6] = ["from", "to", "today", "now", "business", "default_business"];
/// In the line `needs`, stands for a field by which status changes name their job.
const JOB_LINK: &str = "job_link";
const TITLE_MAX: usize = 200;
const PARAMETERS_MAX: usize = 16;

/// A report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// The name on the command line and in the page's address.
    pub name: String,
    /// The title.
    pub title: String,
    /// What it shows.
    pub about: String,
    /// The columns of the mirror without which it cannot be answered.
    pub needs: Vec<Need>,
    /// Whether status changes must name their job.
    pub needs_job_link: bool,
    /// Which columns count the records of which routes.
    pub counts: Vec<Counted>,
    /// The columns that have a sum.
    pub totals: Vec<String>,
    /// What can be set beside the period and the business.
    pub parameters: Vec<Parameter>,
    /// How columns are shown, by name.
    pub formats: Vec<(String, ColumnFormat)>,
    /// The chart, if it has one.
    pub chart: Option<Chart>,
    /// Whether its rows show single records, or may do so.
    pub shows_records: bool,
    /// Whether each row is known to be one record.
    pub is_list: bool,
    /// The SELECT, with its comment.
    pub sql: String,
    /// What the reader has to know if its SELECT finds something.
    pub notes: Vec<Note>,
    /// The whole text.
    pub text: String,
}

/// Columns whose numbers are made of the records that one route showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The route.
    pub route: Route,
    /// The columns.
    pub columns: Vec<String>,
    /// Whether a missing record could only make them less: counts and sums, not shares.
    pub only_grow: bool,
    /// The records of which time.
    pub time: CountedTime,
}

/// Of which time the records are that a column counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountedTime {
    /// Of the period, or of the day, week or month of the row.
    Period,
    /// Of this time, compared with all records before it.
    Before,
    /// From the beginning of this time until now.
    After,
    /// Those that are not completed now, of any time.
    Standing,
}

/// A note of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The text, in which `{1}` stands for the first value of the SELECT.
    pub text: String,
    /// The SELECT.
    pub sql: String,
}

/// A column that the workspace must send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The table.
    pub route: Route,
    /// Its column.
    pub column: String,
}

/// A parameter of a report, `:name` in its SELECT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// What it accepts.
    pub kind: ParameterKind,
    /// Its value if none is given.
    pub default: String,
    /// What it means.
    pub about: String,
}

/// What a parameter accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// Any text.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Number,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chart {
    /// Values over a column of labels.
    Series {
        /// Whether each is a line; else they are bars side by side.
        are_lines: bool,
        /// The labels.
        x: String,
        /// The values.
        series: Vec<String>,
    },
    /// A coloured square for each pair of labels: the columns of the labels from left to right, of those from
    /// top to bottom, and of the values.
    Heat([String; 3]),
}

/// A problem in the comment of a report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct HeadError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what to write.
    pub why: String,
}

impl Report {
    /// Reads a report of this name.
    ///
    /// # Errors
    /// The first problem of the comment.
    pub fn parse(name: &str, sql: &str) -> Result<Self, HeadError> {
        let text = sql.to_owned();
        let (sql, notes) = parts(sql);
        let mut report = Self {
            name: name.to_owned(),
            title: name.to_owned(),
            sql: sql.to_owned(),
            notes,
            text,
            ..Self::default()
        };
        let comment = sql
            .lines()
            .enumerate()
            .take_while(|(_, line)| line.trim().is_empty() || line.trim_start().starts_with("--"));
        for (index, line) in comment {
            let text = line.trim_start().trim_start_matches('-').trim();
            let Some((key, value)) = text.split_once(':') else { continue };
            report
                .read(key.trim(), value.trim())
                .map_err(|why| HeadError { line: index + 1, why })?;
        }
        Ok(report)
    }

    fn read(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "title" => self.title = value.chars().take(TITLE_MAX).collect(),
            "shows" => {
                self.is_list = value == "records";
                self.shows_records = self.is_list;
            }
            "about" => self.about = value.to_owned(),
            "needs" => {
                for name in value.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                    match name {
                        JOB_LINK => self.needs_job_link = true,
                        name => self.needs.push(need(name)?),
                    }
                }
            }
            "counts" => self.counts.push(counted(value, true, CountedTime::Period)?),
            "measures" => self.counts.push(counted(value, false, CountedTime::Period)?),
            "before" => self.counts.push(counted(value, true, CountedTime::Before)?),
            "after" => self.counts.push(counted(value, true, CountedTime::After)?),
            "standing" => self.counts.push(counted(value, true, CountedTime::Standing)?),
            "total" => self.totals.extend(value.split_whitespace().map(str::to_owned)),
            "parameter" => {
                let parameter = parameter(value)?;
                let is_taken = GIVEN.contains(&parameter.name.as_str())
                    || self.parameters.iter().any(|known| known.name == parameter.name);
                if is_taken {
                    return Err(format!("the parameter {} exists already", parameter.name));
                }
                if self.parameters.len() == PARAMETERS_MAX {
                    return Err(format!("a report has at most {PARAMETERS_MAX} parameters"));
                }
                self.parameters.push(parameter);
            }
            "format" => {
                let mut words = value.split_whitespace();
                let format = match words.next() {
                    Some("money") => ColumnFormat::Money,
                    Some("percent") => ColumnFormat::Percent,
                    _ => {
                        return Err("write `format: money COLUMN …` or `format: percent COLUMN …`"
                            .to_owned());
                    }
                };
                self.formats.extend(words.map(|column| (column.to_owned(), format)));
            }
            "chart" => self.chart = Some(chart(value)?),
            _ => {}
        }
        Ok(())
    }

    /// Whether the days that are asked for change the answer.
    #[must_use]
    pub fn has_period(&self) -> bool {
        ["days", ":from", ":to"].iter().any(|word| self.uses(word))
    }

    /// The routes whose records the SELECT reads.
    #[must_use]
    pub fn routes(&self) -> Vec<Route> {
        let of_states = self.uses("_job_states");
        let reads = |route: &Route| {
            self.uses(route.as_str())
                || self.uses("_pollers")
                || self.uses(&format!("report_{route}"))
                || match route {
                    Route::Jobs => of_states,
                    Route::JobStatusChanges => of_states && self.shows_states(),
                    Route::Payments => of_states && self.shows_paid_sums(),
                    _ => false,
                }
        };
        Route::ALL.into_iter().filter(reads).collect()
    }

    fn counted<'a>(&'a self, column: &'a str) -> impl Iterator<Item = &'a Counted> {
        self.counts.iter().filter(move |counted| counted.columns.iter().any(|c| c == column))
    }

    /// The routes of whose records a column's numbers are made, each with the time of these.
    pub(super) fn counted_routes(&self, column: &str) -> Vec<(Route, CountedTime)> {
        self.counted(column).map(|counted| (counted.route, counted.time)).collect()
    }

    /// Whether a missing record could only make a column's numbers less.
    pub(super) fn can_only_grow(&self, column: &str) -> bool {
        self.counted(column).all(|counted| counted.only_grow)
    }

    /// Whether it counts the completions of the period.
    pub(super) fn counts_completions(&self) -> bool {
        self.has_period() && self.uses("completed_at")
    }

    /// Whether it shows what jobs are now.
    #[must_use]
    pub fn shows_states(&self) -> bool {
        let of_states = ["stage", "status", "completed_at", "open_seconds"];
        let of_view = ["current_stage", "current_status", "turnaround_days"];
        (self.uses("_job_states") && of_states.iter().any(|word| self.uses(word)))
            || of_view.iter().any(|word| self.uses(word))
    }

    /// Whether it shows what was paid for jobs.
    #[must_use]
    pub fn shows_paid_sums(&self) -> bool {
        (self.uses("_job_states") && self.uses("paid")) || self.uses("paid_total")
    }

    /// Whether the SELECT holds this word. SQL names have no letter case.
    fn uses(&self, word: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        let lines = self.sql.lines().filter(|line| !line.trim_start().starts_with("--"));
        lines
            .flat_map(|line| line.split(|c| !is_part(c)))
            .any(|part| part.eq_ignore_ascii_case(word))
    }

    /// How a column is shown.
    #[must_use]
    pub fn format(&self, column: &str) -> Option<ColumnFormat> {
        self.formats.iter().find(|(name, _)| name == column).map(|(_, format)| *format)
    }
}

fn need(name: &str) -> Result<Need, String> {
    let wrong = || format!("{name:?} is not a column: write `needs: jobs.status, leads.source`");
    let (route, column) = name.split_once('.').ok_or_else(wrong)?;
    Ok(Need { route: route.parse().map_err(|_| wrong())?, column: column.to_owned() })
}

/// The SELECT with its comment, and the notes behind it.
fn parts(text: &str) -> (&str, Vec<Note>) {
    let mut starts: Vec<usize> = text.match_indices("\n-- note:").map(|(at, _)| at + 1).collect();
    starts.push(text.len());
    let notes = starts.windows(2).map(|bounds| {
        let note = &text[bounds[0]..bounds[1]];
        let (line, sql) = note.split_once('\n').unwrap_or((note, ""));
        let text = line.trim_start_matches("-- note:").trim();
        Note { text: text.to_owned(), sql: sql.to_owned() }
    });
    (&text[..starts[0]], notes.collect())
}

fn counted(value: &str, only_grow: bool, time: CountedTime) -> Result<Counted, String> {
    let mut words = value.split_whitespace();
    let route = words.next().and_then(|route| route.parse().ok());
    let columns: Vec<String> = words.map(str::to_owned).collect();
    match route {
        Some(route) if !columns.is_empty() => Ok(Counted { route, columns, only_grow, time }),
        _ => Err("write a route and the columns that count its records: `counts: jobs repairs`"
            .to_owned()),
    }
}

fn parameter(value: &str) -> Result<Parameter, String> {
    let wrong = || {
        "write `parameter: NAME text|integer|number DEFAULT MEANING`; write the default '' for no text"
            .to_owned()
    };
    let mut words = value.splitn(4, char::is_whitespace).map(str::trim);
    let name = words.next().filter(|name| is_name(name)).ok_or_else(wrong)?.to_owned();
    let kind = match words.next() {
        Some("text") => ParameterKind::Text,
        Some("integer") => ParameterKind::Integer,
        Some("number") => ParameterKind::Number,
        _ => return Err(wrong()),
    };
    let default = words.next().ok_or_else(wrong)?.trim_matches('\'').to_owned();
    kind.read(&default).map_err(|why| format!("the default of {name} {why}"))?;
    Ok(Parameter { name, kind, default, about: words.next().unwrap_or_default().to_owned() })
}

fn is_name(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    first
        && name.len() <= 40
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

impl ParameterKind {
    /// A value of this kind.
    pub(super) fn read(self, text: &str) -> Result<SqlValue, &'static str> {
        match self {
            Self::Text => Ok(text.to_owned().into()),
            Self::Integer => {
                text.parse::<i64>().map(Into::into).map_err(|_| "must be a whole number")
            }
            Self::Number => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(number.into()),
                _ => Err("must be a number"),
            },
        }
    }
}

fn chart(value: &str) -> Result<Chart, String> {
    let mut words = value.split_whitespace().map(str::to_owned);
    let kind = words.next().unwrap_or_default();
    let columns: Vec<String> = words.collect();
    match (kind.as_str(), columns.as_slice()) {
        ("bars" | "lines", [x, series @ ..]) if !series.is_empty() => Ok(Chart::Series {
            are_lines: kind == "lines",
            x: x.clone(),
            series: series.to_vec(),
        }),
        ("heat", [x, y, value]) => Ok(Chart::Heat([x.clone(), y.clone(), value.clone()])),
        _ => Err("write `chart: bars LABELS VALUES …`, `chart: lines LABELS VALUES …` or `chart: heat X Y VALUES`"
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_follow_the_select() {
        let text = "-- needs: job_link\n-- counts: leads all some\nSELECT 1\n\
                    -- note: {1} are left out\nSELECT 2\n-- note: and more\nSELECT 3\n";
        let report = Report::parse("noted", text).unwrap();
        assert!(report.needs_job_link && report.needs.is_empty());
        assert_eq!((report.counts[0].columns.len(), report.counts[0].only_grow), (2, true));
        assert_eq!(report.sql, "-- needs: job_link\n-- counts: leads all some\nSELECT 1\n");
        let notes: Vec<_> =
            report.notes.iter().map(|note| (note.text.as_str(), note.sql.as_str())).collect();
        assert_eq!(notes, [("{1} are left out", "SELECT 2\n"), ("and more", "SELECT 3\n")]);
        assert_eq!(report.text, text);
    }

    #[test]
    fn a_report_says_whether_its_period_can_be_chosen() {
        for (sql, has_period) in [
            ("SELECT D.Period, 1 FROM DAYS d GROUP BY 1", true),
            ("SELECT 1 WHERE created_at >= :from", true),
            ("-- about: age by days\nSELECT oldest_days FROM jobs", false),
        ] {
            assert_eq!(Report::parse("x", sql).unwrap().has_period(), has_period, "{sql}");
        }
    }

    #[test]
    fn a_problem_of_the_comment_is_named_with_its_line() {
        for (line, part) in [
            ("-- needs: jobs", "is not a column"),
            ("-- needs: repairs.status", "is not a column"),
            ("-- parameter: Word text x y", "parameter: NAME"),
            ("-- parameter: least integer many x", "must be a whole number"),
            ("-- parameter: from text x y", "exists already"),
            ("-- chart: pie a b", "chart: bars"),
            ("-- format: euro a", "format: money"),
            ("-- counts: jobs", "counts: jobs repairs"),
            ("-- measures: repairs share", "counts: jobs repairs"),
            ("-- standing: repairs open", "counts: jobs repairs"),
        ] {
            let error = Report::parse("x", &format!("-- title: T\n{line}\nSELECT 1")).unwrap_err();
            assert!(error.line == 2 && error.why.contains(part), "{line}: {error}");
        }
    }
}
