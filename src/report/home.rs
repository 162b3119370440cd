//! The numbers of the page Home: what came in, what was completed, and how things stand now.
//!
//! A number says what is known: all of it, a part of it, or nothing. Repairs count by their current state.
//! The numbers name no person.

mod reach;
mod repairs;
mod span;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::completeness::{BusinessChoice, Cell, Exactness, Known, Lists};
use super::notes::as_last_seen;
use super::period::Period;
use super::value;
use crate::clock::second;
use crate::config::Range;
use crate::number::count;
use crate::record::Route;
use crate::store::{QueryError, QueryLimits, Reader, SqlValue, StoreError, amount_sql};
use repairs::OpenRepairs;
use span::Spans;

/// Days of the small line of a number, today included.
pub const LINE_DAYS: usize = 30;
/// How long ago a repair was completed at most of which the unpaid amount counts.
const UNPAID: SignedDuration = SignedDuration::from_hours(90 * 24);
/// A column that a number needs.
type Column = (Route, &'static str);
const COMPLETION: [Column; 3] = [
    (Route::Jobs, "created_at"),
    (Route::JobStatusChanges, "created_at"),
    (Route::JobStatusChanges, "status_stage"),
];
const PAYMENT: [Column; 2] = [(Route::Payments, "created_at"), (Route::Payments, "amount")];
const LIMITS: QueryLimits = QueryLimits { time: Duration::from_secs(10), bytes: 128 * 1024 * 1024 };

/// A number of Home that is counted over the range.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The number of the range.
    pub now: Cell,
    /// The same a range before, up to the same hour.
    pub before: Cell,
    /// The last [`LINE_DAYS`] days, the oldest first.
    pub days: Vec<Cell>,
    /// Why the number is unknown, if it is.
    pub why: String,
}

impl Figure {
    /// The cells of the range, of the one before, and of each day.
    fn of(why: String, mut cells: impl Iterator<Item = Cell>) -> Self {
        let mut next = || cells.next().unwrap_or(Cell::unknown());
        let (now, before) = (next(), next());
        Self { now, before, days: cells.collect(), why }
    }

    fn unknown(why: impl Into<String>) -> Self {
        let days = vec![Cell::unknown(); LINE_DAYS];
        Self { now: Cell::unknown(), before: Cell::unknown(), days, why: why.into() }
    }
}

/// The numbers as things stand now, whatever the range.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Repairs that are open.
    pub open: Cell,
    /// Open repairs that are ready for pickup; unknown if no status is known to mean it.
    pub ready: Cell,
    /// Those that are ready for pickup for more than 14 days.
    pub ready_long: Cell,
    /// Open repairs whose estimated delivery has passed.
    pub overdue: Cell,
    /// Repairs that were taken in more than 30 days ago and are open.
    pub open_long: Cell,
    /// Open leads whose follow-up is due.
    pub follow_ups: Cell,
    /// What is unpaid of the repairs that were completed in the last 90 days.
    pub unpaid: Cell,
}

/// The numbers of Home.
#[derive(Debug, Clone, PartialEq)]
pub struct Home {
    /// The days of the range.
    pub days: Period,
    /// When the numbers were made.
    pub as_of: Timestamp,
    /// Repairs taken in.
    pub taken_in: Figure,
    /// Repairs completed; unknown if status changes do not name their repair.
    pub completed: Figure,
    /// Payments, with refunds taken off.
    pub money_in: Figure,
    /// New leads.
    pub leads: Figure,
    /// The statuses of open repairs that mean ready for pickup.
    pub ready_status: BTreeSet<String>,
    /// The open repairs by status, the most frequent first.
    pub by_status: Vec<(String, f64)>,
    /// The numbers of now.
    pub now: Standing,
    /// What the reader has to know beside the numbers.
    pub notes: Vec<String>,
    /// Since when every list is complete, in words.
    pub complete_since: String,
    /// Gaps that were not repaired.
    pub gaps: usize,
}

