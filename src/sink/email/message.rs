//! Writes mails. A header holds no text of a record but the subject, which is one line.

use std::time::SystemTime;

use jiff::Timestamp;
use lettre::Message;
use lettre::address::{Address, Envelope};
use lettre::message::header::{ContentTransferEncoding, ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder, MultiPart, SinglePart};
use serde::Deserialize;
use shopmirror_core::record::Change;
use url::Host;

use super::report::MailedReport;
use crate::config::EmailSettings;
use crate::shape::{Context, Template, TemplateError};
use crate::sink::SinkError;
use crate::text::escape::is_unsafe;

/// The longest subject, in characters.
const SUBJECT_CHARS: usize = 200;

/// Why a mail cannot be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("the mail cannot be written: {0}")]
    Mail(#[from] lettre::error::Error),
}

/// An alert as sinks get it. Missing fields are empty: the mail then has less.
#[derive(Default, Deserialize)]
#[serde(default)]
struct MailedAlert {
    title: String,
    text: String,
    since: String,
}

/// Writes the mails of one sink.
pub(super) struct Writer {
    from: Mailbox,
    to: Vec<Mailbox>,
    subject: Template,
    text: Template,
    html: Option<Template>,
}

impl Writer {
    pub(super) fn build(settings: &EmailSettings) -> Result<Self, SinkError> {
        let mut to = Vec::new();
        for recipient in &settings.to {
            to.push(mailbox(recipient)?);
        }
        Ok(Self {
            from: mailbox(&settings.from)?,
            to,
            subject: settings.subject.clone(),
            text: settings.text.clone(),
            html: settings.html.clone(),
        })
    }

    /// Who sends every mail and who gets it.
    pub(super) fn envelope(&self) -> Envelope {
        let mut to = Vec::new();
        for recipient in &self.to {
            to.push(recipient.email.clone());
        }
        Envelope::new(Some(self.from.email.clone()), to).expect("the configuration has a recipient")
    }

    /// Headers and body of one mail. `id` is the same each time that the mail is sent.
    pub(super) fn mail(
        &self,
        context: &Context,
        id: &str,
        now: Timestamp,
    ) -> Result<Vec<u8>, WriteError> {
        let builder = self.head(&self.subject.render(context)?, id, now);
        let text = self.text.render(context)?;
        let message = match &self.html {
            None => builder.singlepart(part(ContentType::TEXT_PLAIN, text))?,
            Some(html) => {
                let html = html.render(context)?;
                let shown = MultiPart::alternative()
                    .singlepart(part(ContentType::TEXT_PLAIN, text))
                    .singlepart(part(ContentType::TEXT_HTML, html));
                builder.multipart(shown)?
            }
        };
        Ok(message.formatted())
    }

    /// The mail of an alert. It has its own form, whatever the templates say.
    pub(super) fn alert(&self, change: &Change, now: Timestamp) -> Result<Vec<u8>, WriteError> {
        let alert: MailedAlert = serde_json::from_str(&change.body).unwrap_or_default();
        let text = format!("{}\n\nsince {}\n", alert.text, alert.since);
        let builder = self.head(&alert.title, &change.event_id, now);
        let message = builder.singlepart(part(ContentType::TEXT_PLAIN, text))?;
        Ok(message.formatted())
    }

    /// The mail of a scheduled report. It has its own form, whatever the templates say.
    pub(super) fn report(&self, change: &Change, now: Timestamp) -> Result<Vec<u8>, WriteError> {
        let report = MailedReport::parse(&change.body);
        let builder = self.head(&report.subject(), &change.event_id, now);
        let message = builder.multipart(report.parts())?;
        Ok(message.formatted())
    }

    /// The headers that every mail has.
    fn head(&self, subject: &str, id: &str, now: Timestamp) -> MessageBuilder {
        let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
        let mut builder = Message::builder()
            .from(self.from.clone())
            .message_id(Some(format!("<{id}@{}>", self.from.email.domain())))
            .subject(one_line(subject))
            // No program answers such a mail.
            .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()));
        // A time that the system cannot hold is left to the library, which takes its own.
        if let Ok(at) = SystemTime::try_from(now) {
            builder = builder.date(at);
        }
        for recipient in &self.to {
            builder = builder.to(recipient.clone());
        }
        builder
    }
}

/// An address of the configuration, with its domain in the letters that every mail server knows.
fn mailbox(text: &str) -> Result<Mailbox, SinkError> {
    let mailbox: Mailbox = text.parse().map_err(|error| {
        SinkError::new(format!(
            "{text:?} is not a mail address ({error}): correct it"
        ))
    })?;
    if !mailbox.email.user().is_ascii() {
        return Err(SinkError::new(format!(
            "{text:?} has letters outside of ASCII before the @, which few mail servers take: use \
             another address of this mailbox"
        )));
    }
    if mailbox.email.domain().is_ascii() {
        return Ok(mailbox);
    }
    let domain = Host::parse(mailbox.email.domain()).map_err(|error| {
        SinkError::new(format!(
            "{text:?} has a domain that cannot be used ({error}): correct it"
        ))
    })?;
    let address = Address::new(mailbox.email.user(), domain.to_string());
    let address = address.map_err(|error| {
        SinkError::new(format!(
            "{text:?} is not a mail address ({error}): correct it"
        ))
    })?;
    Ok(Mailbox::new(mailbox.name, address))
}

/// A text as a part of a mail. Control characters are encoded: a mail server may cut or refuse a
/// mail that has them as they are.
pub(super) fn part(kind: ContentType, text: String) -> SinglePart {
    let mut builder = SinglePart::builder().header(kind);
    let is_control = |c: char| c.is_control() && !matches!(c, '\t' | '\n');
    if text.replace("\r\n", "\n").contains(is_control) {
        builder = builder.header(ContentTransferEncoding::Base64);
    }
    builder.body(text)
}

/// A text that can be a header: no character in it ends a line or steers a display, and no part of
/// it is taken for an encoded word (RFC 2047).
fn one_line(text: &str) -> String {
    let spaced = text.replace(is_unsafe, " ").replace("=?", "= ?");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let line: String = words.join(" ").chars().take(SUBJECT_CHARS).collect();
    if line.is_empty() {
        "shopmirror".to_owned()
    } else {
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_a_record_is_taken_for_an_encoded_word() {
        let name = "Repair of =?utf-8?q?=0d=0aBcc:_x?=\r\nBcc: y";
        assert_eq!(one_line(name), "Repair of = ?utf-8?q?=0d=0aBcc:_x?= Bcc: y");
        assert_eq!(one_line("=\u{7}?utf-8?"), "= ?utf-8?");
        assert_eq!(one_line(" \n"), "shopmirror");
    }
}
