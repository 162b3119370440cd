//! The current state of each job, from its newest source: the table `_job_states`.
//!
//! A list that is ordered by creation never shows an old job again, so the job's own row says what was last
//! seen. Its status changes and payments say the rest. A row is rebuilt in the transaction that writes
//! one of its sources; the table follows from the mirror.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::clock::stamp;
use crate::record::{Change, Route};
use crate::store::error::StoreError;
use crate::store::mirror;
use crate::store::mirror::job_links::{self, LINKED};
use crate::store::reader::Reader;

impl Reader {
    /// Gives each status change and payment its job, if the mirror has it: the fields of the job as received,
    /// and its current state.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn add_jobs(&self, changes: &mut [Change]) -> Result<(), StoreError> {
        let links = job_links::read(&self.connection)?;
        for change in changes {
            let link = links.iter().find(|link| link.route == change.route);
            let Some((link, record)) = link.zip(change.record_id.as_deref()) else { continue };
            if let Some(id) = job_links::job_of(&self.connection, link, record)? {
                change.job = self.current_job(&id)?;
            }
        }
        Ok(())
    }

    fn current_job(&self, id: &str) -> Result<Option<String>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT c.body, s.status, s.stage, s.since, s.completed_at, s.paid FROM jobs j \
             JOIN changes c ON c.seq = j._seq JOIN _job_states s ON s.id = j.id WHERE j.id = ?1",
        )?;
        let found = statement.query_row([id], |row| {
            let text = |column| row.get::<_, Option<String>>(column).map(Value::from);
            let state: [(&str, Value); 5] = [
                ("current_status", text(1)?),
                ("current_stage", text(2)?),
                ("status_since", text(3)?),
                ("completed_at", text(4)?),
                ("paid_total", row.get::<_, Option<f64>>(5)?.into()),
            ];
            Ok((row.get::<_, String>(0)?, state))
        });
        let Some((body, state)) = found.optional()? else { return Ok(None) };
        let mut fields: BTreeMap<&str, &RawValue> = serde_json::from_str(&body).unwrap_or_default();
        let state = state.map(|(name, value)| (name, to_raw_value(&value)));
        for (name, value) in &state {
            if let Ok(value) = value {
                fields.insert(name, value);
            }
        }
        Ok(serde_json::to_string(&fields).ok())
    }
}

/// Jobs whose sources were written, by id.
#[derive(Debug, Default)]
pub(in crate::store) struct TouchedJobs {
    ids: BTreeSet<String>,
}

impl TouchedJobs {
    /// Notes the job of a record that is in the mirror.
    pub(in crate::store) fn note(
        &mut self,
        connection: &Connection,
        route: Route,
        id: &str,
    ) -> rusqlite::Result<()> {
        if route == Route::Jobs {
            self.ids.insert(id.to_owned());
            return Ok(());
        }
        if LINKED.contains(&route)
            && let Some(link) = job_links::of_route(connection, route)?
        {
            self.ids.extend(job_links::job_of(connection, &link, id)?);
        }
        Ok(())
    }

    /// Rebuilds their states.
    pub(in crate::store) fn refresh(&self, connection: &Connection) -> rusqlite::Result<()> {
        refresh(connection, self.ids.iter().map(String::as_str))
    }
}

/// Rebuilds the states of these jobs; a job that is no longer in the mirror has none.
pub(in crate::store) fn refresh<'a>(
    connection: &Connection,
    ids: impl IntoIterator<Item = &'a str>,
) -> rusqlite::Result<()> {
    let mut ids = ids.into_iter().peekable();
    if ids.peek().is_none() {
        return Ok(());
    }
    let sources = Sources::read(connection)?;
    for id in ids {
        sources.refresh(connection, id)?;
    }
    Ok(())
}

/// Rebuilds the states of all jobs.
pub(in crate::store) fn rebuild(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM _job_states", [])?;
    let ids: Vec<String> = connection
        .prepare("SELECT id FROM jobs")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    refresh(connection, ids.iter().map(String::as_str))
}

/// The statements that read the sources of a job's state, for the columns that there are.
struct Sources {
    job: String,
    changes: Option<String>,
    payments: Option<String>,
}

