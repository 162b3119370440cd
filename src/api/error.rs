//! Why a request failed, whether to retry it, and what the operator can do.
//!
//! The contract's retry rules ("Errors"): only 429, 423, 5xx and network errors. No text here holds
//! the key, an address or a body; code and message of the error are shortened and escaped.

use std::fmt::Write;
use std::time::Duration;

use reqwest::header::{HeaderMap, LOCATION};
use serde_json::Value;
use url::Url;

use super::foreign::sanitize;
use super::page::PageError;
use super::transport::{ApiResponse, TransportError};

/// The status of a cache for an unchanged response. shopmirror never asks for it.
const NOT_MODIFIED: u16 = 304;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The workspace responded with a status other than 200.
    #[error("{}", status_text(*.status, [.code, .message, .request_id]))]
    Status {
        /// The HTTP status.
        status: u16,
        /// `error.code`, shortened and escaped.
        code: Option<String>,
        /// `error.message`, shortened and escaped.
        message: Option<String>,
        /// `error.request_id` or `X-Request-Id`, shortened and escaped.
        request_id: Option<String>,
        /// `Retry-After`, at most an hour.
        retry_after: Option<Duration>,
    },
    /// There was no complete response.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The workspace redirected to another address; the key was not sent there.
    #[error(
        "the workspace redirects to {}, which was not followed; set base_url to the address \
         that does not redirect, with https and ending in /api",
        .host.as_deref().unwrap_or("an address it does not name")
    )]
    Redirect {
        /// The target's host only, shortened and escaped.
        host: Option<String>,
    },
    /// A 200 that is not what the contract shows; nothing of it may be stored.
    #[error(
        "the response was refused and nothing of it was stored: {0}; check that base_url is the \
         workspace's API address and that no proxy changes responses"
    )]
    Page(#[from] PageError),
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
    /// Any other 4xx, or a redirect: this route fails until something is changed.
    RouteBroken,
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
            Self::Transport(TransportError::TooLarge) | Self::Page(_) | Self::NotStored(_) => {
                Class::BadPage
            }
            Self::Transport(_) => Class::Busy,
            Self::Redirect { .. } | Self::Unsendable(_) | Self::OtherWorkspace(_) => {
                Class::RouteBroken
            }
            Self::UnusableKey => Class::KeyRefused,
        }
    }

    /// Reads a response that is not 200; `secret` is removed from every text.
    pub(super) fn from_response(
        response: &ApiResponse,
        requested: &Url,
        retry_after: Option<Duration>,
        secret: &str,
    ) -> Self {
        if (300..400).contains(&response.status) && response.status != NOT_MODIFIED {
            return Self::Redirect {
                host: redirect_host(&response.headers, requested, secret),
            };
        }
        let envelope: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let code = member(&envelope, "/error/code");
        let message = match member(&envelope, "/error/message") {
            Some(message) => Some(message),
            None => member(&envelope, "/message"),
        };
        let request_id = match member(&envelope, "/error/request_id") {
            Some(id) => Some(id),
            None => request_id_header(&response.headers),
        };
        Self::Status {
            status: response.status,
            code: code.map(|text| sanitize(text, secret)),
            message: message.map(|text| sanitize(text, secret)),
            request_id: request_id.map(|text| sanitize(text, secret)),
            retry_after,
        }
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

fn status_text(status: u16, [code, message, request_id]: [&Option<String>; 3]) -> String {
    let advice = match status {
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
        NOT_MODIFIED => {
            "the address answers \"not modified\", which was not asked for: a cache between \
             shopmirror and the workspace answers for it; let it pass requests of the API on, or \
             remove it"
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
    // Writing to a String cannot fail.
    if let Some(code) = code {
        let _ = write!(text, ", code {code}");
    }
    if let Some(message) = message {
        let _ = write!(text, ", response: {message}");
    }
    if let Some(request_id) = request_id {
        let _ = write!(text, ", request id {request_id}");
    }
    text.push(')');
    text
}

#[cfg(test)]
mod tests;
