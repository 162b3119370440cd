//! The checked configuration: what the rest of the program is given.
//!
//! The file itself is read in two steps, raw then checked, so that every problem is reported at
//! once with its place. No module below `daemon` sees the whole [`Config`]; each takes its own
//! section. Invariant: `Debug` of anything here shows no secret.

mod address;
#[cfg(test)]
mod example;
mod findings;
mod key;
mod problem;
mod read;
mod section;
mod sinks;
mod webhook;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

pub use address::is_loopback;
pub use key::KeyError;
pub use problem::{Problem, Problems};
pub use webhook::OWN_HEADERS;

use crate::record::{Kind, Route};

/// A configuration file longer than this is refused.
const FILE_MAX: u64 = 1024 * 1024;

/// Everything one process needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// The workspace that is mirrored.
    pub workspace: Workspace,
    /// How many requests may be spent.
    pub budget: Budget,
    /// One entry for each enabled route, in the order of [`Route::ALL`].
    pub routes: Vec<RouteSettings>,
    /// How a poll is made.
    pub poll: Poll,
    /// Where records are kept.
    pub store: Store,
    /// Where the status page listens; `None` is off.
    pub status: Option<Status>,
    /// The sinks by name.
    pub sinks: BTreeMap<String, Sink>,
}

/// What a file is read against: the folders its relative paths start from, and the key's other
/// places.
#[derive(Debug, Clone, Default)]
pub struct Base {
    /// The folder of the file; what is only read is relative to it.
    pub dir: PathBuf,
    /// The folder of the service's state; what is written is relative to it, else to `dir`.
    pub state_dir: Option<PathBuf>,
    /// `$CREDENTIALS_DIRECTORY`, which may hold the file `api-key`.
    pub credentials_dir: Option<PathBuf>,
    /// The value of `SHOPMIRROR_API_KEY`.
    pub env_key: Option<SecretString>,
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
    /// The file can be read and must be mended.
    #[error(transparent)]
    Invalid(#[from] Problems),
}

impl Config {
    /// Reads the file at `path`; `$STATE_DIRECTORY` is the only variable it looks at itself.
    /// Without it, a file in `/etc/shopmirror` has its state where the shipped units put it.
    ///
    /// The key is searched in `api_key_file`, then in `credentials_dir`, then in `env_key`; its
    /// file is not opened here, see [`KeySource::read`].
    ///
    /// # Errors
    /// [`ConfigError`] with every problem of the file at once.
    pub fn load(
        path: &Path,
        credentials_dir: Option<&Path>,
        env_key: Option<SecretString>,
    ) -> Result<Self, ConfigError> {
        let text = text_of(path).map_err(|why| ConfigError::Read { path: path.to_owned(), why })?;
        let base = read::base_of(path, credentials_dir, env_key);
        Ok(Self::parse(&text, &path.display().to_string(), &base)?)
    }

    /// Where the file at `path` says the store is, whatever else may be wrong with it; `None` when
    /// it cannot be read.
    #[must_use]
    pub fn store_path(path: &Path) -> Option<PathBuf> {
        let text = text_of(path).ok()?;
        Some(read::store_path(&text, &read::base_of(path, None, None)))
    }

    /// Checks the text of a file; `file_name` is what messages call it.
    ///
    /// # Errors
    /// [`Problems`] with all that is wrong, not only the first.
    pub fn parse(text: &str, file_name: &str, base: &Base) -> Result<Self, Problems> {
        read::document(text, file_name, base)
    }
}

fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    // A pipe has no length that could be asked for before.
    let length = File::open(path)?.take(FILE_MAX + 1).read_to_string(&mut text)? as u64;
    if length > FILE_MAX {
        return Err(io::Error::other(format!("it is longer than {FILE_MAX} bytes")));
    }
    Ok(text)
}

/// What the operator can do about a file that cannot be read.
fn advice(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::PermissionDenied => {
            "; run this as root, or join the group that may read it and log in again: usermod -aG shopmirror USER"
        }
        io::ErrorKind::NotFound => "; name the right file with --config",
        _ => "",
    }
}

