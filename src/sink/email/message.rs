//! Writes mails. A header holds no text of a record but the subject, which is one line.

use std::time::SystemTime;

use jiff::Timestamp;
use lettre::Message;
use lettre::address::Envelope;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder, MultiPart, SinglePart};
use shopmirror_core::record::Change;

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
            None => builder.singlepart(SinglePart::plain(text))?,
            Some(html) => {
                let html = html.render(context)?;
                builder.multipart(MultiPart::alternative_plain_html(text, html))?
            }
        };
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

fn mailbox(text: &str) -> Result<Mailbox, SinkError> {
    text.parse().map_err(|error| {
        SinkError::new(format!(
            "{text:?} is not a mail address ({error}): correct it"
        ))
    })
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
