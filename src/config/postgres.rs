//! The keys of a sink of type `postgres`.
//!
//! The connection string is a secret: no message repeats it.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::sink_url::SinkUrl;
use super::table::Table;
use super::value::{parsed, seconds, timeout};

const NAME_MAX: usize = 63;

/// `type = "postgres"`
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PostgresSettings {
    /// The connection string, as a URL or as pairs. A secret, because it contains a password.
    pub url: SinkUrl,
    /// A PEM file with the certificate authorities of the server; `None`: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// The schema of the tables.
    #[serde(default = "default_schema", deserialize_with = "schema")]
    pub schema: String,
    /// What stands in the column `workspace` of every row: it keeps the rows of several shops apart.
    pub workspace: String,
    /// The longest time that one transaction may take.
    #[serde(default = "seconds::<30>", deserialize_with = "timeout")]
    pub timeout: Duration,
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>) -> Option<PostgresSettings> {
    let read: PostgresSettings = table.read(&[
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
    let url = table.url(read.url.clone(), super::postgres_target);
    #[cfg(not(feature = "postgres"))]
    let url = table.url(read.url.clone(), |_| Ok(()));
    Some(PostgresSettings { url, ..read })
}

fn default_schema() -> String {
    "shopmirror".to_owned()
}

fn schema<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    parsed(d, |text| {
        let begins = text.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        let reserved = text.starts_with("pg_") || text == "information_schema";
        match text.len() <= NAME_MAX && begins && text.chars().all(legal) && !reserved {
            true => Ok(text.to_owned()),
            false => Err(format!(
                "must be 1 to {NAME_MAX} characters of a-z, 0-9 and _, and no name of PostgreSQL itself"
            )),
        }
    })
}
