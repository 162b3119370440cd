//! The daemon's side: accepts connections, checks who may send what, writes the reply.
//!
//! Every connection has a short time limit for its request, and the number of connections is
//! bounded, so that clients that send nothing delay the others by less than a second. The bound is
//! far above the number of searches that wait for the budget in practice.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{ControlRequest, QUICK, Refusal, socket_of};
use crate::control::exit_codes::PERMISSION;
use crate::net::connections;

/// How long a client may take to send its request.
const REQUEST_LIMIT: Duration = Duration::from_millis(500);
/// The longest request.
const REQUEST_MAX: u64 = 4096;
/// Connections served at the same time. More of them wait in the listener's queue.
const CONNECTIONS_MAX: usize = 256;

/// Serves the socket until `stop`; `reply_to` is called with each request and returns the reply.
///
/// # Errors
/// If the socket cannot be created. Errors of single connections are ignored.
pub async fn serve<A, F>(store: &Path, reply_to: A, stop: CancellationToken) -> io::Result<()>
where
    A: Fn(ControlRequest) -> F + Clone + Send + 'static,
    F: Future<Output = Vec<u8>> + Send + 'static,
{
    let path = socket_of(store);
    // The process that holds the store's lock owns this name: a socket that exists is left over
    // from a process that was killed.
    if let Err(error) = fs::remove_file(&path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let listener = UnixListener::bind(&path)?;
    let_group_connect(&path)?;
    connections::serve(listener, CONNECTIONS_MAX, &stop, |stream| {
        converse(stream, reply_to.clone())
    })
    .await;
    // If this fails, the next start removes the file.
    let _ = fs::remove_file(&path);
    Ok(())
}

/// Lets the readers' group connect to the socket. Follows no link: who may write to the folder can
/// put one there meanwhile.
fn let_group_connect(socket: &Path) -> io::Result<()> {
    let place = OFlags::PATH | OFlags::NOFOLLOW;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(place.bits().cast_signed())
        .open(socket)?;
    if !opened.metadata()?.file_type().is_socket() {
        return Err(io::Error::other(
            "another program put something in the place of the control socket: end that program",
        ));
    }
    // Names what was opened, whatever lies at its path by now.
    let name = format!("/proc/self/fd/{}", opened.as_raw_fd());
    fs::set_permissions(name, fs::Permissions::from_mode(0o660))
}

async fn converse<A, F>(mut stream: UnixStream, reply_to: A) -> io::Result<()>
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
        let reply = if may_send(&request, sender, own) {
            timeout(request.time_limit(), reply_to(request)).await?
        } else {
            serde_json::to_vec(&Err::<(), _>(refusal()))?
        };
        timeout(QUICK, stream.write_all(&reply)).await??;
    }
    stream.shutdown().await
}

/// True if the user `sender` may send this request to a daemon that runs as the user `own`. A
/// member of the readers' group may send what writes nothing and costs no request.
fn may_send(request: &ControlRequest, sender: u32, own: u32) -> bool {
    *request == ControlRequest::Status || sender == own || sender == 0
}

fn refusal() -> Refusal {
    Refusal {
        code: PERMISSION,
        text: "the daemon accepts this only from root and from its own user, because it spends \
               the rate budget or writes to the store: run it with sudo, or as the user of the \
               service"
            .to_owned(),
        retry_after: None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_mode_of_what_a_link_in_the_place_of_the_socket_names_stays() {
        let dir = tempfile::tempdir().unwrap();
        let [socket, victim] = ["sock", "victim"].map(|name| dir.path().join(name));
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();
        let_group_connect(&socket).unwrap();
        assert_eq!(mode_of(&socket), 0o660);

        fs::write(&victim, "").unwrap();
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).unwrap();
        fs::remove_file(&socket).unwrap();
        symlink(&victim, &socket).unwrap();
        let_group_connect(&socket).unwrap_err();
        assert_eq!(mode_of(&victim), 0o600);
    }

    #[test]
    fn readers_read_and_nothing_else() {
        let (root, own, reader) = (0, 990, 1000);
        let request = ControlRequest::Wake;
        assert!(may_send(&request, root, own));
        assert!(may_send(&request, own, own));
        assert!(!may_send(&request, reader, own));
        assert!(may_send(&ControlRequest::Status, reader, own));
    }
}