/// `[workspace]`
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The address ending in `/api`, without a trailing slash.
    pub base_url: Url,
    /// Where the key is read from, again after SIGHUP and after a 401.
    pub key: KeySource,
    /// How the key is sent.
    pub auth: Auth,
    /// The branches to poll; empty is the workspace default alone.
    pub businesses: Vec<String>,
    /// An HTTP proxy, only when configured; the environment is never read.
    pub proxy: Option<Url>,
    /// A file of additional certificate authorities in PEM.
    pub ca_file: Option<PathBuf>,
}

impl Workspace {
    /// The branches to ask for, each an id, or the workspace default alone.
    #[must_use]
    pub fn branches(&self) -> Vec<Option<String>> {
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
pub struct Budget {
    /// Requests a minute the key has for all of its clients.
    pub requests_per_minute: u32,
    /// Requests a minute left to the other clients.
    pub reserve: u32,
}

/// `[poll]`, what is common to all routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poll {
    /// Records asked for at once, 1 to 100 (contract, "Limits").
    pub limit: u32,
    /// Longest time one request may take in all.
    pub timeout: Duration,
}

/// `[routes.NAME]` joined with the defaults of `[poll]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RouteSettings {
    /// The route.
    pub route: Route,
    /// Shortest time between two polls.
    pub min_interval: Duration,
    /// Longest time between two polls.
    pub max_interval: Duration,
    /// A fixed interval in place of the adaptive one.
    pub every: Option<Duration>,
    /// How much an arrival on this route matters beside the others; 1 by default.
    pub weight: f64,
}

/// `[store]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// The SQLite file.
    pub path: PathBuf,
    /// How long superseded rows of the log are kept; the newest version of a record always is.
    pub log_retention: Duration,
}

/// `[status]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Loopback address and port.
    pub listen: std::net::SocketAddr,
}

/// `[sinks.NAME]`
#[derive(Debug, Clone)]
pub struct Sink {
    /// Which changes it asked for.
    pub filter: SinkFilter,
    /// Where a sink that has no position yet begins.
    pub start: Start,
    /// Waits between the attempts at one change that the sink refused; after the last, it is dead.
    pub retry: Arc<[Duration]>,
    /// What it is.
    pub kind: SinkKind,
}

/// Which changes a sink is given; everything by default but `baseline` and `gap`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkFilter {
    /// The routes.
    pub routes: Vec<Route>,
    /// The kinds of change.
    pub changes: Vec<Kind>,
    /// Top-level fields and the JSON value each must have.
    pub fields: BTreeMap<String, serde_json::Value>,
}

/// Where a new sink begins in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// After what is in the log when the sink is first seen.
    Now,
    /// At the first row; baseline rows are then delivered as well.
    Beginning,
    /// At the first row observed at or after this time.
    At(jiff::Timestamp),
}

/// What a sink is.
#[derive(Debug, Clone)]
pub enum SinkKind {
    /// `type = "webhook"`
    Webhook(Webhook),
    /// `type = "file"`
    File(FileSink),
    /// `type = "command"`
    Command(CommandSink),
}

impl SinkKind {
    /// The name in the key `type`.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Webhook(_) => "webhook",
            Self::File(_) => "file",
            Self::Command(_) => "command",
        }
    }
}

/// `type = "webhook"`
#[derive(Debug, Clone)]
pub struct Webhook {
    /// Where to post; a secret, since such addresses often carry a token.
    pub url: SecretString,
    /// Signing secrets, `whsec_…`, newest first; each adds a signature. Empty: unsigned.
    pub secrets: Vec<SecretString>,
    /// The shape of the body.
    pub format: WebhookFormat,
    /// Further fixed headers.
    pub headers: BTreeMap<String, SecretString>,
    /// Longest time one attempt may take.
    pub timeout: Duration,
    /// Changes in flight at once.
    pub concurrency: usize,
}

/// The shape of a webhook's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookFormat {
    /// `{"type","timestamp","data"}` as the Standard Webhooks specification proposes.
    Standard,
}

/// `type = "file"`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSink {
    /// The NDJSON file that is appended to.
    pub path: PathBuf,
}

/// `type = "command"`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSink {
    /// The program, absolute, and its arguments; no shell is involved.
    pub argv: Vec<String>,
    /// After this long the process group is killed.
    pub timeout: Duration,
}
