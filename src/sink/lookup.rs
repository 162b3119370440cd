//! Where an endpoint is: reads its address, and looks up its name on a bounded number of threads.
//!
//! The system's lookup blocks, for many seconds if no name server answers. Without a bound, a few
//! dozen sinks could take up all threads, and the store would have none. A library that cannot be
//! given addresses looks up again, but only a name that was found a moment before.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

use crate::config::{Secret, SinkUrl, is_private};
use crate::tls::NOT_LOCAL;

/// Lookups at the same time, of all sinks together.
const MAX: usize = 3;

static TURNS: Semaphore = Semaphore::const_new(MAX);

/// The system's lookup, in turn.
pub(super) struct BoundedLookup;

/// The addresses of a host, in the system's order; never empty. An IP address needs no look-up, and
/// waits for no turn.
pub(super) async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let turn = TURNS.acquire().await.map_err(io::Error::other)?;
    let place = (host.to_owned(), port);
    let lookup = move || {
        // Held until the thread is free, even if the caller was given up.
        let _turn = turn;
        place.to_socket_addrs().map(Iterator::collect::<Vec<SocketAddr>>)
    };
    let found = tokio::task::spawn_blocking(lookup).await.map_err(io::Error::other)??;
    if found.is_empty() { Err(io::Error::other("no address is known")) } else { Ok(found) }
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

/// The address of a sink at this attempt: its file is read on a thread of its own, so that a disk that
/// hangs holds up no other task.
///
/// # Errors
/// What is wrong with the file, and what to do.
pub(super) async fn current(url: &SinkUrl) -> Result<Secret, String> {
    let url = url.clone();
    let reading = tokio::task::spawn_blocking(move || url.read());
    reading.await.map_err(|error| format!("reading `url_file`: {error}"))?
}

/// Fails if the host is not known, after waiting in turn as [`addresses`] does.
#[cfg(feature = "nats")]
pub(super) async fn known(host: &str, port: u16) -> io::Result<()> {
    addresses(host, port).await.map(drop)
}

impl Resolve for BoundedLookup {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = addresses(name.as_str(), 0).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// As [`BoundedLookup`], for what is reached without TLS.
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
    use futures_util::future::FutureExt;

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

    #[tokio::test]
    async fn an_ip_address_waits_for_no_turn() {
        let _all = TURNS.acquire_many(u32::try_from(MAX).unwrap()).await.unwrap();
        for host in ["192.0.2.7", "2001:db8::7"] {
            // Polled once: with a turn to wait for, it would not be ready.
            let found = addresses(host, 80).now_or_never();
            let found = found.unwrap_or_else(|| panic!("{host} waits for a turn")).unwrap();
            assert_eq!(found, [SocketAddr::new(host.parse().unwrap(), 80)]);
        }
    }
}
