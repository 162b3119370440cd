//! Real servers on free loopback ports, each with a data folder of its own.
//!
//! A shell between the test and the server ends it, by its id, and removes the folder when the test's
//! process ends in whatever way: it waits for the end of a pipe that this process holds open.
//! Where a server is left out on purpose, its tests say so and do nothing.

#[cfg(feature = "mqtt")]
pub(crate) mod mosquitto;
#[cfg(feature = "s3")]
pub(crate) mod moto;
#[cfg(feature = "nats")]
pub(crate) mod nats;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;

use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::chown;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::LIMIT_S;

/// Names of packages whose tests are left out, separated by spaces; `tests/run` sets it.
const LEFT_OUT: &str = "SHOPMIRROR_LEFT_OUT";

/// Ends the server when its input ends; a file `keep` in the folder keeps the folder.
const KEEPER: &str = "folder=$1; signal=$2; shift 2; \"$@\" & server=$!; cat >/dev/null; \
     kill -$signal $server; wait $server; [ -e \"$folder/keep\" ] || rm -rf \"$folder\"";

/// The first of these programs that is there. `None`, with a line about it, if tests of the package
/// are left out; otherwise a missing program fails the test.
pub(crate) fn program(package: &str, places: &[&str]) -> Option<PathBuf> {
    let left_out = std::env::var(LEFT_OUT).unwrap_or_default();
    if left_out.split(' ').any(|name| name == package) {
        eprintln!("SKIPPED: {package} is left out");
        return None;
    }
    let found = places.iter().map(Path::new).find(|path| path.exists());
    assert!(found.is_some(), "{package} is missing: tests/run installs it, or leaves it out");
    found.map(Path::to_owned)
}

/// A free port that this process keeps for a server, also while the server does not run.
///
/// Linux gives ports from 32768 on to clients and to those who ask for any port, so that this one
/// stays free. Of the processes that choose in this way, the one that has the socket of this name may
/// use the port.
pub(crate) fn kept_port() -> u16 {
    static KEPT: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    loop {
        let port = fastrand::u16(10_000..30_000);
        let name = format!("shopmirror-test-port-{port}");
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let Ok(kept) = UnixListener::bind_addr(&address) else { continue };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            KEPT.lock().unwrap().push(kept);
            return port;
        }
    }
}

/// A running server; dropped, it is ended and its folder removed.
pub(crate) struct Server {
    keeper: Child,
    pub(crate) port: u16,
}

impl Server {
    /// Starts a server in `folder`, with the arguments that `args` gives for a port: this one, or
    /// a kept one. `signal` ends it.
    pub(crate) fn start(
        folder: &Path,
        signal: &str,
        port: Option<u16>,
        args: impl Fn(u16) -> Vec<String>,
    ) -> Self {
        let limit = Instant::now() + Duration::from_secs(LIMIT_S);
        let mut patience = Duration::from_secs(20);
        loop {
            let port = port.unwrap_or_else(kept_port);
            let log = std::fs::File::create(folder.join("server.log")).unwrap();
            let mut keeper = Command::new("/bin/sh")
                .args(["-c", KEEPER, "keeper"])
                .arg(folder)
                .arg(signal)
                .args(args(port))
                .current_dir("/")
                .stdin(Stdio::piped())
                .stdout(log.try_clone().unwrap())
                .stderr(log)
                .spawn()
                .unwrap();
            // A program that was not made for tests may have taken the port: then not this server
            // would answer. On a busy machine a start takes long.
            let until = Instant::now() + patience;
            while Instant::now() < until {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Self { keeper, port };
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            let said = std::fs::read_to_string(folder.join("server.log")).unwrap_or_default();
            let keep = folder.join("keep");
            std::fs::write(&keep, "").unwrap();
            drop(keeper.stdin.take());
            let _ = keeper.wait();
            std::fs::remove_file(keep).unwrap();
            assert!(Instant::now() < limit, "the server does not start:\n{said}");
            patience *= 2;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// A new folder below the folder for temporary files, owned by this user.
pub(crate) fn folder_of(user: Option<(u32, u32)>) -> PathBuf {
    let folder = tempfile::Builder::new().prefix("shopmirror-server-").tempdir().unwrap().keep();
    if let Some((uid, gid)) = user {
        chown(&folder, Some(uid), Some(gid)).unwrap();
    }
    folder
}

/// Makes a certificate authority and a certificate for 127.0.0.1.
pub(crate) fn certify(folder: &Path, user: Option<(u32, u32)>) {
    let script = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
         -subj /CN=authority -keyout ca.key -out ca.pem \
         && openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server \
         -keyout server.key -out server.csr \
         && printf 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n' > server.ext \
         && openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
         -extfile server.ext -out server.pem && chmod 0600 server.key && chmod 0644 ca.pem";
    let made = Command::new("/bin/sh").args(["-c", script]).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    if let Some((uid, gid)) = user {
        chown(folder.join("server.key"), Some(uid), Some(gid)).unwrap();
    }
}
