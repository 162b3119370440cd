//! Where an endpoint is: reads its address, looks its name up, and refuses what must not be reached without
//! TLS.

use std::io;
use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use secrecy::ExposeSecret;

use super::SinkBuildError;
use crate::config::{SinkUrl, is_private};
use crate::tls::NOT_LOCAL;

/// The addresses of a host, in the system's order.
pub(super) async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok(tokio::net::lookup_host((host, port)).await?.collect())
}

/// As [`addresses`], for a host that is reached without TLS: all must be of this machine or of the
/// local network.
pub(super) async fn local_addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let found = addresses(host, port).await?;
    match found.iter().all(|address| is_private(address.ip())) {
        true => Ok(found),
        false => Err(io::Error::other(NOT_LOCAL)),
    }
}

/// The address of a sink, as `parse` reads it.
///
/// # Errors
/// What is wrong with it or with its file, and what to do.
pub(super) fn parsed<T>(
    url: &SinkUrl,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, String> {
    parse(url.read()?.expose_secret()).map_err(|problem| format!("the url {problem}"))
}

/// The address when the sink is made.
pub(super) fn first<T>(
    sink: &str,
    url: &SinkUrl,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, SinkBuildError> {
    parsed(url, parse).map_err(|problem| SinkBuildError::Server { sink: sink.to_owned(), problem })
}

/// The address at this attempt: its file is read on a thread of its own, so that a disk that hangs holds
/// up no other task.
///
/// # Errors
/// What is wrong with it or with its file, and what to do.
pub(super) async fn current<T: Send + 'static>(
    url: &SinkUrl,
    parse: impl FnOnce(&str) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let url = url.clone();
    let reading = tokio::task::spawn_blocking(move || parsed(&url, parse));
    reading.await.map_err(|error| format!("reading `url_file`: {error}"))?
}

/// Fails if the host is not known.
#[cfg(feature = "nats")]
pub(super) async fn known(host: &str, port: u16) -> io::Result<()> {
    addresses(host, port).await.map(drop)
}

/// The system's lookup, for what is reached without TLS.
pub(super) struct LocalLookup;

impl Resolve for LocalLookup {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = local_addresses(name.as_str(), 0).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_tls_only_the_local_network_is_reached() {
        for (host, is_reached) in
            [("localhost", true), ("192.168.1.20", true), ("203.0.113.7", false)]
        {
            let found = local_addresses(host, 80).await;
            assert_eq!(found.is_ok(), is_reached, "{host}: {found:?}");
        }
    }
}
