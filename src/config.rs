//! The checked configuration that the rest of the program uses.
//!
//! The file is read as raw TOML and then checked, so that all problems are reported at once, each
//! with its line. No module below `daemon` sees the whole [`Config`]; each takes its own section.
//! Invariant: the `Debug` output of these types shows no secret.

mod address;
mod alerts;
mod backup;
mod base;
mod command;
mod conditions;
mod email;
#[cfg(test)]
mod example;
mod file;
mod findings;
mod intake;
mod key;
mod mqtt;
mod nats;
mod postgres;
#[cfg(feature = "postgres")]
mod postgres_target;
mod problem;
mod read;
mod reports;
mod s3;
mod secret_text;
mod section;
mod shape;
mod sinks;
mod status;
mod topic;
mod webhook;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

pub use address::{is_loopback, workspace as workspace_address};
pub use alerts::AlertsSettings;
pub use backup::BackupSettings;
pub use base::Base;
pub use command::CommandSettings;
pub use email::{EmailSettings, MailTls};
pub use file::{FileFormat, FileSettings};
pub use intake::{Intake, IntakeLimit, IntakePart, IntakeSettings};
pub use key::{KeyError, checked_for_file as checked_key};
pub use mqtt::MqttSettings;
pub use nats::NatsSettings;
pub use postgres::PostgresSettings;
#[cfg(feature = "postgres")]
pub use postgres_target::{is_on_this_machine, postgres_target};
pub use problem::{Problem, Problems};
pub use reports::{
    CountedBy, Day, ReportFormat, ReportPeriod, ReportTarget, ReportsSettings, ScheduledReport,
};
pub use s3::S3Settings;
pub use status::StatusSettings;
pub use topic::NameTemplate;
pub use webhook::{OWN_HEADERS, WebhookSettings};

use crate::record::{Kind, Route};

/// A configuration file longer than this is refused.
const FILE_MAX: u64 = 1024 * 1024;

/// Everything one process needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// The workspace that is mirrored.
    pub workspace: WorkspaceSettings,
    /// How many requests may be sent.
    pub budget: BudgetSettings,
    /// One entry for each enabled route, in the order of [`Route::ALL`].
    pub routes: Vec<RouteSettings>,
    /// How a poll is made.
    pub poll: PollSettings,
    /// How often a timer runs `shopmirror once`; `None` if the daemon runs instead.
    pub once_every: Option<Duration>,
    /// Where records are kept.
    pub store: StoreSettings,
    /// When the daemon copies the store, and where to.
    pub backup: BackupSettings,
    /// Where the status page listens; `None` is off.
    pub status: Option<StatusSettings>,
    /// Which sinks are told when something is wrong.
    pub alerts: AlertsSettings,
    /// The shop's own reports.
    pub reports: ReportsSettings,
    /// The sinks by name.
    pub sinks: BTreeMap<String, SinkSettings>,
    /// The part of the file that the readers of the database may know, as a configuration of its own.
    pub for_readers: String,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read as text.
    #[error("cannot read the configuration {}: {why}{}", path.display(), advice(why))]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// The file can be read and has problems.
    #[error(transparent)]
    Invalid(#[from] Problems),
}

impl Config {
    /// Reads the file at `path`; `$STATE_DIRECTORY` is the only variable it looks at itself.
    /// Without it, a file in `/etc/shopmirror` has its state where the shipped units put it.
    ///
    /// The key comes from `api_key_file`, else from `credentials_dir`, else from `env_key`. Its file
    /// is not opened here, and no key at all is no error here: see [`KeySource::read`].
    ///
    /// # Errors
    /// [`ConfigError`] with every problem of the file at once.
    pub fn load(
        path: &Path,
        credentials_dir: Option<&Path>,
        env_key: Option<SecretString>,
    ) -> Result<Self, ConfigError> {
        let text = text_of(path).map_err(|why| ConfigError::Read { path: path.to_owned(), why })?;
        let base = Base::of_file(path, credentials_dir, env_key);
        Ok(Self::parse(&text, &path.display().to_string(), &base)?)
    }

