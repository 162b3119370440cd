//! How changes are handed to a destination: a webhook, a file, a command.
//!
//! A sink never sees the store, keeps no position and never waits between attempts. It reports what
//! became of each change, and whether a failure is the destination's fault or the change's own. It
//! returns [`Verdict::Done`] only after the destination has acknowledged, and a change that is handed
//! over again has the same event id.
//! Webhook addresses and secrets never appear in a reason, an error or the log. The only foreign text
//! that does is the beginning of an answer's body and the first line that a command writes to
//! standard error.

mod command;
mod file;
mod reason;
#[cfg(test)]
mod scripted;
mod webhook;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::config::SinkKind;
use crate::record::Change;
use reason::Reason;
#[cfg(test)]
pub(crate) use scripted::Scripted;

/// What became of one change handed to a sink; reasons are escaped, and at most 420 characters.
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
    /// A stop came before the destination answered, so it is not known whether it has the change.
    CutShort,
}

impl Verdict {
    fn fault(reason: impl fmt::Display) -> Self {
        Self::Fault { reason: Reason::of(reason), retry_after: None }
    }

    fn refused(reason: impl fmt::Display) -> Self {
        Self::Refused { reason: Reason::of(reason), for_good: false }
    }

    fn refused_for_good(reason: impl fmt::Display) -> Self {
        Self::Refused { reason: Reason::of(reason), for_good: true }
    }

    fn gone(reason: impl fmt::Display) -> Self {
        Self::Gone { reason: Reason::of(reason) }
    }
}

/// Why a sink cannot be built from its configuration.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The webhook's address cannot be used; the text never holds the address.
    #[error("sink {sink}: the url {problem}")]
    Url {
        /// The sink's name.
        sink: String,
        /// What is wrong and what to write instead.
        problem: &'static str,
    },
    /// A signing secret cannot be used; the text never holds the secret.
    #[error("sink {sink}: signing secret {number} {problem}")]
    Secret {
        /// The sink's name.
        sink: String,
        /// Which secret, from 1.
        number: usize,
        /// What is wrong and what to write instead.
        problem: &'static str,
    },
    /// A fixed header cannot be sent; the text never holds its value.
    #[error("sink {sink}: the header {header:?} {problem}")]
    Header {
        /// The sink's name.
        sink: String,
        /// The header's name.
        header: String,
        /// What is wrong and what to write instead.
        problem: &'static str,
    },
    /// The HTTP client cannot be made, usually because no certificate authorities are installed.
    #[error("sink {sink}: making the HTTPS client: {problem}; install the package ca-certificates")]
    Client {
        /// The sink's name.
        sink: String,
        /// What the TLS library said.
        problem: String,
    },
    /// The command does not begin with the absolute path of a program.
    #[error("sink {sink}: the command must begin with the absolute path of a program")]
    Program {
        /// The sink's name.
        sink: String,
    },
}

/// A destination that changes are handed to.
pub enum Sink {
    /// Posts each change, signed as the Standard Webhooks specification says.
    Webhook(webhook::Webhook),
    /// Appends each change to an NDJSON file.
    File(file::File),
    /// Runs a program for each change.
    Command(command::Command),
    /// Answers as a test says.
    #[cfg(test)]
    Scripted(Scripted),
}

impl Sink {
    /// Makes the sink called `name`; nothing is opened, connected or started yet.
    ///
    /// # Errors
    /// [`BuildError`] if the configuration can never work.
    pub fn build(name: &str, kind: &SinkKind) -> Result<Self, BuildError> {
        Ok(match kind {
            SinkKind::Webhook(settings) => Self::Webhook(webhook::Webhook::build(name, settings)?),
            SinkKind::File(settings) => Self::File(file::File::new(name, &settings.path)),
            SinkKind::Command(settings) => Self::Command(command::Command::build(name, settings)?),
        })
    }

    /// The most changes that can be handed over at once, and that a crash can repeat.
    #[must_use]
    pub fn batch(&self) -> usize {
        match self {
            Self::Webhook(webhook) => webhook.batch(),
            Self::File(_) => file::BATCH,
            Self::Command(_) => command::BATCH,
            #[cfg(test)]
            Self::Scripted(scripted) => scripted.batch(),
        }
    }

    /// Whether one change alone may cause what is reported as a fault. For a file it never does.
    #[must_use]
    pub fn can_fail_for_one(&self) -> bool {
        !matches!(self, Self::File(_))
    }

    /// Hands over `changes`, which belong to different records and are in the order of the log.
    /// Returns one verdict for each, in the same order.
    ///
    /// The caller saves its position before the next call. `now` is the wall clock at this attempt.
    /// After `stop`, changes that are not finished are [`Verdict::CutShort`]. After a fault no further
    /// change is begun; those are [`Verdict::NotTried`].
    pub async fn deliver(
        &mut self,
        changes: &[Change],
        now: Timestamp,
        stop: &CancellationToken,
    ) -> Vec<Verdict> {
        if stop.is_cancelled() {
            return vec![Verdict::CutShort; changes.len()];
        }
        match self {
            Self::Webhook(webhook) => webhook.deliver(changes, now, stop).await,
            Self::File(file) => file.deliver(changes).await,
            Self::Command(command) => command.deliver(changes, stop).await,
            #[cfg(test)]
            Self::Scripted(scripted) => scripted.deliver(changes),
        }
    }

    /// Checks whether the sink could work now, without delivering or creating anything.
    ///
    /// # Errors
    /// What is wrong, and how to fix it.
    pub async fn probe(&self) -> Result<String, String> {
        match self {
            Self::Webhook(webhook) => webhook.probe().await,
            Self::File(file) => file.probe().await,
            Self::Command(command) => command.probe(),
            #[cfg(test)]
            Self::Scripted(_) => Ok("scripted".to_owned()),
        }
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Webhook(_) => "Sink::Webhook",
            Self::File(_) => "Sink::File",
            Self::Command(_) => "Sink::Command",
            #[cfg(test)]
            Self::Scripted(_) => "Sink::Scripted",
        })
    }
}
