//! The keys of a sink of type `postgres`.
//!
//! The connection string is a secret: no message repeats it.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::sink_url::SinkUrl;
use super::table::Table;
use super::value::{filled, seconds, timeout};

/// `type = "postgres"`
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PostgresSettings {
    /// The connection string, as a URL or as pairs. A secret, because it contains a password.
    pub url: SinkUrl,
    /// A PEM file with the certificate authorities of the server; `None`: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// The schema of the tables.
    #[serde(default = "schema")]
    pub schema: String,
    /// What stands in the column `workspace` of every row: it keeps the rows of several shops apart.
    #[serde(deserialize_with = "filled")]
    pub workspace: String,
    /// The longest time that one transaction may take.
    #[serde(default = "seconds::<30>", deserialize_with = "timeout")]
    pub timeout: Duration,
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>) -> Option<PostgresSettings> {
    let mut read: PostgresSettings = table.read(&[
        (
            "url",
            "postgresql://user:password@host/database; or write it into a file, mode 0640, and name the file with url_file",
        ),
        (
            "workspace",
            "the name of this shop in the database, for example \"north\"; each shop that writes there needs its own",
        ),
    ])?;
    #[cfg(feature = "postgres")]
    table.url(&mut read.url, super::postgres_target);
    #[cfg(not(feature = "postgres"))]
    table.url(&mut read.url, |_| Ok(()));
    Some(read)
}

fn schema() -> String {
    "shopmirror".to_owned()
}
