//! Mails through an SMTP server: one for each change, or one about all changes of a while.
//!
//! Sender and recipients come from the configuration alone. Text of a record stands in the subject,
//! without control characters, and in the body. SMTP has no event ids: a mail that was accepted
//! before a crash, and whose position was not saved, is sent again. A mail about one change then has
//! the same `Message-ID`. One about several has another if more changes have come in between.

mod message;
mod report;
mod server;

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::reason::Secrets;
use super::{Preview, Sink, SinkBuildError, Verdict};
use crate::config::EmailSettings;
use crate::record::{Change, Kind};
use crate::shape::Context;
use message::{WriteError, Writer};
use server::Server;

/// The most changes in one mail of a digest.
const DIGEST: usize = 200;
/// The most mails on one connection; some servers take no more. After a crash as many are repeated.
const MAILS: usize = 20;

/// One mail for each change, or for each batch of changes.
pub(super) struct EmailSink {
    writer: Writer,
    server: Server,
    digest: Option<Duration>,
}

impl EmailSink {
    pub(super) fn build(name: &str, settings: &EmailSettings) -> Result<Self, SinkBuildError> {
        let refuse = |problem| SinkBuildError::Server { sink: name.to_owned(), problem };
        let writer = Writer::build(settings).map_err(refuse)?;
        let server = Server::build(name, settings, writer.envelope()).map_err(refuse)?;
        Ok(Self { writer, server, digest: settings.digest })
    }

    /// The changes of a part that can be shown alone. The others are refused; a change behind a refused
    /// one of its record has to wait.
    fn showable(
        &self,
        part: &[usize],
        changes: &[Change],
        now: Timestamp,
        verdicts: &mut [Verdict],
    ) -> Vec<usize> {
        let mut refused = HashSet::new();
        let mut showable = Vec::new();
        for &index in part {
            let change = &changes[index];
            let record = (change.route, change.record_id.as_deref());
            if refused.contains(&record) {
                continue;
            }
            match self.mail(&[change], now) {
                Ok(_) => showable.push(index),
                Err(error) => {
                    verdicts[index] = Verdict::refused(error);
                    refused.insert(record);
                }
            }
        }
        showable
    }

    fn mail(&self, changes: &[&Change], now: Timestamp) -> Result<Vec<u8>, WriteError> {
        match changes {
            [report] if report.kind == Kind::Report => self.writer.report(report, now),
            [change] if self.digest.is_none() => {
                self.writer.mail(&Context::of(change), &change.event_id, now)
            }
            _ => {
                let ends = [changes.first(), changes.last()];
                let [first, last] = ends.map(|end| end.map_or("", |change| &change.event_id));
                self.writer.mail(&Context::of_all(changes), &format!("{first}-{last}"), now)
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
        if self.digest.is_some() { DIGEST } else { MAILS }
    }

    /// A digest refuses a change that cannot be shown by itself.
    fn keeps_order(&self) -> bool {
        self.digest.is_some()
    }

    fn linger(&self) -> Duration {
        self.digest.unwrap_or_default()
    }

    async fn deliver(
        &mut self,
        changes: &[Change],
        now: Timestamp,
        stop: &CancellationToken,
    ) -> Vec<Verdict> {
        let mut verdicts = vec![Verdict::NotTried; changes.len()];
        let all: Vec<usize> = (0..changes.len()).collect();
        let most = if self.digest.is_some() { DIGEST } else { 1 };
        let mut parts: VecDeque<Vec<usize>> = all.chunks(most).map(<[usize]>::to_vec).collect();
        let mut line = None;
        while let Some(part) = parts.pop_front() {
            let shown: Vec<&Change> = part.iter().map(|&index| &changes[index]).collect();
            let Ok(mail) = self.mail(&shown, now) else {
                let mut rest = self.showable(&part, changes, now, &mut verdicts);
                if rest.len() == part.len() {
                    // Each can be shown alone: they are too much for one mail.
                    parts.push_front(rest.split_off(rest.len() / 2));
                }
                if !rest.is_empty() {
                    parts.push_front(rest);
                }
                continue;
            };
            let verdict = self.server.send(&mut line, &mail, stop).await;
            part.iter().for_each(|&index| verdicts[index] = verdict.clone());
            let goes_on = match verdict {
                Verdict::Done => true,
                Verdict::Fault { .. } => false,
                // A later part of a digest may have later versions of the same records.
                _ => self.digest.is_none(),
            };
            if !goes_on {
                break;
            }
        }
        if let Some(line) = line {
            server::quit(line).await;
        }
        verdicts
    }

    async fn probe(&self) -> Result<String, String> {
        self.server.probe().await
    }

    /// The mail as it would be sent if this were the only change.
    fn preview(&self, change: &Change, now: Timestamp) -> Result<Preview, Verdict> {
        let mail = self.mail(&[change], now).map_err(Verdict::refused)?;
        Ok(self.server.preview(&mail))
    }
}
