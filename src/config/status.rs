//! Reads `[status]`: where the status page listens, and who may read it.
//!
//! An address that other machines reach is accepted only together with a token. The token's file
//! is read with the configuration, so a reload picks up a new token.

use std::net::SocketAddr;
use std::ops::Range;

use secrecy::{ExposeSecret, SecretString};

use super::Base;
use super::key::read_secret_file;
use super::secret_text;
use super::section::{Found, Section};

const TOKEN_LENGTH_MIN: usize = 16;
const HOSTS_MAX: usize = 32;
const HOST_LENGTH_MAX: usize = 253;

/// `[status]`
#[derive(Debug, Clone)]
pub struct StatusSettings {
    /// Where the status page listens; port 0 takes a free port.
    pub listen: SocketAddr,
    /// What a client must send to read the page; always set if other machines reach `listen`.
    pub token: Option<SecretString>,
    /// Names in the header `Host` that the page accepts beside addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Whether the page shows single records and the reports that contain them.
    pub show_records: bool,
}

impl PartialEq for StatusSettings {
    fn eq(&self, other: &Self) -> bool {
        let token =
            |settings: &Self| settings.token.as_ref().map(|token| token.expose_secret().to_owned());
        self.listen == other.listen
            && token(self) == token(other)
            && self.hosts == other.hosts
            && self.show_records == other.show_records
    }
}

/// The section; `None` if no address is given or a problem was noted.
pub(super) fn read(mut section: Section<'_>, base: &Base) -> Option<StatusSettings> {
    let listen = listen(&mut section);
    let token_given = section.holds("token_file");
    let token = token(&mut section, base);
    let hosts = hosts(&mut section);
    let show_records = section.boolean("show_records").unwrap_or(false);
    if let Some(Found { value, place }) = &listen
        && !value.ip().is_loopback()
        && !token_given
    {
        section.findings.note(
            place,
            "`listen` is an address that other machines can reach, so the page needs a token: add \
             `token_file`, or listen on 127.0.0.1",
        );
    }
    section.finish();
    Some(StatusSettings { listen: listen?.value, token, hosts, show_records })
}

fn listen(section: &mut Section<'_>) -> Option<Found<SocketAddr>> {
    let Found { value, place } = section.text("listen")?;
    if let Ok(address) = value.parse() {
        return Some(Found { value: address, place });
    }
    let message =
        "`listen` must be an address and a port, for example \"127.0.0.1:7780\" or \"[::1]:7780\"";
    section.findings.note(&place, message);
    None
}

fn token(section: &mut Section<'_>, base: &Base) -> Option<SecretString> {
    let Found { value, place } = secret_text::file(section, base, "token_file")?;
    let note = |message: String| section.findings.note(&place, format!("`token_file`: {message}"));
    let path = base.dir.join(value);
    let content = match read_secret_file(&path) {
        Ok(content) => content,
        Err(error) => {
            note(error.to_string());
            return None;
        }
    };
    let token = content.expose_secret().trim();
    if token.len() < TOKEN_LENGTH_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        note(format!(
            "{} must hold one token of at least {TOKEN_LENGTH_MIN} letters and digits on one line; \
             make one with: openssl rand -hex 24",
            path.display()
        ));
        return None;
    }
    Some(SecretString::from(token))
}

fn hosts(section: &mut Section<'_>) -> Vec<String> {
    let Some(list) = section.texts("hosts") else { return Vec::new() };
    let mut hosts = Vec::new();
    for Found { value, place } in list.value {
        if is_host_name(value) {
            hosts.push(value.to_ascii_lowercase());
        } else {
            note_host(section, &place);
        }
    }
    if hosts.len() > HOSTS_MAX {
        section.findings.note(&list.place, format!("`hosts` holds more than {HOSTS_MAX} names"));
    }
    hosts
}

fn note_host(section: &Section<'_>, place: &Range<usize>) {
    let message = "an item of `hosts` is not a host name: write only the name, without https:// \
                   and without a port, for example \"status.example.com\"";
    section.findings.note(place, message);
}

fn is_host_name(text: &str) -> bool {
    (1..=HOST_LENGTH_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}
