//! Reads the keys of a sink of type `email`: the server, who gets the mails, and what they say.
//!
//! Sender and recipients are fixed here; no text of a record gets into an address. The login is read
//! with the configuration, so that a reload reads it again.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::Base;
use super::key::read_secret_file;
use super::secret_text;
use super::section::{Found, Section};
use super::shape::template;
use super::webhook::TIMEOUT;
use crate::shape::{DIGEST_NAMES, Escape, NAMES, Template};

const RECIPIENTS_MAX: usize = 20;
const DIGEST: RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_secs(7 * 86_400);

/// What a mail about one change says unless the configuration says otherwise.
const SUBJECT: &str = "{{ type }} {{ record_id }}";
const TEXT: &str = "{{ type }} {{ record_id }}, seen {{ observed_at }}\n\n\
    {% for name, value in (record or gap)|items %}{{ name }}: {{ value }}\n{% endfor %}";
/// The same for a digest.
const DIGEST_SUBJECT: &str = "{{ count }} changes";
const DIGEST_TEXT: &str = "{% for change in changes %}{{ change.type }} {{ change.record_id }}, \
    seen {{ change.observed_at }}\n{% endfor %}";

/// `type = "email"`
#[derive(Debug, Clone)]
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
    pub login: Option<(String, SecretString)>,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailTls {
    /// A plain connection that must turn to TLS before anything is sent.
    StartTls,
    /// TLS from the first byte.
    Tls,
    /// No protection; only to a server on this machine.
    Off,
}

impl MailTls {
    fn usual_port(self) -> u16 {
        match self {
            Self::StartTls => 587,
            Self::Tls => 465,
            Self::Off => 25,
        }
    }
}

impl PartialEq for EmailSettings {
    /// Compares the password as well, so that a file with a new one is a change.
    fn eq(&self, other: &Self) -> bool {
        let login = |sink: &Self| -> Option<(String, String)> {
            sink.login.as_ref().map(|(user, key)| (user.clone(), key.expose_secret().to_owned()))
        };
        let plain = |sink: &Self| {
            let text = (sink.subject.clone(), sink.text.clone(), sink.html.clone());
            let server = (sink.server.clone(), sink.port, sink.tls, sink.ca_file.clone());
            (text, server, sink.from.clone(), sink.to.clone(), sink.digest, sink.timeout)
        };
        plain(self) == plain(other) && login(self) == login(other)
    }
}

/// The sink; `None` only if a problem was noted.
pub(super) fn read(section: &mut Section<'_>, base: &Base) -> Option<EmailSettings> {
    let words = [("starttls", MailTls::StartTls), ("tls", MailTls::Tls), ("none", MailTls::Off)];
    let tls = section.word("tls", &words).unwrap_or(MailTls::StartTls);
    let server = server(section, tls);
    let login = login(section, base, tls);
    let ca_file = section.text("ca_file").map(|found| base.dir.join(found.value));
    let from = from(section);
    let to = recipients(section);
    let digest = section.duration("digest", &DIGEST).map(|found| found.value);
    let timeout = section.duration("timeout", &TIMEOUT);
    let (names, subject, text): (&[&str], _, _) = match digest {
        None => (&NAMES, SUBJECT, TEXT),
        Some(_) => (&DIGEST_NAMES, DIGEST_SUBJECT, DIGEST_TEXT),
    };
    let mut read = |keys, escape, usual: Option<&str>| match given(section, keys) {
        true => template(section, base, keys, escape, names).map(Some),
        false => Some(usual.map(|source| {
            Template::compile(source, escape, names).expect("the built-in templates are tested")
        })),
    };
    let subject = read(["subject", "subject_file"], Escape::Text, Some(subject));
    let text = read(["text", "text_file"], Escape::Text, Some(text));
    let html = read(["html", "html_file"], Escape::Html, None);
    let (server, port) = server?;
    Some(EmailSettings {
        server,
        port,
        tls,
        ca_file,
        login: login?,
        from: from?,
        to: to?,
        subject: subject??,
        text: text??,
        html: html?,
        digest,
        timeout: timeout.map_or(Duration::from_secs(30), |found| found.value),
    })
}

