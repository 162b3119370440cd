//! The socket next to the store through which commands reach a running daemon.
//!
//! One word a connection, one answer, closed; who may open it is who may read the store. A
//! connection is served for a few seconds at most, one at a time.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

/// The longest a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer a command reads.
const MAX_ANSWER: u64 = 16 * 1024 * 1024;
/// The longest path a socket's address can hold, less the closing zero.
const MAX_ADDRESS: usize = 107;

/// What a command can ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// The snapshot, as JSON.
    Status,
    /// Look at the deliveries again: an operator changed some.
    Wake,
}

impl Ask {
    fn word(self) -> &'static str {
        match self {
            Self::Status => "status\n",
            Self::Wake => "wake\n",
        }
    }

    fn read(word: &str) -> Option<Self> {
        [Self::Status, Self::Wake].into_iter().find(|ask| ask.word().trim() == word.trim())
    }
}

/// Why a daemon did not answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// None listens there.
    #[error("no daemon is running on this store")]
    NotRunning,
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
pub async fn ask(store: &Path, what: Ask) -> Result<Vec<u8>, AskError> {
    let address = Address::of(store).map_err(|_| AskError::NotRunning)?;
    let mut stream = UnixStream::connect(&address.path).await.map_err(|_| AskError::NotRunning)?;
    let talk = async {
        stream.write_all(what.word().as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(MAX_ANSWER).read_to_end(&mut answer).await?;
        if answer.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(answer) }
    };
    match tokio::time::timeout(PATIENCE, talk).await {
        Ok(answer) => answer.map_err(AskError::NoAnswer),
        Err(_) => Err(AskError::NoAnswer(io::ErrorKind::TimedOut.into())),
    }
}

/// Serves the socket until stopped; `answer` is given each question and returns the whole answer.
///
/// # Errors
/// When the socket cannot be made; a single connection that fails is nobody's concern.
pub async fn serve<A, F>(store: &Path, mut answer: A, stop: CancellationToken) -> io::Result<()>
where
    A: FnMut(Ask) -> F,
    F: Future<Output = Vec<u8>>,
{
    let address = Address::of(store)?;
    // Whoever holds the store's lock owns the name; a socket left by a killed process is in the way.
    match fs::remove_file(&address.path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&address.path)?;
    fs::set_permissions(&address.path, fs::Permissions::from_mode(0o660))?;
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => {
                    // Out of descriptors, as a rule: give them time to come back.
                    tokio::select! {
                        () = stop.cancelled() => break,
                        () = tokio::time::sleep(Duration::from_secs(1)) => continue,
                    }
                }
            },
        };
        tokio::select! {
            () = stop.cancelled() => break,
            // The one who asked may hang up or say nothing at all.
            _ = tokio::time::timeout(PATIENCE, converse(stream, &mut answer)) => {}
        }
    }
    // A name left behind is removed by the next start.
    let _ = fs::remove_file(&address.path);
    Ok(())
}

async fn converse<A, F>(mut stream: UnixStream, answer: &mut A) -> io::Result<()>
where
    A: FnMut(Ask) -> F,
    F: Future<Output = Vec<u8>>,
{
    let mut word = [0_u8; 16];
    let mut length = 0;
    while length < word.len() && !word[..length].contains(&b'\n') {
        match stream.read(&mut word[length..]).await? {
            0 => break,
            read => length += read,
        }
    }
    if let Some(ask) = std::str::from_utf8(&word[..length]).ok().and_then(Ask::read) {
        let text = answer(ask).await;
        stream.write_all(&text).await?;
    }
    stream.shutdown().await
}
