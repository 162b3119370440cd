//! The numbers of the page Home: what came in, what was completed, what is open, and what needs attention.
//!
//! A number says what is known: all of it, a part of it, or nothing. Repairs count by their current state.
//! The numbers name no person; the lists of repairs behind them hold ids.

mod reach;
mod repairs;
mod span;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::completeness::{Exactness, Known};
use crate::record::Route;
use crate::store::{JobLink, QueryError, QueryLimits, Reader, SqlValue};
pub use reach::CompleteSince;
use reach::Reach;
use repairs::{Due, Moment, ReadyStatus, Repair, median_days};
pub use span::HomeRange;
use span::{Spans, utc};

/// Days of the small line of a number, today included.
pub const LINE_DAYS: usize = 30;
/// Since when the state of a repair counts as long.
const READY_LONG: SignedDuration = SignedDuration::from_hours(14 * 24);
const OPEN_LONG: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How long ago a repair was completed at most of which the unpaid amount counts.
const UNPAID: SignedDuration = SignedDuration::from_hours(90 * 24);
const LIMITS: QueryLimits =
    QueryLimits { time: Duration::from_secs(10), rows: 500_000, bytes: 128 * 1024 * 1024 };

/// How much is known of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// Nothing.
    Unknown,
    /// Records of this much are known, and others may be missing.
    AtLeast(f64),
    /// All of it.
    Exactly(f64),
}

impl Amount {
    fn of(amount: f64, known: Known) -> Self {
        match known.exactness(Some(amount), true) {
            Exactness::Exact => Self::Exactly(amount),
            Exactness::AtLeast => Self::AtLeast(amount),
            Exactness::Unknown => Self::Unknown,
        }
    }
}

/// One number of Home.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The number of the range, or as things stand now.
    pub now: Amount,
    /// The same a range before, up to the same hour.
    pub before: Amount,
    /// The last [`LINE_DAYS`] days, the oldest first.
    pub days: Vec<Amount>,
}

impl Figure {
    fn unknown() -> Self {
        let days = vec![Amount::Unknown; LINE_DAYS];
        Self { now: Amount::Unknown, before: Amount::Unknown, days }
    }
}

/// What the shop has to look at.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    /// Repairs that are ready for pickup for more than 14 days.
    pub ready_long: Amount,
    /// Repairs that were taken in more than 30 days ago and are open.
    pub open_long: Amount,
    /// Open leads whose follow-up is due.
    pub follow_ups: Amount,
    /// What is unpaid of the repairs that were completed in the last 90 days.
    pub unpaid: Amount,
}

/// The numbers of Home.
#[derive(Debug, Clone, PartialEq)]
pub struct Home {
    /// The first and the last day of the range.
    pub days: (Date, Date),
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
    /// Repairs that are open.
    pub open: Figure,
    /// Open repairs whose estimated delivery has passed.
    pub overdue: Figure,
    /// Open repairs that are ready for pickup; unknown if no status is known to mean it.
    pub ready: Figure,
    /// The open repairs by status, the most frequent first.
    pub by_status: Vec<(String, usize)>,
    /// Half of the repairs that were completed in the last 30 days took at most this many days.
    pub median_days: Option<f64>,
    /// What needs attention.
    pub attention: Attention,
    /// Open repairs with a delivery date that cannot be read.
    pub unread_dates: usize,
    /// Whether status changes name their repair, so that states are current.
    pub is_linked: bool,
    /// Open repairs that have left the newest 100, and when the first of them did.
    pub left: (usize, Option<String>),
    /// Since when every list is complete.
    pub complete_since: CompleteSince,
    /// Gaps that were not repaired.
    pub gaps: usize,
}

/// The repairs behind a number of Home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairList {
    /// Those that are open.
    Open,
    /// Open ones whose estimated delivery has passed.
    Overdue,
    /// Open ones that are ready for pickup.
    Ready,
    /// Those that are ready for pickup for more than 14 days.
    ReadyLong,
    /// Those that were taken in more than 30 days ago and are open.
    OpenLong,
    /// Those completed in the last 90 days that are not paid in full.
    Unpaid,
}

/// One repair of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRepair {
    /// Its id.
    pub id: String,
    /// Its current status.
    pub status: Option<String>,
    /// Since when, in UTC.
    pub since: Option<String>,
}

impl Repair {
    fn is_in(&self, list: RepairList, now: &Moment) -> bool {
        let earlier = |text: &str, by: SignedDuration| {
            let then = now.at.checked_sub(by).map(utc);
            then.is_ok_and(|then| !text.is_empty() && text < then.as_str())
        };
        self.is_open()
            && match list {
                RepairList::Open => true,
                RepairList::Overdue => self.was_overdue(now),
                RepairList::Ready => self.is_ready,
                RepairList::ReadyLong => self.is_ready && earlier(&self.since, READY_LONG),
                RepairList::OpenLong => earlier(&self.created_at, OPEN_LONG),
                RepairList::Unpaid => false,
            }
    }
}

