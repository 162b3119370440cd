//! Connections: their number, and how long each may take.
//!
//! One connection serves one request. Sending the headers and the connection as a whole have a time
//! limit, so that no client holds memory for longer than that.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::net::connections;
use crate::net::server_certificate::ServerCertificate;

/// Connections at the same time, one for each open live page. More of them wait in the listener's
/// queue.
const CONNECTIONS_MAX: usize = 256;
/// How long a client may take to send its headers.
const HEADERS_LIMIT: Duration = Duration::from_secs(5);
/// How long a connection may last; the browser of a live page then opens a new one.
const CONNECTION_LIMIT: Duration = Duration::from_secs(15 * 60);
/// The most bytes of a request's headers.
const HEADERS_MAX: usize = 16 * 1024;

/// The first byte of a client that speaks TLS.
const TLS_HANDSHAKE: u8 = 0x16;
const WITHOUT_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain\r\nConnection: close\r\n\r\n\
    This page is served over TLS: write https:// in front of its address.\n";

/// From where a request comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientAddress(pub(super) IpAddr);

/// Serves until `stop`, then closes every connection.
pub(super) async fn serve(listener: TcpListener, router: Router, stop: &CancellationToken) {
    connections::serve(listener, CONNECTIONS_MAX, stop, |stream| {
        let router = from_address(&router, &stream);
        converse(stream, router)
    })
    .await;
}

/// As [`serve`], over TLS with the newest certificate.
pub(super) async fn serve_tls(
    listener: TcpListener,
    router: Router,
    certificate: &ServerCertificate,
    stop: &CancellationToken,
) {
    connections::serve(listener, CONNECTIONS_MAX, stop, |stream| {
        let router = from_address(&router, &stream);
        converse_tls(stream, certificate.acceptor(), router)
    })
    .await;
}

/// The router for the requests of one connection.
fn from_address(router: &Router, stream: &TcpStream) -> Router {
    let address = match stream.peer_addr() {
        Ok(address) => address.ip(),
        // The client has left already.
        Err(_) => Ipv4Addr::UNSPECIFIED.into(),
    };
    router.clone().layer(Extension(ClientAddress(address)))
}

/// Agrees on TLS first. A browser that was sent to the address without it is told so.
async fn converse_tls(mut stream: TcpStream, acceptor: TlsAcceptor, router: Router) {
    let mut first = [0];
    let agreeing = async {
        stream.peek(&mut first).await?;
        if first[0] != TLS_HANDSHAKE {
            // A connection that is closed with unread bytes is reset, and the advice lost.
            let mut request = vec![0; HEADERS_MAX];
            if stream.read(&mut request).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            stream.write_all(WITHOUT_TLS).await?;
            stream.shutdown().await?;
            return Err(io::ErrorKind::InvalidData.into());
        }
        acceptor.accept(stream).await
    };
    // An error means that the client left, or does not take the certificate.
    if let Ok(Ok(stream)) = timeout(HEADERS_LIMIT, agreeing).await {
        converse(stream, router).await;
    }
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
    use tokio::io::DuplexStream;
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
