//! How changes are sent to a destination: one module for each type of [`SinkKind`].
//!
//! A sink never sees the store, keeps no position and never waits between attempts. It reports what
//! became of each change, and whether a failure is the destination's fault or the change's own. It
//! returns [`Verdict::Done`] only after the destination has acknowledged, and a change that is sent
//! again has the same event id. Webhook addresses and secrets never appear in a reason, an error or
//! the log. What a receiver says, such as the beginning of a response's body or the first line that
//! a command writes to standard error, is a quotation apart from the reason: see [`Reason`].

mod command;
#[cfg(feature = "email")]
mod email;
mod error;
mod file;
#[cfg(test)]
mod fixtures;
mod heartbeat;
mod http;
mod intake;
mod lookup;
#[cfg(feature = "mqtt")]
mod mqtt;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "postgres")]
mod postgres;
mod preview;
mod reason;
#[cfg(feature = "s3")]
mod s3;
mod webhook;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::config::SinkKind;
use crate::text::{duration, hex};
pub use error::{SinkBuildError, SinkError};
pub use file::advice as file_advice;
#[cfg(test)]
pub(crate) use fixtures::Scripted;
pub use heartbeat::Heartbeat;
pub use preview::Preview;
pub use reason::Reason;
use reason::Secrets;
use shopmirror_core::reading::ReadRules;
use shopmirror_core::record::{Change, MadeRecord, Route};

/// What became of one change sent to a sink; reasons are escaped and short, see
/// [`Secrets::reason`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The destination acknowledged it.
    Done,
    /// The destination refused this change: it is tried again later, and others pass.
    Refused {
        /// The destination's reason, for people.
        reason: Reason,
        /// The destination asked for no further attempt.
        for_good: bool,
    },
    /// The destination failed: the sink pauses, and this change and those after it are retried.
    Fault {
        /// What went wrong, for people.
        reason: Reason,
        /// The wait the destination asked for, at most an hour.
        retry_after: Option<Duration>,
        /// Whom that concerns.
        scope: FaultScope,
    },
    /// The destination is gone for good: the sink is disabled and keeps its changes.
    Gone {
        /// The destination's reason, for people.
        reason: Reason,
    },
    /// It was not sent, because the destination failed before.
    NotTried,
    /// A stop came before the destination responded: it may have the change.
    CutShort,
}

/// Whom a fault concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultScope {
    /// The endpoint: it is down, or an error of its own met this change.
    Endpoint,
    /// Every change: the endpoint limits how much it takes (429, 423).
    Limit,
    /// The endpoint, or this change alone: it is forbidden (403), by the endpoint to this sender or
    /// by a filter before the endpoint that dislikes the text.
    Forbidden,
}

impl Verdict {
    fn fault(text: impl fmt::Display) -> Self {
        Self::fault_with(text.to_string().into())
    }

    fn fault_with(reason: Reason) -> Self {
        Self::Fault {
            reason,
            retry_after: None,
            scope: FaultScope::Endpoint,
        }
    }

    fn refused(text: impl fmt::Display) -> Self {
        Self::refused_with(text.to_string().into())
    }

    fn refused_with(reason: Reason) -> Self {
        Self::Refused {
            reason,
            for_good: false,
        }
    }

    fn refused_for_good(text: impl fmt::Display) -> Self {
        Self::refused_for_good_with(text.to_string().into())
    }

    fn refused_for_good_with(reason: Reason) -> Self {
        Self::Refused {
            reason,
            for_good: true,
        }
    }

    /// Its reason, as the result of a probe.
    #[cfg(any(feature = "postgres", feature = "mqtt"))]
    fn into_error(self) -> SinkError {
        match self {
            Self::Refused { reason, .. } | Self::Fault { reason, .. } | Self::Gone { reason } => {
                SinkError::from(reason)
            }
            Self::Done | Self::NotTried | Self::CutShort => SinkError::new(""),
        }
    }

    /// The same verdict, whose reason may be shown: it repeats no secret of the sink.
    fn without(mut self, secrets: &Secrets) -> Self {
        if let Self::Refused { reason, .. } | Self::Fault { reason, .. } | Self::Gone { reason } =
            &mut self
        {
            *reason = secrets.reason_without(reason);
        }
        self
    }
}

/// A destination that changes are sent to. It takes one call at a time; a destination that takes
/// several has one of these for each, see [`build`].
#[async_trait]
pub trait Sink: Send + Sync {
    /// The most changes of one call.
    fn batch(&self) -> usize {
        1
    }

    /// Whether a call may have several changes of one record, in the order of the log, and a fault
    /// concerns all of them. Otherwise one change may be the reason of a fault.
    fn keeps_order(&self) -> bool {
        false
    }

    /// How long the oldest change may wait until a batch is full.
    fn linger(&self) -> Duration {
        Duration::ZERO
    }

