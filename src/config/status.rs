//! `[status]`: where the status page listens, and who may read it.
//!
//! An address that other machines reach is accepted only together with a token. The token's file
//! is read with the configuration, so a reload picks up a new token.

use std::net::SocketAddr;

use serde::{Deserialize, Deserializer};

use super::secret::Secret;
use super::table::Table;
use super::value::{in_file, parsed};

const TOKEN_LENGTH_MIN: usize = 16;

/// `[status]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct StatusSettings {
    /// Where the status page listens; port 0 takes a free port.
    #[serde(deserialize_with = "listen")]
    pub listen: SocketAddr,
    /// What a client must send to read the page; always set if other machines reach `listen`.
    #[serde(rename = "token_file", default, deserialize_with = "token")]
    pub token: Option<Secret>,
    /// Names in the header `Host` that the page accepts beside addresses and `localhost`.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Whether the page shows single records and the reports that contain them.
    #[serde(default)]
    pub show_records: bool,
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

fn token<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Secret>, D::Error> {
    in_file(d, |text| {
        if text.len() >= TOKEN_LENGTH_MIN && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Ok(Some(text.into()));
        }
        Err(format!(
            "must name a file with one token of at least {TOKEN_LENGTH_MIN} letters and digits on \
             one line; make one with: openssl rand -hex 24"
        ))
    })
}
