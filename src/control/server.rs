//! The daemon's side: accepts connections, checks who may send what, writes the reply.
//!
//! Every connection has a short time limit for its request, and their number is bounded, so that
//! clients that send nothing delay the others by less than a second. Requests that may wait for the
//! budget have a smaller bound of their own, so that the status and a wake always find a place.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::address::SocketAddress;
use super::{ControlReply, ControlRequest, QUICK};
use crate::connections;
use crate::file_owner;
use crate::sysexits::{PERMISSION, TRY_AGAIN};

/// How long a client may take to send its request.
const REQUEST_LIMIT: Duration = Duration::from_millis(500);
/// The longest request.
const REQUEST_MAX: u64 = 4096;
/// Connections served at the same time. More of them wait in the listener's queue.
const CONNECTIONS_MAX: usize = 32;
/// Requests that may wait for the budget at the same time. More of them are refused at once.
const WAITING_MAX: usize = 16;
/// When a refused one may be sent again.
const WAITING_RETRY: Duration = Duration::from_secs(5);

/// Serves the socket until `stop`; `reply_to` is called with each request and returns the reply.
///
/// # Errors
/// If the socket cannot be created. Errors of single connections are ignored.
pub async fn serve<A, F>(store: &Path, reply_to: A, stop: CancellationToken) -> io::Result<()>
where
    A: Fn(ControlRequest) -> F + Clone + Send + 'static,
    F: Future<Output = Vec<u8>> + Send + 'static,
{
    let address = SocketAddress::of(store)?;
    // The process that holds the store's lock owns this name: a socket that exists is left over
    // from a process that was killed.
    match fs::remove_file(&address.path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&address.path)?;
    fs::set_permissions(&address.path, fs::Permissions::from_mode(0o660))?;
    file_owner::give_path_to_folder(&address.path);
    let places = Arc::new(Semaphore::new(WAITING_MAX));
    connections::serve(listener, CONNECTIONS_MAX, &stop, |stream| {
        converse(stream, reply_to.clone(), Arc::clone(&places))
    })
    .await;
    // If this fails, the next start removes the file.
    let _ = fs::remove_file(&address.path);
    Ok(())
}

async fn converse<A, F>(
    mut stream: UnixStream,
    reply_to: A,
    places: Arc<Semaphore>,
) -> io::Result<()>
where
    A: Fn(ControlRequest) -> F,
    F: Future<Output = Vec<u8>>,
{
    let sender = stream.peer_cred()?.uid();
    let mut line = String::new();
    let mut reader = BufReader::new(&mut stream).take(REQUEST_MAX);
    timeout(REQUEST_LIMIT, reader.read_line(&mut line)).await??;
    if let Ok(request) = serde_json::from_str::<ControlRequest>(&line) {
        let own = rustix::process::geteuid().as_raw();
        let place = request.waits_for_budget().then(|| places.try_acquire()).transpose();
        let reply = match place {
            _ if !may_send(&request, sender, own) => serde_json::to_vec(&refusal())?,
            Err(_) => serde_json::to_vec(&too_many())?,
            Ok(_place) => timeout(request.time_limit(), reply_to(request)).await?,
        };
        timeout(QUICK, stream.write_all(&reply)).await??;
    }
    stream.shutdown().await
}

/// True if the user `sender` may send this request to a daemon that runs as the user `own`.
fn may_send(request: &ControlRequest, sender: u32, own: u32) -> bool {
    request.is_for_readers() || sender == own || sender == 0
}

fn refusal() -> ControlReply<()> {
    ControlReply::Failed {
        code: PERMISSION,
        text: "the daemon accepts this only from root and from its own user, because it spends \
               the rate budget or writes to the store: run it with sudo, or as the user of the \
               service"
            .to_owned(),
        retry_after_s: None,
    }
}

fn too_many() -> ControlReply<()> {
    ControlReply::Failed {
        code: TRY_AGAIN,
        text: format!(
            "{WAITING_MAX} searches wait for the daemon's rate budget already: run this command \
             again when they have ended, and run fewer of them at the same time"
        ),
        retry_after_s: Some(WAITING_RETRY.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::SearchRequest;
    use super::*;

    fn search() -> ControlRequest {
        let term = "ada".to_owned();
        ControlRequest::Search(SearchRequest { term, business: None, store: None, backfill: false })
    }

    #[test]
    fn readers_read_and_nothing_else() {
        let (root, own, reader) = (0, 990, 1000);
        for request in [
            ControlRequest::Wake { sink: None },
            ControlRequest::CustomFields { business: None },
            search(),
        ] {
            assert!(may_send(&request, root, own), "{request:?}");
            assert!(may_send(&request, own, own), "{request:?}");
            assert!(!may_send(&request, reader, own), "{request:?}");
        }
        assert!(may_send(&ControlRequest::Status, reader, own));
    }

    #[tokio::test]
    async fn searches_that_wait_for_the_budget_do_not_keep_the_status_from_a_reply() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("mirror.db");
        let stop = CancellationToken::new();
        let reply_to = async |request: ControlRequest| match request {
            ControlRequest::Search(_) => std::future::pending().await,
            _ => b"fine".to_vec(),
        };
        let serving = serve(&store, reply_to, stop.clone());
        let asking = async {
            let line = format!("{}\n", serde_json::to_string(&search()).unwrap());
            let address = SocketAddress::of(&store).unwrap();
            let mut searches = Vec::new();
            while searches.len() < CONNECTIONS_MAX + 8 {
                let Ok(mut stream) = UnixStream::connect(&address.path).await else {
                    tokio::task::yield_now().await;
                    continue;
                };
                stream.write_all(line.as_bytes()).await.unwrap();
                searches.push(stream);
            }
            let reply = super::super::send(&store, &ControlRequest::Status).await;
            stop.cancel();
            reply
        };
        let (served, reply) = tokio::join!(serving, asking);
        served.unwrap();
        assert_eq!(reply.unwrap(), b"fine");
    }
}
