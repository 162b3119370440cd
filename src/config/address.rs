//! Checks addresses, and tells which of them are on this machine or in the local network.
//!
//! A message never repeats an address, because it may contain a token.

use std::net::IpAddr;

use url::Url;

use crate::net::lookup::is_private;

/// Examples in messages.
const WORKSPACE: &str = "https://myshop.example.com/api";
const WEBHOOK: &str = "https://erp.example.com/hooks/shop";
const BROKER: &str = "mqtts://user:password@broker.example.com";
const SERVICE: &str = "https://s3.example.com";

/// True if a host is this machine: `localhost` or a loopback address. Every other name, also one
/// under `.localhost`, is resolved by a name server.
pub(super) fn is_this_machine(host: &str) -> bool {
    match ip(host) {
        Some(ip) => ip.is_loopback(),
        None => host == "localhost",
    }
}

/// True if requests to this address stay on this machine.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(is_this_machine)
}

/// The address, unless records would leave this machine without TLS. With `allow_plain` they may
/// reach the local network; a name is resolved when the sink connects.
fn near_or_tls(url: Url, allow_plain: bool) -> Result<Url, String> {
    let scheme = url.scheme();
    let host = url.host_str().unwrap_or_default();
    let has_tls = scheme != "http" && scheme != "mqtt";
    if has_tls || is_this_machine(host) {
        return Ok(url);
    }
    if allow_plain && ip(host).is_none_or(is_private) {
        return Ok(url);
    }
    Err(format!(
        "must begin with {scheme}s://: without TLS only this machine (127.0.0.1) is reached, \
         because records and passwords would cross the network in clear text; with allow_plain = \
         true, a sink that has this key also reaches the local network, such as 192.168.1.20"
    ))
}

fn ip(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
}

/// The workspace's address without its trailing slash (contract, first paragraph).
///
/// # Errors
/// The problem and what to do about it; it follows a name, for example "`base_url` must end in
/// /api".
pub fn workspace(text: &str) -> Result<Url, String> {
    let mut url = near_or_tls(parse(text, ["https", "http"], WORKSPACE)?, false)?;
    let path = url.path().trim_end_matches('/').to_owned();
    if !is_bare(&url) || !path.ends_with("/api") {
        return Err(format!(
            "must end in /api and hold no user name and password, for example \"{WORKSPACE}\"; a \
             white-label shop uses its own domain"
        ));
    }
    url.set_path(&path);
    Ok(url)
}

/// The address of a webhook.
///
/// # Errors
/// As those of [`workspace`].
pub fn webhook(text: &str, allow_plain: bool) -> Result<Url, String> {
    let url = parse(text, ["https", "http"], WEBHOOK)?;
    near_or_tls(url, allow_plain)
}

/// The address of an MQTT broker.
///
/// # Errors
/// As those of [`workspace`].
pub fn mqtt(text: &str, allow_plain: bool) -> Result<Url, String> {
    let url = parse(text, ["mqtts", "mqtt"], BROKER)?;
    near_or_tls(url, allow_plain)
}

/// The address of a NATS server.
///
/// # Errors
/// As those of [`workspace`].
pub fn nats(text: &str) -> Result<Url, String> {
    parse(text, ["nats", "tls"], "nats://nats.example.com:4222")
}

/// The address of a service such as S3: a host, and a port if it needs one.
pub fn service(text: &str) -> Result<Url, String> {
    let url = near_or_tls(parse(text, ["https", "http"], SERVICE)?, false)?;
    if !is_bare(&url) || url.path() != "/" {
        return Err(format!(
            "must be a host and a port only, for example \"{SERVICE}\""
        ));
    }
    Ok(url)
}

/// True if an address is a host, a port and a path, and nothing else.
fn is_bare(url: &Url) -> bool {
    let has_user = !url.username().is_empty() || url.password().is_some();
    !has_user && url.query().is_none() && url.fragment().is_none()
}

/// An address with one of these schemes.
fn parse(text: &str, schemes: [&str; 2], example: &str) -> Result<Url, String> {
    match Url::parse(text) {
        Ok(url) if schemes.contains(&url.scheme()) && url.has_host() => Ok(url),
        _ => Err(format!(
            "must begin with {}://, for example \"{example}\"",
            schemes.join(":// or ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_is_for_this_machine_only_and_a_trailing_slash_is_tolerated() {
        for (text, is_accepted) in [
            ("https://h.example/x/api", true),
            ("http://127.9.9.9/api//", true),
            ("http://localhost:8080/api/", true),
            ("http://[::1]:1/api", true),
            ("http://10.0.0.1/api", false),
            ("http://a.localhost/api", false),
            ("http://localhost.example.com/api", false),
            ("http://0.0.0.0/api", false),
            ("http://127.0.0.1.nip.io/api", false),
        ] {
            let read = workspace(text);
            assert_eq!(read.is_ok(), is_accepted, "{text}");
            assert!(
                read.is_err() || read.unwrap().path().ends_with("/api"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_webhook_without_tls_is_for_the_local_network_and_only_if_the_shop_says_so() {
        for (text, by_default, when_allowed) in [
            ("http://localhost:5678/webhook", true, true),
            ("http://192.168.1.20:5678/webhook", false, true),
            ("http://10.0.0.7/", false, true),
            ("http://[fd00::7]/", false, true),
            // A name is looked up when the sink connects.
            ("http://n8n.lan/webhook", false, true),
            ("http://203.0.113.7/", false, false),
            ("http://172.32.0.1/", false, false),
            ("http://[2001:db8::7]/", false, false),
        ] {
            assert_eq!(webhook(text, false).is_ok(), by_default, "{text}");
            assert_eq!(webhook(text, true).is_ok(), when_allowed, "{text}");
        }
    }
}
