//! The socket next to the store through which commands reach a running daemon.
//!
//! One line a connection, one answer, closed; who may open it is who may read the store. A line is
//! a word, or a word and a JSON object. A few connections are served at a time, each for a few
//! seconds; what asks the workspace may wait a minute for the budget.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::record::Kind;
use crate::store::{self, Found};

/// The longest a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest a connection may take that asks the workspace.
const LONG_PATIENCE: Duration = Duration::from_secs(90);
/// How long the socket of a process that holds the store may be away, as it is during a reload.
const AWAY: Duration = Duration::from_secs(2);
/// How often it is looked for meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Connections served at a time.
const MOST_AT_ONCE: usize = 8;
/// The longest line a command may send.
const MAX_LINE: u64 = 4096;
/// The longest answer a command reads.
const MAX_ANSWER: u64 = 16 * 1024 * 1024;
/// The longest path a socket's address can hold, less the closing zero.
const MAX_ADDRESS: usize = 107;

/// What a command can ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// The snapshot, as JSON.
    Status,
    /// Look at the deliveries again: an operator changed some.
    Wake,
    /// Search customers within the daemon's budget.
    Search(SearchAsk),
    /// Read the custom fields' definitions again.
    CustomFields,
}

/// A search as a command asks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchAsk {
    /// 1 to 100 characters.
    pub term: String,
    /// The branch; `None` is the workspace default.
    pub business: Option<String>,
    /// What a customer not known before is stored as; `None`: nothing is stored.
    pub store: Option<Kind>,
    /// Whether the term is one of a backfill.
    pub backfill: bool,
}

/// The daemon's answer to a question that asks the workspace.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told<T> {
    /// What came of it.
    Done(T),
    /// Nothing came of it, and why; trying again may help.
    Failed {
        /// The exit code for it.
        code: u8,
        /// Why, and what to do.
        text: String,
        /// How long to wait before trying again, if that can help.
        retry_after_s: Option<f64>,
    },
}

/// What a search brought.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Searched {
    /// The customers, as received.
    pub records: Vec<Box<RawValue>>,
    /// What of them was stored, if that was asked.
    pub found: Option<Found>,
}

impl Ask {
    fn line(&self) -> String {
        match self {
            Self::Status => "status\n".to_owned(),
            Self::Wake => "wake\n".to_owned(),
            Self::CustomFields => "custom-fields\n".to_owned(),
            Self::Search(ask) => {
                let ask = serde_json::to_string(ask).expect("a search holds plain values");
                format!("search {ask}\n")
            }
        }
    }

    fn read(line: &str) -> Option<Self> {
        match line.trim().split_once(' ') {
            None => [Self::Status, Self::Wake, Self::CustomFields]
                .into_iter()
                .find(|ask| ask.line().trim() == line.trim()),
            Some(("search", ask)) => serde_json::from_str(ask).ok().map(Self::Search),
            Some(_) => None,
        }
    }

    fn patience(&self) -> Duration {
        match self {
            Self::Status | Self::Wake => PATIENCE,
            Self::Search(_) | Self::CustomFields => LONG_PATIENCE,
        }
    }
}

/// Why a daemon did not answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// None listens there.
    #[error("no daemon is running on this store")]
    NotRunning,
    /// A process holds the store and takes no questions.
    #[error(
        "process {0} holds the store but takes no questions: a daemon that starts, reloads or stops, or another command; try again in a few seconds"
    )]
    NotListening(String),
    /// One does, and did not answer.
    #[error("the daemon did not answer")]
    NoAnswer(#[source] io::Error),
}

/// The socket's path; a folder that is too deep for an address is reached through its descriptor.
struct Address {
    path: PathBuf,
    /// Keeps the descriptor in `path` valid.
    _folder: Option<fs::File>,
}

