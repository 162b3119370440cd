//! The command's side: sends one request and reads the reply.
//!
//! A daemon that reloads closes its socket for a moment. A command waits for that moment instead
//! of reporting that no daemon runs.

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
/// How often to look for it in that time.
const RETRY_EVERY: Duration = Duration::from_millis(50);
/// The longest reply that is read.
const REPLY_MAX: u64 = 16 * 1024 * 1024;

/// Sends a request to the daemon that serves the store at `store`, and returns its reply as JSON.
///
/// # Errors
/// [`ControlError`] if no daemon runs, or it does not reply in time.
pub async fn send(store: &Path, request: &ControlRequest) -> Result<Vec<u8>, ControlError> {
    let limit = Instant::now() + MAX_ABSENT;
    loop {
        let stream = connect(store, limit).await?;
        match timeout(request.time_limit(), exchange(stream, request)).await {
            // A reload closes connections that were opened just before it. What spends the budget may have
            // been sent to the workspace by then, so it is not sent again.
            Ok(Err(_)) if !request.waits_for_budget() && Instant::now() < limit => {
                sleep(RETRY_EVERY).await;
            }
            Ok(reply) => return reply.map_err(ControlError::NoReply),
            Err(_) => return Err(ControlError::NoReply(io::ErrorKind::TimedOut.into())),
        }
    }
}

async fn exchange(mut stream: UnixStream, request: &ControlRequest) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    let mut reply = Vec::new();
    stream.take(REPLY_MAX).read_to_end(&mut reply).await?;
    if reply.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(reply) }
}

async fn connect(store: &Path, limit: Instant) -> Result<UnixStream, ControlError> {
    loop {
        if let Ok(stream) = UnixStream::connect(socket_of(store)).await {
            return Ok(stream);
        }
        let holder = store::holder(store).ok_or(ControlError::NotRunning)?;
        if Instant::now() >= limit {
            return Err(ControlError::NotListening(holder));
        }
        sleep(RETRY_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;
    use crate::control::SearchRequest;

    #[tokio::test]
    async fn only_a_request_that_spends_nothing_is_sent_again_when_the_connection_ends() {
        for (request, is_repeated) in [
            (ControlRequest::Status, true),
            (ControlRequest::Wake, true),
            (
                ControlRequest::Search(SearchRequest {
                    term: "a".to_owned(),
                    business: None,
                    store: None,
                    backfill: false,
                }),
                false,
            ),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let store = dir.path().join("mirror.db");
            let listener = UnixListener::bind(socket_of(&store)).unwrap();
            // The first connection ends without a reply.
            let serving = async {
                let mut reply: &[u8] = b"";
                loop {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    assert!(stream.read(&mut [0; 256]).await.unwrap() > 0);
                    stream.write_all(reply).await.unwrap();
                    reply = b"fine";
                }
            };
            let reply: Result<_, ControlError> = tokio::select! {
                reply = send(&store, &request) => reply,
                () = serving => unreachable!("it serves without end"),
            };
            assert_eq!(reply.is_ok(), is_repeated, "{request:?}: {reply:?}");
        }
    }
}
