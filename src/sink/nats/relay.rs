//! Stands between the server and the client library, which bounds neither a line nor a message.
//!
//! The library connects by itself and only to an address. So it connects to a port of this machine, on
//! which one connection from one known port is taken. The relay speaks TLS with the server and bounds
//! what the server sends.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

use crate::tls;

/// The most bytes of one line; the information about a large cluster has some KiB.
const LONGEST_LINE: usize = 64 * 1024;
/// The most bytes that the server may send between two requests, and so of one message.
const MOST: usize = 4 * 1024 * 1024;
/// How long the library may take to connect to a port of this machine.
const ACCEPT_TIME: Duration = Duration::from_secs(10);

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection to a server, which is handed to one connection of this machine.
pub(super) struct Relay {
    /// Where the library connects to.
    pub(super) to: SocketAddr,
    /// Where it connects from.
    pub(super) from: SocketAddr,
}

impl Relay {
    /// Connects to the server, with TLS if there is a configuration or the server asks for it.
    pub(super) async fn open(
        addresses: &[SocketAddr],
        host: &str,
        config: Option<ClientConfig>,
    ) -> io::Result<Self> {
        let stream = TcpStream::connect(addresses).await?;
        stream.set_nodelay(true)?;
        let mut server: BufReader<Box<dyn Stream>> = BufReader::new(Box::new(stream));
        let line = line(&mut server).await?;
        let info = line.strip_prefix("INFO ").ok_or_else(|| other("it is no NATS server"))?;
        let mut info: Value = serde_json::from_str(info).map_err(io::Error::other)?;
        if config.is_some() || info["tls_required"] == true {
            let config = match config {
                Some(config) => config,
                None => tls::client_config(None).await.map_err(io::Error::other)?,
            };
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            let connector = TlsConnector::from(Arc::new(config));
            server = BufReader::new(Box::new(connector.connect(name, server.into_inner()).await?));
        }
        if let Some(info) = info.as_object_mut() {
            // TLS ends here, and no other server is asked.
            for key in ["tls_required", "tls_verify", "tls_available", "connect_urls"] {
                info.remove(key);
            }
        }
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let probe = TcpSocket::new_v4()?;
        probe.bind(here)?;
        let from = probe.local_addr()?;
        let listener = TcpListener::bind(here).await?;
        let to = listener.local_addr()?;
        drop(probe);
        tokio::spawn(async move {
            let accepting = tokio::time::timeout(ACCEPT_TIME, accept(&listener, from));
            let Ok(Ok(client)) = accepting.await else { return };
            drop(listener);
            // The client learns of an end by its connection, and its sink tries again.
            let _ = pass(server, client, &format!("INFO {info}\r\n")).await;
        });
        Ok(Self { to, from })
    }
}

fn other(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The connection from this address; those of others are closed.
async fn accept(listener: &TcpListener, from: SocketAddr) -> io::Result<TcpStream> {
    loop {
        let (client, address) = listener.accept().await?;
        if address == from {
            client.set_nodelay(true)?;
            return Ok(client);
        }
    }
}

/// The next line without its end.
async fn line(server: &mut (impl AsyncBufRead + Unpin)) -> io::Result<String> {
    let mut line = Vec::new();
    (&mut *server).take(LONGEST_LINE as u64).read_until(b'\n', &mut line).await?;
    if !line.ends_with(b"\n") {
        return Err(other("the server sends a line without end, or it closed the connection"));
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// Passes on what both sides send until one of them closes or the server sends too much.
async fn pass(
    server: BufReader<Box<dyn Stream>>,
    client: TcpStream,
    greeting: &str,
) -> io::Result<()> {
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let (mut from_client, mut to_client) = client.into_split();
    to_client.write_all(greeting.as_bytes()).await?;
    let asked = AtomicBool::new(false);
    let down = async {
        let mut operations = Operations::default();
        let mut bytes = vec![0; 16 * 1024];
        loop {
            let length = from_server.read(&mut bytes).await?;
            if length == 0 {
                return io::Result::Ok(());
            }
            if asked.swap(false, Ordering::Relaxed) {
                operations.unasked = 0;
            }
            operations.read(&bytes[..length])?;
            to_client.write_all(&bytes[..length]).await?;
        }
    };
    let up = async {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            let length = from_client.read(&mut bytes).await?;
            if length == 0 {
                return io::Result::Ok(());
            }
            to_server.write_all(&bytes[..length]).await?;
            to_server.flush().await?;
            asked.store(true, Ordering::Relaxed);
        }
    };
    tokio::select! {
        ended = down => ended,
        ended = up => ended,
    }
}

/// Where in what the server sends the stream stands.
#[derive(Default)]
struct Operations {
    /// The line that has not ended.
    line: Vec<u8>,
    /// How many bytes of a message are still to come.
    left: usize,
    /// How many bytes came since the last request.
    unasked: usize,
}

impl Operations {
    /// Goes on by what was read; an error if it is too much.
    fn read(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.unasked += bytes.len();
        while !bytes.is_empty() {
            let passed = self.left.min(bytes.len());
            self.left -= passed;
            bytes = &bytes[passed..];
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (part, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            self.line.extend_from_slice(part);
            bytes = rest;
            if self.line.len() > LONGEST_LINE {
                return Err(other("the server sends a line without end"));
            }
            if end.is_some() {
                self.left = content_of(&self.line);
                self.line.clear();
            }
        }
        if self.left > MOST || self.unasked > MOST {
            return Err(other("the server sends more than any answer needs"));
        }
        Ok(())
    }
}

/// How many bytes follow this line.
fn content_of(line: &[u8]) -> usize {
    let is = |name: &[u8]| line.get(..name.len()).is_some_and(|s| s.eq_ignore_ascii_case(name));
    if !is(b"MSG ") && !is(b"HMSG ") {
        return 0;
    }
    let line = String::from_utf8_lossy(line);
    let length = line.split_whitespace().next_back().and_then(|word| word.parse::<usize>().ok());
    length.map_or(usize::MAX, |length| length.saturating_add(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_or_a_message_that_is_too_long_ends_the_connection() {
        let most = MOST - 2;
        for step in [1, 2, 3, 7, 100] {
            for (text, good) in [
                ("PING\r\nMSG a 1 2\r\n\r\n\r\nPONG\r\n".to_owned(), true),
                ("HMSG a 1 b 4 4000000000\r\n".to_owned(), false),
                (format!("MSG a 1 {most}\r\n"), true),
                (format!("MSG a 1 {}\r\n", most + 1), false),
                ("MSG a 1 99999999999999999999999\r\n".to_owned(), false),
                ("x".repeat(LONGEST_LINE), true),
                ("x".repeat(LONGEST_LINE + 1), false),
            ] {
                let mut operations = Operations::default();
                let outcome = text.as_bytes().chunks(step).try_for_each(|p| operations.read(p));
                assert_eq!(outcome.is_ok(), good, "{step}: {}", &text[..20]);
            }
        }
    }

    #[test]
    fn what_comes_between_two_requests_is_bounded() {
        let mut operations = Operations::default();
        let pings = "PING\r\n".repeat(10_000);
        for _ in 0..MOST / pings.len() {
            operations.read(pings.as_bytes()).unwrap();
        }
        assert!(operations.read(pings.as_bytes()).is_err());
    }
}
