//! One request over HTTP and its response, for the sinks that speak HTTP.
//!
//! A request goes where it is addressed and nowhere else, see [`client_builder`]. A reason repeats
//! the beginning of the response's body, never an address.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use reqwest::{Client, RequestBuilder};

use super::lookup::LocalLookup;
use super::{SinkError, Verdict, reason};
use crate::net::body;
use crate::net::problem::ConnectionProblem;
use crate::net::retry_after;
use crate::net::tls::{client_builder, http_client};

/// How much of a body is read, and for how long.
const BODY_BYTES: usize = 64 * 1024;
const BODY_TIME: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Shorter than the five seconds after which common servers close an idle connection, so that a
/// request seldom meets one that is just being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// A client; without TLS it reaches the local network alone.
pub(super) fn client(is_plain: bool, ca_file: Option<&Path>) -> Result<Client, SinkError> {
    let mut builder = client_builder()
        .user_agent(concat!("shopmirror/", env!("CARGO_PKG_VERSION")))
        .gzip(false)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT);
    if is_plain {
        builder = builder.dns_resolver(Arc::new(LocalLookup));
    }
    Ok(http_client(builder, is_plain, ca_file)?)
}

/// The response to a request.
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) headers: HeaderMap,
    /// The beginning of the body.
    pub(super) body: Vec<u8>,
    is_whole: bool,
}

impl Answer {
    /// Sends a request.
    ///
    /// # Errors
    /// Why there is no response.
    pub(super) async fn to(request: RequestBuilder) -> Result<Self, SinkError> {
        let mut response = request.send().await.map_err(|error| failure(&error))?;
        let mut body = Vec::new();
        let reading = body::read(&mut response, BODY_BYTES, &mut body);
        let is_whole = matches!(tokio::time::timeout(BODY_TIME, reading).await, Ok(Ok(true)));
        let code = response.status().as_u16();
        Ok(Self {
            code,
            headers: response.headers().clone(),
            body,
            is_whole,
        })
    }

    /// What the status means, with the beginning of the body.
    pub(super) fn reason(&self, meaning: &str) -> String {
        format!(
            "answered {}: {meaning}{}",
            self.code,
            reason::response(&self.body, self.is_whole)
        )
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
            is_limit: matches!(self.code, 423 | 429),
        }
    }

    /// A header as text; `None` if it is absent or not text.
    pub(super) fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

fn failure(error: &reqwest::Error) -> SinkError {
    SinkError::new(match ConnectionProblem::for_request(error) {
        Some(problem) if error.is_connect() => format!("could not connect: {problem}"),
        None if error.is_connect() => {
            "could not connect; check the address, the network and the firewalls between".to_owned()
        }
        Some(problem) => format!("the request failed: {problem}"),
        None => "the connection was closed, or the answer is not HTTP; check the port, and https \
                 or http"
            .to_owned(),
    })
}
