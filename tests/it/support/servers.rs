//! Real servers on free loopback ports, each with a data folder of its own.
//!
//! A shell between the test and the server ends it, by its id, and removes the folder when the
//! test's process ends in whatever way: it waits for the end of a pipe that this process holds
//! open. A test of a package that [`is_left_out`] says so and does nothing; a package that is
//! missing without being left out fails its tests.

#[cfg(feature = "email")]
pub(crate) mod mail;
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
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::LIMIT_S;

/// Ends the server when its input ends; a file `keep` in the folder keeps the folder.
const KEEPER: &str = "folder=$1; signal=$2; shift 2; \"$@\" & server=$!; cat >/dev/null; \
     kill -$signal $server; wait $server; [ -e \"$folder/keep\" ] || rm -rf \"$folder\"";

/// Whether `tests/run` could not install this package, so that its tests say so and return.
pub(crate) fn is_left_out(package: &str) -> bool {
    let left_out = std::env::var("SHOPMIRROR_LEFT_OUT").unwrap_or_default();
    let is_left_out = left_out.split(' ').any(|name| name == package);
    if is_left_out {
        eprintln!("SKIPPED: {package} is left out");
    }
    is_left_out
}

/// The first of these programs that is there; `None` if the package is left out.
pub(crate) fn program(package: &str, places: &[&str]) -> Option<PathBuf> {
    if is_left_out(package) {
        return None;
    }
    let found = places.iter().map(Path::new).find(|path| path.exists());
    assert!(
        found.is_some(),
        "{package} is missing: tests/run installs it, or leaves it out"
    );
    found.map(Path::to_owned)
}

/// A free port that this process keeps for a server, also while the server does not run.
///
/// Linux gives ports from 32768 on to clients and to those who ask for any port, so that this one
/// stays free. Of the processes that choose in this way, the one that has the socket of this name
/// may use the port.
pub(crate) fn kept_port() -> u16 {
    static KEPT: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    loop {
        let port = fastrand::u16(10_000..30_000);
        let name = format!("shopmirror-test-port-{port}");
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let Ok(kept) = UnixListener::bind_addr(&address) else {
            continue;
        };
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
        let port = port.unwrap_or_else(kept_port);
        let log = std::fs::File::create(folder.join("server.log")).unwrap();
        let keeper = Command::new("/bin/sh")
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
        let server = Self { keeper, port };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let said = || std::fs::read_to_string(folder.join("server.log")).unwrap_or_default();
            assert!(
                begun.elapsed().as_secs() < LIMIT_S,
                "the server does not start:\n{}",
                said()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// Ends it; its folder stays.
    pub(crate) fn end(self, folder: &Path) {
        let keep = folder.join("keep");
        std::fs::write(&keep, "").unwrap();
        drop(self);
        std::fs::remove_file(keep).unwrap();
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
    let folder = tempfile::Builder::new()
        .prefix("shopmirror-server-")
        .tempdir()
        .unwrap()
        .keep();
    if let Some((uid, gid)) = user {
        chown(&folder, Some(uid), Some(gid)).unwrap();
    }
    folder
}

/// A file of `tests/fixtures/tls`: `ca.pem` vouches for `server.pem`, which is for 127.0.0.1.
pub(crate) fn certificate(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tls")).join(name)
}

/// What a server needs to speak TLS with the certificate `NAME.pem` of [`certificate`].
pub(crate) fn tls_server(name: &str) -> Arc<ServerConfig> {
    let chain = CertificateDer::from_pem_file(certificate(&format!("{name}.pem"))).unwrap();
    let key = PrivateKeyDer::from_pem_file(certificate(&format!("{name}.key"))).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .unwrap();
    Arc::new(config)
}
