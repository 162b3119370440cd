//! The current state of each job, from its newest source: the table `_job_states`.
//!
//! A list that is ordered by creation never shows an old job again, so the job's own row has what
//! was last seen. Its status changes and payments add the rest. A row is rebuilt in the transaction
//! that writes one of its sources; the table follows from the mirror.

use rusqlite::{Connection, OptionalExtension, named_params};
use serde::Deserialize;
use shopmirror_core::reading::CHANGED_BY;
use shopmirror_core::record::{Change, Route};

use crate::store::error::StoreError;
use crate::store::mirror::job_links::{self, JobLink};
use crate::store::mirror::{field_columns, job_words, word_fields};
use crate::store::reader::Reader;
use crate::store::sightings::stored_last_seen_sql;
use crate::store::sql::Sql;

/// Jobs whose states are rebuilt by one statement, which searches its lists without an index.
const STEP: usize = 100;

/// How a job stands now, and what it costs as it was last seen.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct JobState {
    /// Its current status.
    pub status: Option<String>,
    /// Since when, in UTC.
    pub since: Option<String>,
    /// The source of that: `job` or `status change`.
    pub source: String,
    /// What is paid.
    pub paid: Option<f64>,
    /// How sure that is, in the words of reports; empty if it is exact.
    pub paid_mark: String,
    /// The most that is paid, if it is a range.
    pub paid_max: Option<f64>,
    /// What it costs.
    pub total: Option<f64>,
}

/// How sure the paid sum of the state `s` is, in the words of reports.
pub(super) const PAID_MARK: &str = "CASE
        WHEN s.paid IS NULL THEN 'unknown'
        WHEN s.paid_unsure > 0 THEN 'about'
        WHEN s.paid_more > 0 THEN 'at_least'
        WHEN s.paid_upto > s.paid THEN 'between'
        ELSE ''
    END";

/// The most that is paid by the state `s`, if that is more than its paid sum and known.
pub(super) const PAID_MAX: &str =
    "iif(s.paid_upto > s.paid AND NOT s.paid_more, s.paid_upto, NULL)";

/// When a status change or payment `r` was seen first. The time of an import says nothing of that.
const RECORD_SEEN_AT: &str = "iif(
      r._via IS 'import',
      min(r._last_seen_at, coalesce(r._created_at, r._last_seen_at)),
      r._first_seen_at
    )";

impl Reader {
    /// How a job stands now; `None` if it is not in the mirror.
    pub fn job_state(&self, id: &str) -> Result<Option<JobState>, StoreError> {
        let sql = format!(
            "SELECT
                s.status,
                s.since,
                s.source,
                s.paid,
                {PAID_MARK} AS paid_mark,
                {PAID_MAX} AS paid_max,
                j._total_amount AS total
            FROM _job_states s
            JOIN jobs j ON j.id = s.id
            WHERE s.id = :id"
        );
        Ok(self.connection.row(&sql, named_params! { ":id": id })?)
    }

    /// Gives each status change and payment its job, if the mirror has it: the fields of the job as
    /// received, and its current state.
    pub fn add_jobs(&self, changes: &mut [Change]) -> Result<(), StoreError> {
        let links = job_links::read(&self.connection)?;
        let current_job = current_job_sql();
        for change in changes {
            let link = links.iter().find(|link| link.route == change.route);
            if let Some(link) = link
                && let Some(record) = &change.record_id
                && let Some(job) = job_links::job_of(&self.connection, link, record)?
            {
                let found = self
                    .connection
                    .value(&current_job, named_params! { ":id": job });
                change.job = found.optional()?;
            }
        }
        Ok(())
    }
}

/// A job as received, with its current state.
fn current_job_sql() -> String {
    format!(
        "SELECT json_set(
            c.body,
            '$.current_status', s.status,
            '$.current_stage', s.stage,
            '$.status_since', s.since,
            '$.completed_at', s.completed_at,
            '$.paid_total', s.paid,
            '$.paid_total_mark', {PAID_MARK},
            '$.paid_total_max', {PAID_MAX}
        )
        FROM jobs j
        JOIN changes c ON c.seq = j._seq
        JOIN _job_states s ON s.id = j.id
        WHERE j.id = :id"
    )
}

