//! How changes are handed to a destination: a webhook, a file, a command.
//!
//! A sink never sees the store, keeps no position and never waits between attempts. It reports what
//! became of each change, and whether a failure is the destination's fault or the change's own. It
//! returns [`Verdict::Done`] only after the destination has acknowledged, and a change that is handed
//! over again has the same event id.
//! Webhook addresses and secrets never appear in a reason, an error or the log. The only foreign text
//! that does is the beginning of a response's body and the first line that a command writes to
//! standard error.

mod build_error;
mod command;
#[cfg(feature = "email")]
mod email;
mod file;
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
#[cfg(test)]
mod scripted;
mod stored;
mod webhook;

use std::fmt;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::config::SinkKind;
use crate::record::Change;
pub use build_error::SinkBuildError;
pub use file::advice as file_advice;
pub use preview::Preview;
use reason::Secrets;
#[cfg(test)]
pub(crate) use scripted::Scripted;

/// What became of one change handed to a sink; reasons are escaped and short, see [`Secrets::reason`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The destination acknowledged it.
    Done,
    /// The destination refused this change: it is parked, and others go on.
    Refused {
        /// What the destination said, for people.
        reason: String,
        /// The destination asked for no further attempt.
        for_good: bool,
    },
    /// The destination failed: the sink pauses, and this change and those after it are retried.
    Fault {
        /// What went wrong, for people.
        reason: String,
        /// The wait the destination asked for, at most an hour.
        retry_after: Option<Duration>,
    },
    /// The destination is gone for good: the sink is disabled and keeps its changes.
    Gone {
        /// What the destination said, for people.
        reason: String,
    },
    /// It was not handed over, because the destination failed before.
    NotTried,
    /// A stop came before the destination responded, so it is not known whether it has the change.
    CutShort,
}

impl Verdict {
    fn fault(reason: impl fmt::Display) -> Self {
        Self::Fault { reason: reason.to_string(), retry_after: None }
    }

    fn refused(reason: impl fmt::Display) -> Self {
        Self::Refused { reason: reason.to_string(), for_good: false }
    }

    fn refused_for_good(reason: impl fmt::Display) -> Self {
        Self::Refused { reason: reason.to_string(), for_good: true }
    }

    fn gone(reason: impl fmt::Display) -> Self {
        Self::Gone { reason: reason.to_string() }
    }

    /// The same verdict, whose reason may be shown: it repeats no secret of the sink.
    fn without(mut self, secrets: &Secrets) -> Self {
        if let Self::Refused { reason, .. } | Self::Fault { reason, .. } | Self::Gone { reason } =
            &mut self
        {
            *reason = secrets.reason(reason);
        }
        self
    }
}

/// A destination that changes are handed to.
#[derive(Debug)]
pub enum Sink {
    /// Takes one change a call, and several calls at the same time.
    Windowed(WindowedSink),
    /// Takes changes in batches, one batch after the other.
    Batched(BatchedSink),
}

impl From<WindowedSink> for Sink {
    fn from(sink: WindowedSink) -> Self {
        Self::Windowed(sink)
    }
}

impl From<BatchedSink> for Sink {
    fn from(sink: BatchedSink) -> Self {
        Self::Batched(sink)
    }
}

