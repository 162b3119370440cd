//! Which open repairs a missed status change may have moved: those that were not heard of since.
//!
//! A repair is heard of after a gap if a page of jobs that was read since then showed it, or if one
//! of its status changes has an id that is not below the gap's upper one. The queries of a report
//! find the others in the temporary table `unheard`.

use rusqlite::named_params;
use serde_json::json;
use shopmirror_core::clock::stamp;
use shopmirror_core::record::{CLOCK_SKEW, Route};

use crate::store::error::StoreError;
use crate::store::missed::Stretch;
use crate::store::reader::Reader;
use crate::store::sightings::last_seen_sql;
use crate::store::sql::Sql;

impl Reader {
    /// Creates the table `unheard` for the queries of this connection: the open repairs that were
    /// not heard of since some of these stretches, which are listed with the latest first. `stretch`
    /// is the number of the oldest of them, counted from 1; each later one may have moved it too.
    /// `business` is the one to report on, `default` the workspace's own.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn set_unheard(
        &self,
        stretches: &[Stretch],
        business: Option<&str>,
        default: Option<&str>,
    ) -> Result<(), StoreError> {
        self.connection.execute_batch(
            "DROP TABLE IF EXISTS temp.unheard;
            CREATE TEMP TABLE unheard (
                id      TEXT PRIMARY KEY NOT NULL,
                stretch INTEGER NOT NULL
            ) STRICT, WITHOUT ROWID",
        )?;
        if stretches.is_empty() {
            return Ok(());
        }
        let values = named_params! {
            ":stretches": stretches_json(stretches),
            ":business": business,
            ":default": default,
        };
        self.connection.run(&open_unheard_sql(), values)?;
        Ok(())
    }

    /// Creates the table `recompleted` for the queries of this connection: the repairs that several
    /// status changes say are completed, with one of these stretches between them. It may have hidden
    /// that the repair was opened again, so that it was completed at the later time.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn set_recompleted(&self, stretches: &[Stretch]) -> Result<(), StoreError> {
        self.connection.execute_batch(
            "DROP TABLE IF EXISTS temp.recompleted;
            CREATE TEMP TABLE recompleted (
                id                 TEXT PRIMARY KEY NOT NULL,
                completed_at       TEXT NOT NULL,
                completed_again_at TEXT NOT NULL
            ) STRICT, WITHOUT ROWID",
        )?;
        for stretch in stretches {
            self.connection.run(
                RECOMPLETED,
                named_params! {
                    ":from": stamp(stretch.from),
                    ":until": stamp(stretch.until),
                },
            )?;
        }
        Ok(())
    }

    /// Creates the table `missed_changes` for the queries of this connection: from when until when
    /// status changes may have been missed, by these stretches.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn set_missed_changes(&self, stretches: &[Stretch]) -> Result<(), StoreError> {
        self.connection.execute_batch(
            "DROP TABLE IF EXISTS temp.missed_changes;
            CREATE TEMP TABLE missed_changes (
                from_at TEXT NOT NULL,
                until   TEXT NOT NULL
            ) STRICT",
        )?;
        for stretch in stretches {
            self.connection.run(
                "INSERT INTO missed_changes (from_at, until)
                VALUES (:from, :until)",
                named_params! {
                    ":from": stamp(stretch.from),
                    ":until": stamp(stretch.until),
                },
            )?;
        }
        Ok(())
    }

    /// How many open repairs were not heard of since a stretch, by its number in the table `unheard`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open_unheard(&self, number: i64) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM unheard WHERE stretch >= :number";
        let count: i64 = self
            .connection
            .value(sql, named_params! { ":number": number })?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// How many completed repairs a stretch may have reopened, at most `most`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn completed_unheard(&self, stretch: &Stretch, most: u64) -> Result<u64, StoreError> {
        let count: i64 = self.connection.value(
            &completed_unheard_sql(),
            named_params! {
                ":until": stamp(stretch.until),
                ":completed": stamp(stretch.until.saturating_add(CLOCK_SKEW).unwrap_or(stretch.until)),
                ":before": stretch.ids.map(|(_, before)| before),
                ":most": i64::try_from(most).unwrap_or(i64::MAX),
            },
        )?;
        Ok(u64::try_from(count).unwrap_or(0))
    }
}

