//! One mail about all changes of a while. The caller gathers them.

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::message::{Mail, WriteError, Writer};
use super::server::Server;
use crate::config::EmailSettings;
use crate::record::{Change, Kind};
use crate::shape::Context;
use crate::sink::secrets::Secrets;
use crate::sink::{Preview, SinkBuildError, Verdict};

/// The most changes in one mail.
const BATCH: usize = 200;

/// One mail for each batch.
pub struct DigestSink {
    writer: Writer,
    server: Server,
    window: Duration,
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
        })
    }

    pub(in crate::sink) fn secrets(&self) -> &Secrets {
        self.server.secrets()
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
        let Written { mail, fates } = self.write(changes, now);
        let sent = match mail {
            Some(mail) => self.server.send(&mail, stop).await,
            None => Verdict::NotTried,
        };
        let verdict = |fate| match fate {
            Fate::Shown => sent.clone(),
            Fate::Refused(reason) => Verdict::refused(reason),
            Fate::Behind => Verdict::NotTried,
        };
        fates.into_iter().map(verdict).collect()
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

    /// The mail about every change that can be shown, and what becomes of each.
    fn write(&self, changes: &[Change], now: Timestamp) -> Written {
        if changes.is_empty() {
            return Written { mail: None, fates: Vec::new() };
        }
        if let Ok(mail) = self.mail(changes, now) {
            let fates = changes.iter().map(|_| Fate::Shown).collect();
            return Written { mail: Some(mail), fates };
        }
        let mut refused = HashSet::new();
        let mut fates = Vec::with_capacity(changes.len());
        for change in changes {
            let record = (change.route, change.record_id.as_deref());
            fates.push(match self.mail(std::slice::from_ref(change), now) {
                _ if refused.contains(&record) => Fate::Behind,
                Ok(_) => Fate::Shown,
                Err(error) => {
                    refused.insert(record);
                    Fate::Refused(error.to_string())
                }
            });
        }
        let shown = changes.iter().zip(&fates).filter(|(_, fate)| matches!(fate, Fate::Shown));
        let shown: Vec<Change> = shown.map(|(change, _)| change.clone()).collect();
        let mail = match self.mail(&shown, now) {
            _ if shown.is_empty() => None,
            Ok(mail) => Some(mail),
            // Each can be shown alone, and all together cannot: they are too much for one mail.
            Err(error) => {
                for fate in fates.iter_mut().filter(|fate| matches!(fate, Fate::Shown)) {
                    *fate = Fate::Refused(error.to_string());
                }
                None
            }
        };
        Written { mail, fates }
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

/// A mail, if there is anything to send, and what becomes of each change of its batch.
struct Written {
    mail: Option<Mail>,
    fates: Vec<Fate>,
}

enum Fate {
    /// It is in the mail.
    Shown,
    /// It cannot be shown; the reason for people.
    Refused(String),
    /// An earlier version of its record cannot be shown, so it has to wait.
    Behind,
}
