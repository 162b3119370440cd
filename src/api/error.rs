//! Why a request brought nothing, whether to ask again, and what the operator can do about it.
//!
//! The retry rules are the contract's ("Errors"): only 429, 423, 5xx and network errors. No text
//! here holds the key, an address, or a body; code and message of the error envelope are cut and
//! escaped.

use std::fmt::Write;
use std::time::Duration;

use reqwest::header::{HeaderMap, LOCATION};
use serde_json::Value;
use url::Url;

use super::foreign::tame;
use super::page::PageError;
use super::transport::{Response, TransportError};

/// Why a request brought nothing that may be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The workspace answered with another status than 200.
    #[error("{}", status_text(*.status, [.code, .message, .request_id]))]
    Status {
        /// The HTTP status.
        status: u16,
        /// `error.code`, cut and escaped.
        code: Option<String>,
        /// `error.message`, cut and escaped.
        message: Option<String>,
        /// `error.request_id` or `X-Request-Id`, cut and escaped.
        request_id: Option<String>,
        /// `Retry-After`, at most an hour.
        retry_after: Option<Duration>,
    },
    /// There was no answer.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The workspace sent the client elsewhere; the key was not sent there.
    #[error(
        "the workspace redirects to {}, which was not followed; set base_url to the address that \
         answers itself, with https and ending in /api",
        .host.as_deref().unwrap_or("an address it does not name")
    )]
    Redirect {
        /// The target's host alone, cut and escaped.
        host: Option<String>,
    },
    /// A 200 that is not what the contract shows; nothing of it may be stored.
    #[error(
        "the answer was refused and nothing of it stored: {0}; check that base_url is the \
         workspace's api address and that nothing between rewrites answers"
    )]
    Page(#[from] PageError),
    /// The key cannot be sent in a header.
    #[error(
        "the api key is empty or holds characters no key has; put the key alone into \
         api_key_file, on one line"
    )]
    UnusableKey,
    /// The request was not sent, since the contract does not allow it.
    #[error("the request was not sent: {0}")]
    Unsendable(&'static str),
}

/// Whether to send the same request again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Not before this long; how much longer is the backoff's matter.
    After(Duration),
    /// After a growing, jittered wait.
    Backoff,
    /// The same request would fail again: not before something has changed.
    Never,
}

/// What an error means for the pollers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// 401: the key is disabled, expired or rotated; every poller has to stop.
    KeyRefused,
    /// 403: the key is not an automation key; every poller has to stop.
    KeyForbidden,
    /// 412: a white-label workspace was asked on the standard host; every poller has to stop.
    WrongHost,
    /// Any other 4xx, or a redirect: this route will not answer as it is asked.
    RouteBroken,
    /// 429, 423, 5xx or the network: it may pass.
    Busy,
    /// An answer that is not what the contract shows.
    BadPage,
}

impl ApiError {
    /// Whether to send the same request again, exactly as the contract rules.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match (self.class(), self) {
            (Class::Busy, Self::Status { retry_after: Some(wait), .. }) => Retry::After(*wait),
            (Class::Busy, _) => Retry::Backoff,
            _ => Retry::Never,
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
            Self::Transport(TransportError::TooLarge) | Self::Page(_) => Class::BadPage,
            Self::Transport(_) => Class::Busy,
            Self::Redirect { .. } | Self::Unsendable(_) => Class::RouteBroken,
            Self::UnusableKey => Class::KeyRefused,
        }
    }

    /// Reads an answer that is not 200; `secret` is kept out of every text.
    pub(super) fn from_response(
        response: &Response,
        asked: &Url,
        retry_after: Option<Duration>,
        secret: &str,
    ) -> Self {
        if (300..400).contains(&response.status) {
            return Self::Redirect { host: redirect_host(&response.headers, asked, secret) };
        }
        let envelope: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let member = |pointer| envelope.pointer(pointer).and_then(Value::as_str);
        let header = || response.headers.get("x-request-id")?.to_str().ok();
        let tamed = |text: &str| tame(text, secret);
        Self::Status {
            status: response.status,
            code: member("/error/code").map(tamed),
            message: member("/error/message").or_else(|| member("/message")).map(tamed),
            request_id: member("/error/request_id").or_else(header).map(tamed),
            retry_after,
        }
    }
}

fn redirect_host(headers: &HeaderMap, asked: &Url, secret: &str) -> Option<String> {
    let target = asked.join(headers.get(LOCATION)?.to_str().ok()?).ok()?;
    Some(tame(target.host_str()?, secret))
}

fn status_text(status: u16, [code, message, request_id]: [&Option<String>; 3]) -> String {
    let advice = match status {
        401 => {
            "the workspace refused the api key: it is disabled, expired or was rotated; put the \
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
        423 => "the workspace is locked at the moment; it is asked again later",
        429 => {
            "the key's requests of this minute are used up; if this goes on, raise reserve in \
             [budget] or give other clients a key of their own"
        }
        500..=599 => "the workspace failed to answer; it is asked again later",
        400..=499 => {
            "the workspace refused the request and will not be asked the same at once; give the \
             code and request id to its operator"
        }
        _ => {
            "the workspace answered with a status the contract does not have; check that base_url \
             is its api address"
        }
    };
    let mut text = format!("{advice} (status {status}");
    // Writing to a String cannot fail.
    if let Some(code) = code {
        let _ = write!(text, ", code {code}");
    }
    if let Some(message) = message {
        let _ = write!(text, ", it said: {message}");
    }
    if let Some(request_id) = request_id {
        let _ = write!(text, ", request id {request_id}");
    }
    text.push(')');
    text
}

#[cfg(test)]
mod tests;
