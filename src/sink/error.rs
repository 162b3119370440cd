//! Why a sink cannot be built, or its destination cannot be used.
//!
//! No text here holds an address or a secret, except what a server repeated: callers outside of
//! this room see it without that, see [`Secrets::reason`](super::reason::Secrets::reason).

use std::fmt;

use super::{Reason, Verdict};
use crate::net::http::NoResponse;
use crate::net::tls::TlsError;

/// Why a destination cannot be used: what is wrong, and what to do. No caller branches on it:
/// [`Verdict`] decides whether a change is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.text)]
pub struct SinkError(Reason);

impl SinkError {
    pub(super) fn new(reason: impl fmt::Display) -> Self {
        Self(reason.to_string().into())
    }

    /// The error with what the receiver said, for the operator on a command line.
    #[must_use]
    pub fn with_quotation(&self) -> String {
        self.0.with_quotation()
    }
}

impl From<Reason> for SinkError {
    fn from(reason: Reason) -> Self {
        Self(reason)
    }
}

impl From<SinkError> for Reason {
    fn from(error: SinkError) -> Self {
        error.0
    }
}

/// The problems of addresses and secrets, which the configuration words.
impl From<String> for SinkError {
    fn from(reason: String) -> Self {
        Self(reason.into())
    }
}

impl From<TlsError> for SinkError {
    fn from(error: TlsError) -> Self {
        Self::new(error)
    }
}

impl From<NoResponse> for SinkError {
    fn from(error: NoResponse) -> Self {
        Self::new(error)
    }
}

impl From<NoResponse> for Verdict {
    fn from(error: NoResponse) -> Self {
        SinkError::from(error).into()
    }
}

/// What keeps a destination from being used is its fault, and no change's.
impl From<SinkError> for Verdict {
    fn from(error: SinkError) -> Self {
        Self::fault_with(error.0)
    }
}

/// Why a sink cannot be built from its configuration.
#[derive(Debug, thiserror::Error)]
pub enum SinkBuildError {
    /// An address or another setting cannot be used.
    #[error("sink {sink}: {problem}")]
    Server {
        /// The sink's name.
        sink: String,
        /// What is wrong and what to write instead.
        problem: SinkError,
    },
    /// The program was built without this type of sink.
    #[error(
        "sink {sink}: this program was built without sinks of its type: use the packaged program, \
         or build it with --all-features"
    )]
    LeftOut {
        /// The sink's name.
        sink: String,
    },
}
