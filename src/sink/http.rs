//! One request over HTTP and its answer, for the sinks that speak HTTP.
//!
//! A request goes where it is addressed and nowhere else, see [`client_builder`]. What a reason
//! repeats of an answer is the beginning of its body, never an address.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use reqwest::{Client, RequestBuilder};

use super::lookup::LocalLookup;
use super::{Verdict, reason};
use crate::net::body;
use crate::net::retry_after;
use crate::net::tls::{client_builder, connection_problem, http_client};

/// How much of a body is read, and for how long.
const BODY_BYTES: usize = 64 * 1024;
const BODY_TIME: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Shorter than the five seconds after which common servers close an idle connection, so that a
/// request seldom meets one that is just being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// A client; without TLS it reaches the local network alone.
pub(super) fn client(is_plain: bool, ca_file: Option<&Path>) -> Result<Client, String> {
    let mut builder = client_builder()
        .user_agent(concat!("shopmirror/", env!("CARGO_PKG_VERSION")))
        .gzip(false)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT);
    if is_plain {
        builder = builder.dns_resolver(Arc::new(LocalLookup));
    }
    http_client(builder, is_plain, ca_file)
}

/// What came back.
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
    /// Why there is no answer.
    pub(super) async fn to(request: RequestBuilder) -> Result<Self, String> {
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

    /// What it means, with what the server said.
    pub(super) fn reason(&self, meaning: &str) -> String {
        format!(
            "answered {}: {meaning}{}",
            self.code,
            reason::said(&self.body, self.is_whole)
        )
    }

    /// The server is at fault, and may have asked for a wait.
    pub(super) fn fault(&self, meaning: &str, now: Timestamp) -> Verdict {
        let header = |name| self.headers.get(name).and_then(|value| value.to_str().ok());
        let retry_after =
            header(RETRY_AFTER).and_then(|text| retry_after::parse(text, header(DATE), now));
        Verdict::Fault {
            reason: self.reason(meaning),
            retry_after,
            is_limit: matches!(self.code, 423 | 429),
        }
    }
}

fn failure(error: &reqwest::Error) -> String {
    match connection_problem(error) {
        Some(text) if error.is_connect() => format!("could not connect: {text}"),
        _ if error.is_connect() => {
            "could not connect; check the address, the network and the firewalls between".to_owned()
        }
        Some(text) => format!("the request failed: {text}"),
        None => "the connection was closed, or the answer is not HTTP; check the port, and https or http".to_owned(),
    }
}
