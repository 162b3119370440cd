//! Where an endpoint is: reads its address, looks its name up, and refuses what must not be reached
//! without TLS.

use std::io;
use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use secrecy::ExposeSecret;

use super::SinkError;
use crate::config::{SinkUrl, is_private};
use crate::net::problem::NotLocal;

/// The addresses of a host, in the system's order. Without TLS, all must be of this machine or of
/// the local network.
pub(super) async fn addresses(
    host: &str,
    port: u16,
    is_plain: bool,
) -> io::Result<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    for address in tokio::net::lookup_host((host, port)).await? {
        if is_plain && !is_private(address.ip()) {
            return Err(io::Error::other(NotLocal));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

/// The address of a sink at this moment, as `parse` reads it.
///
/// # Errors
/// What is wrong with it or with its file, and what to do.
pub(super) fn current<T>(
    url: &SinkUrl,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, SinkError> {
    let url = url.read()?;
    parse(url.expose_secret()).map_err(|problem| SinkError::new(format!("the url {problem}")))
}

/// The system's lookup, for what is reached without TLS.
pub(super) struct LocalLookup;

impl Resolve for LocalLookup {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = addresses(name.as_str(), 0, true).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_tls_only_the_local_network_is_reached() {
        for (host, is_reached) in [
            ("localhost", true),
            ("192.168.1.20", true),
            ("203.0.113.7", false),
        ] {
            let found = addresses(host, 80, true).await;
            assert_eq!(found.is_ok(), is_reached, "{host}: {found:?}");
        }
    }
}
