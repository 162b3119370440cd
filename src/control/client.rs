//! The command's side: sends one request and reads the reply.
//!
//! A daemon that starts holds the store for a moment before it has a socket. A command waits for
//! that moment instead of reporting that no daemon runs.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};

use super::{ControlError, ControlRequest, socket_of};
use crate::store;

/// How long the socket of a process that holds the store may be absent.
const MAX_ABSENT: Duration = Duration::from_secs(5);
/// How often to try to connect in that time.
const RETRY_EVERY: Duration = Duration::from_millis(50);
/// The longest reply that is read.
const REPLY_MAX: u64 = 16 * 1024 * 1024;

/// Sends a request to the daemon that serves the store at `store`, and returns its reply as JSON.
///
/// # Errors
/// [`ControlError`] if no daemon runs, or it does not reply in time.
pub async fn send(store: &Path, request: &ControlRequest) -> Result<Vec<u8>, ControlError> {
    let stream = connect(store).await?;
    match timeout(request.time_limit(), exchange(stream, request)).await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(error)) => Err(ControlError::NoReply(error)),
        Err(late) => Err(ControlError::NoReply(late.into())),
    }
}

async fn exchange(mut stream: UnixStream, request: &ControlRequest) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    let mut reply = Vec::new();
    stream.take(REPLY_MAX).read_to_end(&mut reply).await?;
    if reply.is_empty() {
        Err(io::ErrorKind::UnexpectedEof.into())
    } else {
        Ok(reply)
    }
}

async fn connect(store: &Path) -> Result<UnixStream, ControlError> {
    let limit = Instant::now() + MAX_ABSENT;
    loop {
        match UnixStream::connect(socket_of(store)).await {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(ControlError::NotPermitted);
            }
            Err(_) => {}
        }
        let holder = store::holder(store).ok_or(ControlError::NotRunning)?;
        if Instant::now() >= limit {
            return Err(ControlError::NotListening(holder));
        }
        sleep(RETRY_EVERY).await;
    }
}