/// Reads the numbers; `ready_status` names the statuses that mean ready for pickup. Blocks.
///
/// # Errors
/// If the store cannot be read in time.
pub fn home(
    reader: &mut Reader,
    range: HomeRange,
    ready_status: &[String],
    zone: &TimeZone,
    now: Timestamp,
) -> Result<Home, QueryError> {
    let spans = Spans::of(range, zone, now);
    reader.set_days(&spans.rows())?;
    let (reach, link) = (Reach::read(reader, now)?, link_of(reader)?);
    let ready = ReadyStatus { named: ready_status };
    let repairs = repairs::read(reader, spans.earliest(), link.as_ref(), &ready, zone)?;
    let knows_ready = ready.is_known(reader, &repairs)?;
    let open: Vec<&Repair> = repairs.iter().filter(|repair| repair.is_open()).collect();
    let standing = |amount: f64| Amount::of(amount, reach.knows_open(now));
    let moment = Moment::of(now);
    let listed =
        |list| standing(open.iter().filter(|repair| repair.is_in(list, &moment)).count() as f64);
    let stands = |was: &dyn Fn(&Repair, &Moment) -> bool| {
        spans.standing(|at| {
            let moment = Moment::of(at);
            let count = repairs.iter().filter(|repair| was(repair, &moment)).count() as f64;
            match reach.knows_open(at) {
                Known::Not => Amount::Unknown,
                known => Amount::of(count, known),
            }
        })
    };
    let changes = [Route::Jobs, Route::JobStatusChanges];
    let completed = "SELECT count(*) FROM _job_states r WHERE r.completed_at";
    // In ten-thousandths, because sums of fractions would not be exact.
    let money = "SELECT total(round(CAST(r.amount AS REAL) * 10000)) / 10000.0 FROM payments r \
                 WHERE r.created_at";
    let mut follow = |routes: &[Route], needs: &[(Route, &str)], sql: &str| {
        over_time(reader, &spans, &reach, routes, needs, sql)
    };
    let count = |route: Route| format!("SELECT count(*) FROM {route} r WHERE r.created_at");
    Ok(Home {
        days: spans.days,
        as_of: now,
        taken_in: follow(&[Route::Jobs], &[(Route::Jobs, "created_at")], &count(Route::Jobs))?,
        completed: match link {
            Some(_) => follow(&changes, &[], completed)?,
            None => Figure::unknown(),
        },
        money_in: follow(
            &[Route::Payments],
            &[(Route::Payments, "created_at"), (Route::Payments, "amount")],
            money,
        )?,
        leads: follow(&[Route::Leads], &[(Route::Leads, "created_at")], &count(Route::Leads))?,
        open: stands(&Repair::was_open),
        overdue: stands(&Repair::was_overdue),
        ready: match knows_ready {
            true => stands(&Repair::was_ready),
            false => Figure::unknown(),
        },
        by_status: by_status(&open),
        median_days: median_days(&repairs, now),
        attention: Attention {
            ready_long: match knows_ready {
                true => listed(RepairList::ReadyLong),
                false => Amount::Unknown,
            },
            open_long: listed(RepairList::OpenLong),
            follow_ups: match follow_ups(reader, &spans)? {
                Some(due) => standing(due),
                None => Amount::Unknown,
            },
            unpaid: match unpaid(reader, now)? {
                Some(unpaid) => {
                    let sum = unpaid.iter().map(|(_, amount)| amount).sum();
                    Amount::of(sum, reach.knows_since(&changes, UNPAID))
                }
                None => Amount::Unknown,
            },
        },
        unread_dates: open.iter().filter(|repair| repair.due == Due::Unread).count(),
        is_linked: link.is_some(),
        left: (
            open.iter().filter(|repair| repair.last_seen_at.is_some()).count(),
            open.iter().filter_map(|repair| repair.last_seen_at.clone()).min(),
        ),
        complete_since: reach.complete_since(),
        gaps: reach.gaps(),
    })
}

/// The repairs behind a number, those that are longest in their state first. Blocks.
///
/// # Errors
/// If the store cannot be read in time.
pub fn repairs(
    reader: &mut Reader,
    list: RepairList,
    ready_status: &[String],
    zone: &TimeZone,
    now: Timestamp,
) -> Result<Vec<ListedRepair>, QueryError> {
    if list == RepairList::Unpaid {
        let unpaid = unpaid(reader, now)?.unwrap_or_default().into_iter();
        return Ok(unpaid.map(|(repair, _)| repair).collect());
    }
    let ready = ReadyStatus { named: ready_status };
    let read = repairs::read(reader, now, None, &ready, zone)?;
    let moment = Moment::of(now);
    let mut found: Vec<Repair> =
        read.into_iter().filter(|repair| repair.is_in(list, &moment)).collect();
    found.sort_by(|a, b| (&a.since, &a.id).cmp(&(&b.since, &b.id)));
    let listed = found.into_iter().map(|repair| ListedRepair {
        id: repair.id,
        status: repair.status,
        since: Some(repair.since).filter(|since| !since.is_empty()),
    });
    Ok(listed.collect())
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
        true => "j.total_amount",
        false => "NULL",
    };
    let sql = format!(
        "SELECT s.status, s.since, s.source, s.paid, {total} \
         FROM _job_states s JOIN jobs j ON j.id = s.id WHERE s.id = :id"
    );
    let found = texts(reader, &sql, &[("id".to_owned(), SqlValue::Text(id.to_owned()))])?;
    Ok(found.into_iter().next().map(|row| {
        let mut cells = row.into_iter();
        let mut next = || cells.next().flatten();
        let (status, since, source) = (next(), next(), next().unwrap_or_default());
        let mut amount = || next()?.parse().ok();
        JobState { status, since, source, paid: amount(), total: amount() }
    }))
}

