//! Checks addresses: https for any host, http for this machine only.
//!
//! A message never repeats an address, because it may contain a token.

use url::{Host, Url};

/// Addresses that a message gives as examples: on another machine, and on this one.
#[derive(Clone, Copy)]
struct Example {
    remote: &'static str,
    local: &'static str,
}

const WORKSPACE: Example =
    Example { remote: "https://myshop.example.com/api", local: "http://127.0.0.1:8080/api" };
const WEBHOOK: Example =
    Example { remote: "https://erp.example.com/hooks/shop", local: "http://127.0.0.1:8080/" };

/// True if requests to this address stay on this machine: `localhost` or a loopback address.
/// Every other name, also one under `.localhost`, is resolved by a name server.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// The workspace's address without its trailing slash (contract, first paragraph).
///
/// # Errors
/// The problem and what to do about it; it follows a name, for example "`base_url` must end in /api".
pub fn workspace(text: &str) -> Result<Url, String> {
    let mut url = secure(text, WORKSPACE)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds a user name or password: remove it, the API key is enough".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("holds a `?` or `#`: end it with /api".to_owned());
    }
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.ends_with("/api") {
        return Err("must end in /api, for example \"https://myshop.example.com/api\"; \
             a white-label shop uses its own domain"
            .to_owned());
    }
    url.set_path(&path);
    Ok(url)
}

/// The address of a webhook, or the problem.
pub(super) fn called(text: &str) -> Result<Url, String> {
    secure(text, WEBHOOK)
}

/// An address with https, or with http on this machine.
fn secure(text: &str, example: Example) -> Result<Url, String> {
    let url = parsed(text, example.remote)?;
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        "http" => Err(format!(
            "must begin with https://; http:// is only for this machine, for example {}",
            example.local
        )),
        _ => Err("must begin with https://".to_owned()),
    }
}

/// The address of a proxy, or the problem.
pub(super) fn proxy(text: &str) -> Result<Url, String> {
    let url = parsed(text, "http://127.0.0.1:3128")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with http:// or https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds a user name or password, which are not supported".to_owned());
    }
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err(
            "must be a host and a port only, for example \"http://127.0.0.1:3128\"".to_owned()
        );
    }
    Ok(url)
}

fn parsed(text: &str, example: &str) -> Result<Url, String> {
    if text.chars().any(char::is_whitespace) {
        return Err("holds white space: remove it".to_owned());
    }
    let url = Url::parse(text)
        .map_err(|error| format!("is not a web address ({error}): write it as \"{example}\""))?;
    if url.host().is_none() { Err("has no host name".to_owned()) } else { Ok(url) }
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
            assert!(read.is_err() || read.unwrap().path().ends_with("/api"), "{text}");
        }
    }
}