/// Rebuilds the states of these jobs; a job that is no longer in the mirror has none.
pub(in crate::store) fn refresh(connection: &Connection, ids: &[String]) -> rusqlite::Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let remove = "
        DELETE FROM _job_states
        WHERE id IN (SELECT value FROM json_each(:ids))";
    let add = states_sql(connection)?;
    for ids in ids.chunks(STEP) {
        let ids = serde_json::to_string(ids).expect("ids are text");
        connection.run(remove, named_params! { ":ids": ids })?;
        connection.run(&add, named_params! { ":ids": ids })?;
    }
    Ok(())
}

/// Rebuilds the states of all jobs.
pub(in crate::store) fn rebuild(connection: &Connection) -> rusqlite::Result<()> {
    connection.run("DELETE FROM _job_states", [])?;
    refresh(connection, &connection.values("SELECT id FROM jobs", [])?)
}

/// The statement that adds the states of the jobs in `:ids`, a JSON list, from the columns that
/// exist.
fn states_sql(connection: &Connection) -> rusqlite::Result<String> {
    let links = job_links::read(connection)?;
    let jobs = field_columns(connection, Route::Jobs)?;
    let changes = field_columns(connection, Route::JobStatusChanges)?;
    let words = job_words::read(connection)?;
    let parts = [
        ("{seen_at}", stored_last_seen_sql(Route::Jobs, "j")),
        ("{record_seen_at}", RECORD_SEEN_AT.to_owned()),
        ("{job_status}", column(&jobs, "j", "status")),
        ("{job_stage}", column(&jobs, "j", "status_stage")),
        ("{status}", column(&changes, "r", "status")),
        ("{stage}", column(&changes, "r", "status_stage")),
        ("{is_cancelled}", words.is_cancelled_sql("status")),
        // Last: they hold the name of a field.
        (
            "{of_changes}",
            jobs_with_records(&links, Route::JobStatusChanges),
        ),
        // The changes stored before a field was sent first have no value in it.
        ("{who}", word_fields::first_of(connection, CHANGED_BY, "r")?),
        ("{of_payments}", jobs_with_records(&links, Route::Payments)),
    ];
    let mut sql = include_str!("job_states.sql").to_owned();
    for (name, part) in parts {
        sql = sql.replace(name, &part);
    }
    Ok(sql)
}

/// Where the jobs `j` are found with their records `r` of a route; none without a link.
fn jobs_with_records(links: &[JobLink], route: Route) -> String {
    let is_of_job = match links.iter().find(|link| link.route == route) {
        Some(link) => link.condition_from_job("r", "j"),
        None => "0".to_owned(),
    };
    format!(
        "jobs j
  CROSS JOIN \"{route}\" r ON {is_of_job}
  WHERE j.id IN (SELECT value FROM json_each(:ids)) AND r._vanished_at IS NULL"
    )
}