    /// The secrets that no text about this sink may show.
    fn secrets(&self) -> &Secrets {
        &reason::NONE
    }

    /// How long one attempt may take, and what to check if it takes longer. By default, the sink
    /// ends its attempts itself.
    fn limit(&self) -> (Duration, &'static str) {
        (Duration::MAX, "")
    }

    /// Tries once to send these changes, at most a batch, all of them or none. Callers use
    /// [`send`](trait.Sink.html#method.send), which may drop the attempt at any moment.
    ///
    /// Unless the sink keeps the order, they belong to different records. `now` is the wall clock
    /// at this attempt.
    ///
    /// # Errors
    /// What became of all of them instead of [`Verdict::Done`].
    async fn deliver(&mut self, changes: &[&Change], now: Timestamp) -> Result<(), Verdict>;

    /// Checks whether the sink could work now, without delivering or creating anything.
    ///
    /// # Errors
    /// What is wrong, and how to fix it.
    async fn probe(&self) -> Result<String, SinkError>;

    /// What would be sent for this change at this time.
    ///
    /// # Errors
    /// The refusal of a change that cannot be written, for example by a template.
    fn preview(&self, change: &Change, _now: Timestamp) -> Result<Preview, Verdict> {
        Ok(Preview::new(
            "handed over to a server, which stores the parts of this",
            change.data_json(),
        ))
    }

    /// What the caller saves of the last delivery, in the commit that notes the acknowledgement.
    ///
    /// A sink that begins at a new place returns [`Verdict::NotTried`] with a new mark: the caller
    /// saves that before the next call.
    fn mark(&self) -> Option<String> {
        None
    }

    /// Takes what the changes of the last delivery became in another workspace.
    fn take_made(&mut self) -> Vec<MadeRecord> {
        Vec::new()
    }

    /// Takes the saved mark, before the first delivery.
    fn resume(&mut self, _mark: Option<&str>) {}

    /// Takes what the caller still owes to this sink, before the first delivery. Only then may the
    /// sink rely on its mark being saved.
    fn use_owed(&mut self, _owed: Arc<dyn OwedChanges>) {}

    /// The last row of the log that the destination has, if it records that.
    fn stored(&self) -> Option<i64> {
        None
    }

    /// From now on the destination must have every change that was sent to it up to this row of the
    /// log. If it has less, changes are [`Verdict::NotTried`] and
    /// [`take_lost`](Self::take_lost) returns how far it has them.
    fn expect_stored(&mut self, _seq: i64) {}

    /// Whether the destination keeps the values that reports calculate with.
    fn keeps_read_values(&self) -> bool {
        false
    }

    /// Takes how these values are read from now on, before a delivery.
    fn read_by(&mut self, _rules: ReadRules) {}

    /// If the destination was found to have lost changes: the last row of the log that it still
    /// has. It is expected to have no more from then on.
    fn take_lost(&mut self) -> Option<i64> {
        None
    }
}

/// The changes that a sink is still owed.
#[async_trait]
pub trait OwedChanges: Send + Sync {
    /// The next changes, until their records have at least this many bytes.
    ///
    /// # Errors
    /// If they cannot be read now.
    async fn next(&self, bytes: usize) -> Result<Vec<Change>, SinkError>;
}

