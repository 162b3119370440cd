//! The certificate that this program serves with over TLS, and its key.
//!
//! Both are files that another program renews. They are read again when they change, and when a
//! reload asks for it; a pair that cannot be used leaves the last good one in use.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::pem::{self, PemProblem};

/// How often the files are checked. A pair is read once both files have stayed the same for as
/// long.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// The most bytes of each file.
const BYTES_MAX: u64 = 256 * 1024;

/// Why a certificate cannot be served, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The file of the certificate cannot be used.
    #[error("the certificate in {}: {problem}; name a PEM file with `cert_file`", path.display())]
    Certificate {
        /// The file that the configuration names.
        path: PathBuf,
        /// What is wrong with it.
        problem: PemProblem,
    },
    /// The file of the key cannot be used.
    #[error("the key in {}: {problem}; name a PEM file with `key_file`", path.display())]
    Key {
        /// The file that the configuration names.
        path: PathBuf,
        /// What is wrong with it.
        problem: PemProblem,
    },
    /// The two do not fit together, or no connection could use them.
    #[error(
        "`cert_file` and `key_file` cannot be used together: {0}; put the certificate of the \
         server first, and name the key that it was made for"
    )]
    Pair(#[from] rustls::Error),
}

/// The last pair that could be used: it outlives a server that is opened again.
#[derive(Debug, Default)]
pub struct LastPair {
    config: Mutex<Option<Arc<ServerConfig>>>,
    again: Notify,
}

impl LastPair {
    /// Has the server that uses it read its files at once.
    pub fn read_again(&self) {
        self.again.notify_one();
    }

    fn get(&self) -> Option<Arc<ServerConfig>> {
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        config.clone()
    }

    fn set(&self, pair: &Arc<ServerConfig>) {
        let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        *config = Some(Arc::clone(pair));
    }
}

/// The certificate that is served, and the files that it came from.
#[derive(Debug)]
pub struct ServerCertificate {
    files: Files,
    /// What the files were when they were read first.
    first: [Option<Stamp>; 2],
    current: watch::Sender<Arc<ServerConfig>>,
    last: Arc<LastPair>,
}

#[derive(Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl ServerCertificate {
    /// Reads the certificate of the server, those that signed it, and its private key. If they
    /// cannot be used, `last` is, if it has a pair.
    ///
    /// # Errors
    /// [`CertificateError`]
    pub fn open(
        certificate: &Path,
        key: &Path,
        last: &Arc<LastPair>,
    ) -> Result<Self, CertificateError> {
        let files = Files {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        };
        // Before they are read, so that no change is missed.
        let first = files.stamps();
        let pair = match (files.load(), last.get()) {
            (Ok(pair), _) => pair,
            (Err(error), Some(pair)) => {
                not_used(&error);
                pair
            }
            (Err(error), None) => return Err(error),
        };
        last.set(&pair);
        Ok(Self {
            files,
            first,
            current: watch::Sender::new(pair),
            last: Arc::clone(last),
        })
    }

    /// What takes a connection with the newest certificate.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.current.borrow()))
    }

    /// Reads the files again whenever they have changed, and at once when a reload asks for it,
    /// until `stop`.
    pub async fn follow(&self, stop: &CancellationToken) {
        let mut loaded = self.first.clone();
        let mut last = loaded.clone();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.last.again.notified() => {
                    last = self.files.stamps();
                    loaded.clone_from(&last);
                    self.load_again();
                    continue;
                }
                () = tokio::time::sleep(CHECK_EVERY) => {}
            }
            let found = self.files.stamps();
            if found != last {
                // One of the two may still be written.
                last = found;
                continue;
            }
            if last == loaded {
                continue;
            }
            loaded.clone_from(&last);
            self.load_again();
        }
    }

    fn load_again(&self) {
        match self.files.load() {
            Ok(pair) => {
                self.last.set(&pair);
                self.current.send_replace(pair);
                tracing::info!("the page is served with the new certificate");
            }
            Err(error) => not_used(&error),
        }
    }
}

fn not_used(error: &CertificateError) {
    tracing::error!(
        %error,
        "the new certificate cannot be used: the page is served with the last one"
    );
}

impl Files {
    fn load(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        let certificates = match pem::certificates(&self.certificate, BYTES_MAX) {
            Ok(certificates) => certificates,
            Err(problem) => {
                let path = self.certificate.clone();
                return Err(CertificateError::Certificate { path, problem });
            }
        };
        let key = match pem::private_key(&self.key, BYTES_MAX) {
            Ok(key) => key,
            Err(problem) => {
                let path = self.key.clone();
                return Err(CertificateError::Key { path, problem });
            }
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certificates, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn stamps(&self) -> [Option<Stamp>; 2] {
        [stamp(&self.certificate), stamp(&self.key)]
    }
}

/// What is another one once a file was written or replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    changed_at: (i64, i64),
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(path).ok()?;
    Some(Stamp {
        inode: found.ino(),
        size: found.len(),
        changed_at: (found.ctime(), found.ctime_nsec()),
    })
}
