//! Reads the keys of a sink of type `postgres`.
//!
//! The connection string is a secret: no message repeats it.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::problem::repeated;
use super::section::{Found, Section};
use super::webhook::TIMEOUT;
use super::{Base, secret_text};

const NAME_MAX: usize = 63;
const WORKSPACE_MAX: usize = 200;

/// `type = "postgres"`
#[derive(Debug, Clone)]
pub struct PostgresSettings {
    /// The connection string, as a URL or as pairs. A secret, because it contains a password.
    pub url: SecretString,
    /// A PEM file with the certificate authorities of the server; `None`: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// The schema of the tables.
    pub schema: String,
    /// What stands in the column `workspace` of every row.
    pub workspace: String,
    /// The longest time that one transaction may take.
    pub timeout: Duration,
}

impl PartialEq for PostgresSettings {
    /// Compares the connection string as well, so that a file with a new password is a change.
    fn eq(&self, other: &Self) -> bool {
        self.url.expose_secret() == other.url.expose_secret()
            && self.ca_file == other.ca_file
            && self.schema == other.schema
            && self.workspace == other.workspace
            && self.timeout == other.timeout
    }
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(section: &mut Section<'_>, base: &Base) -> Option<PostgresSettings> {
    if !section.holds("url") && !section.holds("url_file") {
        section.missing(
            "url_file",
            "a file that holds postgresql://user:password@host/database, mode 0640",
        );
    }
    let url = secret_text::read(section, base, "url", "url_file");
    #[cfg(feature = "postgres")]
    let url = url.filter(|secret| is_usable(section, secret));
    let ca_file = section.text("ca_file").map(|file| base.dir.join(file.value));
    let schema = schema(section);
    let workspace = workspace(section);
    let timeout = section.duration("timeout", &TIMEOUT);
    Some(PostgresSettings {
        url: url?.value,
        ca_file,
        schema: schema?,
        workspace: workspace?,
        timeout: timeout.map_or(Duration::from_secs(30), |found| found.value),
    })
}

/// Whether the connection string can be used; notes why it cannot.
#[cfg(feature = "postgres")]
fn is_usable(section: &Section<'_>, secret: &secret_text::Secret) -> bool {
    let target = super::postgres_target(secret.value.expose_secret());
    if let Err(why) = &target {
        section.findings.note_secret(&secret.place, format!("`{}` {why}", secret.key));
    }
    target.is_ok()
}

fn schema(section: &mut Section<'_>) -> Option<String> {
    if !section.holds("schema") {
        return Some("shopmirror".to_owned());
    }
    let Found { value, place } = section.text("schema")?;
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = value.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let reserved = value.starts_with("pg_") || value == "information_schema";
    if value.len() > NAME_MAX || !begins || !value.chars().all(legal) || reserved {
        let message = format!(
            "`schema` cannot be {}: use 1 to {NAME_MAX} characters of a-z, 0-9 and _, and no name \
             of PostgreSQL itself",
            repeated(value)
        );
        section.findings.note(&place, message);
        return None;
    }
    Some(value.to_owned())
}

/// The name under which this shop's rows are kept apart from those of others.
fn workspace(section: &mut Section<'_>) -> Option<String> {
    if !section.holds("workspace") {
        let advice = "the name of this shop in the database, for example \"north\"; each shop that \
                      writes there needs its own";
        section.missing("workspace", advice);
    }
    let Found { value, place } = section.text("workspace")?;
    if value.len() > WORKSPACE_MAX {
        section.findings.note(&place, format!("`workspace` is longer than {WORKSPACE_MAX} bytes"));
        return None;
    }
    Some(value.to_owned())
}