/// Reads the numbers; `ready_status` names the statuses that mean ready for pickup. Blocks.
///
/// # Errors
/// If the store cannot be read in time.
pub fn home(
    reader: &mut Reader,
    range: Range,
    ready_status: &[String],
    zone: &TimeZone,
    now: Timestamp,
) -> Result<Home, QueryError> {
    let spans = Spans::of(range, zone, now);
    reader.set_days(&spans.all)?;
    let reach = Lists::read(reader, &Route::ALL, &BusinessChoice::default(), now)?;
    let open = repairs::open(reader, now, spans.today)?;
    let is_ready = |repairs: &OpenRepairs| {
        repairs.status.as_ref().is_some_and(|status| repairs::is_ready(status, ready_status))
    };
    // Without a status of such a name, a count of none says nothing.
    let knows_ready = !ready_status.is_empty()
        || open.iter().any(is_ready)
        || repairs::was_ready_used(reader, now)?;
    let counted = |number: fn(&OpenRepairs) -> f64| reach.standing(open.iter().map(number).sum());
    let ready = |number: fn(&OpenRepairs) -> f64| match knows_ready {
        true => reach.standing(open.iter().filter(|repairs| is_ready(repairs)).map(number).sum()),
        false => Cell::unknown(),
    };
    let mut over_time = |sum: Sum<'_>| sum.over_time(reader, &spans, &reach, zone);
    let came = |of, needs| Sum { what: "count(*)", of, time: "created_at", needs };
    // In ten-thousandths, because sums of fractions would not be exact.
    let amount = format!("total(round(10000 * {})) / 10000.0", amount_sql("r.amount"));
    let taken_in = over_time(came("jobs", &[(Route::Jobs, "created_at")]))?;
    let completed = over_time(Sum { time: "completed_at", ..came("_job_states", &COMPLETION) })?;
    let money_in = over_time(Sum { what: &amount, ..came("payments", &PAYMENT) })?;
    let leads = over_time(came("leads", &[(Route::Leads, "created_at")]))?;
    Ok(Home {
        days: spans.days,
        as_of: now,
        taken_in,
        completed,
        money_in,
        leads,
        ready_status: {
            let ready = open.iter().filter(|repairs| is_ready(repairs));
            ready.filter_map(|repairs| repairs.status.clone()).collect()
        },
        by_status: {
            let name = |status: &Option<String>| status.clone().unwrap_or("(no status)".to_owned());
            open.iter().map(|repairs| (name(&repairs.status), repairs.count)).collect()
        },
        now: Standing {
            open: counted(|repairs| repairs.count),
            ready: ready(|repairs| repairs.count),
            ready_long: ready(|repairs| repairs.ready_long),
            overdue: counted(|repairs| repairs.overdue),
            open_long: counted(|repairs| repairs.open_long),
            follow_ups: follow_ups(reader, &spans, &reach)?,
            unpaid: unpaid_sum(reader, &reach)?,
        },
        notes: notes(reader, &reach, &open, knows_ready)?,
        complete_since: reach.complete_since(zone),
        gaps: reach.gaps(),
    })
}

/// How a job stands now.
#[derive(Debug, Clone, PartialEq)]
pub struct JobState {
    /// Its current status.
    pub status: Option<String>,
    /// Since when, in UTC.
    pub since: Option<String>,
    /// What says so: `job` or `status change`.
    pub source: String,
    /// What is paid.
    pub paid: Option<f64>,
    /// What it costs, as it was last seen.
    pub total: Option<f64>,
}

/// How a job stands now; `None` if it is not in the mirror. Blocks.
///
/// # Errors
/// If the store cannot be read in time.
pub fn job_state(reader: &mut Reader, id: &str) -> Result<Option<JobState>, QueryError> {
    let total = match has(reader, &[(Route::Jobs, "total_amount")])? {
        true => amount_sql("j.total_amount"),
        false => "NULL".to_owned(),
    };
    let sql = format!(
        "SELECT s.status, s.since, s.source, s.paid, {total} \
         FROM _job_states s JOIN jobs j ON j.id = s.id WHERE s.id = :id"
    );
    let id = [("id".to_owned(), SqlValue::Text(id.to_owned()))];
    let found = reader.query(&sql, &id, LIMITS)?;
    Ok(found.rows.first().map(|row| JobState {
        status: text(&row[0]),
        since: text(&row[1]),
        source: text(&row[2]).unwrap_or_default(),
        paid: value::number(&row[3]),
        total: value::number(&row[4]),
    }))
}