    /// The fields of each route whose changes do not make a new version of a record.
    #[must_use]
    pub fn ignored_fields(&self) -> HashMap<Route, Vec<String>> {
        self.routes.iter().map(|route| (route.route, route.ignore.clone())).collect()
    }

    /// Checks a text that is to become the file at `path`, or that stands in for it.
    ///
    /// # Errors
    /// [`Problems`] with every problem of the text.
    pub fn of_text(text: &str, path: &Path) -> Result<Self, Problems> {
        Self::parse(text, &path.display().to_string(), &Base::of_file(path, None, None))
    }

    /// The path of the store of the file at `path` unless it names another.
    #[must_use]
    pub fn default_store_path(path: &Path) -> PathBuf {
        read::store_path("", &Base::of_file(path, None, None))
    }

    /// The path of the store in the file at `path`, even if other parts of the file have problems.
    /// `None` if the file cannot be read.
    #[must_use]
    pub fn store_path(path: &Path) -> Option<PathBuf> {
        let text = text_of(path).ok()?;
        Some(read::store_path(&text, &Base::of_file(path, None, None)))
    }

    /// Checks the text of a file. Messages use `file_name` as its name.
    ///
    /// # Errors
    /// [`Problems`] with every problem, not only the first.
    pub fn parse(text: &str, file_name: &str, base: &Base) -> Result<Self, Problems> {
        read::document(text, file_name, base)
    }
}

fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    // A pipe has no length that could be checked first.
    let length = File::open(path)?.take(FILE_MAX + 1).read_to_string(&mut text)? as u64;
    if length > FILE_MAX {
        return Err(io::Error::other(format!("it is longer than {FILE_MAX} bytes")));
    }
    Ok(text)
}

/// What to do about a file that cannot be read.
fn advice(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::PermissionDenied => {
            "; run this as root, or as a member of a group that may read the database (usermod -aG shopmirror USER) or, to change something, this file as well (usermod -aG shopmirror-secrets USER); then log in again"
        }
        io::ErrorKind::NotFound => "; name the right file with --config",
        _ => "",
    }
}

/// `[workspace]`
#[derive(Debug, Clone)]
pub struct WorkspaceSettings {
    /// The address ending in `/api`, without a trailing slash.
    pub base_url: Url,
    /// Where the key is read from; it is read again after SIGHUP and after a 401.
    pub key: KeySource,
    /// How the key is sent.
    pub auth: Auth,
    /// The businesses (branches) to poll; empty means the workspace's default only.
    pub businesses: Vec<String>,
    /// An HTTP proxy. The environment is never read for one.
    pub proxy: Option<Url>,
    /// A file of additional certificate authorities in PEM.
    pub ca_file: Option<PathBuf>,
    /// The zone of the shop's dates in reports.
    pub time_zone: jiff::tz::TimeZone,
}

impl WorkspaceSettings {
    /// The businesses to poll: the ids, or one `None` for the workspace's default.
    #[must_use]
    pub fn polled_businesses(&self) -> Vec<Option<String>> {
        match self.businesses.as_slice() {
            [] => vec![None],
            named => named.iter().cloned().map(Some).collect(),
        }
    }
}

/// Where the API key comes from; never from an argument.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// A file that holds the key and nothing else but white space around it.
    File(PathBuf),
    /// The variable `SHOPMIRROR_API_KEY`, read once.
    Environment(SecretString),
    /// None of the three sources has a key. Commands that only read the store need none.
    Absent,
}

/// How the key is sent (contract, "Authentication" 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// `Authorization: Bearer`
    Bearer,
    /// `X-API-Key`
    XApiKey,
}

/// `[budget]`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetSettings {
    /// Requests a minute the key has for all of its clients.
    pub requests_per_minute: u32,
    /// Requests a minute left to the other clients.
    pub reserve: u32,
}

/// `[poll]`: what all routes have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollSettings {
    /// Records per page, 1 to 100 (contract, "Limits").
    pub limit: u32,
    /// The longest time that one request may take in total.
    pub timeout: Duration,
}

