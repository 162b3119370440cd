//! What carries a request to the workspace and its answer back.
//!
//! The client speaks through this trait so that the whole daemon also runs in memory, on virtual
//! time. A transport bounds what it reads, never follows a redirect and never tries again.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use reqwest::header::HeaderMap;
use url::Url;

/// The longest body of a success that is read, decoded, in bytes.
pub const MAX_BODY: usize = 8 * 1024 * 1024;

/// How much of the body of any other answer is read, decoded, in bytes.
pub const MAX_ERROR_BODY: usize = 64 * 1024;

/// One request as the transport sees it; the method is always GET.
pub struct Request {
    /// The whole address with its query.
    pub url: Url,
    /// Every header, the key among them, which is marked sensitive.
    pub headers: HeaderMap,
    /// The longest time the answer may take, to the end of its body.
    pub timeout: Duration,
}

/// One answer; its body is decoded and bounded.
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The headers as received.
    pub headers: HeaderMap,
    /// At most [`MAX_BODY`] bytes; for anything but 2xx the first [`MAX_ERROR_BODY`], or fewer.
    pub body: Vec<u8>,
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Bodies hold people's names and numbers: only the length is shown.
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("body_len", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// Why there is no answer; no text names an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// No connection: name, route, port or certificate.
    #[error(
        "could not connect to the workspace: {0}; check base_url, the network and, for a private \
         certificate, ca_file"
    )]
    Connect(String),
    /// The answer was not complete in time.
    #[error("the workspace did not answer in time; if this goes on, raise timeout in [poll]")]
    Timeout,
    /// The body ended early or could not be decompressed.
    #[error("the answer broke off: {0}; nothing of it was kept")]
    Cut(String),
    /// A success with more than [`MAX_BODY`] bytes.
    #[error(
        "the answer is larger than 8 MiB and was refused; check that base_url is the workspace's \
         api address"
    )]
    TooLarge,
    /// Anything else that kept the request from being answered.
    #[error("the request failed: {0}")]
    Other(String),
}

impl TransportError {
    /// The kind of failure in one short word, for counts and listings.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Connect(_) => "no_connection",
            Self::Timeout => "timeout",
            Self::Cut(_) => "cut",
            Self::TooLarge => "too_large",
            Self::Other(_) => "network",
        }
    }
}

/// The future of one answer.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Response, TransportError>> + Send + 'a>>;

/// Sends requests; one call is exactly one request on the wire.
pub trait Transport: Send + Sync {
    /// Sends one request and reads its answer; dropping the future gives the request up.
    fn send(&self, request: Request) -> Answer<'_>;
}
