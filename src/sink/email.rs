//! Mails through an SMTP server: one for each change, or one about all changes of a while.
//!
//! Sender and recipients come from the configuration alone. Text of a record stands in the subject,
//! without control characters, and in the body. SMTP has no event ids: a mail that was accepted
//! before a crash, and whose position was not saved, is sent again. A mail about one change then
//! has the same `Message-ID`. One about several has another if more changes have come in between.

mod message;
mod report;
mod server;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use shopmirror_core::record::{Change, Kind};

use super::reason::Secrets;
use super::{Preview, Sink, SinkError, Verdict};
use crate::config::EmailSettings;
use crate::shape::Context;
use message::{WriteError, Writer};
use server::Server;

/// The most changes in one mail of a digest.
const DIGEST: usize = 200;

/// One mail for each change, or for each batch of changes.
pub(super) struct EmailSink {
    writer: Writer,
    server: Server,
    digest: Option<Duration>,
}

impl EmailSink {
    pub(super) fn build(name: &str, settings: &EmailSettings) -> Result<Self, SinkError> {
        let writer = Writer::build(settings)?;
        let server = Server::build(name, settings, writer.envelope())?;
        Ok(Self {
            writer,
            server,
            digest: settings.digest,
        })
    }

    fn mail(&self, changes: &[&Change], now: Timestamp) -> Result<Vec<u8>, WriteError> {
        match changes {
            [report] if report.kind == Kind::Report => self.writer.report(report, now),
            [alert] if alert.kind == Kind::Alert => self.writer.alert(alert, now),
            [change] if self.digest.is_none() => {
                self.writer
                    .mail(&Context::for_change(change), &change.event_id, now)
            }
            _ => {
                let id = match changes {
                    [] => "-".to_owned(),
                    [first @ last] | [first, .., last] => {
                        format!("{}-{}", first.event_id, last.event_id)
                    }
                };
                self.writer.mail(&Context::for_changes(changes), &id, now)
            }
        }
    }
}

#[async_trait]
impl Sink for EmailSink {
    fn secrets(&self) -> &Secrets {
        self.server.secrets()
    }

    fn batch(&self) -> usize {
        if self.digest.is_some() { DIGEST } else { 1 }
    }

    /// A change that cannot be shown makes a digest fail as a whole.
    fn keeps_order(&self) -> bool {
        self.digest.is_some()
    }

    fn linger(&self) -> Duration {
        self.digest.unwrap_or_default()
    }

    fn limit(&self) -> (Duration, &'static str) {
        self.server.limit()
    }

    async fn deliver(&mut self, changes: &[&Change], now: Timestamp) -> Result<(), Verdict> {
        let mail = self.mail(changes, now).map_err(Verdict::refused)?;
        self.server.send(&mail).await
    }

    async fn probe(&self) -> Result<String, SinkError> {
        self.server.probe().await
    }

    /// The mail as it would be sent if this were the only change.
    fn preview(&self, change: &Change, now: Timestamp) -> Result<Preview, Verdict> {
        let mail = self.mail(&[change], now).map_err(Verdict::refused)?;
        Ok(self.server.preview(&mail))
    }
}
