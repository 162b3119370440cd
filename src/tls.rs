//! The HTTP client that the workspace client and the webhook sinks are built from.
//!
//! It follows no redirect, sends no referer, uses no proxy from the environment and repeats no
//! request by itself: each of these could carry a secret to another host or escape the budget. TLS
//! is rustls with `ring`, which is built in a fraction of the time that `aws-lc-rs` takes.

use std::sync::Once;

use reqwest::ClientBuilder;
use reqwest::redirect::Policy;

static PROVIDER: Once = Once::new();

/// A builder with the settings that every client of this program shares.
pub fn client_builder() -> ClientBuilder {
    PROVIDER.call_once(|| {
        // An error says that a provider is installed already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder()
        .redirect(Policy::none())
        .referer(false)
        .no_proxy()
        .retry(reqwest::retry::never())
}
