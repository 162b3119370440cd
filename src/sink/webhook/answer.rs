//! What a webhook's answer means: whose fault it is, and whether to come back.
//!
//! Every text made here is of our own words, numbers and the system's error texts; nothing of the
//! address, the answer's body or its headers gets into one.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::RETRY_AFTER;
use reqwest::{Response, StatusCode};

use crate::retry_after;
use crate::sink::Verdict;
use crate::sink::reason::Reason;

/// What is read of an answer's body, so that its connection can be used again.
const DRAIN_BYTES: usize = 16 * 1024;
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// The verdict on one attempt.
pub(super) async fn of(
    outcome: Result<Response, reqwest::Error>,
    timeout: Duration,
    now: Timestamp,
) -> Verdict {
    match outcome {
        Ok(response) => {
            let verdict = judge(&response, now);
            drain(response).await;
            verdict
        }
        Err(error) => Verdict::fault(failure(&error, timeout)),
    }
}

fn judge(response: &Response, now: Timestamp) -> Verdict {
    let status = response.status();
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let code = status.as_u16();
    if status.is_success() {
        return Verdict::Done;
    }
    if status == StatusCode::GONE {
        return Verdict::gone("answered 410: the endpoint is gone");
    }
    if header("webhook-delivery").is_some_and(|value| value.trim() == "abort-message") {
        return Verdict::refused_for_good(format!(
            "answered {code} and asked for no other attempt"
        ));
    }
    let hint = match code {
        400 | 409 | 413 | 415 | 422 => {
            return Verdict::refused(format!("answered {code}: the endpoint refused this change"));
        }
        300..=399 => "redirects are not followed, put the final address into the configuration",
        401 | 403 => "check the address, the headers and the secret",
        404 | 405 => "check the address",
        423 | 429 => "the endpoint asks for patience",
        500..=599 => "the endpoint is in trouble",
        _ => "this is no acknowledgement",
    };
    Verdict::Fault {
        reason: Reason::of(format!("answered {code}: {hint}")),
        retry_after: header(RETRY_AFTER.as_str()).and_then(|text| retry_after::parse(text, now)),
    }
}

/// Reads a short body to its end; the verdict stands, so that a failure here means nothing.
async fn drain(mut response: Response) {
    let read = async {
        let mut left = DRAIN_BYTES;
        while let Ok(Some(chunk)) = response.chunk().await {
            let Some(rest) = left.checked_sub(chunk.len()) else { return };
            left = rest;
        }
    };
    let _ = tokio::time::timeout(DRAIN_TIME, read).await;
}

/// Why there was no answer, in words that hold nothing of the address.
pub(super) fn failure(error: &reqwest::Error, timeout: Duration) -> String {
    let mut texts = Vec::new();
    let mut system = None;
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<io::Error>()
            && let Some(code) = error.raw_os_error()
        {
            system = Some(io::Error::from_raw_os_error(code).to_string());
        }
        texts.push(error.to_string());
        source = error.source();
    }
    let says = |part: &str| texts.iter().any(|text| text.contains(part));
    // The TLS library's texts may name the host: only what they are about is taken over.
    let certificate = [
        ("UnknownIssuer", "its certificate comes from an authority this machine does not know"),
        ("xpired", "its certificate has expired"),
        ("not valid for name", "its certificate is for another name"),
        ("NotValidForName", "its certificate is for another name"),
        ("certificate", "its certificate was not accepted"),
        ("corrupt message", "it does not speak TLS there"),
        ("dns error", "its name was not found"),
        ("lookup address", "its name was not found"),
    ];
    if let Some((_, words)) = certificate.iter().find(|(part, _)| says(part)) {
        return format!("connecting to the endpoint: {words}");
    }
    match system {
        Some(text) if error.is_connect() => format!("connecting to the endpoint: {text}"),
        _ if error.is_connect() && error.is_timeout() => {
            "connecting to the endpoint: no answer in time".to_owned()
        }
        _ if error.is_connect() => "connecting to the endpoint failed".to_owned(),
        _ if error.is_timeout() => {
            format!("no answer from the endpoint within {} s", timeout.as_secs_f64())
        }
        Some(text) => format!("talking to the endpoint: {text}"),
        None => "the endpoint broke off or answered with something that is not HTTP".to_owned(),
    }
}
