//! What became of each scheduled report, so that a restart neither repeats nor forgets one. A row of
//! `meta` each, as JSON.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::error::StoreError;
use crate::store::handle::Store;
use crate::store::open::write_tx;
use crate::store::reader::Reader;

/// Before the name of a scheduled report in `meta`.
const PREFIX: &str = "scheduled report ";

/// What became of one scheduled report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportRun {
    /// The latest time that is settled: the report was made or given up. At first, when it was first
    /// seen in the configuration.
    pub settled_at: Timestamp,
    /// The time for which the last one was made.
    pub made_for: Option<Timestamp>,
    /// How many were made.
    pub made: i64,
    /// The time for which it was tried last without success.
    pub failed_for: Option<Timestamp>,
    /// When it was tried last without success.
    pub failed_at: Option<Timestamp>,
    /// How often it failed for that time.
    pub failures: u32,
    /// Why; kept until one is made.
    pub error: Option<String>,
}

impl ReportRun {
    /// One that is seen for the first time.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            settled_at: now,
            made_for: None,
            made: 0,
            failed_for: None,
            failed_at: None,
            failures: 0,
            error: None,
        }
    }
}

impl Reader {
    /// What became of the scheduled reports, by name. A row that cannot be read is left out.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn report_runs(&self) -> Result<BTreeMap<String, ReportRun>, StoreError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT name, value FROM _meta WHERE name >= ?1 AND name < ?2")?;
        let end = format!("{PREFIX}\u{7f}");
        let rows = statement.query_map((PREFIX, end), |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })?;
        let mut runs = BTreeMap::new();
        for row in rows {
            let (name, value) = row?;
            if let Ok(run) = serde_json::from_str(&value) {
                runs.insert(name[PREFIX.len()..].to_owned(), run);
            }
        }
        Ok(runs)
    }
}

impl Store {
    /// Keeps what became of scheduled reports, and forgets those that are not named.
    ///
    /// # Errors
    /// Nothing is changed.
    pub async fn keep_report_runs(
        &self,
        runs: BTreeMap<String, ReportRun>,
    ) -> Result<(), StoreError> {
        self.write(move |writer| {
            let tx = write_tx(&mut writer.connection)?;
            tx.execute(
                "DELETE FROM _meta WHERE name >= ?1 AND name < ?2",
                (PREFIX, format!("{PREFIX}\u{7f}")),
            )?;
            for (name, run) in &runs {
                let value = serde_json::to_string(run).expect("plain values");
                tx.execute(
                    "INSERT INTO _meta (name, value) VALUES (?1, ?2)",
                    (format!("{PREFIX}{name}"), value),
                )?;
            }
            tx.commit()?;
            Ok(())
        })
        .await
    }
}
