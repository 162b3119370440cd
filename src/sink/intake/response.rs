//! What the response of an intake route means.
//!
//! Contract, "Errors": only 429, 423, 5xx and network errors are retried. Any other 4xx refuses the
//! change for good, except those that say something about the key or the address.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::Response;
use reqwest::header::{DATE, RETRY_AFTER};
use serde::Deserialize;

use crate::body;
use crate::duration;
use crate::retry_after;
use crate::sink::Verdict;
use crate::sink::reason;
use crate::tls::connection_problem;

/// How much of a body is read. The envelope of one record is far shorter.
const BODY_BYTES: usize = 256 * 1024;

/// What a response says.
pub(super) struct Said {
    /// The HTTP status; `None` if there is no response.
    pub(super) status: Option<u16>,
    pub(super) verdict: Verdict,
}

#[derive(Deserialize)]
struct Envelope {
    status: String,
}

/// Reads a response.
pub(super) async fn read(
    outcome: reqwest::Result<Response>,
    timeout: Duration,
    now: Timestamp,
) -> Said {
    let failed = |status, error: &reqwest::Error| Said {
        status,
        verdict: Verdict::fault(failure(error, timeout)),
    };
    let mut response = match outcome {
        Ok(response) => response,
        Err(error) => return failed(None, &error),
    };
    let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
    let retry_after = header(RETRY_AFTER.as_str())
        .and_then(|text| retry_after::parse(&text, header(DATE.as_str()).as_deref(), now));
    let status = response.status().as_u16();
    let mut body = Vec::new();
    let is_whole = match body::read(&mut response, BODY_BYTES, &mut body).await {
        // Without the envelope it is not known what came of it. The repeat has the same key.
        Err(error) if status < 300 => return failed(Some(status), &error),
        read => read.unwrap_or(false),
    };
    Said { status: Some(status), verdict: judge(status, &body, is_whole, retry_after) }
}

fn judge(status: u16, body: &[u8], is_whole: bool, retry_after: Option<Duration>) -> Verdict {
    if (200..300).contains(&status) {
        let envelope = serde_json::from_slice::<Envelope>(body);
        return match envelope.map(|found| found.status) {
            Ok(status) if ["completed", "duplicate", "received"].contains(&status.as_str()) => {
                Verdict::Done
            }
            _ => Verdict::fault(
                "the response is not one of an intake route: check that base_url is the workspace's API address",
            ),
        };
    }
    let said = reason::said(body, is_whole);
    let remedy = match status {
        300..=399 => "redirects are not followed; put the final address into base_url",
        401 => "the key is refused: put a valid key into api_key_file",
        403 => "the key may not create records: use a key of the type REST API",
        404 => "check base_url",
        412 => "the workspace has an address of its own: put it into base_url",
        423 | 429 => "the workspace asks to wait",
        500..=599 => "the workspace failed",
        _ => return Verdict::refused_for_good(format!("answered {status}: refused{said}")),
    };
    Verdict::Fault { reason: format!("answered {status}: {remedy}{said}"), retry_after }
}

fn failure(error: &reqwest::Error, timeout: Duration) -> String {
    match connection_problem(error) {
        Some(text) if error.is_connect() => format!("could not connect to the workspace: {text}"),
        _ if error.is_connect() => "could not connect to the workspace".to_owned(),
        _ if error.is_timeout() => {
            format!("no response from the workspace within {}", duration::exact(timeout))
        }
        Some(text) => format!("the request to the workspace failed: {text}"),
        None => "the workspace closed the connection, or its response is not HTTP".to_owned(),
    }
}