/// What the reader of the numbers has to know.
fn notes(
    reader: &Reader,
    reach: &Lists,
    open: &[OpenRepairs],
    knows_ready: bool,
) -> Result<Vec<String>, StoreError> {
    let changes = Route::JobStatusChanges;
    let mut notes = Vec::new();
    if !reach.is_linked {
        notes.push(as_last_seen(changes, &reader.unlinked_routes()?));
    } else if !reach.missing(changes, reach.now).is_empty() {
        notes.push(
            "status changes may be missing, so there may be more or fewer open repairs".to_owned(),
        );
    }
    if !knows_ready {
        let text =
            "no status has a name that means ready for pickup: set ready_status in [reports]";
        notes.push(text.to_owned());
    }
    let unread: f64 = open.iter().map(|repairs| repairs.unread_due).sum();
    if unread > 0.0 {
        let repairs = count(unread as i64, "repair", "repairs");
        notes.push(format!("the delivery date of {repairs} cannot be read"));
    }
    Ok(notes)
}

/// The first of these columns that the workspace has not sent.
fn missing(reader: &Reader, needs: &[Column]) -> Result<Option<Column>, QueryError> {
    for (route, column) in needs {
        if !reader.columns(*route)?.iter().any(|known| known == column) {
            return Ok(Some((*route, *column)));
        }
    }
    Ok(None)
}

/// Whether the workspace has sent these columns.
fn has(reader: &Reader, needs: &[Column]) -> Result<bool, QueryError> {
    Ok(missing(reader, needs)?.is_none())
}

/// What is counted or added over a time, by which time, and the columns that it needs.
struct Sum<'a> {
    what: &'a str,
    of: &'a str,
    time: &'a str,
    needs: &'a [Column],
}

impl Sum<'_> {
    fn over_time(
        &self,
        reader: &mut Reader,
        spans: &Spans,
        reach: &Lists,
        zone: &TimeZone,
    ) -> Result<Figure, QueryError> {
        let Self { what, of, time, needs } = self;
        let is_completed = *needs == COMPLETION;
        let routes: Vec<Route> = needs.iter().map(|(route, _)| *route).collect();
        let why = reach.why(&routes, spans.all[0].from, zone);
        let missing = missing(reader, needs)?;
        let amounts = if missing.is_none() && (reach.is_linked || !is_completed) {
            let sql = format!(
                "SELECT (SELECT {what} FROM {of} r WHERE r.{time} >= d.from_at \
                 AND r.{time} < d.to_at) FROM days d ORDER BY d.day"
            );
            let found = reader.query(&sql, &[], LIMITS)?;
            found.rows.iter().map(|row| number(&row[0])).collect()
        } else if is_empty(reader, routes[0])? {
            vec![0.0; spans.all.len()]
        } else {
            let unsent = |(route, column)| format!("The workspace sends no {route}.{column}.");
            return Ok(Figure::unknown(missing.map_or(why, unsent)));
        };
        // A missing refund would make the payments less.
        let can_only_grow = *needs != PAYMENT;
        let mut cells = Vec::new();
        for (span, amount) in spans.all.iter().zip(amounts) {
            let known = match is_completed {
                true => knows_completed(reader, reach, span.from, span.to)?,
                false => reach.knows(&routes, span.from, span.to),
            };
            cells.push(known.count(amount, can_only_grow));
        }
        Ok(Figure::of(why, cells.into_iter()))
    }
}

/// How much is known of the repairs that were completed in a time. Those that are older than the mirror are
/// missing: status changes tell how many they are.
fn knows_completed(
    reader: &Reader,
    reach: &Lists,
    from: Timestamp,
    to: Timestamp,
) -> Result<Known, QueryError> {
    let known = reach.knows(&[Route::Jobs, Route::JobStatusChanges], from, to);
    let missing = match known {
        Known::Wholly => reader.unknown_jobs_completed(from, to, None, None)?,
        _ => 0,
    };
    Ok(if missing > 0 { Known::Partly } else { known })
}

