//! The HTTP client that the workspace client and the webhook sinks are built from.
//!
//! It follows no redirect, sends no referer, uses no proxy from the environment and repeats no
//! request by itself: each of these could carry a secret to another host or escape the budget. TLS
//! is rustls with `ring`, which builds much faster than `aws-lc-rs`.

use std::error::Error;
use std::io;
use std::sync::Once;

use reqwest::ClientBuilder;
use reqwest::redirect::Policy;

static PROVIDER: Once = Once::new();

/// A builder with the settings that every client of this program shares.
pub fn client_builder() -> ClientBuilder {
    PROVIDER.call_once(|| {
        // An error means that a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder()
        .redirect(Policy::none())
        .referer(false)
        .no_proxy()
        .retry(reqwest::retry::never())
}

/// Parts of error texts of the TLS library and the resolver, and what they mean. The first match counts.
/// The original texts are not shown, because they may contain the host name.
const PROBLEMS: [(&str, &str); 10] = [
    ("CaUsedAsEndEntity", "its certificate belongs to a certificate authority, not to a server"),
    ("UnknownIssuer", "its certificate comes from an authority that this machine does not know"),
    ("NotValidYet", "its certificate is not valid yet; check this machine's clock"),
    ("xpired", "its certificate has expired, or this machine's clock is wrong"),
    ("not valid for name", "its certificate is for another name"),
    ("NotValidForName", "its certificate is for another name"),
    ("certificate", "its certificate was not accepted"),
    ("corrupt message", "it does not speak TLS at this port; check the port, and https or http"),
    ("dns error", "its name was not found; check the host name and the network"),
    ("lookup address", "its name was not found; check the host name and the network"),
];

/// Why a request got no response, without the address; `None` if the cause is not known.
#[must_use]
pub fn connection_problem(error: &reqwest::Error) -> Option<String> {
    let causes = || std::iter::successors(error.source(), |&cause| cause.source());
    let texts: Vec<String> = causes().map(ToString::to_string).collect();
    let found = PROBLEMS.iter().find(|(part, _)| texts.iter().any(|text| text.contains(part)));
    if let Some((_, words)) = found {
        return Some((*words).to_owned());
    }
    let code = |cause: &(dyn Error + 'static)| cause.downcast_ref::<io::Error>()?.raw_os_error();
    let code = causes().filter_map(code).last()?;
    Some(io::Error::from_raw_os_error(code).to_string())
}
