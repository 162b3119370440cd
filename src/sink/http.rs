//! One request over HTTP and its response, for the sinks that speak HTTP.
//!
//! A request goes where it is addressed and nowhere else, see [`client_builder`]. A reason repeats
//! the beginning of the response's body, never an address. Each request may be sent twice: the
//! receiver knows a repeat by its event id, its key or its name.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use reqwest::{Client, Method, RequestBuilder};
use url::Url;

use super::lookup::LocalLookup;
use super::{FaultScope, Reason, SinkError, Verdict, reason};
use crate::config::Proxy;
use crate::net::body;
use crate::net::problem::ConnectionProblem;
use crate::net::retry_after;
use crate::net::tls::{client_builder, http_client, through_proxy};

/// How much of a body is read, and for how long.
const BODY_BYTES: usize = 64 * 1024;
const BODY_TIME: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Shorter than the five seconds after which common servers close an idle connection, so that a
/// request seldom meets one that is just being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// A client of one server, which keeps connections; clones share them.
#[derive(Clone)]
pub(super) struct HttpClient {
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
    pub(super) fn build(
        is_plain: bool,
        ca_file: Option<&Path>,
        proxy: Option<&Proxy>,
        connections: usize,
    ) -> Result<Self, SinkError> {
        let mut builder = client_builder()
            .user_agent(concat!("shopmirror/", env!("CARGO_PKG_VERSION")))
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(connections)
            .connect_timeout(CONNECT_TIMEOUT);
        if is_plain {
            builder = builder.dns_resolver(Arc::new(LocalLookup));
        }
        if let Some(proxy) = proxy {
            builder = through_proxy(builder, proxy.url())?;
        }
        Ok(Self {
            client: http_client(builder, is_plain, ca_file)?,
            proxy: proxy.map(|proxy| proxy.name().to_owned()),
            connections,
            responses: Arc::default(),
            closed_at: Arc::default(),
        })
    }

    /// A request to be [sent](Self::send).
    pub(super) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.client.request(method, url)
    }

    /// Sends a request. One that meets kept connections that the server has closed is sent again at
    /// once, until it has a new one.
    ///
    /// # Errors
    /// Why there is no response.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Answer, SinkError> {
        let mut repeats = self.kept_connections();
        let mut was_repeated = false;
        loop {
            let repeat = request.try_clone().expect("its body is a text");
            let error = match repeat.send().await {
                Ok(response) => {
                    self.responses.fetch_add(1, Ordering::Relaxed);
                    return Ok(Answer::read(response, was_repeated).await);
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
    fn failure(&self, error: &reqwest::Error) -> SinkError {
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
        SinkError::new(match &self.proxy {
            Some(name) => format!("through the proxy {name}: {text}"),
            None => text,
        })
    }
}

/// The response to a request.
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) headers: HeaderMap,
    /// The beginning of the body.
    pub(super) body: Vec<u8>,
    is_whole: bool,
    /// Whether the server may have got the request before, on a connection that it closed.
    pub(super) was_repeated: bool,
}

impl Answer {
    async fn read(mut response: reqwest::Response, was_repeated: bool) -> Self {
        let mut body = Vec::new();
        let reading = body::read(&mut response, BODY_BYTES, &mut body);
        let is_whole = matches!(tokio::time::timeout(BODY_TIME, reading).await, Ok(Ok(true)));
        Self {
            code: response.status().as_u16(),
            headers: response.headers().clone(),
            body,
            is_whole,
            was_repeated,
        }
    }

    /// What the status means, and the beginning of the body.
    pub(super) fn reason(&self, meaning: &str) -> Reason {
        Reason {
            text: format!("answered {}: {meaning}", self.code),
            quotation: reason::response(&self.body, self.is_whole),
        }
    }

    /// The server is at fault, and may have asked for a wait.
    pub(super) fn fault(&self, meaning: &str, now: Timestamp) -> Verdict {
        let retry_after = match self.header(RETRY_AFTER) {
            Some(text) => retry_after::parse(text, self.header(DATE), now),
            None => None,
        };
        Verdict::Fault {
            reason: self.reason(meaning),
            retry_after,
            scope: match self.code {
                423 | 429 => FaultScope::Limit,
                403 | 406 | 451 => FaultScope::Forbidden,
                _ => FaultScope::Endpoint,
            },
        }
    }

    /// A header as text; `None` if it is absent or not text.
    pub(super) fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}
