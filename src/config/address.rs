//! Which addresses may be called: https anywhere, http on this machine only.
//!
//! A message never repeats an address, which may carry a token.

use std::net::SocketAddr;

use url::{Host, Url};

/// Whether what is sent to this address stays on this machine: `localhost` itself or a loopback
/// address. Any other name, one under `.localhost` too, is a name server's word.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// The workspace's address without its trailing slash (contract, first paragraph), or what is
/// wrong with it.
pub(super) fn workspace(text: &str) -> Result<Url, String> {
    let mut url = called(text)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds a user name or password: remove it, the API key is enough".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("holds a `?` or `#`: end it with /api".to_owned());
    }
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.ends_with("/api") {
        return Err("must end in /api, as \"https://myshop.example.com/api\"; \
             a white-label shop uses its own domain"
            .to_owned());
    }
    url.set_path(&path);
    Ok(url)
}

/// An address of a webhook, or what is wrong with it.
pub(super) fn called(text: &str) -> Result<Url, String> {
    let url = parsed(text)?;
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        "http" => Err("must begin with https://; http:// is only for this machine, \
             as http://127.0.0.1:8080/"
            .to_owned()),
        _ => Err("must begin with https://".to_owned()),
    }
}

/// The address of a proxy, or what is wrong with it.
pub(super) fn proxy(text: &str) -> Result<Url, String> {
    let url = parsed(text)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with http:// or https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds a user name or password, which are not supported".to_owned());
    }
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err("must be a host and a port alone, as \"http://127.0.0.1:3128\"".to_owned());
    }
    Ok(url)
}

/// An address to listen on that other machines cannot reach, or what is wrong with it.
pub(super) fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| "must be an address and a port, as \"127.0.0.1:7780\" or \"[::1]:7780\"")?;
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err("must be an address of this machine alone, as 127.0.0.1: the page shows customers' data \
         and asks for no password; put a proxy with one in front of it"
        .to_owned())
}

fn parsed(text: &str) -> Result<Url, String> {
    if text.chars().any(char::is_whitespace) {
        return Err("holds white space: remove it".to_owned());
    }
    let url = Url::parse(text).map_err(|error| {
        format!("is not a web address ({error}): write it as \"https://host.example.com/path\"")
    })?;
    if url.host().is_none() { Err("names no host".to_owned()) } else { Ok(url) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailing_slash_of_the_workspace_is_tolerated() {
        for text in ["https://h.example/api", "https://h.example/api/", "https://h.example/api//"] {
            assert_eq!(workspace(text).unwrap().as_str(), "https://h.example/api");
        }
        assert_eq!(workspace("https://h.example/x/api").unwrap().path(), "/x/api");
    }

    #[test]
    fn http_is_for_this_machine_only() {
        for host in ["127.0.0.1:80", "127.9.9.9", "localhost:8080", "[::1]:1"] {
            assert!(workspace(&format!("http://{host}/api")).is_ok(), "{host}");
        }
        for host in [
            "10.0.0.1",
            "a.localhost",
            "localhost.example.com",
            "0.0.0.0",
            "[::2]",
            "127.0.0.1.nip.io",
        ] {
            assert!(workspace(&format!("http://{host}/api")).is_err(), "{host}");
        }
    }

    #[test]
    fn no_message_repeats_an_address() {
        for text in [
            "https://CANARY@h/api",
            "https://h/api?CANARY",
            "ftp://h/CANARY",
            "http://h/CANARY/api",
            "CANARY",
            "https://h:CANARY/api",
            "https://h/CANARY",
            "https://h/api#CANARY",
        ] {
            let message = workspace(text).unwrap_err();
            assert!(!message.contains("CANARY"), "{message}");
        }
    }
}
