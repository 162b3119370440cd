//! Looks names up, and refuses what must not be reached without TLS.

use std::io;
use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::problem::NotLocal;

/// True if an IP address belongs to this machine or to a local network.
#[must_use]
pub fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

/// The addresses of a host, in the system's order. Without TLS, all must be of this machine or of
/// the local network.
///
/// # Errors
/// If the name cannot be looked up, or one of its addresses is elsewhere.
pub async fn addresses(host: &str, port: u16, is_plain: bool) -> io::Result<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    for address in tokio::net::lookup_host((host, port)).await? {
        if is_plain && !is_private(address.ip()) {
            return Err(io::Error::other(NotLocal));
        }
        addresses.push(address);
    }
    Ok(addresses)
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
