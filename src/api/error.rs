//! Why a request failed, whether to retry it, and what the operator can do.
//!
//! The contract's retry rules ("Errors"): only 429, 423, 5xx and network errors. No text here holds
//! the key, an address or a body. What the other side said is a [`Quotation`] beside the text.
//!
//! The workspace's own refusal has a JSON object as its body, or no body and `X-Request-Id`. Each
//! redirect and every other body comes from somebody between: a bot check, a proxy, a portal.

use std::fmt::{self, Write};
use std::time::Duration;

use reqwest::header::{HeaderMap, LOCATION};
use serde::de::IgnoredAny;
use serde_json::Value;
use url::Url;

use super::foreign::{sanitize, without};
use super::page::PageError;
use super::transport::{ApiResponse, TransportError};
use crate::text::Quotation;

/// The longest id of a request that is repeated.
const MAX_REQUEST_ID: usize = 64;

/// The status of a cache for an unchanged response. shopmirror never asks for it.
const NOT_MODIFIED: u16 = 304;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The response has a status other than 200, which says whether to try again.
    #[error("{}", status_text(*.status, *.is_of_workspace, .request_id.as_deref()))]
    Status {
        /// The HTTP status.
        status: u16,
        /// False for a 423, 429 or 5xx of somebody between.
        is_of_workspace: bool,
        /// `error.request_id` or `X-Request-Id`, if it looks like an id.
        request_id: Option<String>,
        /// `Retry-After`, at most an hour.
        retry_after: Option<Duration>,
        /// Code, message and details of the error.
        quotation: Option<Quotation>,
    },
    /// Somebody between answered instead of the workspace; the key went no further.
    #[error("{0}")]
    Between(Between),
    /// There was no complete response.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A 200 that is not what the contract shows; nothing of it may be stored.
    #[error(
        "the response was refused and nothing of it was stored: {problem}; check that base_url is \
         the workspace's API address and that no proxy changes responses"
    )]
    Page {
        /// What is wrong with it.
        problem: PageError,
        /// Code, message and details, if it is an error.
        quotation: Option<Quotation>,
    },
    /// The response was complete, and the store refused it; nothing of it is stored.
    #[error("{0}")]
    NotStored(String),
    /// Nothing is read from the workspace, because it is another one than before.
    #[error("{0}")]
    OtherWorkspace(String),
    /// The key cannot be sent in a header.
    #[error(
        "the API key is empty or holds characters that no key has; put only the key into \
         api_key_file, on one line"
    )]
    UnusableKey,
    /// The request was not sent, because the contract does not allow it.
    #[error("the request was not sent: {0}")]
    Unsendable(&'static str),
}

/// An answer of somebody between shopmirror and the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Between {
    /// The HTTP status.
    pub status: u16,
    /// What it is.
    pub kind: BetweenKind,
    /// Whether the workspace itself ever answered at this address.
    pub is_address_proven: bool,
    /// The title of a web page, or the first words of a text.
    pub quotation: Option<Quotation>,
}

/// What somebody between answers with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BetweenKind {
    /// A redirect, to this host if it names one that can be read; it was not followed.
    Redirect(Option<String>),
    /// "Not modified" (304), which only a cache sends unasked.
    NotModified,
    /// A web page.
    Html,
    /// A text that is not JSON.
    Text,
    /// Nothing that can be read, without `X-Request-Id`.
    Empty,
}

impl fmt::Display for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("somebody between shopmirror and the workspace answers in its place with ")?;
        match &self.kind {
            BetweenKind::Redirect(Some(host)) => {
                write!(f, "a redirect to {host}, which was not followed")?;
            }
            BetweenKind::Redirect(None) => {
                f.write_str("a redirect to an address it does not name")?;
            }
            BetweenKind::NotModified => {
                f.write_str("\"not modified\", which only a cache sends")?
            }
            BetweenKind::Html => f.write_str("a web page")?,
            BetweenKind::Text => f.write_str("a text that is not JSON")?,
            BetweenKind::Empty => f.write_str("an empty response")?,
        }
        write!(f, " (status {}); ", self.status)?;
        if self.is_address_proven {
            f.write_str(
                "let requests of this machine to base_url through the bot check, login page, cache, \
                 proxy or firewall on the way",
            )
        } else {
            f.write_str(
                "check base_url first: it must be the workspace's API address, with https, ending \
                 in /api, and not redirect; then look for a bot check, a login page, a cache, a \
                 proxy or a firewall on the way",
            )
        }
    }
}

