//! Sends a request to the workspace and returns the response.
//!
//! The client uses this trait so that the whole daemon also runs in memory, on virtual time. A
//! transport limits what it reads, never follows a redirect and never retries.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::HeaderMap;
use url::Url;

use crate::net::problem::ConnectionProblem;

/// The longest body of a 2xx response that is read, in bytes after decompression.
pub const MAX_BODY: usize = 8 * 1024 * 1024;

/// How much of the body of any other response is read, in bytes after decompression.
pub const MAX_ERROR_BODY: usize = 64 * 1024;

/// One request; the method is always GET.
pub struct ApiRequest {
    /// The whole address with its query.
    pub url: Url,
    /// Every header; the one with the key is marked sensitive.
    pub headers: HeaderMap,
    /// The longest time until the end of the response's body.
    pub timeout: Duration,
}

/// One response; its body is decompressed and limited in size.
pub struct ApiResponse {
    /// The HTTP status.
    pub status: u16,
    /// The headers as received.
    pub headers: HeaderMap,
    /// At most [`MAX_BODY`] bytes; at most [`MAX_ERROR_BODY`] bytes if the status is not 2xx.
    pub body: Bytes,
}

impl fmt::Debug for ApiResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Bodies hold personal data: only the length is shown.
        f.debug_struct("ApiResponse")
            .field("status", &self.status)
            .field("body_len", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// Why there is no response; no text holds an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum TransportError {
    /// No connection: name, route, port or certificate.
    #[error("could not connect to the workspace: {0}")]
    #[strum(serialize = "no_connection")]
    Connect(String),
    /// A proxy answered in place of the workspace.
    #[error("the proxy {name} answers in place of the workspace: {problem}")]
    Proxy {
        /// Host and port of the proxy.
        name: String,
        /// What is wrong, and what to do.
        problem: ConnectionProblem,
    },
    /// The response was not complete in time.
    #[error("the workspace did not respond in time; if this continues, raise timeout in [poll]")]
    Timeout,
    /// The body ended early or could not be decompressed.
    #[error("the response was cut off: {0}; nothing of it was kept")]
    Cut(String),
    /// A 2xx response in an encoding that was not requested.
    #[error(
        "the response is encoded as {0}, and only gzip was requested; have the server, or the proxy \
         on the way, send gzip or no encoding"
    )]
    Encoding(String),
    /// A 2xx response with more than [`MAX_BODY`] bytes.
    #[error(
        "the response is larger than 8 MiB and was refused; if the records are that large (pictures, \
         signatures), lower limit in [poll], else check that base_url is the workspace's API address"
    )]
    TooLarge,
    /// Any other failure before or during the response.
    #[error("the request failed: {0}")]
    #[strum(serialize = "network")]
    Other(String),
}

impl TransportError {
    /// The kind of failure as one short word, for counts and listings.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.into()
    }
}

/// Sends requests; one call is exactly one request on the wire.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends one request and reads its response; dropping the future cancels the request.
    async fn send(&self, request: ApiRequest) -> Result<ApiResponse, TransportError>;
}