impl Sources {
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let of_jobs = mirror::field_columns(connection, Route::Jobs)?;
        let job = format!(
            "SELECT {}, iif(j._changed_at = j._first_seen_at, j._changed_at, NULL), j._last_seen_at IS NULL, coalesce(j._last_seen_at, (SELECT p.last_success_at FROM _pollers p \
             WHERE p.route = 'jobs' AND p.business = coalesce(j._business, '')), j._changed_at) \
             FROM jobs j WHERE j.id = ?1",
            listed("j", &of_jobs, &["created_at", "status", "status_stage", "paid_amount"])
        );
        let linked = |route: Route, wanted: &[&str]| -> rusqlite::Result<Option<String>> {
            let Some(link) = job_links::of_route(connection, route)? else { return Ok(None) };
            let columns = mirror::field_columns(connection, route)?;
            Ok(Some(format!(
                "SELECT {}, r._first_seen_at FROM jobs j CROSS JOIN \"{}\" r ON {} WHERE j.id = ?1 ORDER BY r._seq",
                listed("r", &columns, wanted),
                route,
                link.condition_from_job("r", "j")
            )))
        };
        let changes = linked(Route::JobStatusChanges, &["created_at", "status", "status_stage"])?;
        let payments = linked(Route::Payments, &["created_at", "amount"])?;
        Ok(Self { job, changes, payments })
    }

    fn refresh(&self, connection: &Connection, id: &str) -> rusqlite::Result<()> {
        let job = connection.prepare_cached(&self.job)?.query_row([id], Job::read).optional()?;
        let Some(job) = job else {
            connection.prepare_cached("DELETE FROM _job_states WHERE id = ?1")?.execute([id])?;
            return Ok(());
        };
        let changes = rows(connection, self.changes.as_deref(), id, StatusChange::read)?;
        let payments = rows(connection, self.payments.as_deref(), id, Payment::read)?;
        let state = JobState::of(&job, &changes, &payments);
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO _job_states (id, status, stage, since, source, completed_at, open_seconds, paid) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute((
                id,
                &state.status,
                &state.stage,
                state.since.map(stamp),
                state.source,
                state.completed_at.map(stamp),
                state.open_seconds,
                state.paid,
            ))?;
        Ok(())
    }
}

/// The rows of a source of one job; none without a statement.
fn rows<T>(
    connection: &Connection,
    sql: Option<&str>,
    id: &str,
    read: fn(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let Some(sql) = sql else { return Ok(Vec::new()) };
    connection.prepare_cached(sql)?.query_map([id], read)?.collect()
}

/// Columns of a table, with NULL for those that it does not have.
fn listed(alias: &str, columns: &[String], wanted: &[&str]) -> String {
    let list: Vec<String> = wanted
        .iter()
        .map(|name| match columns.iter().any(|column| column == name) {
            true => format!("{alias}.{name}"),
            false => "NULL".to_owned(),
        })
        .collect();
    list.join(", ")
}

/// A job as its own row says.
#[derive(Debug, Clone, Default)]
struct Job {
    created_at: Option<Timestamp>,
    status: Option<String>,
    stage: Option<String>,
    paid: Option<f64>,
    /// When it was first seen; `None` if it has changed since.
    unchanged_since: Option<Timestamp>,
    /// Whether it is one of the newest, so that the next page shows it again.
    is_on_page: bool,
    seen_at: Option<Timestamp>,
}

impl Job {
    /// Whether a page showed the job last before something else was seen. Both times are of this machine's
    /// clock: that of the workspace may be another.
    fn is_seen_before(&self, other: Option<Timestamp>) -> bool {
        self.seen_at.zip(other).is_none_or(|(seen, other)| seen < other)
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            created_at: time(row, 0)?,
            status: text(row, 1)?,
            stage: text(row, 2)?,
            paid: number(row, 3)?,
            unchanged_since: time(row, 4)?,
            is_on_page: row.get(5)?,
            seen_at: time(row, 6)?,
        })
    }
}

#[derive(Debug, Clone)]
struct StatusChange {
    at: Option<Timestamp>,
    status: Option<String>,
    stage: Option<String>,
    seen_at: Option<Timestamp>,
}

impl StatusChange {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            at: time(row, 0)?,
            status: text(row, 1)?,
            stage: text(row, 2)?,
            seen_at: time(row, 3)?,
        })
    }
}

#[derive(Debug, Clone)]
struct Payment {
    at: Option<Timestamp>,
    amount: Option<f64>,
    seen_at: Option<Timestamp>,
}

impl Payment {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { at: time(row, 0)?, amount: number(row, 1)?, seen_at: time(row, 2)? })
    }
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get_ref(column)?.as_str_or_null().ok().flatten().and_then(|text| text.parse().ok()))
}

fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    Ok(row.get_ref(column)?.as_str_or_null().ok().flatten().map(str::to_owned))
}