impl Between {
    /// The answer in one word, for counts and listings.
    #[must_use]
    pub fn word(&self) -> String {
        match (&self.kind, self.status) {
            (BetweenKind::Redirect(_), _) => "redirect".to_owned(),
            (BetweenKind::Html, 200) => "html".to_owned(),
            (_, 200) => "not_json".to_owned(),
            (_, status) => format!("http_{status}"),
        }
    }
}

/// Whether and when to retry a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// After at least this time; the backoff may wait longer.
    After(Duration),
    /// After a wait that grows with each failure, with jitter.
    Backoff,
    /// Not until something has changed, because the same request would fail again.
    Never,
}

/// What an error means for the pollers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// 401: the key is disabled, expired or rotated; every poller stops.
    KeyRefused,
    /// 403: the key is not an automation key; every poller stops.
    KeyForbidden,
    /// 412: the request for a white-label workspace went to the standard host; every poller stops.
    WrongHost,
    /// Any other 4xx: this route fails until something is changed.
    RouteBroken,
    /// Somebody between answers: every poller waits until the workspace does again.
    Between,
    /// 429, 423, 5xx or the network: a retry may succeed.
    Busy,
    /// A response that is not what the contract shows.
    BadPage,
}

impl ApiError {
    /// Whether and when to retry, as the contract says.
    #[must_use]
    pub fn retry(&self) -> Retry {
        if self.class() != Class::Busy {
            return Retry::Never;
        }
        match self {
            Self::Status {
                retry_after: Some(wait),
                ..
            } => Retry::After(*wait),
            _ => Retry::Backoff,
        }
    }

    /// What the error means for the pollers.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Status { status, .. } => match status {
                401 => Class::KeyRefused,
                403 => Class::KeyForbidden,
                412 => Class::WrongHost,
                423 | 429 | 500..=599 => Class::Busy,
                400..=499 => Class::RouteBroken,
                _ => Class::BadPage,
            },
            Self::Between(_) | Self::Transport(TransportError::Proxy { .. }) => Class::Between,
            Self::Transport(TransportError::TooLarge | TransportError::Encoding(_))
            | Self::Page { .. }
            | Self::NotStored(_) => Class::BadPage,
            Self::Transport(_) => Class::Busy,
            Self::Unsendable(_) | Self::OtherWorkspace(_) => Class::RouteBroken,
            Self::UnusableKey => Class::KeyRefused,
        }
    }

    /// The error of a page that says nothing of its own.
    #[must_use]
    pub fn page(problem: PageError) -> Self {
        Self::Page {
            problem,
            quotation: None,
        }
    }

    /// What a body says that is one object.
    pub(super) fn quotation_of_object(response: &ApiResponse, secret: &str) -> Option<Quotation> {
        if content(&response.body).first() != Some(&b'{') {
            return None;
        }
        Quotation::of_body(&response.body, |text| without(text, secret))
    }

    /// What the other side said, which is not ours to put into logs and alerts.
    #[must_use]
    pub fn quotation(&self) -> Option<&Quotation> {
        match self {
            Self::Status { quotation, .. } | Self::Page { quotation, .. } => quotation.as_ref(),
            Self::Between(between) => between.quotation.as_ref(),
            _ => None,
        }
    }

    /// The error with what the other side said, for the operator on a command line.
    #[must_use]
    pub fn with_quotation(&self) -> String {
        match self.quotation() {
            Some(quotation) => format!("{self}; response: {}", quotation.shown()),
            None => self.to_string(),
        }
    }

    /// Reads a response that is not 200; `secret` is removed from every text.
    pub(super) fn from_response(
        response: &ApiResponse,
        requested: &Url,
        retry_after: Option<Duration>,
        is_address_proven: bool,
        secret: &str,
    ) -> Self {
        let is_of_workspace = is_of_workspace(response);
        let status = response.status;
        let is_retried = matches!(status, 423 | 429 | 500..=599);
        if !is_of_workspace && !is_retried {
            let kind = kind_between(response, requested, secret);
            return Self::between(response, kind, is_address_proven, secret);
        }
        let envelope: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let request_id = match member(&envelope, "/error/request_id") {
            Some(id) => Some(id),
            None => request_id_header(&response.headers),
        };
        Self::Status {
            status,
            is_of_workspace,
            request_id: request_id.and_then(|id| request_id_shown(id, secret)),
            retry_after,
            quotation: Quotation::of_body(&response.body, |text| without(text, secret)),
        }
    }

    /// The error of a 200 whose body is not JSON, if it is none.
    pub(super) fn from_body_between(
        response: &ApiResponse,
        is_address_proven: bool,
        secret: &str,
    ) -> Option<Self> {
        let kind = match content(&response.body).first() {
            Some(b'[' | b'{') => return None,
            Some(b'<') => BetweenKind::Html,
            Some(_) if serde_json::from_slice::<IgnoredAny>(&response.body).is_ok() => return None,
            Some(_) => BetweenKind::Text,
            None if request_id_header(&response.headers).is_some() => return None,
            None => BetweenKind::Empty,
        };
        Some(Self::between(response, kind, is_address_proven, secret))
    }

    fn between(
        response: &ApiResponse,
        kind: BetweenKind,
        is_address_proven: bool,
        secret: &str,
    ) -> Self {
        Self::Between(Between {
            status: response.status,
            kind,
            is_address_proven,
            quotation: Quotation::of_body(&response.body, |text| without(text, secret)),
        })
    }
}

