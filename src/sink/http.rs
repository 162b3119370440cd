//! What a response over HTTP means for a sink.
//!
//! A reason repeats the beginning of the response's body, never an address.

use jiff::Timestamp;
use reqwest::header::{DATE, RETRY_AFTER};

use super::{FaultScope, Reason, Verdict, reason};
use crate::net::http::Answer;
use crate::net::retry_after;

/// What the status means, and the beginning of the body.
pub(super) fn reason(answer: &Answer, meaning: &str) -> Reason {
    Reason {
        text: format!("answered {}: {meaning}", answer.code),
        quotation: reason::response(&answer.body, answer.is_whole),
    }
}

/// The server is at fault, and may have asked for a wait.
pub(super) fn fault(answer: &Answer, meaning: &str, now: Timestamp) -> Verdict {
    let retry_after = match answer.header(RETRY_AFTER) {
        Some(text) => retry_after::parse(text, answer.header(DATE), now),
        None => None,
    };
    Verdict::Fault {
        reason: reason(answer, meaning),
        retry_after,
        scope: match answer.code {
            423 | 429 => FaultScope::Limit,
            403 | 406 | 451 => FaultScope::Forbidden,
            _ => FaultScope::Endpoint,
        },
    }
}
