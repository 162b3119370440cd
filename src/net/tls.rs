//! The HTTP client that the workspace client and the webhook sinks are built from, and the TLS that
//! the other sinks use.
//!
//! The client follows no redirect, sends no referer, uses no proxy from the environment and repeats
//! no request by itself: each of these could carry a secret to another host or escape the budget.
//! TLS is rustls with `ring`, which builds much faster than `aws-lc-rs`.

use std::error::Error;
use std::io;
use std::path::Path;

use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::files::read;

/// Makes `ring` what TLS uses wherever a library does not ask.
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
        .retry(reqwest::retry::never())
}

/// Parts of error texts of the TLS library and the resolver, and what they mean. The first match
/// counts. The original texts are not shown, because they may contain the host name.
const PROBLEMS: [(&str, &str); 14] = [
    (
        NOT_LOCAL,
        "its name has an address outside of the local network, and allow_plain is only for that; use TLS",
    ),
    (
        "CaUsedAsEndEntity",
        "its certificate is that of a certificate authority; give the server a certificate of its own, signed by that authority",
    ),
    (
        "UnknownIssuer",
        "its certificate comes from an authority that this machine does not know; install the authority's certificate on this machine (update-ca-certificates), or name its file with `ca_file`",
    ),
    ("NotValidYet", NOT_YET),
    ("not valid yet", NOT_YET),
    (
        "server does not support TLS",
        "the server offers no TLS; switch it on there (PostgreSQL: ssl = on in postgresql.conf)",
    ),
    (
        "xpired",
        "its certificate has expired; renew it, or correct this machine's clock (timedatectl)",
    ),
    ("not valid for name", NAME),
    ("NotValidForName", NAME),
    (
        "certificate",
        "its certificate was not accepted; test it with openssl s_client -connect HOST:443",
    ),
    ("corrupt message", NO_TLS),
    ("handshake eof", NO_TLS),
    ("dns error", DNS),
    ("lookup address", DNS),
];
/// How the error begins of a name that must be of the local network and is not.
pub const NOT_LOCAL: &str = "not of the local network";
const NOT_YET: &str = "its certificate is not valid yet; check this machine's clock (timedatectl), then the certificate";
const NAME: &str = "its certificate is for another name; use a name that the certificate has, or renew it with this name";
const NO_TLS: &str = "it does not speak TLS at this port; check the port, and https or http, mqtts or mqtt, tls or starttls";
const DNS: &str =
    "its name was not found; check the spelling of its host name, the network and /etc/resolv.conf";

/// Why a request got no response, without the address; `None` if the cause is not known.
#[must_use]
pub fn connection_problem(error: &reqwest::Error) -> Option<String> {
    // The error's own text has the address.
    error.source().and_then(problem_of)
}

/// What an error of a connection or one of its causes means, and what to do; `None` if that is not
/// known.
#[must_use]
pub fn problem_of(error: &(dyn Error + 'static)) -> Option<String> {
    let causes = || std::iter::successors(Some(error), |&cause| cause.source());
    let words = |cause: &(dyn Error + 'static)| {
        let text = cause.to_string();
        PROBLEMS
            .iter()
            .find(|(part, _)| text.contains(part))
            .map(|(_, words)| *words)
    };
    // The innermost cause says most.
    if let Some(words) = causes().filter_map(words).last() {
        return Some(words.to_owned());
    }
    let code = |cause: &(dyn Error + 'static)| cause.downcast_ref::<io::Error>()?.raw_os_error();
    Some(refused(&io::Error::from_raw_os_error(
        causes().filter_map(code).last()?,
    )))
}

/// What the system's error means for a connection, and what to do.
fn refused(error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "nothing accepts connections at its port; check that the server runs, the port, and its firewall"
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "it cannot be reached from here; check this machine's network and the firewalls between"
        }
        io::ErrorKind::TimedOut => {
            "it did not respond in time; check the address, the network and the firewalls between"
        }
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
            "it closed the connection; check the port, and https or http"
        }
        io::ErrorKind::PermissionDenied => {
            "this machine does not allow the connection; check IPAddressAllow= in the unit, and its firewall"
        }
        _ => return error.to_string(),
    };
    advice.to_owned()
}

/// A file of certificates with more bytes than this is refused; those of a whole system have a
/// quarter of a MiB.
const CERTIFICATES_MAX: u64 = 4 * 1024 * 1024;

/// The certificates of authorities in a PEM file, at least one.
///
/// # Errors
/// What is wrong with the file, and what to do.
pub fn authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let refused = |why: &dyn std::fmt::Display| {
        format!(
            "the certificate authorities in {}: {why}; name a PEM file with `ca_file`",
            path.display()
        )
    };
    let pem = read::bytes(path, CERTIFICATES_MAX).map_err(|error| refused(&error))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found.map_err(|error| refused(&error))? {
        none if none.is_empty() => Err(refused(&"it holds no certificate")),
        found => Ok(found),
    }
}

/// A client that trusts the authorities in `ca_file`, or those of this machine; `is_plain` if its
/// server speaks no TLS.
///
/// # Errors
/// What is wrong, and what to do.
pub fn http_client(
    builder: ClientBuilder,
    is_plain: bool,
    ca_file: Option<&Path>,
) -> Result<Client, String> {
    let unmade = |error: reqwest::Error| {
        let error = error.without_url();
        format!(
            "cannot make the HTTPS client (correct `ca_file`, or install the package ca-certificates): {error}"
        )
    };
    let builder = match ca_file {
        Some(path) => {
            let found = authorities(path)?;
            let found = found.iter().map(|one| Certificate::from_der(one));
            builder.tls_certs_only(found.collect::<Result<Vec<_>, _>>().map_err(unmade)?)
        }
        // Loading those of this machine takes 18 ms, and fails if it has none.
        None if is_plain => builder.tls_certs_only(std::iter::empty()),
        None => builder,
    };
    builder.build().map_err(unmade)
}

/// TLS that verifies the server by the authorities in `ca_file`, or by those of this machine.
///
/// # Errors
/// What is wrong, and what to do.
#[cfg(feature = "tls")]
pub fn client_config(ca_file: Option<&Path>) -> Result<rustls::ClientConfig, String> {
    use rustls_platform_verifier::BuilderVerifierExt;

    let unprepared = |error: rustls::Error| {
        format!("preparing TLS: {error}; install the package ca-certificates")
    };
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unprepared)?;
    let builder = match ca_file {
        None => builder.with_platform_verifier().map_err(unprepared)?,
        Some(path) => {
            let mut roots = rustls::RootCertStore::empty();
            for certificate in authorities(path)? {
                roots.add(certificate).map_err(unprepared)?;
            }
            builder.with_root_certificates(roots)
        }
    };
    Ok(builder.with_no_client_auth())
}
