//! Who may read the page: the rules for `Host`, `Origin` and the token. Pure.
//!
//! A foreign web page can make a browser send requests to this machine. It is refused because its
//! name is in `Host` (DNS rebinding) or in `Origin`, or because the browser marks the request
//! as one from another site.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, Uri, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::config;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The method is neither GET nor HEAD.
    Method,
    /// The header `Host` is absent, malformed or names something else.
    Host,
    /// The request comes from another site.
    Origin,
    /// The token is absent or wrong.
    Token,
}

/// The rules that follow from `[status]`.
pub(super) struct Access {
    /// The digest of the token, so that comparing takes the same time for every length.
    token: Option<[u8; 32]>,
    hosts: Vec<String>,
    loopback_only: bool,
}

impl Access {
    pub(super) fn new(settings: &config::StatusSettings) -> Self {
        Self {
            token: settings.token.as_ref().map(|token| digest(token.expose_secret().as_bytes())),
            hosts: settings.hosts.clone(),
            loopback_only: settings.listen.ip().is_loopback(),
        }
    }

    /// Whether a request may be answered.
    pub(super) fn judge(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        if *method != Method::GET && *method != Method::HEAD {
            return Err(Refusal::Method);
        }
        let host = requested_host(uri, headers).ok_or(Refusal::Host)?;
        if !self.is_own(&host) {
            return Err(Refusal::Host);
        }
        if is_from_elsewhere(&host, headers) {
            return Err(Refusal::Origin);
        }
        match &self.token {
            Some(token) if !sent_token(headers).is_some_and(|sent| equal(&sent, token)) => {
                Err(Refusal::Token)
            }
            _ => Ok(()),
        }
    }

    /// True if the name cannot be a foreign one that was pointed at this machine.
    fn is_own(&self, host: &Authority) -> bool {
        let name = host.host().to_ascii_lowercase();
        if name == "localhost" || self.hosts.contains(&name) {
            return true;
        }
        let literal = name.trim_start_matches('[').trim_end_matches(']');
        literal.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || !self.loopback_only)
    }
}

/// The one host that the request names; a request that names two is malformed.
fn requested_host(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let mut named = headers.get_all(header::HOST).iter();
    let host: Authority = named.next()?.to_str().ok()?.parse().ok()?;
    let one = named.next().is_none() && uri.authority().is_none_or(|other| *other == host);
    (one && !host.as_str().contains('@')).then_some(host)
}

/// True if a browser says that a page of another site makes the request. Following a link to the
/// page is allowed.
fn is_from_elsewhere(host: &Authority, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if let Some(origin) = text("origin") {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        if authority.is_none_or(|other| !other.eq_ignore_ascii_case(host.as_str())) {
            return true;
        }
    }
    let other_site =
        matches!(text("sec-fetch-site"), Some(site) if site != "same-origin" && site != "none");
    other_site && text("sec-fetch-mode") != Some("navigate")
}

/// The token as `Bearer`, or as the password of `Basic`, which browsers ask for.
fn sent_token(headers: &HeaderMap) -> Option<Vec<u8>> {
    let sent = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, value) = sent.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.trim().as_bytes().to_vec());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = STANDARD.decode(value.trim()).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

fn digest(text: &[u8]) -> [u8; 32] {
    Sha256::digest(text).into()
}

fn equal(sent: &[u8], token: &[u8; 32]) -> bool {
    digest(sent).ct_eq(token).into()
}
