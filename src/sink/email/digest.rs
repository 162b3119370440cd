//! One mail about all changes of a while. The caller gathers them.

use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::message::{Mail, WriteError, Writer};
use super::server::Server;
use crate::config::EmailSettings;
use crate::record::{Change, Kind};
use crate::shape::Context;
use crate::sink::{Preview, SinkBuildError, Verdict};

/// The most changes in one mail.
const BATCH: usize = 200;

/// One mail for each batch.
pub struct DigestSink {
    writer: Writer,
    server: Server,
    window: Duration,
    /// Whether a mail ends before the first change that cannot be shown.
    stops_at_refusals: bool,
}

impl DigestSink {
    pub(in crate::sink) fn build(
        name: &str,
        settings: &EmailSettings,
        window: Duration,
    ) -> Result<Self, SinkBuildError> {
        let refuse = |problem| SinkBuildError::Server { sink: name.to_owned(), problem };
        Ok(Self {
            writer: Writer::build(settings).map_err(refuse)?,
            server: Server::build(settings).map_err(refuse)?,
            window,
            stops_at_refusals: false,
        })
    }

    pub(in crate::sink) fn stop_at_refusals(&mut self) {
        self.stops_at_refusals = true;
    }

    pub(in crate::sink) fn batch(&self) -> usize {
        BATCH
    }

    /// A change that cannot be shown is refused by itself.
    pub(in crate::sink) fn can_fail_for_one(&self) -> bool {
        false
    }

    pub(in crate::sink) fn linger(&self) -> Duration {
        self.window
    }

    pub(in crate::sink) async fn deliver(
        &mut self,
        changes: &[Change],
        now: Timestamp,
        stop: &CancellationToken,
    ) -> Vec<Verdict> {
        let (mail, mut verdicts) = self.write(changes, now);
        if self.stops_at_refusals
            && let Some(first) = verdicts.iter().position(|verdict| *verdict != Verdict::NotTried)
        {
            let mut before = match first {
                0 => vec![verdicts.swap_remove(0)],
                // The refused change is the first of the next batch.
                _ => Box::pin(self.deliver(&changes[..first], now, stop)).await,
            };
            before.resize(changes.len(), Verdict::NotTried);
            return before;
        }
        let sent = match mail {
            Some(mail) => self.server.send(&mail, stop).await,
            None => Verdict::Done,
        };
        for verdict in verdicts.iter_mut().filter(|verdict| **verdict == Verdict::NotTried) {
            *verdict = sent.clone();
        }
        verdicts
    }

    pub(in crate::sink) async fn probe(&self) -> Result<String, String> {
        self.server.probe().await
    }

    /// The mail that would be sent if this were the only change.
    pub(in crate::sink) fn preview(
        &self,
        change: &Change,
        now: Timestamp,
    ) -> Result<Preview, Verdict> {
        let mail = self.mail(std::slice::from_ref(change), now).map_err(Verdict::refused)?;
        Ok(self.server.preview(&mail))
    }

    /// The mail about every change that can be shown, and a refusal for each other one. `NotTried`
    /// stands for what the server will say.
    fn write(&self, changes: &[Change], now: Timestamp) -> (Option<Mail>, Vec<Verdict>) {
        if changes.is_empty() {
            return (None, Vec::new());
        }
        if let Ok(mail) = self.mail(changes, now) {
            return (Some(mail), vec![Verdict::NotTried; changes.len()]);
        }
        let verdicts: Vec<Verdict> = changes
            .iter()
            .map(|change| match self.mail(std::slice::from_ref(change), now) {
                Ok(_) => Verdict::NotTried,
                Err(error) => Verdict::refused(error),
            })
            .collect();
        let shown = changes.iter().zip(&verdicts).filter(|(_, v)| **v == Verdict::NotTried);
        let shown: Vec<Change> = shown.map(|(change, _)| change.clone()).collect();
        match self.mail(&shown, now) {
            _ if shown.is_empty() => (None, verdicts),
            Ok(mail) => (Some(mail), verdicts),
            // Each can be shown alone, and all together cannot: they are too much for one mail.
            Err(error) => (None, verdicts.into_iter().map(|v| refused_unless(v, &error)).collect()),
        }
    }

    fn mail(&self, changes: &[Change], now: Timestamp) -> Result<Mail, WriteError> {
        if let [report] = changes
            && report.kind == Kind::Report
        {
            return self.writer.report(report, now);
        }
        let ends = [changes.first(), changes.last()].map(|end| end.map_or("", |c| &c.event_id));
        let id = format!("{}-{}", ends[0], ends[1]);
        self.writer.mail(&Context::of_all(changes), &id, now)
    }
}

fn refused_unless(verdict: Verdict, error: &WriteError) -> Verdict {
    match verdict {
        Verdict::NotTried => Verdict::refused(error),
        refused => refused,
    }
}