/// Whether the workspace itself sent a response that is not 200.
pub(super) fn is_of_workspace(response: &ApiResponse) -> bool {
    // 407 is for a proxy only.
    if (300..400).contains(&response.status) || response.status == 407 {
        return false;
    }
    match content(&response.body).first() {
        // It need not be whole: of a long error only the beginning is read.
        Some(first) => *first == b'{',
        None => request_id_header(&response.headers).is_some(),
    }
}

/// A body without the byte order mark and the white space before it.
fn content(body: &[u8]) -> &[u8] {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    body.trim_ascii_start()
}

fn kind_between(response: &ApiResponse, requested: &Url, secret: &str) -> BetweenKind {
    match response.status {
        NOT_MODIFIED => BetweenKind::NotModified,
        300..400 => BetweenKind::Redirect(redirect_host(&response.headers, requested, secret)),
        _ => match content(&response.body).first() {
            Some(b'<') => BetweenKind::Html,
            Some(_) => BetweenKind::Text,
            None => BetweenKind::Empty,
        },
    }
}

/// The id of a request, if it can be one: it becomes part of our own words.
fn request_id_shown(id: &str, secret: &str) -> Option<String> {
    let is_id = id.len() <= MAX_REQUEST_ID
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
    if is_id {
        Some(without(id, secret))
    } else {
        None
    }
}

fn member<'a>(envelope: &'a Value, pointer: &str) -> Option<&'a str> {
    envelope.pointer(pointer)?.as_str()
}

fn request_id_header(headers: &HeaderMap) -> Option<&str> {
    headers.get("x-request-id")?.to_str().ok()
}

fn redirect_host(headers: &HeaderMap, requested: &Url, secret: &str) -> Option<String> {
    let location = headers.get(LOCATION)?.to_str().ok()?;
    let target = requested.join(location).ok()?;
    Some(sanitize(target.host_str()?, secret))
}

fn status_text(status: u16, is_of_workspace: bool, request_id: Option<&str>) -> String {
    let advice = match status {
        423 | 429 if !is_of_workspace => {
            "somebody between shopmirror and the workspace asks for fewer requests; shopmirror \
             will retry; look at the bot check, proxy or firewall on the way"
        }
        401 => {
            "the workspace refused the API key: it is disabled, expired or was rotated; put the \
             current key from the portal's integrations settings into api_key_file and reload"
        }
        403 => {
            "the workspace does not allow this key here: polling needs an automation key; create \
             one in the portal's integrations settings, put it into api_key_file and reload"
        }
        412 => {
            "this workspace is not served on this host: it has its own domain; set base_url to \
             the white-label address, https://DOMAIN/api"
        }
        404 => {
            "the workspace does not know this route; check that base_url is its address and ends \
             in /api"
        }
        423 => "the workspace is locked; shopmirror will retry",
        429 => {
            "the key's requests of this minute are used up; if this goes on, raise reserve in \
             [budget] or give other clients a key of their own"
        }
        500..=599 => "the workspace failed to respond; shopmirror will retry",
        400..=499 => {
            "the workspace refused the request; report the code and the request id to its operator"
        }
        _ => {
            "the workspace responded with an unknown status; check that base_url is its API address"
        }
    };
    let mut text = format!("{advice} (status {status}");
    if let Some(request_id) = request_id {
        // Writing to a String cannot fail.
        let _ = write!(text, ", request id {request_id}");
    }
    text.push(')');
    text
}

#[cfg(test)]
mod tests;
