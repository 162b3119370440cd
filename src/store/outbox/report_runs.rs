//! What became of each scheduled report, so that a restart neither repeats nor forgets one: a row of
//! `_meta`, as JSON.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::error::StoreError;
use crate::store::handle::Store;
use crate::store::meta;
use crate::store::reader::Reader;

/// The name of the row.
const NAME: &str = "scheduled_reports";

/// What became of one scheduled report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
        Self { settled_at: now, ..Self::default() }
    }
}

impl Reader {
    /// What became of the scheduled reports, by name; none if the row cannot be read.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn report_runs(&self) -> Result<BTreeMap<String, ReportRun>, StoreError> {
        let text = meta::value(&self.connection, NAME)?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
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
        let text = serde_json::to_string(&runs).expect("plain values");
        self.write(move |writer| Ok(meta::set(&writer.connection, NAME, &text)?)).await
    }
}
