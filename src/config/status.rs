//! `[status]`: where the status page listens, and who may read it.
//!
//! An address that other machines reach is accepted only together with a token. The tokens' file
//! is read with the configuration, so a reload picks up a new token.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer};
use strum::{EnumString, VariantNames};

use super::secret::Secret;
use super::table::Table;
use super::value::{in_file, parsed};

const TOKEN_LENGTH_MIN: usize = 16;
/// The most characters of a token's name.
const TOKEN_NAME_MAX: usize = 32;
/// The name of a token that stands alone on its line.
const OWNER: &str = "owner";

/// `[status]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct StatusSettings {
    /// Where the status page listens; port 0 takes a free port.
    #[serde(deserialize_with = "listen")]
    pub listen: SocketAddr,
    /// One of them is needed to read the page, unless there is none; there is one if other machines
    /// reach `listen`.
    #[serde(rename = "token_file", default, deserialize_with = "tokens")]
    pub tokens: Vec<Token>,
    /// The certificate that the page is served with over TLS, and those that signed it, as PEM.
    #[serde(default)]
    pub cert_file: Option<PathBuf>,
    /// The private key of the certificate, as PEM.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// Names in the header `Host` that the page accepts beside addresses and `localhost`.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Whether the page shows single records and the reports that contain them.
    #[serde(default)]
    pub show_records: bool,
}

/// A token of the page, and what it lets a client see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Whose it is.
    pub name: String,
    /// What it lets a client see.
    pub role: Role,
    /// What the client sends.
    pub secret: Secret,
}

/// What a client may see of the page. No role shows more than `show_records` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Role {
    /// Everything.
    Owner,
    /// The repairs and the people, and no amount: a list of fields, which the page has.
    Staff,
    /// The numbers on the wall display, and nothing else of the shop.
    Wall,
}

impl StatusSettings {
    /// The files of the certificate and its key, if the page is served over TLS.
    #[must_use]
    pub fn certificate(&self) -> Option<(&PathBuf, &PathBuf)> {
        Some((self.cert_file.as_ref()?, self.key_file.as_ref()?))
    }
}

/// The section; `None` if no address is given or a problem was noted.
pub(super) fn read(table: &Table<'_>) -> Option<StatusSettings> {
    let mut read: StatusSettings = table.read(&[])?;
    if !read.listen.ip().is_loopback() && !table.has("token_file") {
        table.note(
            "listen",
            "can be reached by other machines, so the page needs a token: add `token_file`, or \
             listen on 127.0.0.1",
        );
    }
    if read.cert_file.is_some() != read.key_file.is_some() {
        let key = if read.cert_file.is_some() {
            "cert_file"
        } else {
            "key_file"
        };
        table.note(
            key,
            "needs the other of `cert_file` and `key_file` beside it",
        );
    }
    for host in &mut read.hosts {
        host.make_ascii_lowercase();
    }
    Some(read)
}

fn listen<'de, D: Deserializer<'de>>(d: D) -> Result<SocketAddr, D::Error> {
    parsed(d, |text| {
        text.parse().map_err(|_| {
            "must be an address and a port, for example \"127.0.0.1:7780\" or \"[::1]:7780\"".into()
        })
    })
}

fn tokens<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Token>, D::Error> {
    in_file(d, parse_tokens)
}

/// The tokens of a file, one on each line: its name, its role and the token, with spaces between. A
/// token alone belongs to the owner.
fn parse_tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens: Vec<Token> = Vec::new();
    for (place, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let token = match words[..] {
            [] => continue,
            [secret] => parse_token(OWNER, Role::Owner, secret),
            [name, role, secret] => match role.parse() {
                Ok(role) => parse_token(name, role, secret),
                Err(_) => Err(format!(
                    "the role must be one of {}",
                    Role::VARIANTS.join(", ")
                )),
            },
            _ => Err(
                "must be one token alone, or a name, a role and a token with spaces between"
                    .to_owned(),
            ),
        };
        let token = token.map_err(|problem| in_line(place, &problem))?;
        for other in &tokens {
            if other.name == token.name {
                return Err(in_line(
                    place,
                    "must have another name than the lines before",
                ));
            }
            if other.secret == token.secret {
                return Err(in_line(
                    place,
                    "must be another token than the lines before",
                ));
            }
        }
        tokens.push(token);
    }
    if tokens.is_empty() {
        return Err("names an empty file: make a token with: openssl rand -hex 24".to_owned());
    }
    Ok(tokens)
}

fn in_line(place: usize, problem: &str) -> String {
    format!(
        "names a file with a mistake in line {}: {problem}",
        place + 1
    )
}

/// No error holds a word of the line, because any of them may be a secret in the wrong place.
fn parse_token(name: &str, role: Role, secret: &str) -> Result<Token, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.len() > TOKEN_NAME_MAX || !name.chars().all(is_name) {
        return Err(format!(
            "the name must be 1 to {TOKEN_NAME_MAX} characters of a-z, A-Z, 0-9, _ and -"
        ));
    }
    if secret.len() < TOKEN_LENGTH_MIN || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "the token must have at least {TOKEN_LENGTH_MIN} letters and digits; make one with: \
             openssl rand -hex 24"
        ));
    }
    Ok(Token {
        name: name.to_owned(),
        role,
        secret: secret.into(),
    })
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn a_file_of_tokens_has_one_on_each_line() {
        let secret = "0123456789abcdef";
        let one = parse_tokens(secret).unwrap();
        assert_eq!((one[0].name.as_str(), one[0].role), (OWNER, Role::Owner));
        let text = format!("{secret}\n\n hall\twall  CANARY6789abcdef0\r\n");
        let two = parse_tokens(&text).unwrap();
        assert_eq!((two[1].name.as_str(), two[1].role), ("hall", Role::Wall));
        assert_eq!(two[1].secret.expose_secret(), "CANARY6789abcdef0");
        for (text, problem) in [
            ("", "empty file"),
            ("CANARY", "line 1: the token must have at least 16"),
            ("CANARY6789abcdef0 wall", "line 1: must be one token alone"),
            (
                "CANARY6789abcdef0 hall wall",
                "line 1: the role must be one of owner, staff, wall",
            ),
            ("\nha/ll wall CANARY6789abcdef0", "line 2: the name must be"),
            (
                "hall wall CANARY6789abcdef0\nhall wall CANARY6789abcdef1",
                "line 2: must have another name",
            ),
            (
                "a wall CANARY6789abcdef0\nb owner CANARY6789abcdef0",
                "line 2: must be another token",
            ),
        ] {
            let found = parse_tokens(text).unwrap_err();
            assert!(
                found.contains(problem) && !found.contains("CANARY"),
                "{found}"
            );
        }
    }
}
