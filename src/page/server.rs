//! Connections: their number, and how long each may take.
//!
//! One connection serves one request. Sending the headers and the connection as a whole have a time
//! limit, so that no client holds memory for longer than that.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::net::connections;

/// Connections at the same time, one for each open live page. More of them wait in the listener's
/// queue.
const CONNECTIONS_MAX: usize = 256;
/// How long a client may take to send its headers.
const HEADERS_LIMIT: Duration = Duration::from_secs(5);
/// How long a connection may last; the browser of a live page then opens a new one.
const CONNECTION_LIMIT: Duration = Duration::from_secs(15 * 60);
/// The most bytes of a request's headers.
const HEADERS_MAX: usize = 16 * 1024;

/// Serves until `stop`, then closes every connection.
pub(super) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    connections::serve(listener, CONNECTIONS_MAX, &stop, |stream| {
        converse(stream, router.clone())
    })
    .await;
}

async fn converse<S>(stream: S, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_LIMIT)
        .max_buf_size(HEADERS_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // An error means that the client left or that the limit is over: either way it is closed.
    let _ = timeout(CONNECTION_LIMIT, connection).await;
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::time::Instant;

    use super::*;

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
        tokio::join!(reading, converse(server, router)).0
    }

    fn router() -> Router {
        Router::new()
            .route("/", get(|| async { "done" }))
            .route("/stuck", get(std::future::pending::<()>))
    }

    #[tokio::test(start_paused = true)]
    async fn every_connection_ends_within_its_time_limit() {
        let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        for (text, limit) in [
            (request("/"), Duration::ZERO),
            (String::new(), HEADERS_LIMIT),
            ("GET / HTTP/1.1\r\nHost: loc".to_owned(), HEADERS_LIMIT),
            (request("/stuck"), CONNECTION_LIMIT),
        ] {
            assert_eq!(
                connected(&text, router()).await,
                limit.as_secs(),
                "{text:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_cut_off() {
        let big = Router::new().route("/", get(|| async { vec![b'x'; 1024 * 1024] }));
        let (mut client, server) = tokio::io::duplex(1024);
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .await
            .unwrap();
        let begun = Instant::now();
        converse(server, big).await;
        assert_eq!(begun.elapsed(), CONNECTION_LIMIT);
    }
}
