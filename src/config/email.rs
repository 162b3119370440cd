//! The keys of a sink of type `email`: the server, who gets the mails, and what they say.
//!
//! Sender and recipients are fixed here; no text of a record gets into an address. The login is read
//! with the configuration, so that a reload reads it again.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::address::is_this_machine;
use super::secret::Secret;
use super::shape::compiled;
use super::table::Table;
use super::value::{duration, parsed, path, seconds, two_lines};
use super::webhook::timeout;
use crate::shape::{DIGEST_NAMES, Escape, NAMES, Template};

const RECIPIENTS_MAX: usize = 20;

/// What a mail about one change says unless the configuration says otherwise.
const SUBJECT: &str = "{{ type }} {{ record_id }}";
const TEXT: &str = "{{ type }} {{ record_id }}, seen {{ observed_at }}\n\n\
    {% for name, value in (record or gap)|items %}{{ name }}: {{ value }}\n{% endfor %}";
/// The same for a digest.
const DIGEST_SUBJECT: &str = "{{ count }} changes";
const DIGEST_TEXT: &str = "{% for change in changes %}{{ change.type }} {{ change.record_id }}, \
    seen {{ change.observed_at }}\n{% endfor %}";

/// `type = "email"`
#[derive(Debug, Clone, PartialEq)]
pub struct EmailSettings {
    /// The SMTP server's name.
    pub server: String,
    /// Its port.
    pub port: u16,
    /// How the connection is protected.
    pub tls: MailTls,
    /// The certificate authorities that may vouch for the server; `None`: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// User and password.
    pub login: Option<(String, Secret)>,
    /// The sender.
    pub from: String,
    /// The recipients, at least one.
    pub to: Vec<String>,
    /// The subject.
    pub subject: Template,
    /// The text.
    pub text: Template,
    /// The same as HTML.
    pub html: Option<Template>,
    /// One mail about all changes of this time; `None`: one mail for each change.
    pub digest: Option<Duration>,
    /// The longest time that one mail may take.
    pub timeout: Duration,
}

/// How the connection to a mail server is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailTls {
    /// A plain connection that must turn to TLS before anything is sent.
    StartTls,
    /// TLS from the first byte.
    Tls,
    /// No protection; only to a server on this machine.
    #[serde(rename = "none")]
    Off,
}

/// The port of mail with TLS from the first byte, and the one that begins in plain text.
const TLS_PORT: u16 = 465;
const STARTTLS_PORT: u16 = 587;

#[derive(Deserialize)]
struct Keys {
    #[serde(deserialize_with = "server")]
    server: (String, Option<u16>),
    #[serde(default)]
    tls: Option<MailTls>,
    #[serde(default, deserialize_with = "path")]
    ca_file: Option<PathBuf>,
    #[serde(default, deserialize_with = "two_lines")]
    login_file: Option<(String, Secret)>,
    #[serde(deserialize_with = "mailbox")]
    from: String,
    to: Vec<Recipient>,
    #[serde(default)]
    subject: Option<String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    html: Option<String>,
    #[serde(default, deserialize_with = "duration")]
    digest: Option<Duration>,
    #[serde(default = "seconds::<30>", deserialize_with = "duration")]
    timeout: Duration,
}

#[derive(Deserialize)]
struct Recipient(#[serde(deserialize_with = "mailbox")] String);

/// The sink; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>) -> Option<EmailSettings> {
    let keys: Keys = table.read(&[
        ("server", "the mail server, for example \"smtp.example.com\""),
        ("from", "the sender, for example \"Shop <shop@example.com>\""),
        ("to", "a list of recipients, for example [\"desk@example.com\"]"),
    ])?;
    let (server, port) = keys.server;
    let tls = keys.tls.unwrap_or(match port {
        Some(TLS_PORT) => MailTls::Tls,
        _ => MailTls::StartTls,
    });
    let default_port = match tls {
        MailTls::StartTls => STARTTLS_PORT,
        MailTls::Tls => TLS_PORT,
        MailTls::Off => 25,
    };
    let port = port.unwrap_or(default_port);
    match (tls, port) {
        (MailTls::StartTls, TLS_PORT) => table.note("tls", "does not fit port 465, where a server speaks TLS from the first byte: write tls = \"tls\", or use port 587"),
        (MailTls::Tls, STARTTLS_PORT) => table.note("tls", "does not fit port 587, where a server begins without TLS: write tls = \"starttls\", or use port 465"),
        (MailTls::Off, _) if !is_this_machine(&server) => table.note("tls", "can be \"none\" only for a server on this machine (localhost): use \"starttls\" or \"tls\""),
        (MailTls::Off, _) if keys.login_file.is_some() => table.note("login_file", "needs TLS, because the password would be sent in plain text: set tls to \"starttls\" or \"tls\""),
        _ => {}
    }
    if keys.to.is_empty() || keys.to.len() > RECIPIENTS_MAX {
        table.note("to", format!("must hold 1 to {RECIPIENTS_MAX} recipients"));
    }
    if let Some(digest) = keys.digest {
        let week = Duration::from_secs(7 * 86_400);
        table.between("digest", digest, Duration::from_secs(10), week);
    }
    timeout(table, keys.timeout);
    let (names, subject, text): (&[&str], _, _) = match keys.digest {
        None => (&NAMES, SUBJECT, TEXT),
        Some(_) => (&DIGEST_NAMES, DIGEST_SUBJECT, DIGEST_TEXT),
    };
    let template = |key, escape, text: &str| compiled(table, &[key], text, escape, names);
    let subject = template("subject", Escape::Text, keys.subject.as_deref().unwrap_or(subject));
    let text = template("text", Escape::Text, keys.text.as_deref().unwrap_or(text));
    let html = keys.html.map(|html| template("html", Escape::Html, &html));
    Some(EmailSettings {
        server,
        port,
        tls,
        ca_file: keys.ca_file,
        login: keys.login_file,
        from: keys.from,
        to: keys.to.into_iter().map(|recipient| recipient.0).collect(),
        subject: subject?,
        text: text?,
        html: match html {
            Some(html) => Some(html?),
            None => None,
        },
        digest: keys.digest,
        timeout: keys.timeout,
    })
}

/// `HOST` or `HOST:PORT`.
fn server<'de, D: Deserializer<'de>>(d: D) -> Result<(String, Option<u16>), D::Error> {
    parsed(d, "a string in quotes", |text| {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_port = |port: &u16| *port > 0;
        let number = port.map(|port| port.parse::<u16>().ok().filter(is_port));
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"-._:".contains(&b);
        match number {
            Some(None) => {}
            _ if host.is_empty() || !host.bytes().all(legal) => {}
            number => return Ok((host.to_owned(), number.flatten())),
        }
        Err("must be a host name, with a port if it is not the usual one, for example \"smtp.example.com:587\"".into())
    })
}

/// `LOCAL@DOMAIN` or `NAME <LOCAL@DOMAIN>`, as the sink will read it.
fn mailbox<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    parsed(d, "a string in quotes", |text| {
        #[cfg(feature = "email")]
        let is_address = text.parse::<lettre::message::Mailbox>().is_ok();
        #[cfg(not(feature = "email"))]
        let is_address = text.contains('@');
        if is_address {
            return Ok(text.to_owned());
        }
        Err("is not a mail address: write \"desk@example.com\" or \"Desk <desk@example.com>\""
            .into())
    })
}
