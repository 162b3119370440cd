//! Connections: their number, and how long each may take.
//!
//! One connection serves one request. Sending the headers, the request as a whole and a live
//! stream each have a time limit, so that no client holds memory for longer than that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::large::ALL_KIB;
use crate::connections;

/// Live streams at the same time.
pub(super) const STREAMS_MAX: usize = 64;
/// Connections at the same time: the live streams and some short requests. More of them wait in
/// the listener's queue.
const CONNECTIONS_MAX: usize = STREAMS_MAX + 32;
/// How long a client may take to send its headers.
const HEADERS_LIMIT: Duration = Duration::from_secs(5);
/// How long a request may take in all, including the time to read the response.
pub(super) const REQUEST_LIMIT: Duration = Duration::from_secs(15);
/// How long a live stream may go on; a browser then opens a new one by itself.
const STREAM_LIMIT: Duration = Duration::from_secs(15 * 60);
/// The most bytes of a request's headers.
const HEADERS_MAX: usize = 16 * 1024;

/// One connection, as the answer to its one request knows it.
#[derive(Clone)]
pub(super) struct Connection {
    /// Whether the answer goes on as a live stream.
    pub(super) is_stream: Arc<AtomicBool>,
    /// The room of all large answers, in KiB.
    pub(super) large: Arc<Semaphore>,
    /// What the answer takes of it.
    pub(super) taken: Arc<OnceLock<OwnedSemaphorePermit>>,
}

/// Serves until `stop`, then closes every connection.
pub(super) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let large = Arc::new(Semaphore::new(ALL_KIB as usize));
    connections::serve(listener, CONNECTIONS_MAX, &stop, |stream| {
        converse(stream, router.clone(), Arc::clone(&large))
    })
    .await;
}

async fn converse<S>(stream: S, router: Router, large: Arc<Semaphore>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shared = Connection { is_stream: Arc::default(), large, taken: Arc::default() };
    let service = TowerToHyperService::new(router.layer(Extension(shared.clone())));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_LIMIT)
        .max_buf_size(HEADERS_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    if timeout(REQUEST_LIMIT, connection.as_mut()).await.is_err()
        && shared.is_stream.load(Ordering::Relaxed)
    {
        // An error means that the client left or that the limit is over: either way it is closed.
        let _ = timeout(STREAM_LIMIT, connection).await;
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use axum::routing::get;
    use futures_util::stream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::time::{Instant, sleep};

    use super::*;

    fn large() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(ALL_KIB as usize))
    }

    /// How long a client that sends `text` and then only reads stays connected, in seconds.
    async fn connected(text: &str, router: Router) -> u64 {
        let (mut client, server): (DuplexStream, DuplexStream) = tokio::io::duplex(64 * 1024);
        let begun = Instant::now();
        let reading = async {
            client.write_all(text.as_bytes()).await.unwrap();
            let mut response = Vec::new();
            client.read_to_end(&mut response).await.unwrap();
            begun.elapsed().as_secs()
        };
        tokio::join!(reading, converse(server, router, large())).0
    }

    fn router() -> Router {
        let live = |Extension(connection): Extension<Connection>| async move {
            connection.is_stream.store(true, Ordering::Relaxed);
            let ticks = stream::unfold((), async |()| {
                sleep(Duration::from_secs(1)).await;
                Some((Ok::<_, Infallible>("tick"), ()))
            });
            Body::from_stream(ticks)
        };
        Router::new()
            .route("/", get(|| async { "done" }))
            .route("/stuck", get(std::future::pending::<()>))
            .route("/live", get(live))
    }

    #[tokio::test(start_paused = true)]
    async fn every_connection_ends_within_its_time_limit() {
        let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        for (text, limit) in [
            (request("/"), Duration::ZERO),
            (String::new(), HEADERS_LIMIT),
            ("GET / HTTP/1.1\r\nHost: loc".to_owned(), HEADERS_LIMIT),
            (request("/stuck"), REQUEST_LIMIT),
            (request("/live"), REQUEST_LIMIT + STREAM_LIMIT),
        ] {
            assert_eq!(connected(&text, router()).await, limit.as_secs(), "{text:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_cut_off() {
        let big = Router::new().route("/", get(|| async { vec![b'x'; 1024 * 1024] }));
        let (mut client, server) = tokio::io::duplex(1024);
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let begun = Instant::now();
        converse(server, big, large()).await;
        assert_eq!(begun.elapsed(), REQUEST_LIMIT);
    }
}