fn link_of(reader: &Reader) -> Result<Option<JobLink>, QueryError> {
    let links = reader.job_links()?;
    Ok(links.into_iter().find(|link| link.route == Route::JobStatusChanges))
}

/// Whether the workspace has sent these columns.
fn has(reader: &Reader, needs: &[(Route, &str)]) -> Result<bool, QueryError> {
    for (route, column) in needs {
        if !reader.columns(*route)?.iter().any(|known| known == column) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A number over time; `sql` ends with the time by which it counts.
fn over_time(
    reader: &mut Reader,
    spans: &Spans,
    reach: &Reach,
    routes: &[Route],
    needs: &[(Route, &str)],
    sql: &str,
) -> Result<Figure, QueryError> {
    if !has(reader, needs)? {
        return Ok(Figure::unknown());
    }
    let time = sql.rsplit(' ').next().unwrap_or_default();
    let sql =
        format!("SELECT ({sql} >= d.from_at AND {time} < d.to_at) FROM days d ORDER BY d.day");
    let found = reader.query(&sql, &[], LIMITS)?;
    let amounts: Vec<f64> = found.rows.iter().map(|row| number(&row[0])).collect();
    Ok(spans.over_time(&amounts, |span| reach.knows(routes, span)))
}

fn by_status(open: &[&Repair]) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for repair in open {
        *counts.entry(repair.status.as_deref().unwrap_or("(no status)")).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> =
        counts.into_iter().map(|(status, count)| (status.to_owned(), count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// How many open leads have a follow-up that is due today or was due before; `None` if leads do not say.
fn follow_ups(reader: &mut Reader, spans: &Spans) -> Result<Option<f64>, QueryError> {
    let needs = [(Route::Leads, "next_follow_up"), (Route::Leads, "status_stage")];
    if !has(reader, &needs)? {
        return Ok(None);
    }
    let sql = "SELECT count(*) FROM leads l WHERE l.status_stage = 'open' \
               AND l.next_follow_up < date(:today, '+1 day') \
               AND l.next_follow_up GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'";
    let today = [("today".to_owned(), SqlValue::Text(spans.today().to_string()))];
    let found = reader.query(sql, &today, LIMITS)?;
    Ok(found.rows.first().map(|row| number(&row[0])))
}

/// The repairs completed in the last 90 days that are not paid in full, the latest first, with what is
/// unpaid; `None` if that is not known. All repairs ever would take too long.
fn unpaid(
    reader: &mut Reader,
    now: Timestamp,
) -> Result<Option<Vec<(ListedRepair, f64)>>, QueryError> {
    let is_linked = reader.job_links()?.len() == 2;
    if !is_linked || !has(reader, &[(Route::Jobs, "total_amount")])? {
        return Ok(None);
    }
    let sql = "SELECT s.id, s.status, s.completed_at, \
               (round(j.total_amount * 10000) - round(s.paid * 10000)) / 10000.0 \
               FROM _job_states s JOIN jobs j ON j.id = s.id \
               WHERE s.completed_at >= :since AND s.paid < CAST(j.total_amount AS REAL) \
               ORDER BY s.completed_at DESC";
    let since = utc(now.checked_sub(UNPAID).unwrap_or(now));
    let since = [("since".to_owned(), SqlValue::Text(since))];
    let rows = reader.query(sql, &since, LIMITS)?.rows.into_iter().map(|row| {
        let [id, status, since] = [0, 1, 2].map(|index| text(&row[index]));
        (ListedRepair { id: id.unwrap_or_default(), status, since }, number(&row[3]))
    });
    Ok(Some(rows.collect()))
}

/// The rows of a query as texts.
fn texts(
    reader: &mut Reader,
    sql: &str,
    parameters: &[(String, SqlValue)],
) -> Result<Vec<Vec<Option<String>>>, QueryError> {
    let rows = reader.query(sql, parameters, LIMITS)?.rows.into_iter();
    Ok(rows.map(|row| row.iter().map(text).collect()).collect())
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
    match value {
        SqlValue::Integer(number) => *number as f64,
        SqlValue::Real(number) => *number,
        SqlValue::Null | SqlValue::Text(_) | SqlValue::Blob(_) => 0.0,
    }
}
