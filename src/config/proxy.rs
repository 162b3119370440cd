//! The proxy through which a server is reached: `proxy`, or `proxy_file` where it has a password.
//!
//! It is only ever asked to connect (CONNECT), and TLS runs through it to the server, so that it
//! sees neither the key nor a record.

use secrecy::ExposeSecret;
use serde::{Deserialize, Deserializer};
use url::Url;

use super::secret::Secret;
use super::table::Table;
use super::value::{in_file, parsed};
use crate::net::http::ProxyAddress;

/// The address of a proxy; its password is a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    url: Secret,
    name: String,
}

#[derive(Deserialize)]
struct ProxyKeys {
    #[serde(default, deserialize_with = "without_password")]
    proxy: Option<Proxy>,
    #[serde(default, deserialize_with = "of_file")]
    proxy_file: Option<Proxy>,
}

impl Proxy {
    /// Reads an address, which may hold a user and a password.
    fn parse(text: &str) -> Result<Self, String> {
        let problem = "must begin with http:// or https:// and hold a host and a port only, for \
                       example \"http://proxy:3128\"";
        let Ok(url) = Url::parse(text) else {
            return Err(problem.to_owned());
        };
        let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let port = url.port_or_known_default();
        match (url.scheme(), url.host_str(), port) {
            ("http" | "https", Some(host), Some(port)) if is_bare => Ok(Self {
                url: text.into(),
                name: format!("{host}:{port}"),
            }),
            _ => Err(problem.to_owned()),
        }
    }

    /// The address with its password, and its name for messages.
    #[must_use]
    pub fn address(&self) -> ProxyAddress<'_> {
        ProxyAddress {
            url: self.url.expose_secret(),
            name: &self.name,
        }
    }
}

fn without_password<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Proxy>, D::Error> {
    parsed(d, |text| {
        let has_user = match Url::parse(text) {
            Ok(url) => !url.username().is_empty() || url.password().is_some(),
            Err(_) => false,
        };
        if has_user {
            return Err(
                "holds a user or a password: write the address into a file, and name that with \
                 `proxy_file`"
                    .to_owned(),
            );
        }
        Proxy::parse(text).map(Some)
    })
}

fn of_file<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Proxy>, D::Error> {
    in_file(d, |text| match Proxy::parse(text) {
        Ok(proxy) => Ok(Some(proxy)),
        Err(_) => Err("must name a file with the address of a proxy, for example \
             http://user:password@proxy:3128"
            .to_owned()),
    })
}

/// The proxy of a table; `None` if it has none, or if a problem was noted. Read it before anything
/// that may end the reading of the table: else its keys would count as unknown.
pub(super) fn read(table: &Table<'_>) -> Option<Proxy> {
    let keys: ProxyKeys = table.read(&[])?;
    if keys.proxy.is_some() && keys.proxy_file.is_some() {
        table.warn(
            "proxy",
            "has no effect beside `proxy_file`: remove one of them",
        );
    }
    keys.proxy_file.or(keys.proxy)
}

/// Notes that a table whose server is reached without TLS has a proxy.
pub(super) fn note_plain(table: &Table<'_>, proxy: Option<&Proxy>) {
    if proxy.is_none() {
        return;
    }
    let key = if table.has("proxy_file") {
        "proxy_file"
    } else {
        "proxy"
    };
    table.note(
        key,
        "is for an address with https://: over http the proxy would read what is sent",
    );
}

#[cfg(test)]
mod tests {
    use super::super::{Base, Config};

    /// The problems of a configuration with this table.
    fn problems(table: &str) -> String {
        let workspace = "[workspace]\nbase_url = \"https://shop.example.com/api\"\n";
        let text = if table.starts_with("[workspace]") {
            table.to_owned()
        } else {
            format!("{workspace}{table}")
        };
        let dir = tempfile::tempdir().unwrap();
        let base = Base {
            dir: dir.path().to_owned(),
            ..Base::default()
        };
        Config::parse(&text, "shopmirror.toml", &base)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn it_is_a_known_key_whatever_else_is_wrong_with_its_table() {
        for table in [
            "[workspace]",
            "[sinks.a]\ntype = \"webhook\"",
            "[sinks.a]\ntype = \"webhook\"\nurl = \"ftp://erp.example.com\"",
            "[sinks.a]\ntype = \"s3\"",
            "[sinks.a]\ntype = \"intake\"",
        ] {
            let problems = problems(&format!("{table}\nproxy = \"http://proxy:3128\"\n"));
            assert!(!problems.contains("unknown key"), "{table}: {problems}");
        }
    }

    #[test]
    fn it_is_refused_for_an_address_without_tls_however_that_is_written() {
        for scheme in ["http", "HTTP", " http"] {
            let problems = problems(&format!(
                "[sinks.a]\ntype = \"webhook\"\nurl = \"{scheme}://127.0.0.1/hook\"\n\
                 proxy = \"http://proxy:3128\"\n"
            ));
            let words = "`proxy` is for an address with https://";
            assert!(problems.contains(words), "{scheme}: {problems}");
        }
    }
}
