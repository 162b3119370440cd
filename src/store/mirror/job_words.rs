//! What the shop's own words mean for the states of jobs: which statuses are cancelled.
//!
//! The contract does not say. They are recognised by their names, or the configuration names them.

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::store::error::StoreError;
use crate::store::handle::Store;
use crate::store::meta;
use crate::store::mirror::job_states;
use crate::store::open::write_tx;
use crate::store::reader::Reader;
use crate::store::sql::Sql;

/// The name of the words in the table `_meta`.
const WORDS: &str = "job_words";

/// The words that the configuration names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobWords {
    /// The statuses that mean cancelled; if empty, they are recognised by their names.
    pub cancelled_status: Vec<String>,
}

impl JobWords {
    /// The condition under which a status means cancelled: by the configuration, or if a word of its
    /// name begins with `cancel`.
    pub(in crate::store) fn is_cancelled_sql(&self, status: &str) -> String {
        if self.cancelled_status.is_empty() {
            return format!("(' ' || lower({status}) GLOB '*[^a-z]cancel*')");
        }
        let mut names = Vec::new();
        for name in &self.cancelled_status {
            let name = name.trim().to_ascii_lowercase().replace('\'', "''");
            names.push(format!("'{name}'"));
        }
        format!("(lower(trim({status})) IN ({}))", names.join(", "))
    }
}

/// The words of the configuration that was last read.
pub(in crate::store) fn read(connection: &Connection) -> rusqlite::Result<JobWords> {
    Ok(meta::read(connection, WORDS)?.unwrap_or_default())
}

impl Store {
    /// Takes the words of the configuration. If they are others than before, the states of all jobs
    /// are made again.
    ///
    /// # Errors
    /// If the file cannot be written; the states stay as they were.
    pub async fn set_job_words(&self, words: JobWords) -> Result<(), StoreError> {
        self.write(move |writer| {
            if read(&writer.connection)? == words {
                return Ok(());
            }
            let tx = write_tx(&mut writer.connection)?;
            meta::write(&tx, WORDS, &words)?;
            job_states::rebuild(&tx)?;
            Ok(tx.commit()?)
        })
        .await
    }
}

impl Reader {
    /// Whether a status is known to mean cancelled: the configuration names some, or a repair has
    /// one of such a name.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn knows_cancelled(&self) -> Result<bool, StoreError> {
        if !read(&self.connection)?.cancelled_status.is_empty() {
            return Ok(true);
        }
        let sql = "SELECT EXISTS (SELECT 1 FROM _job_states WHERE is_cancelled)";
        Ok(self.connection.value(sql, [])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_means_cancelled_by_a_word_of_its_name_or_by_the_configuration() {
        let connection = Connection::open_in_memory().unwrap();
        let is_cancelled = |words: &JobWords, status: &str| -> bool {
            let sql = format!("SELECT {}", words.is_cancelled_sql("?1"));
            connection.value(&sql, [status]).unwrap()
        };
        let found = JobWords::default();
        for status in [
            "Cancelled",
            "canceled by customer",
            "Repair CANCELED",
            "No-show/cancel",
        ] {
            assert!(is_cancelled(&found, status), "{status}");
        }
        for status in ["Completed", "Delivered", "Uncancelled", ""] {
            assert!(!is_cancelled(&found, status), "{status}");
        }
        let named = JobWords {
            cancelled_status: vec!["Storniert ".to_owned(), "it's off".to_owned()],
        };
        for (status, wanted) in [
            ("storniert", true),
            ("It's off", true),
            ("Cancelled", false),
        ] {
            assert_eq!(is_cancelled(&named, status), wanted, "{status}");
        }
    }
}