impl Address {
    fn of(store: &Path) -> io::Result<Self> {
        let mut name = store.as_os_str().to_owned();
        name.push("-sock");
        let path = PathBuf::from(name);
        if path.as_os_str().len() <= MAX_ADDRESS {
            return Ok(Self { path, _folder: None });
        }
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = fs::File::open(parent)?;
        let file = path.file_name().expect("a store's path ends in a name");
        let fd = std::os::fd::AsRawFd::as_raw_fd(&folder);
        Ok(Self {
            path: Path::new("/proc/self/fd").join(fd.to_string()).join(file),
            _folder: Some(folder),
        })
    }
}

/// Asks the daemon that serves the store at `store`.
///
/// # Errors
/// [`AskError`] when there is none, or it does not answer in time.
pub async fn ask(store: &Path, what: &Ask) -> Result<Vec<u8>, AskError> {
    let limit = tokio::time::Instant::now() + AWAY;
    loop {
        let stream = connect(store, limit).await?;
        match tokio::time::timeout(what.patience(), talk(stream, what)).await {
            // Closed without a word, as a reload does to whoever has just come.
            Ok(Err(_)) if tokio::time::Instant::now() < limit => {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Ok(answer) => return answer.map_err(AskError::NoAnswer),
            Err(_) => return Err(AskError::NoAnswer(io::ErrorKind::TimedOut.into())),
        }
    }
}

async fn talk(mut stream: UnixStream, what: &Ask) -> io::Result<Vec<u8>> {
    stream.write_all(what.line().as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer).await?;
    if answer.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(answer) }
}

/// Opens the socket; one that is away for the moment of a reload is waited for.
async fn connect(store: &Path, limit: tokio::time::Instant) -> Result<UnixStream, AskError> {
    loop {
        if let Ok(address) = Address::of(store)
            && let Ok(stream) = UnixStream::connect(&address.path).await
        {
            return Ok(stream);
        }
        let holder = store::holder(store).ok_or(AskError::NotRunning)?;
        if tokio::time::Instant::now() >= limit {
            return Err(AskError::NotListening(holder));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Serves the socket until stopped; `answer` is given each question and returns the whole answer.
///
/// # Errors
/// When the socket cannot be made; a single connection that fails is nobody's concern.
pub async fn serve<A, F>(store: &Path, answer: A, stop: CancellationToken) -> io::Result<()>
where
    A: Fn(Ask) -> F + Clone + Send + 'static,
    F: Future<Output = Vec<u8>> + Send + 'static,
{
    let address = Address::of(store)?;
    // Whoever holds the store's lock owns the name; a socket left by a killed process is in the way.
    match fs::remove_file(&address.path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&address.path)?;
    fs::set_permissions(&address.path, fs::Permissions::from_mode(0o660))?;
    let mut talks = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            // The one who asked may hang up or say nothing at all.
            Some(_) = talks.join_next() => {}
            accepted = listener.accept(), if talks.len() < MOST_AT_ONCE => match accepted {
                Ok((stream, _)) => {
                    talks.spawn(converse(stream, answer.clone()));
                }
                Err(_) => {
                    // Out of descriptors, as a rule: give them time to come back.
                    tokio::select! {
                        () = stop.cancelled() => break,
                        () = tokio::time::sleep(Duration::from_secs(1)) => {}
                    }
                }
            },
        }
    }
    talks.shutdown().await;
    // A name left behind is removed by the next start.
    let _ = fs::remove_file(&address.path);
    Ok(())
}

async fn converse<A, F>(mut stream: UnixStream, answer: A) -> io::Result<()>
where
    A: Fn(Ask) -> F,
    F: Future<Output = Vec<u8>>,
{
    let mut line = String::new();
    let mut reader = BufReader::new(&mut stream).take(MAX_LINE);
    tokio::time::timeout(PATIENCE, reader.read_line(&mut line)).await??;
    if let Some(ask) = Ask::read(&line) {
        let patience = ask.patience();
        let text = tokio::time::timeout(patience, answer(ask)).await?;
        tokio::time::timeout(PATIENCE, stream.write_all(&text)).await??;
    }
    stream.shutdown().await
}