/// A number, also one that was sent as text.
fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<f64>> {
    let value = row.get_ref(column)?;
    Ok(match value {
        rusqlite::types::ValueRef::Text(_) => {
            value.as_str().ok().and_then(|text| text.trim().parse().ok())
        }
        other => other.as_f64_or_null().ok().flatten().or(other.as_i64().ok().map(|n| n as f64)),
    })
    .map(|number| number.filter(|number: &f64| number.is_finite()))
}

/// The current state of a job.
#[derive(Debug, PartialEq)]
struct JobState {
    status: Option<String>,
    stage: Option<String>,
    /// Since when it has this status, as far as that is known.
    since: Option<Timestamp>,
    /// Which record that is from.
    source: &'static str,
    /// `None` unless it is completed and the change that completed it is known.
    completed_at: Option<Timestamp>,
    /// How long it was open until then, without the time between a completion and a reopening.
    open_seconds: Option<i64>,
    paid: Option<f64>,
}

const COMPLETED: &str = "completed";

impl JobState {
    fn of(job: &Job, changes: &[StatusChange], payments: &[Payment]) -> Self {
        let mut changes: Vec<(Timestamp, &StatusChange)> =
            changes.iter().filter_map(|change| Some((change.at?, change))).collect();
        // Stable: of two changes at one time, the one that was stored later is the newer.
        changes.sort_by_key(|(at, _)| *at);
        let newest = changes.last().copied();
        let later = newest.filter(|(_, change)| job.is_seen_before(change.seen_at));
        let (status, stage, source) = match later {
            Some((_, change)) => (&change.status, &change.stage, "status change"),
            None => (&job.status, &job.stage, "job"),
        };
        let of_change = newest.filter(|(_, change)| change.status == *status);
        // Another field may have changed last, which says nothing of the status.
        let since = of_change.map_or(job.unchanged_since, |(at, _)| Some(at));
        let completion = match stage.as_deref() {
            Some(COMPLETED) => completion(job.created_at, &changes),
            _ => None,
        };
        Self {
            status: status.clone(),
            stage: stage.clone(),
            since,
            source,
            completed_at: completion.map(|(at, _)| at),
            open_seconds: completion.and_then(|(_, open)| open),
            paid: paid(job, payments),
        }
    }
}

/// When the last change completed the job, and for how long it had been open until then.
fn completion(
    created_at: Option<Timestamp>,
    changes: &[(Timestamp, &StatusChange)],
) -> Option<(Timestamp, Option<i64>)> {
    let (mut opened_at, mut open_seconds) = (created_at, created_at.map(|_| 0));
    let mut completed_at = None;
    for (at, change) in changes {
        let is_completed = change.stage.as_deref() == Some(COMPLETED);
        match completed_at {
            None if is_completed => {
                let open = opened_at.map(|opened| at.duration_since(opened).as_secs().max(0));
                open_seconds = open_seconds.zip(open).map(|(before, open)| before + open);
                completed_at = Some(*at);
            }
            Some(_) if !is_completed => {
                opened_at = Some(*at);
                completed_at = None;
            }
            _ => {}
        }
    }
    completed_at.map(|at| (at, open_seconds))
}

