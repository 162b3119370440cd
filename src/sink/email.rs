//! Mails through an SMTP server: one for each change, or one about all changes of a while.
//!
//! Sender and recipients come from the configuration alone. Text of a record stands in the subject,
//! without control characters, and in the body. SMTP has no event ids: a mail that was accepted
//! before a crash, and whose position was not saved, is sent again. A mail about one change then has
//! the same `Message-ID`. One about several has another if more changes have come in between.

mod digest;
mod message;
mod report;
mod server;
mod smtp;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::secrets::Secrets;
use super::{Preview, SinkBuildError, Verdict};
use crate::config::EmailSettings;
use crate::record::{Change, Kind};
use crate::shape::Context;
pub(super) use digest::DigestSink;
use message::Writer;
use server::Server;

/// One mail for each change.
pub struct EmailSink {
    writer: Writer,
    server: Server,
}

impl EmailSink {
    pub(super) fn build(name: &str, settings: &EmailSettings) -> Result<Self, SinkBuildError> {
        let refuse = |problem| SinkBuildError::Server { sink: name.to_owned(), problem };
        Ok(Self {
            writer: Writer::build(settings).map_err(refuse)?,
            server: Server::build(settings).map_err(refuse)?,
        })
    }

    pub(super) fn secrets(&self) -> &Secrets {
        self.server.secrets()
    }

    /// One connection at a time, which every server allows.
    pub(super) fn concurrency(&self) -> usize {
        1
    }

    pub(super) async fn deliver(
        &self,
        change: &Change,
        now: Timestamp,
        stop: &CancellationToken,
    ) -> Verdict {
        match self.mail(change, now) {
            Ok(mail) => self.server.send(&mail, stop).await,
            Err(verdict) => verdict,
        }
    }

    pub(super) async fn probe(&self) -> Result<String, String> {
        self.server.probe().await
    }

    /// The mail as it would be sent.
    pub(super) fn preview(&self, change: &Change, now: Timestamp) -> Result<Preview, Verdict> {
        Ok(self.server.preview(&self.mail(change, now)?))
    }

    fn mail(&self, change: &Change, now: Timestamp) -> Result<message::Mail, Verdict> {
        let mail = match change.kind {
            Kind::Report => self.writer.report(change, now),
            _ => self.writer.mail(&Context::of(change), &change.event_id, now),
        };
        mail.map_err(Verdict::refused)
    }
}