impl dyn Sink + '_ {
    /// Sends changes, which are in the order of the log; returns one verdict for each. No reason
    /// repeats a secret.
    ///
    /// When several are refused together, those that cannot be written are taken out, or, if all
    /// can be, each half is tried alone. Later changes of a refused record, and all after a fault,
    /// are [`Verdict::NotTried`]. `stop` cuts the attempt in flight short.
    pub async fn send(
        &mut self,
        changes: &[Change],
        now: Timestamp,
        stop: &CancellationToken,
    ) -> Vec<Verdict> {
        if stop.is_cancelled() {
            return vec![Verdict::CutShort; changes.len()];
        }
        let mut verdicts = vec![Verdict::NotTried; changes.len()];
        let mut refused = HashSet::new();
        // Parts of the changes, by their indices; the next part last.
        let indices: Vec<usize> = (0..changes.len()).collect();
        let mut parts: Vec<Vec<usize>> = Vec::new();
        for part in indices.chunks(self.batch()).rev() {
            parts.push(part.to_vec());
        }
        while let Some(mut part) = parts.pop() {
            part.retain(|&index| !refused.contains(&record(&changes[index])));
            if part.is_empty() {
                continue;
            }
            let batch: Vec<&Change> = part.iter().map(|&index| &changes[index]).collect();
            let verdict = self.attempt(&batch, now, stop).await;
            let is_refused = matches!(verdict, Verdict::Refused { .. });
            if is_refused && part.len() > 1 {
                let mut writable = Vec::new();
                for &index in &part {
                    match self.preview(&changes[index], now) {
                        Ok(_) => writable.push(index),
                        Err(verdict) => {
                            verdicts[index] = verdict.without(self.secrets());
                            refused.insert(record(&changes[index]));
                        }
                    }
                }
                if writable.len() == part.len() {
                    parts.push(writable.split_off(part.len() / 2));
                }
                parts.push(writable);
                continue;
            }
            for index in part {
                verdicts[index] = verdict.clone();
                if is_refused {
                    refused.insert(record(&changes[index]));
                }
            }
            if !is_refused && verdict != Verdict::Done {
                break;
            }
        }
        verdicts
    }

    async fn attempt(
        &mut self,
        changes: &[&Change],
        now: Timestamp,
        stop: &CancellationToken,
    ) -> Verdict {
        let (limit, advice) = self.limit();
        let attempt = tokio::time::timeout(limit, self.deliver(changes, now));
        let verdict = match stop.run_until_cancelled(attempt).await {
            None => Verdict::CutShort,
            Some(Err(_)) => Verdict::fault(too_late(limit, advice)),
            Some(Ok(Ok(()))) => Verdict::Done,
            Some(Ok(Err(verdict))) => verdict,
        };
        verdict.without(self.secrets())
    }

    /// Probes as [`Sink::probe`] does. No reason repeats a secret.
    ///
    /// # Errors
    /// What is wrong, and how to fix it.
    pub async fn check(&self) -> Result<String, SinkError> {
        let (limit, advice) = self.limit();
        let reason = match tokio::time::timeout(limit, self.probe()).await {
            Ok(Ok(text)) => return Ok(text),
            Ok(Err(error)) => error.into(),
            Err(_) => Reason::from(too_late(limit, advice)),
        };
        Err(SinkError::from(self.secrets().reason_without(&reason)))
    }
}

/// The record that a change is about.
fn record(change: &Change) -> (Route, Option<&str>) {
    (change.route, change.record_id.as_deref())
}

fn too_late(limit: Duration, advice: &str) -> String {
    format!("not finished within {}: {advice}", duration::exact(limit))
}

impl fmt::Debug for dyn Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sink")
    }
}

/// Builds the sink called `name`, once for each call that may be in flight at the same time; nothing
/// is opened, connected or started yet.
///
/// # Errors
/// [`SinkBuildError`] if the configuration can never work.
pub fn build(name: &str, kind: &SinkKind) -> Result<Vec<Box<dyn Sink>>, SinkBuildError> {
    match try_build(name, kind) {
        Ok(Some(sinks)) => Ok(sinks),
        Ok(None) => Err(SinkBuildError::LeftOut {
            sink: name.to_owned(),
        }),
        Err(problem) => Err(SinkBuildError::Server {
            sink: name.to_owned(),
            problem,
        }),
    }
}

/// [`build`]; `None` if the program was built without this type of sink.
fn try_build(name: &str, kind: &SinkKind) -> Result<Option<Vec<Box<dyn Sink>>>, SinkError> {
    let sink: Box<dyn Sink> = match kind {
        SinkKind::Webhook(settings) => {
            let sink = webhook::WebhookSink::build(settings)?;
            let mut calls: Vec<Box<dyn Sink>> = Vec::new();
            for _ in 0..settings.concurrency.max(1) {
                calls.push(Box::new(sink.clone()));
            }
            return Ok(Some(calls));
        }
        SinkKind::Command(settings) => Box::new(command::CommandSink::new(settings)),
        SinkKind::File(settings) => Box::new(file::FileSink::new(name, settings)),
        SinkKind::Intake(settings) => Box::new(intake::IntakeSink::build(settings)?),
        #[cfg(feature = "postgres")]
        SinkKind::Postgres(settings) => Box::new(postgres::PostgresSink::build(name, settings)?),
        #[cfg(feature = "nats")]
        SinkKind::Nats(settings) => Box::new(nats::NatsSink::build(settings)?),
        #[cfg(feature = "mqtt")]
        SinkKind::Mqtt(settings) => Box::new(mqtt::MqttSink::build(settings)?),
        #[cfg(feature = "s3")]
        SinkKind::S3(settings) => Box::new(s3::S3Sink::build(settings)?),
        #[cfg(feature = "email")]
        SinkKind::Email(settings) => Box::new(email::EmailSink::build(name, settings)?),
        #[cfg(not(all(
            feature = "postgres",
            feature = "nats",
            feature = "mqtt",
            feature = "s3",
            feature = "email"
        )))]
        _ => return Ok(None),
    };
    Ok(Some(vec![sink]))
}

/// The first 16 hexadecimal digits of the SHA-256 of these bytes.
fn short_digest(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes)[..8])
}

/// Builds the sink called `name` for one call at a time.
///
/// # Errors
/// [`SinkBuildError`] if the configuration can never work.
pub fn build_one(name: &str, kind: &SinkKind) -> Result<Box<dyn Sink>, SinkBuildError> {
    Ok(build(name, kind)?.swap_remove(0))
}
