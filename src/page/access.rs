//! From where the page may be read: the rules for `Host`, `Sec-Fetch-Site` and addresses. Pure.
//!
//! A foreign web page can make a browser send requests to this machine. It is refused because its
//! name is in `Host` (DNS rebinding), or because the browser marks the request as one from another
//! site.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::config::StatusSettings;

/// The refusal of a request that the settings do not allow to answer.
pub(super) fn refusal(
    settings: &StatusSettings,
    method: &Method,
    headers: &HeaderMap,
) -> Option<Response> {
    let is_own = match requested_host(headers) {
        Some(host) => is_own(settings, &host),
        None => false,
    };
    if !is_own {
        let text = "the page is not known by this name: open it by its address, or add the name to \
                    `hosts` in [status]\n";
        return Some((StatusCode::MISDIRECTED_REQUEST, text).into_response());
    }
    if is_from_elsewhere(method, headers) {
        let text = "a page of another site may not read this one\n";
        return Some((StatusCode::FORBIDDEN, text).into_response());
    }
    None
}

/// The address of the client. A proxy on this machine names it last in `X-Forwarded-For`.
pub(super) fn client_address(peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    if !peer.is_loopback() {
        return peer;
    }
    // A client may send a line of its own, before that of the proxy.
    let mut lines = headers.get_all("x-forwarded-for").iter();
    let Some(Ok(forwarded)) = lines.next_back().map(HeaderValue::to_str) else {
        return peer;
    };
    let last = forwarded.rsplit(',').next().unwrap_or_default();
    address_of(last.trim()).unwrap_or(peer)
}

/// The address in `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1`, `[2001:db8::1]` or
/// `[2001:db8::1]:4711`.
fn address_of(text: &str) -> Option<IpAddr> {
    if let Ok(with_port) = text.parse::<SocketAddr>() {
        return Some(with_port.ip());
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    bare.unwrap_or(text).parse().ok()
}

/// True if the name cannot be a foreign one that was pointed at this machine.
fn is_own(settings: &StatusSettings, host: &Authority) -> bool {
    let name = host.host().to_ascii_lowercase();
    if name == "localhost" || settings.hosts.contains(&name) {
        return true;
    }
    let literal = name.trim_start_matches('[').trim_end_matches(']');
    let is_local_only = settings.listen.ip().is_loopback();
    match literal.parse::<IpAddr>() {
        Ok(ip) => ip.is_loopback() || !is_local_only,
        Err(_) => false,
    }
}

/// The one host that the request names; a request that names two is malformed.
fn requested_host(headers: &HeaderMap) -> Option<Authority> {
    let mut named = headers.get_all(header::HOST).iter();
    let host: Authority = named.next()?.to_str().ok()?.parse().ok()?;
    if named.next().is_some() || host.as_str().contains('@') {
        return None;
    }
    Some(host)
}

/// True if a browser says that a page of another site makes the request. Following a link to the
/// page is allowed.
fn is_from_elsewhere(method: &Method, headers: &HeaderMap) -> bool {
    let Some(site) = headers.get("sec-fetch-site") else {
        return false;
    };
    if site == "same-origin" || site == "none" {
        return false;
    }
    let is_navigation = headers
        .get("sec-fetch-mode")
        .is_some_and(|mode| mode == "navigate");
    let is_link = is_navigation && method == Method::GET;
    !is_link
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_address_that_a_proxy_on_this_machine_names_is_the_client() {
        let proxy = IpAddr::from([127, 0, 0, 1]);
        for (lines, wanted) in [
            (vec![], "127.0.0.1"),
            (vec!["192.0.2.1"], "192.0.2.1"),
            (vec!["10.0.0.9, 192.0.2.1"], "192.0.2.1"),
            (vec!["10.0.0.9", "192.0.2.1"], "192.0.2.1"),
            (vec!["192.0.2.1:4711"], "192.0.2.1"),
            (vec!["2001:db8::1"], "2001:db8::1"),
            (vec!["[2001:db8::1]"], "2001:db8::1"),
            (vec!["10.0.0.9, [2001:db8::1]:4711"], "2001:db8::1"),
            (vec!["192.0.2.1", "unknown"], "127.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            for line in &lines {
                headers.append("x-forwarded-for", HeaderValue::from_static(line));
            }
            let client = client_address(proxy, &headers);
            assert_eq!(client.to_string(), wanted, "{lines:?}");
            let other = IpAddr::from([198, 51, 100, 7]);
            assert_eq!(client_address(other, &headers), other, "no proxy of ours");
        }
    }
}
