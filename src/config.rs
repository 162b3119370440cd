//! The checked configuration that the rest of the program uses.
//!
//! Each section and each type of sink is a struct that serde reads: its fields are the keys, and
//! their attributes are the defaults. Bounds and contradictions, which serde cannot express, are
//! checked beside the struct. All problems are reported at once, each with its line and
//! column, and none repeats a value. No module below `daemon` sees the whole [`Config`]; each takes
//! its own section. Invariant: the `Debug` output of these types shows no secret.

mod address;
mod alerts;
mod base;
mod conditions;
mod email;
mod intake;
mod local;
mod offsite;
mod only_if;
mod polling;
mod problem;
mod proxy;
mod reports;
mod secret;
mod servers;
mod shape;
mod sink_url;
mod sinks;
mod status;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod value;
mod webhook;
mod workspace;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeTable;

pub use address::{
    is_loopback, mqtt as mqtt_url, nats as nats_url, service as service_address,
    webhook as webhook_url, workspace as workspace_address,
};
pub use alerts::{AlertsSettings, HeartbeatSettings, HeartbeatUrl};
pub use base::Base;
pub use conditions::{Condition, FieldTest, Side};
pub use email::{EmailSettings, MailTls};
pub use intake::{Intake, IntakeField, IntakeSettings};
pub use local::{CommandSettings, FileFormat, FileSettings};
pub use offsite::{Encryption, OffsiteSettings};
pub use only_if::{Comparison, OnlyIf, RowTest};
pub use polling::{PollSettings, RouteSettings};
pub use problem::{Problem, Problems};
pub use proxy::Proxy;
pub use reports::{CountedBy, Day, Range, ReportFormat, ReportsSettings, ScheduledReport};
pub use secret::Secret;
pub use servers::{MqttSettings, NatsSettings, PostgresSettings, S3Settings};
#[cfg(feature = "postgres")]
pub use servers::{is_on_this_machine, postgres_target};
pub use sink_url::SinkUrl;
pub use sinks::{SINK_VERBS, SinkFilter, SinkKind, SinkSettings, Start};
pub use status::{Role, StatusSettings, Token};
pub use store::{BackupSettings, StoreSettings};
pub use webhook::WebhookSettings;
pub use workspace::{Auth, KeyError, KeySource, WorkspaceSettings, checked_key};

use crate::files::read;
use shopmirror_core::budget::BudgetSettings;
use shopmirror_core::record::Route;
use table::{FileContext, Table};

/// A configuration file longer than this is refused.
const FILE_MAX: u64 = 1024 * 1024;

/// The settings of one process.
#[derive(Debug, Clone)]
pub struct Config {
    /// The workspace that is mirrored.
    pub workspace: WorkspaceSettings,
    /// The number of requests that may be sent.
    pub budget: BudgetSettings,
    /// One entry for each enabled route, in the order of [`Route::ALL`].
    pub routes: Vec<RouteSettings>,
    /// How a poll is made.
    pub poll: PollSettings,
    /// How often a timer runs `shopmirror once`; `None` if the daemon runs instead.
    pub once_every: Option<Duration>,
    /// Where records are stored.
    pub store: StoreSettings,
    /// When the daemon copies the store, and where to.
    pub backup: BackupSettings,
    /// Where the status page listens; `None` is off.
    pub status: Option<StatusSettings>,
    /// The sinks that get alerts.
    pub alerts: AlertsSettings,
    /// The shop's own reports.
    pub reports: ReportsSettings,
    /// The sinks by name.
    pub sinks: BTreeMap<String, SinkSettings>,
    /// The part of the file that the readers of the database may know, as a configuration of its
    /// own.
    pub for_readers: String,
    /// What the file says that has no effect; `check` reports it.
    pub warnings: Vec<Problem>,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read as text.
    #[error("cannot read the configuration {}: {why}{}", path.display(), advice(why))]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        why: io::Error,
    },
    /// The file can be read and has problems.
    #[error(transparent)]
    Invalid(#[from] Problems),
}