/// What was paid. A job on the newest page may hold the payments seen since, or not: the larger sum counts. Of
/// another, if its own sum is that of its first payments, all payments are known, and their sum is the newer one.
/// Else earlier payments are not in the mirror: to the job's own sum come the payments seen since.
fn paid(job: &Job, payments: &[Payment]) -> Option<f64> {
    // In ten-thousandths, because sums of fractions would not be exact.
    let whole = |amount: f64| (amount * 10_000.0).round();
    let mut payments: Vec<&Payment> = payments.iter().collect();
    payments.sort_by_key(|payment| payment.at);
    let amounts = |payment: &&Payment| payment.amount.map(whole);
    let all: f64 = payments.iter().filter_map(amounts).sum();
    let Some(own) = job.paid.map(whole) else {
        return (!payments.is_empty()).then_some(all / 10_000.0);
    };
    let later: Vec<&Payment> =
        payments.iter().copied().filter(|payment| job.is_seen_before(payment.seen_at)).collect();
    let sums = payments.iter().filter_map(amounts).scan(0.0, |sum, amount| {
        *sum += amount;
        Some(*sum)
    });
    let sum = match later.is_empty() {
        true => own,
        false if job.is_on_page => own.max(all),
        false if std::iter::once(0.0).chain(sums).any(|sum| sum == own) => all,
        false => own + later.iter().filter_map(amounts).sum::<f64>(),
    };
    Some(sum / 10_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<Timestamp> {
        Some(format!("2026-03-{text}:00Z").parse().unwrap())
    }

    fn job(stage: &str, seen: &str) -> Job {
        Job {
            created_at: at("01T00:00"),
            status: Some(format!("is {stage}")),
            stage: Some(stage.to_owned()),
            paid: Some(50.0),
            unchanged_since: at("01T00:00"),
            is_on_page: false,
            seen_at: at(seen),
        }
    }

    fn change(time: &str, stage: &str) -> StatusChange {
        StatusChange {
            at: at(time),
            status: Some(format!("is {stage}")),
            stage: Some(stage.to_owned()),
            seen_at: at(time),
        }
    }

    fn payment(time: &str, amount: f64) -> Payment {
        Payment { at: at(time), amount: Some(amount), seen_at: at(time) }
    }

    #[test]
    fn the_newest_source_says_what_a_job_is() {
        let changes = [change("02T00:00", "waiting"), change("03T00:00", "completed")];
        let old = JobState::of(&job("open", "01T12:00"), &changes, &[]);
        assert_eq!((old.stage.as_deref(), old.source), (Some("completed"), "status change"));
        assert_eq!((old.since, old.completed_at), (at("03T00:00"), at("03T00:00")));
        let seen = JobState::of(&job("open", "03T00:01"), &changes, &[]);
        assert_eq!((seen.stage.as_deref(), seen.source), (Some("open"), "job"));
        assert_eq!((seen.completed_at, seen.since), (None, at("01T00:00")));
        let same = JobState::of(&job("completed", "04T00:00"), &changes, &[]);
        assert_eq!((same.source, same.since), ("job", at("03T00:00")));
        let alone = JobState::of(&job("completed", "04T00:00"), &[], &[]);
        assert_eq!((alone.completed_at, alone.open_seconds), (None, None), "when is not known");
    }

    #[test]
    fn the_turnaround_is_the_time_that_a_repair_was_open() {
        let seen = job("open", "01T00:00");
        let day = 86_400;
        let once = [change("02T00:00", "open"), change("03T00:00", "completed")];
        assert_eq!(JobState::of(&seen, &once, &[]).open_seconds, Some(2 * day));
        let collected = [&once[..], &[change("09T00:00", "completed")]].concat();
        let state = JobState::of(&seen, &collected, &[]);
        assert_eq!((state.open_seconds, state.completed_at), (Some(2 * day), at("03T00:00")));
        let reopened = [&once[..], &[change("20T00:00", "open")]].concat();
        let state = JobState::of(&seen, &reopened, &[]);
        assert_eq!((state.open_seconds, state.completed_at), (None, None));
        let again = [&reopened[..], &[change("21T00:00", "completed")]].concat();
        let state = JobState::of(&seen, &again, &[]);
        assert_eq!((state.open_seconds, state.completed_at), (Some(3 * day), at("21T00:00")));
        let unknown = Job { created_at: None, ..seen };
        assert_eq!(JobState::of(&unknown, &once, &[]).open_seconds, None);
    }

    #[test]
    fn what_was_paid_is_counted_once_whether_the_job_or_the_payment_was_seen_first() {
        let seen = job("open", "02T00:00");
        let paid = |job: &Job, payments: &[Payment]| JobState::of(job, &[], payments).paid;
        assert_eq!(paid(&seen, &[]), Some(50.0));
        assert_eq!(paid(&seen, &[payment("01T00:00", 50.0)]), Some(50.0));
        let late = Payment { seen_at: at("02T00:01"), ..payment("01T00:00", 50.0) };
        assert_eq!(paid(&seen, &[late]), Some(50.0), "the job was seen after it was paid");
        let later = [payment("01T00:00", 50.0), payment("03T00:00", 0.1), payment("04T00:00", 0.2)];
        assert_eq!(paid(&seen, &later), Some(50.3));
        let back = [payment("01T00:00", 50.0), payment("03T00:00", -50.0)];
        assert_eq!(paid(&seen, &back), Some(0.0), "paid back");
        let unknown = [payment("03T00:00", 9.0)];
        assert_eq!(paid(&seen, &unknown), Some(59.0), "50 before the mirror began");
        let on_page = Job { is_on_page: true, ..seen.clone() };
        assert_eq!(paid(&on_page, &unknown), Some(50.0), "it may hold the 9");
        let whole = [payment("01T00:00", 50.0), payment("03T00:00", 9.0)];
        assert_eq!(paid(&on_page, &whole), Some(59.0));
        let silent = Job { paid: None, ..seen };
        assert_eq!(paid(&silent, &later), Some(50.3));
        assert_eq!(paid(&silent, &[]), None, "unknown is not zero");
    }
}