/// `[routes.NAME]` joined with the defaults of `[poll]`.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteSettings {
    /// The route.
    pub route: Route,
    /// Shortest time between two polls.
    pub min_interval: Duration,
    /// Longest time between two polls.
    pub max_interval: Duration,
    /// A fixed interval instead of the adaptive one.
    pub every: Option<Duration>,
    /// How important an arrival on this route is, relative to the other routes; 1 by default.
    pub weight: f64,
    /// Top-level fields whose changes do not make a new version of a record.
    pub ignore: Vec<String>,
}

/// `[store]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// The SQLite file.
    pub path: PathBuf,
    /// How long older versions stay in the log. The newest version of a record is always kept.
    pub log_retention: Duration,
}

/// `[sinks.NAME]`
#[derive(Debug, Clone, PartialEq)]
pub struct SinkSettings {
    /// Which changes it receives.
    pub filter: SinkFilter,
    /// Where in the log a new sink starts.
    pub start: Start,
    /// What order is kept for.
    pub in_order: InOrder,
    /// More changes than this within a minute are held until an operator releases them.
    pub hold_above: Option<u32>,
    /// The waits before each retry of a change that the sink refused. After the last retry the
    /// change is a dead letter.
    pub retry: Arc<[Duration]>,
    /// Its type, with the settings of that type.
    pub kind: SinkKind,
}

/// Which changes a sink receives; by default all of the kinds `created` and `updated`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkFilter {
    /// The routes.
    pub routes: Vec<Route>,
    /// The kinds of change.
    pub changes: Vec<Kind>,
    /// The businesses, as the change names them; empty for all.
    pub businesses: Vec<String>,
    /// The conditions on the record, all of which must hold.
    pub conditions: Vec<Condition>,
}

/// One condition on the record of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// At least one of these top-level fields differs from the version before.
    Changed(Vec<String>),
    /// A top-level field is as wanted.
    Field {
        /// Which version of the record is looked at.
        side: Side,
        /// The field's name.
        name: String,
        /// What it must be.
        wanted: Wanted,
    },
}

/// A version of the record of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The version before the change; a first version has none.
    Before,
    /// The version after it.
    After,
}

/// What a field must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// It is there, with any value, or it is not there.
    Exists(bool),
    /// It means the same as one of these.
    In(Vec<serde_json::Value>),
    /// It compares so with this value.
    Compared(Comparison, serde_json::Value),
}

/// How a field compares with a value. Only two numbers, two times or two texts have an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// It means the same.
    Equal,
    /// It is there and means something else.
    NotEqual,
    /// It is smaller.
    Less,
    /// It is greater.
    Greater,
}

/// What a sink keeps the order of the log for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InOrder {
    /// The changes of one record; a change that is refused delays only its own record.
    Record,
    /// All changes: a change that fails holds every later one until it is delivered or dead.
    Sink,
}

/// Where in the log a new sink starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// After the last row of the log at the time the sink is first configured.
    Now,
    /// At the first row; baseline rows are then delivered as well.
    Beginning,
    /// At the first row observed at or after this time.
    At(jiff::Timestamp),
}

/// The type of a sink, with its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum SinkKind {
    /// `type = "webhook"`
    Webhook(WebhookSettings),
    /// `type = "file"`
    File(FileSettings),
    /// `type = "command"`
    Command(CommandSettings),
    /// `type = "mqtt"`
    Mqtt(MqttSettings),
    /// `type = "nats"`
    Nats(NatsSettings),
    /// `type = "s3"`
    S3(S3Settings),
    /// `type = "postgres"`
    Postgres(PostgresSettings),
    /// `type = "email"`
    Email(EmailSettings),
    /// `type = "intake"`
    Intake(IntakeSettings),
}

impl SinkKind {
    /// The name in the key `type`.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Webhook(_) => "webhook",
            Self::File(_) => "file",
            Self::Command(_) => "command",
            Self::Mqtt(_) => "mqtt",
            Self::Nats(_) => "nats",
            Self::S3(_) => "s3",
            Self::Postgres(_) => "postgres",
            Self::Email(_) => "email",
            Self::Intake(_) => "intake",
        }
    }
}
