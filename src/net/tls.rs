//! The HTTP client that the workspace client and the webhook sinks are built from, and the TLS that
//! the other sinks use.
//!
//! The client follows no redirect, sends no referer, uses no proxy from the environment and repeats
//! no request automatically: each of these could carry a secret to another host or escape the budget.
//! TLS is rustls with `ring`, which builds much faster than `aws-lc-rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::{ClientConfig, RootCertStore};

use super::pem::{self, PemProblem};
use super::verifier::FileVerifier;

/// Makes `ring` the provider of every library that does not choose one.
pub fn use_ring() {
    // An error means that a provider is already installed, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A builder with the settings that every client of this program shares.
pub fn client_builder() -> ClientBuilder {
    use_ring();
    Client::builder()
        .redirect(Policy::none())
        .referer(false)
        .no_proxy()
        // The same in every build: HTTP/2 would come in with the feature of an optional sink.
        .http1_only()
        // The same: `net::body` unpacks what is packed.
        .no_gzip()
        .retry(reqwest::retry::never())
}

/// A file of certificates with more bytes than this is refused; those of a whole system have a
/// quarter of a MiB.
const CERTIFICATES_MAX: u64 = 4 * 1024 * 1024;

/// Why TLS cannot be prepared, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of certificate authorities cannot be used.
    #[error(
        "the certificate authorities in {}: {problem}; name a PEM file with `ca_file`",
        path.display()
    )]
    Authorities {
        /// The file that the configuration names.
        path: PathBuf,
        /// What is wrong with it.
        problem: AuthoritiesProblem,
    },
    /// The HTTP client cannot be built.
    #[error(
        "cannot make the HTTPS client (correct `ca_file`, or install the package \
         ca-certificates): {0}"
    )]
    HttpClient(reqwest::Error),
    /// TLS without HTTP cannot be set up.
    #[error("preparing TLS: {0}; install the package ca-certificates")]
    Setup(#[from] rustls::Error),
}

/// What is wrong with a file of certificate authorities.
#[derive(Debug, thiserror::Error)]
pub enum AuthoritiesProblem {
    /// It cannot be read, or holds no certificate.
    #[error(transparent)]
    Pem(#[from] PemProblem),
    /// A certificate in it cannot be read.
    #[error("a certificate in it cannot be read: {0}")]
    Certificate(#[from] rustls::Error),
    /// None of its certificates can be an authority.
    #[error("none of its certificates can be used: {0}")]
    Unusable(#[from] VerifierBuilderError),
}

/// Verifies servers by the certificates in a PEM file: as authorities, and as those of servers.
///
/// # Errors
/// [`TlsError::Authorities`]
pub fn file_verifier(path: &Path) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    read_verifier(path).map_err(|problem| TlsError::Authorities {
        path: path.to_owned(),
        problem,
    })
}

fn read_verifier(path: &Path) -> Result<Arc<dyn ServerCertVerifier>, AuthoritiesProblem> {
    let certificates = pem::certificates(path, CERTIFICATES_MAX)?;
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        roots.add(certificate.clone())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
    Ok(Arc::new(FileVerifier {
        signed,
        certificates,
    }))
}

/// Has a client reach https addresses through the proxy at this address, by CONNECT only: TLS runs
/// through it to the server.
///
/// # Errors
/// [`TlsError::HttpClient`]
pub fn through_proxy(builder: ClientBuilder, proxy: &str) -> Result<ClientBuilder, TlsError> {
    match reqwest::Proxy::https(proxy) {
        Ok(proxy) => Ok(builder.proxy(proxy)),
        Err(error) => Err(TlsError::HttpClient(error.without_url())),
    }
}

/// A client that trusts the certificates in `ca_file`, or the authorities of this machine;
/// `is_plain` if its server speaks no TLS.
///
/// # Errors
/// [`TlsError`]
pub fn http_client(
    builder: ClientBuilder,
    is_plain: bool,
    ca_file: Option<&Path>,
) -> Result<Client, TlsError> {
    let builder = match ca_file {
        Some(path) => builder.tls_backend_preconfigured(config_for_file(path)?),
        // Loading those of this machine takes 18 ms, and fails if it has none.
        None if is_plain => builder.tls_certs_only(std::iter::empty()),
        None => builder,
    };
    builder
        .build()
        .map_err(|error| TlsError::HttpClient(error.without_url()))
}

/// TLS that verifies the server by the certificates in a file.
fn config_for_file(path: &Path) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(file_verifier(path)?)
        .with_no_client_auth();
    Ok(config)
}

/// TLS that verifies the server by the certificates in `ca_file`, or by the authorities of this
/// machine.
///
/// # Errors
/// [`TlsError::Authorities`] and [`TlsError::Setup`]
#[cfg(feature = "tls")]
pub fn client_config(ca_file: Option<&Path>) -> Result<ClientConfig, TlsError> {
    use rustls_platform_verifier::BuilderVerifierExt;

    if let Some(path) = ca_file {
        return config_for_file(path);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    Ok(config)
}
