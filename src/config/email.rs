//! The keys of a sink of type `email`: the server, the recipients, and the texts of the mails.
//!
//! Sender and recipients are fixed here; no text of a record gets into an address. The login is
//! read with the configuration, so that a reload reads it again.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use url::Url;

use super::address::is_this_machine;
use super::secret::Secret;
use super::shape::compiled;
use super::table::Table;
use super::value::{DAY_MS, lasting, seconds, timeout, two_lines};
use crate::shape::{DIGEST_NAMES, Escape, NAMES, Template};

/// The default subject and text of a mail about one change.
const SUBJECT: &str = "{{ type }} {{ record_id }}";
const TEXT: &str = "{{ type }} {{ record_id }}, seen {{ observed_at }}\n\n\
    {% for name, value in (record or gap)|items %}{{ name }}: {{ value }}\n{% endfor %}";
/// The same for a digest.
const DIGEST_SUBJECT: &str = "{{ count }} changes";
const DIGEST_TEXT: &str = "{% for change in changes %}{{ change.type }} {{ change.record_id }}, \
    seen {{ change.observed_at }}\n{% endfor %}";

/// `type = "email"`
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct EmailSettings {
    /// The SMTP server's name.
    pub server: String,
    /// Its port.
    #[serde(skip)]
    pub port: u16,
    /// How the connection is protected.
    #[serde(default)]
    pub tls: MailTls,
    /// The certificate authorities that may vouch for the server; `None`: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// User and password.
    #[serde(rename = "login_file", default, deserialize_with = "two_lines")]
    pub login: Option<(String, Secret)>,
    /// The sender.
    pub from: String,
    /// The recipients, at least one.
    pub to: Vec<String>,
    /// The subject.
    #[serde(skip)]
    pub subject: Template,
    /// The text.
    #[serde(skip)]
    pub text: Template,
    /// The same as HTML.
    #[serde(skip)]
    pub html: Option<Template>,
    /// One mail about all changes of this time; `None`: one mail for each change.
    #[serde(default, deserialize_with = "lasting::<10_000, { 7 * DAY_MS }, _, _>")]
    pub digest: Option<Duration>,
    /// The longest time that one mail may take.
    #[serde(default = "seconds::<30>", deserialize_with = "timeout")]
    pub timeout: Duration,
}

/// How the connection to a mail server is protected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailTls {
    /// A plain connection that must turn to TLS before anything is sent.
    #[default]
    StartTls,
    /// TLS from the first byte.
    Tls,
    /// No protection; only to a server on this machine.
    #[serde(rename = "none")]
    Off,
}

/// The port of mail with TLS from the first byte.
const TLS_PORT: u16 = 465;

#[derive(Deserialize)]
struct Texts {
    subject: Option<String>,
    text: Option<String>,
    html: Option<String>,
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(table: &Table<'_>) -> Option<EmailSettings> {
    let texts: Option<Texts> = table.read(&[]);
    let mut read: EmailSettings = table.read(&["server", "from", "to"])?;
    check_server(table, &mut read);
    if read.to.is_empty() {
        table.note("to", "must hold at least one recipient");
    }
    let mut names: &[&str] = &NAMES;
    let mut subject = SUBJECT;
    let mut text = TEXT;
    if read.digest.is_some() {
        names = &DIGEST_NAMES;
        subject = DIGEST_SUBJECT;
        text = DIGEST_TEXT;
    }
    let texts = texts?;
    let subject = texts.subject.as_deref().unwrap_or(subject);
    let text = texts.text.as_deref().unwrap_or(text);
    read.subject = compiled(table, &["subject"], subject, Escape::Text, names)?;
    read.text = compiled(table, &["text"], text, Escape::Text, names)?;
    if let Some(html) = &texts.html {
        read.html = compiled(table, &["html"], html, Escape::Html, names);
    }
    Some(read)
}

/// Reads the server: `HOST` or `HOST:PORT`.
fn check_server(table: &Table<'_>, read: &mut EmailSettings) {
    let Some((host, port)) = host_and_port(&read.server) else {
        return table.note(
            "server",
            "must be a host name, with a port if it is not the usual one, for example \
             \"smtp.example.com:587\"",
        );
    };
    if port == Some(TLS_PORT) && !table.has("tls") {
        read.tls = MailTls::Tls;
    }
    read.port = port.unwrap_or(match read.tls {
        MailTls::StartTls => 587,
        MailTls::Tls => TLS_PORT,
        MailTls::Off => 25,
    });
    if read.tls == MailTls::Off && !is_this_machine(&host) {
        table.note(
            "tls",
            "can be \"none\" only for a server on this machine (localhost): use \"starttls\" or \
             \"tls\"",
        );
    }
    read.server = host;
}

fn host_and_port(server: &str) -> Option<(String, Option<u16>)> {
    let url = Url::parse(&format!("smtp://{server}")).ok()?;
    if !url.path().is_empty() || !url.username().is_empty() {
        return None;
    }
    let host = url.host_str()?.trim_matches(['[', ']']);
    Some((host.to_owned(), url.port()))
}
