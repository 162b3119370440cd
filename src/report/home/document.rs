//! The numbers of Home for programs.

use serde::Serialize;
use serde_json::Value;
use shopmirror_core::clock::stamp;

use super::{Figure, Home, Number};
use crate::config::Range;
use crate::report::exactness::Cell;
use crate::report::value::json_of;

/// The numbers of the shop: what came in, what was completed, and how things stand now.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HomeDocument<'a> {
    /// The days that are counted: `today`, `this-week`, `this-month` or `last-month`.
    range: &'static str,
    /// The first of these days.
    from: String,
    /// The last of these days.
    to: String,
    /// When a list was last read (UTC).
    as_of: String,
    /// The currency of amounts; null if none is configured.
    currency: Option<&'a str>,
    /// Repairs taken in.
    taken_in: FigureDocument,
    /// Repairs completed.
    completed: FigureDocument,
    /// Payments, with refunds taken off; absent for a reader who sees no amounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    money_in: Option<FigureDocument>,
    /// New leads.
    leads: FigureDocument,
    /// How things stand now, whatever the range.
    now: StandingDocument,
    /// The open repairs by status, the most frequent first.
    by_status: Vec<StatusDocument<'a>>,
    /// Since when every list is complete, in words.
    complete_since: &'a str,
    /// Gaps that were not repaired.
    gaps: usize,
    /// Notes for the reader.
    notes: Vec<&'a str>,
}

/// A number that is counted over the range.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FigureDocument {
    /// The number of the range.
    now: NumberDocument,
    /// The same a range before, up to the same hour.
    before: NumberDocument,
    /// The last 30 days, the oldest first.
    days: Vec<NumberDocument>,
    /// When its lists were last read, if that is more than some minutes ago (UTC).
    as_of: Option<String>,
}

/// The numbers of now.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StandingDocument {
    /// Repairs that are open.
    open: NumberDocument,
    /// Open repairs that are ready for pickup.
    ready: NumberDocument,
    /// Those that are ready for pickup for more than 14 days.
    ready_long: NumberDocument,
    /// Open repairs whose estimated delivery has passed.
    overdue: NumberDocument,
    /// Open repairs that were taken in more than 30 days ago.
    open_long: NumberDocument,
    /// Open leads whose follow-up is due.
    follow_ups: NumberDocument,
    /// What is unpaid of the repairs that were completed in the last 90 days; absent for a reader
    /// who sees no amounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    unpaid: Option<NumberDocument>,
}

/// A number, and how sure it is.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NumberDocument {
    /// The number; null if nothing is known. Of what is at least and of a range it is the lower
    /// bound, of what is at most the upper one.
    value: Value,
    /// `at_least`, `at_most`, `between`, `about` or `unknown`; null if the number is exact.
    mark: Option<&'static str>,
    /// The upper bound of a range; null if it is none.
    max: Value,
    /// When its lists were last read, if that is more than some minutes ago (UTC).
    as_of: Option<String>,
}

/// How many open repairs have a status.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StatusDocument<'a> {
    /// The status.
    status: &'a str,
    /// How many open repairs have it.
    repairs: NumberDocument,
}

impl<'a> HomeDocument<'a> {
    /// The numbers of a range.
    #[must_use]
    pub fn new(home: &'a Home, range: Range, currency: Option<&'a str>) -> Self {
        let now = &home.now;
        let money = home.money.as_ref();
        let mut by_status = Vec::with_capacity(home.by_status.len());
        for (status, repairs) in &home.by_status {
            let repairs = NumberDocument::of(repairs);
            by_status.push(StatusDocument { status, repairs });
        }
        Self {
            range: range.as_str(),
            from: home.days.from.to_string(),
            to: home.days.to.to_string(),
            as_of: stamp(home.as_of),
            currency,
            taken_in: FigureDocument::of(&home.taken_in),
            completed: FigureDocument::of(&home.completed),
            money_in: money.map(|money| FigureDocument::of(&money.received)),
            leads: FigureDocument::of(&home.leads),
            now: StandingDocument {
                open: NumberDocument::of_now(&now.open),
                ready: NumberDocument::of_now(&now.ready),
                ready_long: NumberDocument::of_now(&now.ready_long),
                overdue: NumberDocument::of_now(&now.overdue),
                open_long: NumberDocument::of_now(&now.open_long),
                follow_ups: NumberDocument::of_now(&now.follow_ups),
                unpaid: money.map(|money| NumberDocument::of_now(&money.unpaid)),
            },
            by_status,
            complete_since: &home.complete_since,
            gaps: home.gaps,
            notes: home.all_notes().into_iter().collect(),
        }
    }
}

impl FigureDocument {
    fn of(figure: &Figure) -> Self {
        Self {
            now: NumberDocument::of(&figure.now),
            before: NumberDocument::of(&figure.before),
            days: figure.days.iter().map(NumberDocument::of).collect(),
            as_of: figure.as_of.map(stamp),
        }
    }
}

impl NumberDocument {
    fn of(cell: &Cell) -> Self {
        let word = cell.exactness.word();
        let mut max = Value::Null;
        if let Some(upper) = cell.upper() {
            max = json_of(&upper);
        }
        Self {
            value: json_of(&cell.value),
            mark: (!word.is_empty()).then_some(word),
            max,
            as_of: None,
        }
    }

    fn of_now(number: &Number) -> Self {
        Self {
            as_of: number.as_of.map(stamp),
            ..Self::of(&number.cell)
        }
    }
}