/// Whether no record of a route is mirrored.
fn is_empty(reader: &mut Reader, route: Route) -> Result<bool, QueryError> {
    let found = reader.query(&format!("SELECT 1 FROM {route} LIMIT 1"), &[], LIMITS)?;
    Ok(found.rows.is_empty())
}

/// The condition that a column begins with a day, as `2026-03-31`.
fn begins_with_day(column: &str) -> String {
    format!("{column} GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'")
}

/// How many open leads have a follow-up that is due today or was due before. The state of a lead is the one
/// that was last seen: it may be another once the lead has left the newest page.
fn follow_ups(reader: &mut Reader, spans: &Spans, reach: &Lists) -> Result<Cell, QueryError> {
    let known = reach.knows_present(Route::Leads);
    let needs = [(Route::Leads, "next_follow_up"), (Route::Leads, "status_stage")];
    if !has(reader, &needs)? {
        let is_none = is_empty(reader, Route::Leads)?;
        return Ok(if is_none { known.count(0.0, true) } else { Cell::unknown() });
    }
    let sql = format!(
        "SELECT count(*), EXISTS (SELECT 1 FROM leads l \
         WHERE l.status_stage IS NOT 'completed' AND l._last_seen_at IS NOT NULL) \
         FROM leads l WHERE l.status_stage IS NOT 'completed' \
         AND l.next_follow_up < date(:today, '+1 day') AND {}",
        begins_with_day("l.next_follow_up")
    );
    let today = [("today".to_owned(), SqlValue::Text(spans.today.to_string()))];
    let found = reader.query(&sql, &today, LIMITS)?;
    Ok(found.rows.first().map_or(Cell::unknown(), |row| {
        let (due, is_old) = (number(&row[0]), number(&row[1]) > 0.0);
        match known {
            Known::Not => Cell::unknown(),
            _ if is_old => Cell::of(due.into(), Exactness::About),
            known => known.count(due, true),
        }
    }))
}

/// What is unpaid of the repairs completed in the last 90 days; all repairs ever would take too long. Without a
/// payment it is too high, without a repair too low.
fn unpaid_sum(reader: &mut Reader, reach: &Lists) -> Result<Cell, QueryError> {
    let is_linked = reader.job_links()?.len() == 2;
    if !is_linked || !has(reader, &[(Route::Jobs, "total_amount")])? {
        return Ok(Cell::unknown());
    }
    let total = amount_sql("j.total_amount");
    // One of which nothing says what was paid is owed in full.
    let sql = format!(
        "SELECT total(total - coalesce(paid, 0)) / 10000.0, count(*) = count(paid) \
         FROM (SELECT round(10000 * {total}) AS total, round(s.paid * 10000) AS paid \
         FROM _job_states s JOIN jobs j ON j.id = s.id WHERE s.completed_at >= :since) \
         WHERE total > 0 AND total > coalesce(paid, 0)"
    );
    let since = reach.now.checked_sub(UNPAID).unwrap_or(Timestamp::MIN);
    let from = [("since".to_owned(), SqlValue::Text(second(since)))];
    let found = reader.query(&sql, &from, LIMITS)?;
    let [sum, is_paid_known] = [0, 1].map(|index| number(&found.rows[0][index]));
    let routes = [Route::Jobs, Route::JobStatusChanges, Route::Payments];
    // Up to the last reading, as today is.
    let exactness = match reach.knows(&routes, since, Timestamp::MAX) {
        Known::Not => Exactness::Unknown,
        Known::Wholly if is_paid_known > 0.0 => Exactness::Exact,
        _ => Exactness::About,
    };
    Ok(Cell::of(sum.into(), exactness))
}

fn text(value: &SqlValue) -> Option<String> {
    match value {
        SqlValue::Null | SqlValue::Blob(_) => None,
        SqlValue::Text(text) => Some(text.clone()),
        SqlValue::Integer(number) => Some(number.to_string()),
        SqlValue::Real(number) => Some(number.to_string()),
    }
}

fn number(value: &SqlValue) -> f64 {
    value::number(value).unwrap_or_default()
}