/// Adds the repairs that a stretch may have reopened between two completions.
pub(in crate::store) const RECOMPLETED: &str = "
    INSERT OR IGNORE INTO recompleted (id, completed_at, completed_again_at)
    SELECT id, completed_at, completed_again_at
    FROM _job_states
    WHERE completed_again_at IS NOT NULL
        AND completed_at < :until
        AND completed_again_at > :from";

/// The stretches as a JSON list.
fn stretches_json(stretches: &[Stretch]) -> String {
    let mut list = Vec::with_capacity(stretches.len());
    for stretch in stretches {
        list.push(json!({
            "until": stamp(stretch.until),
            "before": stretch.ids.map(|(_, before)| before),
        }));
    }
    serde_json::Value::from(list).to_string()
}

/// Fills the table `unheard`. Open repairs are few of all, and found by their stage.
pub(in crate::store) fn open_unheard_sql() -> String {
    let seen_at = last_seen_sql(Route::Jobs, "j");
    format!(
        "WITH stretch AS MATERIALIZED (
            SELECT
                key + 1 AS number,
                value ->> 'until' AS until,
                value ->> 'before' AS before
            FROM json_each(:stretches)
        ),
        open AS (
            SELECT id, last_change FROM _job_states WHERE stage < 'completed'
            UNION ALL
            SELECT id, last_change FROM _job_states WHERE stage > 'completed'
            UNION ALL
            SELECT id, last_change FROM _job_states WHERE stage IS NULL
        ),
        seen AS MATERIALIZED (
            SELECT s.id, s.last_change, {seen_at} AS seen_at
            FROM open s
            CROSS JOIN jobs j ON j.id = s.id
            WHERE :business IS NULL OR coalesce(j._business, :default) = :business
        )
        INSERT INTO unheard (id, stretch)
        SELECT s.id, max(t.number)
        FROM seen s
        JOIN stretch t ON s.seen_at < t.until
            AND (s.last_change IS NULL OR t.before IS NULL OR s.last_change < t.before)
        GROUP BY s.id"
    )
}