impl Config {
    /// Reads the file at `path`, with the environment that [`Base::for_file`] reads.
    ///
    /// The file of the key is not opened here, and no key at all is no error here: see
    /// [`KeySource::read`].
    ///
    /// # Errors
    /// [`ConfigError`] with every problem of the file at once.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Ok(Self::parse_file_text(&file_text(path)?, path)?)
    }

    /// The fields of each route whose changes do not make a new version of a record.
    #[must_use]
    pub fn ignored_fields(&self) -> HashMap<Route, Vec<String>> {
        let mut fields = HashMap::new();
        for settings in &self.routes {
            fields.insert(settings.route, settings.ignore.clone());
        }
        fields
    }

    /// Checks a text that is to become the file at `path`, or that stands in for it.
    ///
    /// # Errors
    /// [`Problems`] with every problem of the text.
    pub fn parse_file_text(text: &str, path: &Path) -> Result<Self, Problems> {
        Self::parse(text, &path.display().to_string(), &Base::for_file(path))
    }

    /// The path of the store of the file at `path` unless it names another.
    #[must_use]
    pub fn default_store_path(path: &Path) -> PathBuf {
        Base::for_file(path).store_path(store::DATABASE)
    }

    /// The path of the store that the file at `path` names, also if the file has a mistake.
    ///
    /// # Errors
    /// [`ConfigError::Read`] if the file cannot be read as text.
    pub fn named_store_path(path: &Path) -> Result<PathBuf, ConfigError> {
        Ok(Self::store_path_in(&file_text(path)?, path))
    }

    /// As [`named_store_path`](Self::named_store_path), for a text that is to become the file at
    /// `path`.
    #[must_use]
    pub fn store_path_in(text: &str, path: &Path) -> PathBuf {
        let (document, _) = DeTable::parse_recoverable(text);
        let store = document.get_ref().get("store");
        let named = store
            .and_then(|store| store.get_ref().get("path"))
            .and_then(|path| path.get_ref().as_str());
        Base::for_file(path).store_path(named.unwrap_or(store::DATABASE))
    }

    /// The folder of the shop's own reports that a text names which is to become the file at `path`.
    #[must_use]
    pub fn reports_folder_in(text: &str, path: &Path) -> Option<PathBuf> {
        let (document, _) = DeTable::parse_recoverable(text);
        let reports = document.get_ref().get("reports")?;
        let folder = reports.get_ref().get("folder")?;
        Some(Base::for_file(path).dir.join(folder.get_ref().as_str()?))
    }

    /// The part of a text that commands need which only read the database. It contains no secret:
    /// no sink, no file of a key.
    #[must_use]
    pub fn readable_part(text: &str) -> String {
        for_readers(text)
    }

    /// Checks the text of a file. Messages use `file_name` as its name.
    ///
    /// # Errors
    /// [`Problems`] with every problem, not only the first.
    pub fn parse(text: &str, file_name: &str, base: &Base) -> Result<Self, Problems> {
        let (document, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            let mut problems = Vec::new();
            for error in &errors {
                let place = error.span().map_or(0, |span| span.start);
                problems.push(Problem::new(text, place, error.message().to_owned()));
            }
            return Err(Problems::new(file_name, problems));
        }
        let file = FileContext::new(text, base);
        let config = sections(&Table::document(&file, document.get_ref()));
        let problems = file.problems();
        match config {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(Problems::new(file_name, problems)),
        }
    }
}

fn file_text(path: &Path) -> Result<String, ConfigError> {
    read::text(path, FILE_MAX).map_err(|why| ConfigError::Read {
        path: path.to_owned(),
        why,
    })
}

/// The sections of a document; `None` only if a problem was noted.
fn sections(document: &Table<'_>) -> Option<Config> {
    let workspace = document.section("workspace", workspace::read);
    let budget = document.section("budget", polling::budget);
    let poll = document.section("poll", polling::poll);
    let routes = document.section("routes", |table| polling::routes(table, poll.as_ref()));
    let once_every = document.section("once", polling::once);
    let store = document.section("store", store::read);
    let path = match &store {
        Some(store) => store.path.as_path(),
        None => Path::new(""),
    };
    let backup = document.section("backup", |table| store::backup(table, path));
    let status = document.section("status", status::read);
    // The shop chooses the names of these tables, so that no key is unknown.
    let sinks = sinks::read(&document.table("sinks"), workspace.as_ref());
    let alerts = document.section("alerts", |table| alerts::read(table, &sinks));
    let reports = document.section("reports", |table| reports::read(table, &sinks));
    document.finish();
    let mut valid_sinks = BTreeMap::new();
    for (name, sink) in sinks {
        valid_sinks.insert(name, sink?);
    }
    Some(Config {
        workspace: workspace?,
        budget: budget?,
        routes,
        poll: poll?,
        once_every,
        store: store?,
        backup: backup?,
        status,
        alerts: alerts?,
        reports: reports?,
        sinks: valid_sinks,
        for_readers: for_readers(document.file.text),
        warnings: document.file.warnings(),
    })
}

/// The part of a document that commands need which only read the database. It contains no secret:
/// no sink, no file of a key.
fn for_readers(text: &str) -> String {
    let document: toml::Table = text.parse().unwrap_or_default();
    let mut readable = toml::Table::new();
    for (name, keys) in [
        ("workspace", &["base_url", "businesses", "time_zone"][..]),
        ("reports", &["currency", "job_link", "ready_status"]),
        ("once", &["every"]),
    ] {
        if let Some(toml::Value::Table(section)) = document.get(name) {
            let mut section = section.clone();
            section.retain(|key, _| keys.contains(&key));
            readable.insert(name.to_owned(), section.into());
        }
    }
    if let Some(routes) = document.get("routes") {
        readable.insert("routes".to_owned(), routes.clone());
    }
    readable.to_string()
}

/// The files that a text names in a key that ends with `_file`, which is to become the file at
/// `path`, and that are not there.
#[must_use]
pub fn missing_files(text: &str, path: &Path) -> Vec<PathBuf> {
    let document: toml::Table = text.parse().unwrap_or_default();
    let mut named = Vec::new();
    note_files(&document, &mut named);
    let folder = Base::for_file(path).dir;
    let mut missing = Vec::new();
    for file in named {
        let file = folder.join(file);
        if !file.exists() && !missing.contains(&file) {
            missing.push(file);
        }
    }
    missing
}

fn note_files(table: &toml::Table, named: &mut Vec<String>) {
    for (key, value) in table {
        match value {
            toml::Value::Table(inner) => note_files(inner, named),
            toml::Value::String(file) if key.ends_with("_file") => named.push(file.clone()),
            _ => {}
        }
    }
}

/// What to do about a file that cannot be read.
fn advice(why: &io::Error) -> &'static str {
    if why.kind() == io::ErrorKind::PermissionDenied {
        ": if the service may not read it, run `systemd-tmpfiles --create shopmirror.conf` as root, \
         which gives it to the group shopmirror-secrets with mode 0640. To read the database \
         yourself, run `usermod -aG shopmirror USER` as root; to change something, also `usermod \
         -aG shopmirror-secrets USER`; then log in again"
    } else {
        "; name the right file with --config"
    }
}