/// Whether the file has one of the two keys; both are known from here on.
fn given(section: &mut Section<'_>, keys: [&'static str; 2]) -> bool {
    let held = keys.map(|key| section.value(key).is_some());
    held.contains(&true)
}

/// `HOST` or `HOST:PORT`.
fn server(section: &mut Section<'_>, tls: MailTls) -> Option<(String, u16)> {
    if !section.holds("server") {
        section.missing("server", "the mail server, for example \"smtp.example.com\"");
    }
    let Found { value, place } = section.text("server")?;
    let (host, port) = match value.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (value, None),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = match port {
        None => Some(tls.usual_port()),
        Some(port) => port.parse().ok().filter(|port| *port > 0),
    };
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"-._:".contains(&b);
    let (true, Some(port)) = (!host.is_empty() && host.bytes().all(legal), port) else {
        let message = "`server` must be a host name, with a port if it is not the usual one, for example \"smtp.example.com:587\"";
        section.findings.note(&place, message);
        return None;
    };
    if tls == MailTls::Off && !matches!(host, "localhost" | "127.0.0.1" | "::1") {
        let message = "`tls = \"none\"` is only for a server on this machine (localhost): use \"starttls\" or \"tls\"";
        section.findings.note(&place, message);
    }
    Some((host.to_owned(), port))
}

/// User and password: the two lines of a file. The outer `None` only if a problem was noted.
fn login(
    section: &mut Section<'_>,
    base: &Base,
    tls: MailTls,
) -> Option<Option<(String, SecretString)>> {
    let Some(Found { value, place }) = secret_text::file(section, base, "login_file") else {
        return Some(None);
    };
    let note = |message: String| section.findings.note(&place, message);
    if tls == MailTls::Off {
        note("`login_file` needs TLS, because the password would be sent in plain text: set tls to \"starttls\" or \"tls\"".to_owned());
        return None;
    }
    let content = match read_secret_file(&base.dir.join(value)) {
        Ok(content) => content,
        Err(error) => {
            note(format!("`login_file`: {error}"));
            return None;
        }
    };
    let mut lines = content.expose_secret().lines().map(str::trim).filter(|line| !line.is_empty());
    match (lines.next(), lines.next(), lines.next()) {
        (Some(user), Some(password), None) => {
            Some(Some((user.to_owned(), SecretString::from(password))))
        }
        _ => {
            note("`login_file` must hold two lines: the user name and the password".to_owned());
            None
        }
    }
}

fn from(section: &mut Section<'_>) -> Option<String> {
    if !section.holds("from") {
        section.missing("from", "the sender, for example \"Shop <shop@example.com>\"");
    }
    let found = section.text("from")?;
    mailbox(section, "from", &found)
}

fn recipients(section: &mut Section<'_>) -> Option<Vec<String>> {
    if !section.holds("to") {
        section.missing("to", "a list of recipients, for example [\"desk@example.com\"]");
    }
    let list = section.texts("to")?;
    if list.value.is_empty() || list.value.len() > RECIPIENTS_MAX {
        let message = format!("`to` must hold 1 to {RECIPIENTS_MAX} recipients");
        section.findings.note(&list.place, message);
        return None;
    }
    list.value.iter().map(|found| mailbox(section, "to", found)).collect()
}

/// `LOCAL@DOMAIN` or `NAME <LOCAL@DOMAIN>`.
fn mailbox(section: &Section<'_>, key: &str, found: &Found<&str>) -> Option<String> {
    let address = match found.value.split_once('<') {
        Some((_, rest)) => rest.strip_suffix('>').unwrap_or_default(),
        None => found.value,
    };
    let legal = |b: u8| b.is_ascii_graphic() && !b"<>()[]\\,;:\"".contains(&b);
    let parts = address.split_once('@').filter(|(local, domain)| {
        !local.is_empty() && !domain.contains('@') && domain.contains(|c: char| c.is_alphanumeric())
    });
    if parts.is_none() || !address.bytes().all(legal) {
        let message = format!(
            "`{key}` is not a mail address: write \"desk@example.com\" or \"Desk <desk@example.com>\""
        );
        section.findings.note(&found.place, message);
        return None;
    }
    Some(found.value.to_owned())
}