/// A column of a row; NULL if its table does not have it, or if it holds an empty text.
fn column(columns: &[String], row: &str, name: &str) -> String {
    if columns.iter().any(|column| column == name) {
        format!("nullif({row}.{name}, '')")
    } else {
        "NULL".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shopmirror_core::reading::ReadSettings;

    use crate::store::mirror::job_words::JobWords;
    use crate::store::{meta, mirror};

    const TABLES: &str = "
        DROP TABLE jobs;
        DROP TABLE job_status_changes;
        DROP TABLE payments;
        CREATE TABLE jobs (
            id TEXT PRIMARY KEY, _created_at, status, status_stage, _paid_amount,
            _business, _first_seen_at, _changed_at, _last_seen_at, _seq, _unreadable, _vanished_at
        );
        CREATE TABLE job_status_changes (
            id TEXT, job_id, _created_at, status, status_stage, changed_by,
            _business, _first_seen_at, _seq, _vanished_at, _via, _last_seen_at
        );
        CREATE TABLE payments (
            job_id, _created_at, _amount,
            _business, _first_seen_at, _seq, _amount_sign, _vanished_at, _kind, _via, _last_seen_at
        );
        INSERT INTO _links VALUES
            ('job_status_changes', 'job_id', 'id'),
            ('payments', 'job_id', 'id');
        INSERT INTO _columns (route, field, \"column\", position)
            SELECT m.name, c.name, c.name, c.cid
            FROM sqlite_schema m, pragma_table_info(m.name) c
            WHERE m.name IN ('jobs', 'job_status_changes', 'payments')
                AND c.name <> 'id'
                AND c.name NOT LIKE '\\_%' ESCAPE '\\';";

    #[derive(Debug, PartialEq, Deserialize)]
    struct State {
        status: Option<String>,
        stage: Option<String>,
        since: Option<String>,
        is_since_seen: bool,
        source: String,
        completed_at: Option<String>,
        open_seconds: Option<i64>,
        paid: Option<f64>,
        paid_upto: Option<f64>,
        paid_more: i64,
        last_change: Option<i64>,
        completed_by: Option<String>,
        completed_again_at: Option<String>,
        is_cancelled: bool,
        turns: Option<String>,
    }

    /// A job as it was last seen: not on the newest page, unless `seen` is empty.
    #[derive(Clone, Copy)]
    struct Job {
        created: &'static str,
        stage: &'static str,
        seen: &'static str,
        paid: Option<f64>,
    }

    /// A record of a job: when it was made, what it says, and when it was seen.
    type Made<T> = (&'static str, T, &'static str);

    /// An amount that cannot be read and is positive. SQLite stores it as NULL.
    const UNREAD: f64 = f64::NAN;

    fn at(text: &str) -> Option<String> {
        (!text.is_empty()).then(|| format!("2026-03-{text}:00.000000Z"))
    }

    fn state(job: Job, changes: &[Made<&str>], payments: &[Made<f64>]) -> State {
        state_by(&JobWords::default(), None, job, changes, payments)
    }

    fn state_by(
        words: &JobWords,
        changed_by: Option<&str>,
        job: Job,
        changes: &[Made<&str>],
        payments: &[Made<f64>],
    ) -> State {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(include_str!("../migrations/0001_init.sql"))
            .unwrap();
        mirror::create_tables(&connection).unwrap();
        connection.execute_batch("DELETE FROM _columns").unwrap();
        connection.execute_batch(TABLES).unwrap();
        let (status, seen) = (format!("is {}", job.stage), at("01T00:00"));
        let row = (
            at(job.created),
            status,
            job.stage,
            job.paid,
            seen,
            at(job.seen),
        );
        connection
            .run(
                "INSERT INTO jobs VALUES ('1', ?1, ?2, ?3, ?4, NULL, ?5, ?5, ?6, 1, NULL, NULL)",
                row,
            )
            .unwrap();
        for (seq, (made, stage, seen)) in (1_i64..).zip(changes) {
            let row = (at(made), format!("is {stage}"), stage, at(seen), seq);
            let sql = "INSERT INTO job_status_changes
                VALUES (?5, 1, ?1, ?2, ?3, 'by ' || ?5, NULL, ?4, ?5, NULL, NULL, NULL)";
            connection.run(sql, row).unwrap();
        }
        for (seq, (made, amount, seen)) in (1_i64..).zip(payments) {
            let sql = "INSERT INTO payments VALUES
                (1, ?1, ?2, NULL, ?3, ?4, iif(?2 IS NULL, 1, NULL), NULL, NULL, NULL, NULL)";
            connection
                .run(sql, (at(made), amount, at(seen), seq))
                .unwrap();
        }
        let words = serde_json::to_string(words).unwrap();
        meta::set(&connection, "job_words", &words).unwrap();
        if let Some(field) = changed_by {
            let own = [("changed_by".to_owned(), field.to_owned())].into();
            let settings = ReadSettings {
                fields: [(Route::JobStatusChanges, own)].into(),
                ..ReadSettings::default()
            };
            meta::write(&connection, "read_settings", &settings).unwrap();
        }
        rebuild(&connection).unwrap();
        connection
            .row("SELECT * FROM _job_states", [])
            .unwrap()
            .unwrap()
    }

    fn job(stage: &'static str, seen: &'static str) -> Job {
        Job {
            created: "01T00:00",
            stage,
            seen,
            paid: Some(50.0),
        }
    }

    fn made<T>(time: &'static str, what: T) -> Made<T> {
        (time, what, time)
    }

    #[test]
    fn an_imported_record_counts_as_seen_when_it_was_made_and_not_when_it_was_imported() {
        let connection = Connection::open_in_memory().unwrap();
        let seen = |via: Option<&str>, created_at: Option<&str>| -> String {
            let sql = format!(
                "SELECT {RECORD_SEEN_AT}
                 FROM (
                     SELECT
                         ?1 AS _via,
                         ?2 AS _created_at,
                         'day 5' AS _last_seen_at,
                         'day 9' AS _first_seen_at
                 ) r"
            );
            connection.value(&sql, (via, created_at)).unwrap()
        };
        assert_eq!(seen(Some("import"), Some("day 3")), "day 3");
        assert_eq!(seen(Some("import"), Some("day 7")), "day 5");
        assert_eq!(seen(Some("import"), None), "day 5");
        assert_eq!(seen(None, Some("day 3")), "day 9");
    }

    #[test]
    fn the_newest_source_says_what_a_job_is() {
        let changes = [made("02T00:00", "waiting"), made("03T00:00", "completed")];
        let old = state(job("open", "01T12:00"), &changes, &[]);
        assert_eq!(
            (old.stage.as_deref(), &*old.source),
            (Some("completed"), "status change")
        );
        assert_eq!(
            (old.since, old.completed_at, old.last_change),
            (at("03T00:00"), at("03T00:00"), Some(2))
        );
        let seen = state(job("open", "03T00:01"), &changes, &[]);
        assert_eq!(
            (seen.stage.as_deref(), &*seen.source),
            (Some("open"), "job")
        );
        assert_eq!((seen.completed_at, seen.since), (None, at("01T00:00")));
        assert!(seen.is_since_seen, "it may have been so before");
        let same = state(job("completed", "04T00:00"), &changes, &[]);
        assert_eq!((&*same.source, same.since), ("job", at("03T00:00")));
        assert!(!same.is_since_seen);
        let alone = state(job("completed", "04T00:00"), &[], &[]);
        assert_eq!(
            (alone.completed_at, alone.open_seconds, alone.last_change),
            (None, None, None),
            "when is not known"
        );
    }

    #[test]
    fn a_cancelled_job_is_not_completed_and_a_completed_one_was_completed_by_somebody() {
        let seen = job("open", "01T00:00");
        let changes = [made("02T00:00", "open"), made("03T00:00", "completed")];
        let collected = [&changes[..], &[made("09T00:00", "completed")]].concat();
        let completed = state(seen, &collected, &[]);
        assert_eq!(completed.completed_by.as_deref(), Some("by 2"));
        assert!(!completed.is_cancelled);
        assert_eq!(state(seen, &changes[..1], &[]).completed_by, None);

        let words = |status: &str| JobWords {
            cancelled_status: vec![status.to_owned()],
        };
        let cancelled = state_by(&words(" Is Completed"), None, seen, &collected, &[]);
        assert!(cancelled.is_cancelled && cancelled.stage.as_deref() == Some("completed"));
        assert_eq!(
            (cancelled.completed_at, cancelled.open_seconds),
            (None, None)
        );
        let other = state_by(&words("Storniert"), Some("status"), seen, &collected, &[]);
        assert_eq!(other.completed_by.as_deref(), Some("is completed"));
        let none = state_by(&words("it's off"), Some(""), seen, &collected, &[]);
        assert_eq!((none.completed_by, none.is_cancelled), (None, false));
    }

    #[test]
    fn a_change_without_a_time_follows_the_one_with_the_next_lower_id() {
        let seen = job("open", "01T12:00");
        let open = [made("02T00:00", "open"), made("03T00:00", "completed")];
        let untimed = |stage| ("", stage, "04T00:00");
        let reopened = state(seen, &[&open[..], &[untimed("open")]].concat(), &[]);
        assert_eq!(
            (
                reopened.stage.as_deref(),
                reopened.completed_at,
                reopened.since
            ),
            (Some("open"), None, None)
        );
        let again = [&open[..], &[untimed("open"), made("05T00:00", "completed")]].concat();
        let again = state(seen, &again, &[]);
        assert_eq!(
            (
                again.completed_at,
                again.completed_again_at,
                again.open_seconds
            ),
            (at("05T00:00"), None, None)
        );
        let completed = [&open[..1], &[untimed("completed")]].concat();
        let completed = state(seen, &completed, &[]);
        assert_eq!(
            (completed.stage.as_deref(), completed.completed_at),
            (Some("completed"), None),
            "when is not known"
        );
        let twice = [&open[..], &[made("06T00:00", "completed")]].concat();
        assert_eq!(state(seen, &twice, &[]).completed_again_at, at("06T00:00"));
    }

    #[test]
    fn the_turnaround_is_the_time_that_a_repair_was_open() {
        let seen = job("open", "01T00:00");
        let day = 86_400;
        let once = [made("02T00:00", "open"), made("03T00:00", "completed")];
        assert_eq!(state(seen, &once, &[]).open_seconds, Some(2 * day));
        let collected = [&once[..], &[made("09T00:00", "completed")]].concat();
        let of_collected = state(seen, &collected, &[]);
        assert_eq!(of_collected.open_seconds, Some(2 * day));
        assert_eq!(of_collected.completed_at, at("03T00:00"));
        let reopened = [&once[..], &[made("20T00:00", "open")]].concat();
        let of_reopened = state(seen, &reopened, &[]);
        assert_eq!(
            (of_reopened.open_seconds, of_reopened.completed_at),
            (None, None)
        );
        let again = [&reopened[..], &[made("21T00:00", "completed")]].concat();
        let of_again = state(seen, &again, &[]);
        assert_eq!(of_again.open_seconds, Some(3 * day));
        assert_eq!(of_again.completed_at, at("21T00:00"));
        let turns = [at("03T00:00"), at("20T00:00"), at("21T00:00")];
        assert_eq!(of_again.turns, serde_json::to_string(&turns).ok());
        let unknown = Job {
            created: "",
            ..seen
        };
        assert_eq!(state(unknown, &once, &[]).open_seconds, None);
    }

    #[test]
    fn what_was_paid_is_counted_once_whether_the_job_or_the_payment_was_seen_first() {
        let seen = job("open", "02T00:00");
        let paid = |job: Job, payments: &[Made<f64>]| state(job, &[], payments).paid;
        assert_eq!(paid(seen, &[]), Some(50.0));
        assert_eq!(paid(seen, &[made("01T00:00", 50.0)]), Some(50.0));
        let late = ("01T00:00", 50.0, "02T00:01");
        assert_eq!(
            paid(seen, &[late]),
            Some(50.0),
            "the job was seen after it was paid"
        );
        let later = [
            made("01T00:00", 50.0),
            made("03T00:00", 0.1),
            made("04T00:00", 0.2),
        ];
        assert_eq!(paid(seen, &later), Some(50.3));
        let back = [made("01T00:00", 50.0), made("03T00:00", -50.0)];
        assert_eq!(paid(seen, &back), Some(0.0), "paid back");
        let unknown = [made("03T00:00", 9.0)];
        assert_eq!(
            paid(seen, &unknown),
            Some(59.0),
            "50 before the mirror began"
        );
        let on_page = Job { seen: "", ..seen };
        assert_eq!(paid(on_page, &unknown), Some(50.0), "it may hold the 9");
        let whole = [made("01T00:00", 50.0), made("03T00:00", 9.0)];
        assert_eq!(paid(on_page, &whole), Some(59.0));
        let between = |job: Job, payments: &[Made<f64>]| {
            let state = state(job, &[], payments);
            (state.paid, state.paid_upto)
        };
        let denied = [made("01T00:00", 50.0), made("01T12:00", 9.0)];
        assert_eq!(
            between(seen, &denied),
            (Some(50.0), Some(59.0)),
            "the job was seen later and denies the 9"
        );
        assert_eq!(between(on_page, &denied[..1]), (Some(50.0), None));
        let still = [&denied[..], &[made("03T00:00", 1.0)]].concat();
        assert_eq!(between(seen, &still), (Some(51.0), Some(60.0)));
        let denied_on_page = Job {
            paid: Some(49.0),
            ..on_page
        };
        assert_eq!(
            between(denied_on_page, &still),
            (Some(49.0), Some(60.0)),
            "its sum may hold the last payments"
        );
        let refunded = [&denied[..], &[made("03T00:00", -20.0)]].concat();
        assert_eq!(
            between(denied_on_page, &refunded),
            (Some(29.0), Some(58.0)),
            "its sum may hold each of both"
        );
        let silent = Job { paid: None, ..seen };
        assert_eq!(paid(silent, &later), Some(50.3));
        assert_eq!(paid(silent, &[]), None, "unknown is not zero");
    }

    #[test]
    fn a_job_that_denies_a_payment_which_cannot_be_read_was_paid_at_least_its_own_sum() {
        let seen = job("open", "02T00:00");
        let paid = |payments: &[Made<f64>]| {
            let state = state(seen, &[], payments);
            (state.paid, state.paid_upto, state.paid_more)
        };
        let first = made("01T00:00", 50.0);
        let unread = made("01T12:00", UNREAD);
        assert_eq!(
            paid(&[made("01T00:00", 30.0), unread]),
            (Some(50.0), None, 0)
        );
        let denied = [first, made("01T06:00", 9.0), unread];
        assert_eq!(paid(&denied), (Some(50.0), Some(59.0), 1));
        assert_eq!(paid(&[first, unread]), (Some(50.0), Some(50.0), 1));
        let later = [&denied[..], &[made("03T00:00", 1.0)]].concat();
        assert_eq!(paid(&later), (Some(51.0), Some(60.0), 1));
    }
}