/// Makes the two enums of sinks, with one line for each sink.
macro_rules! registry {
    (
        windowed { $($(#[doc = $doc:literal])+ $(#[cfg($cfg:meta)])? $windowed:ident($type:ty),)+ }
        batched { $($(#[doc = $batch_doc:literal])+ $(#[cfg($batch_cfg:meta)])? $batched:ident($batch_type:ty),)+ }
    ) => {
        /// A sink that takes one change a call, and several calls at the same time.
        pub enum WindowedSink {
            $($(#[doc = $doc])+ $(#[cfg($cfg)])? $windowed(Box<$type>),)+
        }

        impl WindowedSink {
            /// How many calls may be under way at the same time.
            #[must_use]
            pub fn concurrency(&self) -> usize {
                match self { $($(#[cfg($cfg)])? Self::$windowed(sink) => sink.concurrency(),)+ }
            }

            /// Hands over one change; `now` is the wall clock at this attempt.
            ///
            /// Changes of one record are handed over one after the other. After `stop`, a change that
            /// is not finished is [`Verdict::CutShort`].
            pub async fn deliver(&self, change: &Change, now: Timestamp, stop: &CancellationToken) -> Verdict {
                if stop.is_cancelled() {
                    return Verdict::CutShort;
                }
                match self { $($(#[cfg($cfg)])? Self::$windowed(sink) => {
                    let verdict = sink.deliver(change, now, stop).await;
                    verdict.without(sink.secrets())
                })+ }
            }

            async fn probe(&self) -> Result<String, String> {
                match self { $($(#[cfg($cfg)])? Self::$windowed(sink) => {
                    sink.probe().await.map_err(|reason| sink.secrets().reason(&reason))
                })+ }
            }
        }

        impl fmt::Debug for WindowedSink {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($(#[cfg($cfg)])? Self::$windowed(_) => stringify!($windowed),)+ })
            }
        }

        /// A sink that takes changes in batches, one batch after the other.
        pub enum BatchedSink {
            $($(#[doc = $batch_doc])+ $(#[cfg($batch_cfg)])? $batched(Box<$batch_type>),)+
        }

        impl BatchedSink {
            /// The most changes that one call takes.
            #[must_use]
            pub fn batch(&self) -> usize {
                match self { $($(#[cfg($batch_cfg)])? Self::$batched(sink) => sink.batch(),)+ }
            }

            /// Whether a single change may cause what is reported as a fault. If not, the sink keeps
            /// the order within a batch, and a batch may hold several changes of one record.
            #[must_use]
            pub fn can_fail_for_one(&self) -> bool {
                match self { $($(#[cfg($batch_cfg)])? Self::$batched(sink) => sink.can_fail_for_one(),)+ }
            }

            /// How long the oldest change may wait until a batch is full.
            #[must_use]
            pub fn linger(&self) -> Duration {
                match self { $($(#[cfg($batch_cfg)])? Self::$batched(sink) => sink.linger(),)+ }
            }

            /// Hands over `changes`, which are in the order of the log; returns one verdict for each.
            ///
            /// The caller saves its position before the next call. `now` is the wall clock at this
            /// attempt. After `stop`, changes that are not finished are [`Verdict::CutShort`]. After a
            /// fault no further change is begun; those are [`Verdict::NotTried`].
            pub async fn deliver(&mut self, changes: &[Change], now: Timestamp, stop: &CancellationToken) -> Vec<Verdict> {
                if stop.is_cancelled() {
                    return vec![Verdict::CutShort; changes.len()];
                }
                match self { $($(#[cfg($batch_cfg)])? Self::$batched(sink) => {
                    let verdicts = sink.deliver(changes, now, stop).await;
                    verdicts.into_iter().map(|verdict| verdict.without(sink.secrets())).collect()
                })+ }
            }

            async fn probe(&self) -> Result<String, String> {
                match self { $($(#[cfg($batch_cfg)])? Self::$batched(sink) => {
                    sink.probe().await.map_err(|reason| sink.secrets().reason(&reason))
                })+ }
            }
        }

        impl fmt::Debug for BatchedSink {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($(#[cfg($batch_cfg)])? Self::$batched(_) => stringify!($batched),)+ })
            }
        }
    };
}

registry! {
    windowed {
        /// Posts each change, signed as the Standard Webhooks specification says.
        Webhook(webhook::WebhookSink),
        /// Makes a lead or a self check-in of each change in a workspace.
        Intake(intake::IntakeSink),
        /// Answers as a test says.
        #[cfg(test)]
        Scripted(Scripted),
    }
    batched {
        /// Appends each change to an NDJSON file.
        File(file::FileSink),
        /// Stores each change in PostgreSQL, exactly once.
        #[cfg(feature = "postgres")]
        Postgres(postgres::PostgresSink),
        /// Sends a mail about each change, or one about all changes of a while.
        #[cfg(feature = "email")]
        Email(email::EmailSink),
        /// Runs a program for one change or for a batch.
        Command(command::CommandSink),
        /// Publishes each change to a stream of NATS.
        #[cfg(feature = "nats")]
        Nats(nats::NatsSink),
        /// Publishes each change to an MQTT broker.
        #[cfg(feature = "mqtt")]
        Mqtt(mqtt::MqttSink),
        /// Stores objects of changes in S3-compatible storage.
        #[cfg(feature = "s3")]
        S3(s3::S3Sink),
    }
}

impl Sink {
    /// Makes the sink called `name`; nothing is opened, connected or started yet.
    ///
    /// # Errors
    /// [`SinkBuildError`] if the configuration can never work.
    pub fn build(name: &str, kind: &SinkKind) -> Result<Self, SinkBuildError> {
        use BatchedSink::{Command, File};
        use WindowedSink::{Intake, Webhook};
        Ok(match kind {
            SinkKind::Webhook(it) => Webhook(webhook::WebhookSink::build(name, it)?.into()).into(),
            SinkKind::Command(it) => Command(command::CommandSink::build(name, it)?.into()).into(),
            SinkKind::File(it) => File(file::FileSink::new(name, it).into()).into(),
            SinkKind::Intake(it) => Intake(intake::IntakeSink::build(name, it)?.into()).into(),
            #[cfg(feature = "postgres")]
            SinkKind::Postgres(it) => {
                BatchedSink::Postgres(postgres::PostgresSink::build(name, it)?.into()).into()
            }
            #[cfg(feature = "nats")]
            SinkKind::Nats(it) => BatchedSink::Nats(nats::NatsSink::build(name, it)?.into()).into(),
            #[cfg(feature = "mqtt")]
            SinkKind::Mqtt(it) => BatchedSink::Mqtt(mqtt::MqttSink::build(name, it)?.into()).into(),
            #[cfg(feature = "s3")]
            SinkKind::S3(it) => BatchedSink::S3(s3::S3Sink::build(name, it)?.into()).into(),
            #[cfg(feature = "email")]
            SinkKind::Email(it) => {
                BatchedSink::Email(email::EmailSink::build(name, it)?.into()).into()
            }
            #[cfg(not(all(
                feature = "postgres",
                feature = "nats",
                feature = "mqtt",
                feature = "s3",
                feature = "email"
            )))]
            other => {
                let sink = name.to_owned();
                return Err(SinkBuildError::LeftOut { sink, kind: other.type_name() });
            }
        })
    }

    /// The most changes that are handed over at the same time.
    #[must_use]
    pub fn batch(&self) -> usize {
        match self {
            Self::Windowed(sink) => sink.concurrency(),
            Self::Batched(sink) => sink.batch(),
        }
    }

    /// Whether a single change may cause what is reported as a fault.
    #[must_use]
    pub fn can_fail_for_one(&self) -> bool {
        match self {
            Self::Windowed(_) => true,
            Self::Batched(sink) => sink.can_fail_for_one(),
        }
    }

    /// Hands over `changes`, which are in the order of the log. Returns one verdict for each, in the
    /// same order.
    ///
    /// Unless the sink is batched and cannot fail for one change, they belong to different records.
    /// After a fault no further change is begun, except those that a batched sink sends together;
    /// the others are [`Verdict::NotTried`]. A change behind a refused one of its record also is.
    pub async fn deliver(
        &mut self,
        changes: &[Change],
        now: Timestamp,
        stop: &CancellationToken,
    ) -> Vec<Verdict> {
        match self {
            Self::Windowed(sink) => together(sink, changes, now, stop).await,
            Self::Batched(sink) => sink.deliver(changes, now, stop).await,
        }
    }

    /// What the store has to keep with the position after a delivery, for [`Self::resume`].
    #[must_use]
    pub fn mark(&self) -> Option<String> {
        match self {
            Self::Batched(BatchedSink::File(file)) => file.mark(),
            _ => None,
        }
    }

    /// Takes up what [`Self::mark`] said after the last delivery. Call it once, before the first one.
    pub fn resume(&mut self, mark: Option<&str>) {
        if let Self::Batched(BatchedSink::File(file)) = self {
            file.resume(mark);
        }
    }

    /// Opens again what another program may have renamed: nothing, since each delivery looks.
    pub async fn reopen(&mut self) {}

    /// Checks whether the sink could work now, without delivering or creating anything.
    ///
    /// # Errors
    /// What is wrong, and how to fix it.
    pub async fn probe(&self) -> Result<String, String> {
        match self {
            Self::Windowed(sink) => sink.probe().await,
            Self::Batched(sink) => sink.probe().await,
        }
    }
}

/// Hands over changes with as many calls under way as the sink allows, until one meets a fault.
async fn together(
    sink: &WindowedSink,
    changes: &[Change],
    now: Timestamp,
    stop: &CancellationToken,
) -> Vec<Verdict> {
    let mut verdicts = vec![Verdict::NotTried; changes.len()];
    let mut under_way = FuturesUnordered::new();
    let mut waiting = changes.iter().enumerate();
    let mut failed = false;
    loop {
        while !failed
            && under_way.len() < sink.concurrency()
            && let Some((index, change)) = waiting.next()
        {
            under_way.push(async move { (index, sink.deliver(change, now, stop).await) });
        }
        let Some((index, verdict)) = under_way.next().await else { return verdicts };
        failed |= matches!(verdict, Verdict::Fault { .. } | Verdict::Gone { .. });
        verdicts[index] = verdict;
    }
}
