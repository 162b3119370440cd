//! One request over HTTP and its response, for the sinks that speak HTTP and for storage.
//!
//! A request goes where it is addressed and nowhere else, see [`client_builder`]. No error repeats
//! an address. Each request may be sent twice: the receiver knows a repeat by its event id, its key
//! or its name.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName};
use reqwest::{Client, Method, RequestBuilder};
use url::Url;

use super::body;
use super::lookup::LocalLookup;
use super::problem::ConnectionProblem;
use super::tls::{TlsError, client_builder, http_client, through_proxy};

/// How much of a body is read, unless the caller wants more of it, and for how long.
const BODY: BodyLimit = BodyLimit {
    bytes: 64 * 1024,
    time: Duration::from_secs(2),
};
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Shorter than the five seconds after which common servers close an idle connection, so that a
/// request seldom meets one that is just being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Why there is no response, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoResponse(String);

impl NoResponse {
    /// For a response that ended before its announced end.
    #[must_use]
    pub fn cut() -> Self {
        Self("the connection was closed before the whole response had come".to_owned())
    }
}

/// The proxy through which a server is reached.
#[derive(Clone, Copy)]
pub struct ProxyAddress<'a> {
    /// Its address, with its password.
    pub url: &'a str,
    /// Its host and port, for messages.
    pub name: &'a str,
}

/// How much of a body is read, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimit {
    /// The most bytes.
    pub bytes: usize,
    /// The longest time.
    pub time: Duration,
}

/// A client of one server, which keeps connections; clones share them.
#[derive(Clone)]
pub struct HttpClient {
    client: Client,
    /// The most connections that are kept.
    connections: usize,
    /// Responses so far: before the first one there is no connection that the server can have closed.
    responses: Arc<AtomicU64>,
    /// How many responses there were when a new connection was found closed as well.
    closed_at: Arc<AtomicU64>,
    /// Host and port of the proxy, if there is one.
    proxy: Option<String>,
}

impl HttpClient {
    /// A client that keeps so many connections; without TLS it reaches the local network alone.
    ///
    /// # Errors
    /// [`TlsError`]
    pub fn build(
        is_plain: bool,
        ca_file: Option<&Path>,
        proxy: Option<ProxyAddress<'_>>,
        connections: usize,
    ) -> Result<Self, TlsError> {
        let mut builder = client_builder()
            .user_agent(concat!("shopmirror/", env!("CARGO_PKG_VERSION")))
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(connections)
            .connect_timeout(CONNECT_TIMEOUT);
        if is_plain {
            builder = builder.dns_resolver(Arc::new(LocalLookup));
        }
        if let Some(proxy) = proxy {
            builder = through_proxy(builder, proxy.url)?;
        }
        Ok(Self {
            client: http_client(builder, is_plain, ca_file)?,
            proxy: proxy.map(|proxy| proxy.name.to_owned()),
            connections,
            responses: Arc::default(),
            closed_at: Arc::default(),
        })
    }

    /// A request to be [sent](Self::send).
    pub fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.client.request(method, url)
    }

    /// Sends a request. One that meets kept connections that the server has closed is sent again at
    /// once, until it has a new one.
    ///
    /// # Errors
    /// [`NoResponse`]
    pub async fn send(&self, request: RequestBuilder) -> Result<Answer, NoResponse> {
        self.send_for(request, BODY).await
    }

    /// As [`send`](Self::send), for a response of which more is read, or less.
    ///
    /// # Errors
    /// [`NoResponse`]
    pub async fn send_for(
        &self,
        request: RequestBuilder,
        limit: BodyLimit,
    ) -> Result<Answer, NoResponse> {
        let mut repeats = self.kept_connections();
        let mut was_repeated = false;
        loop {
            let repeat = request.try_clone().expect("its body is no stream");
            let error = match repeat.send().await {
                Ok(response) => {
                    self.responses.fetch_add(1, Ordering::Relaxed);
                    return Ok(Answer::read(response, limit, was_repeated).await);
                }
                Err(error) => error,
            };
            if !is_closed(&error) {
                return Err(self.failure(&error));
            }
            if repeats == 0 {
                let responses = self.responses.load(Ordering::Relaxed);
                self.closed_at.store(responses, Ordering::Relaxed);
                return Err(self.failure(&error));
            }
            repeats -= 1;
            was_repeated = true;
        }
    }

    /// How many connections may be kept that the server has closed meanwhile.
    fn kept_connections(&self) -> usize {
        let responses = self.responses.load(Ordering::Relaxed);
        if responses > self.closed_at.load(Ordering::Relaxed) {
            self.connections
        } else {
            0
        }
    }
}

/// Whether the server closed the connection before it answered.
fn is_closed(error: &reqwest::Error) -> bool {
    if error.is_connect() || error.is_timeout() {
        return false;
    }
    let mut next = error.source();
    while let Some(cause) = next {
        if let Some(error) = cause.downcast_ref::<hyper::Error>()
            && (error.is_incomplete_message() || error.is_canceled() || error.is_closed())
        {
            return true;
        }
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            return matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof
            );
        }
        next = cause.source();
    }
    false
}

impl HttpClient {
    /// Why there is no response.
    fn failure(&self, error: &reqwest::Error) -> NoResponse {
        let text = match ConnectionProblem::for_request(error) {
            Some(problem) if error.is_connect() => format!("could not connect: {problem}"),
            None if error.is_connect() => {
                "could not connect; check the address, the network and the firewalls between"
                    .to_owned()
            }
            Some(problem) => format!("the request failed: {problem}"),
            None => "the connection was closed, or the answer is not HTTP; check the port, and \
                     https or http"
                .to_owned(),
        };
        NoResponse(match &self.proxy {
            Some(name) => format!("through the proxy {name}: {text}"),
            None => text,
        })
    }
}

/// The response to a request.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub code: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// The beginning of the body.
    pub body: Vec<u8>,
    /// Whether that is the whole body.
    pub is_whole: bool,
    /// Whether the server may have got the request before, on a connection that it closed.
    pub was_repeated: bool,
}

impl Answer {
    async fn read(mut response: reqwest::Response, limit: BodyLimit, was_repeated: bool) -> Self {
        let mut body = Vec::new();
        let reading = body::read(&mut response, limit.bytes, &mut body);
        let is_whole = matches!(
            tokio::time::timeout(limit.time, reading).await,
            Ok(Ok(true))
        );
        Self {
            code: response.status().as_u16(),
            headers: response.headers().clone(),
            body,
            is_whole,
            was_repeated,
        }
    }

    /// A header as text; `None` if it is absent or not text.
    #[must_use]
    pub fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}