/// Counts completed repairs that were not heard of since a stretch. One that was completed later has
/// a later status change, so that those completed before are enough. They are found by that time,
/// which the workspace's clock gave, and most of them were not heard of since: the search ends soon.
pub(in crate::store) fn completed_unheard_sql() -> String {
    let seen_at = last_seen_sql(Route::Jobs, "j");
    format!(
        "SELECT count(*)
        FROM (
            SELECT 1
            FROM _job_states s
            CROSS JOIN jobs j ON j.id = s.id
            WHERE (s.completed_at < :completed OR s.completed_at IS NULL)
                AND +s.stage = 'completed'
                AND {seen_at} < :until
                AND (s.last_change IS NULL OR :before IS NULL OR s.last_change < :before)
            LIMIT :most
        )"
    )
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::store::fixtures;

    fn at(hour: i64) -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_800_000_000 + 3_600 * hour).unwrap()
    }

    fn stretch(until: i64, before: Option<i64>) -> Stretch {
        Stretch {
            from: at(until - 1),
            until: at(until),
            ids: before.map(|before| (before - 10, before)),
            most: None,
        }
    }

    /// A repair: its stage, when a page showed it last, and its last status change.
    fn put(connection: &Connection, id: &str, stage: &str, seen: Option<i64>, change: Option<i64>) {
        let time = |hour: i64| stamp(at(hour));
        connection
            .execute(
                "INSERT INTO jobs (id, _first_seen_at, _changed_at, _last_seen_at, _seq)
                 VALUES (?1, ?2, ?2, ?3, 1)",
                (id, time(0), seen.map(time)),
            )
            .unwrap();
        let completed_at = (stage == "completed").then(|| time(0));
        connection
            .execute(
                "INSERT INTO _job_states (id, stage, source, completed_at, last_change)
                 VALUES (?1, ?2, 'job', ?3, ?4)",
                (id, stage, completed_at, change),
            )
            .unwrap();
    }

    #[tokio::test]
    async fn a_repair_is_heard_of_by_a_later_page_or_by_a_later_status_change() {
        let (dir, store) = fixtures::open();
        let connection = Connection::open(dir.path().join("mirror.db")).unwrap();
        connection
            .execute(
                "INSERT INTO _pollers (route, business, first_polled_at, last_success_at, page_limit,
                    head, head_seq, list_profile)
                 VALUES ('jobs', '', ?1, ?1, 100, '[]', 0, '{}')",
                [stamp(at(9))],
            )
            .unwrap();
        put(&connection, "on page", "open", None, None);
        put(&connection, "never since", "open", Some(2), Some(90));
        put(&connection, "between", "open", Some(5), None);
        put(&connection, "seen later", "open", Some(8), None);
        put(&connection, "changed later", "open", Some(2), Some(200));
        put(&connection, "changed between", "open", Some(2), Some(100));
        put(&connection, "no change", "open", Some(2), None);
        put(&connection, "done", "completed", Some(2), Some(90));
        put(&connection, "done and seen", "completed", Some(8), Some(90));
        drop(store);

        let reader = Reader::open(&dir.path().join("mirror.db")).unwrap();
        let unheard = |stretches: &[Stretch]| -> Vec<(String, i64)> {
            reader.set_unheard(stretches, None, None).unwrap();
            let sql = "SELECT id, stretch FROM unheard ORDER BY id";
            let mut statement = reader.connection.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| row.try_into()).unwrap();
            rows.collect::<rusqlite::Result<_>>().unwrap()
        };
        let pair = |id: &str, stretch| (id.to_owned(), stretch);
        assert!(unheard(&[]).is_empty());
        let two = [stretch(8, Some(200)), stretch(4, Some(100))];
        let wanted = [
            pair("between", 1),
            pair("changed between", 1),
            pair("never since", 2),
            pair("no change", 2),
        ];
        assert_eq!(unheard(&two), wanted);
        let without_ids = [stretch(8, None)];
        assert_eq!(unheard(&without_ids).len(), 5, "no id hears of a repair");
        let not_read = [stretch(10, Some(200))];
        assert_eq!(unheard(&not_read).len(), 6, "the page is older");

        let completed = |most| reader.completed_unheard(&two[0], most).unwrap();
        assert_eq!((completed(9), completed(0)), (1, 0));
    }

    #[tokio::test]
    async fn the_repairs_that_were_not_heard_of_are_found_by_index() {
        let (dir, _store) = fixtures::open();
        let reader = Reader::open(&dir.path().join("mirror.db")).unwrap();
        reader.set_unheard(&[], None, None).unwrap();
        for (sql, index, searches) in [
            (
                open_unheard_sql(),
                "_job_states USING INDEX _job_states_stage",
                3,
            ),
            (
                completed_unheard_sql(),
                "s USING INDEX _job_states_completed",
                2,
            ),
        ] {
            let steps = fixtures::plan(&reader.connection, &sql);
            let search = format!("SEARCH {index}");
            let found = steps.iter().filter(|step| step.starts_with(&search));
            assert_eq!(found.count(), searches, "{steps:#?}");
            let reads_all = |step: &&String| {
                step.starts_with("SCAN _job_states") || step.starts_with("SCAN j ")
            };
            assert_eq!(steps.iter().find(reads_all), None);
        }
    }
}
