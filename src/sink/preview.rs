//! What a sink would send for one change, without sending it and without its secrets.

use jiff::Timestamp;

use super::{BatchedSink, Sink, Verdict, WindowedSink};
use crate::record::Change;

/// What would be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// Where to and how, without an address that may be secret.
    pub how: String,
    /// The headers, if there are any; the values of secret ones are hidden.
    pub headers: Vec<(String, String)>,
    /// The body, the line or the mail.
    pub body: String,
}

/// In place of a secret.
pub(super) const HIDDEN: &str = "(hidden)";

impl Preview {
    pub(super) fn of(how: impl Into<String>, body: impl Into<String>) -> Self {
        Self { how: how.into(), headers: Vec::new(), body: body.into() }
    }
}

impl Sink {
    /// What would be sent for this change at this time.
    ///
    /// # Errors
    /// The refusal of a change that cannot be written, for example by a template.
    pub fn preview(&self, change: &Change, now: Timestamp) -> Result<Preview, Verdict> {
        match self {
            Self::Windowed(WindowedSink::Webhook(sink)) => sink.preview(change, now),
            Self::Windowed(WindowedSink::Intake(sink)) => sink.preview(change),
            #[cfg(feature = "email")]
            Self::Batched(BatchedSink::Email(sink)) => sink.preview(change, now),
            Self::Batched(BatchedSink::Command(sink)) => sink.preview(change),
            Self::Batched(BatchedSink::File(sink)) => Ok(sink.preview(change)),
            #[cfg(any(
                test,
                feature = "postgres",
                feature = "nats",
                feature = "mqtt",
                feature = "s3"
            ))]
            other => {
                let how = format!("handed over to {other:?}, which stores the parts of this");
                Ok(Preview::of(how, change.data_json()))
            }
        }
    }
}
