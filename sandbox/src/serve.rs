//! Serves on a loopback socket: checks the address, limits connections, saves the state file.
//!
//! Does not know what is served. Invariant: it listens on loopback addresses only.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::{Listener, ListenerExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::handle::Sandbox;

/// How long requests in progress may take after a stop.
const STOP_WAIT: Duration = Duration::from_secs(2);
/// How often a changed state is written to its file.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// The most open connections; others wait to be accepted.
const MAX_CONNECTIONS: usize = 512;

/// Serves the sandbox until `stop`, then lets answers under way finish for two seconds.
///
/// # Errors
/// When the listener is bound to anything but a loopback address, or the socket fails, or the
/// state file cannot be written at the end.
pub async fn serve(
    listener: TcpListener,
    sandbox: Sandbox,
    stop: CancellationToken,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "refusing to serve the sandbox on {address}, because it has no protection; \
                 listen on 127.0.0.1 or [::1]"
            ),
        ));
    }
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let listener = Capped { listener, places }.tap_io(|connection| {
        // This only affects latency, so a failure is ignored.
        connection.stream.set_nodelay(true).ok();
    });
    let served = axum::serve(listener, sandbox.router())
        .with_graceful_shutdown(stop.clone().cancelled_owned());
    let overdue = async {
        stop.cancelled().await;
        tokio::time::sleep(STOP_WAIT).await;
    };
    let ended = tokio::select! {
        ended = served.into_future() => ended,
        () = overdue => Ok(()),
        never = keep_saving(&sandbox) => match never {},
    };
    save(&sandbox).await.and(ended)
}

async fn keep_saving(sandbox: &Sandbox) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(SAVE_EVERY).await;
        if let Err(error) = save(sandbox).await {
            tracing::warn!(%error, "cannot save the sandbox's state; retrying in a second");
        }
    }
}

async fn save(sandbox: &Sandbox) -> io::Result<()> {
    if !sandbox.must_be_saved() {
        return Ok(());
    }
    let sandbox = sandbox.clone();
    let saved = tokio::task::spawn_blocking(move || sandbox.save()).await;
    saved.map_err(io::Error::other)?.map_err(io::Error::other)
}

/// A listener with a limited number of open connections.
struct Capped {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

/// A connection and its permit, released together.
struct Connection {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
}

impl Listener for Capped {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.expect("the places are never closed");
        let (stream, address) = Listener::accept(&mut self.listener).await;
        (
            Connection {
                stream,
                _place: place,
            },
            address,
        )
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

type Context<'a, 'b> = &'a mut std::task::Context<'b>;
type Poll<T> = std::task::Poll<io::Result<T>>;

impl AsyncRead for Connection {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        context: Context<'_, '_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<()> {
        std::pin::Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        context: Context<'_, '_>,
        bytes: &[u8],
    ) -> Poll<usize> {
        std::pin::Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: std::pin::Pin<&mut Self>,
        context: Context<'_, '_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<usize> {
        std::pin::Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: std::pin::Pin<&mut Self>, context: Context<'_, '_>) -> Poll<()> {
        std::pin::Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: std::pin::Pin<&mut Self>, context: Context<'_, '_>) -> Poll<()> {
        std::pin::Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn a_connection_waits_until_another_gives_up_its_place() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut capped = Capped {
            listener,
            places: Arc::new(Semaphore::new(1)),
        };
        let address = Listener::local_addr(&capped).unwrap();
        let first = TcpStream::connect(address).await.unwrap();
        let second = TcpStream::connect(address).await.unwrap();
        let (held, from) = Listener::accept(&mut capped).await;
        assert_eq!(from, first.local_addr().unwrap());
        let mut next = Box::pin(Listener::accept(&mut capped));
        let waits = poll_fn(|context| Poll::Ready(next.as_mut().poll(context).is_pending())).await;
        assert!(waits, "the only place is taken");
        drop(held);
        let (_held, from) = next.await;
        assert_eq!(from, second.local_addr().unwrap());
    }
}
