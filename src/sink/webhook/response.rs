//! What a webhook's response means: whose fault it is, and whether to try again.
//!
//! A reason consists of our own words, numbers, the system's error texts and the beginning of the
//! response's body, which may repeat a secret of the request until [`Verdict::without`] hides it.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{DATE, RETRY_AFTER};
use reqwest::{Response, StatusCode};

use crate::body;
use crate::duration;
use crate::retry_after;
use crate::sink::Verdict;
use crate::sink::reason;
use crate::tls::connection_problem;

/// How much of a response's body is read, to quote it and so that its connection can be used again.
const BODY_BYTES: usize = 16 * 1024;
const BODY_TIME: Duration = Duration::from_millis(500);

/// The verdict on one attempt.
pub(super) async fn of(
    outcome: Result<Response, reqwest::Error>,
    timeout: Duration,
    now: Timestamp,
) -> Verdict {
    match outcome {
        Ok(response) => {
            let mut verdict = judge(&response, now);
            let (body, whole) = read(response).await;
            if let Verdict::Refused { reason, .. }
            | Verdict::Fault { reason, .. }
            | Verdict::Gone { reason } = &mut verdict
            {
                reason.push_str(&reason::said(&body, whole));
            }
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
    if [400, 409, 413, 415, 422].contains(&code) {
        return Verdict::refused(format!("answered {code}: the endpoint refused this change"));
    }
    Verdict::Fault {
        reason: format!("answered {code}: {}", hint(code)),
        retry_after: header(RETRY_AFTER.as_str())
            .and_then(|text| retry_after::parse(text, header(DATE.as_str()), now)),
    }
}

/// What to do about a status.
fn hint(code: u16) -> &'static str {
    match code {
        300..=399 => {
            "redirects are not followed: put the final address into the url; a service that shows its \
             result elsewhere, as Google Apps Script does, needs `redirect_host`"
        }
        401 | 403 => "check the address, the headers and the secret",
        404 | 405 => "check the address",
        410 => "the endpoint is gone: put its new address into the url",
        423 | 429 => "the endpoint asks to wait",
        500..=599 => "the endpoint failed: see its log",
        _ => "only 2xx counts as delivered; check the address",
    }
}

/// What the response to `OPTIONS` says of the endpoint. Many endpoints take `POST` only and answer 405.
/// `follows` says whether a redirect is no problem.
pub(super) fn of_probe(
    outcome: Result<Response, reqwest::Error>,
    timeout: Duration,
    follows: bool,
) -> Result<String, String> {
    let code = outcome.map_err(|error| failure(&error, timeout))?.status().as_u16();
    match code {
        302 | 303 if follows => {}
        300..=399 | 401 | 403 | 404 | 410 | 500 | 502..=599 => {
            return Err(format!(
                "the endpoint answered {code} to OPTIONS: {}; if it takes POST only, try `shopmirror sinks NAME test`",
                hint(code)
            ));
        }
        _ => {}
    }
    Ok(format!("the endpoint responds ({code} to OPTIONS); nothing was posted"))
}

/// The beginning of a body, and whether that is all of it. The verdict is known already, so a failure
/// here means nothing.
async fn read(mut response: Response) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    let reading = body::read(&mut response, BODY_BYTES, &mut body);
    let whole = matches!(tokio::time::timeout(BODY_TIME, reading).await, Ok(Ok(true)));
    (body, whole)
}

/// Why there was no response; the text holds no part of the address.
pub(super) fn failure(error: &reqwest::Error, timeout: Duration) -> String {
    let problem = connection_problem(error);
    match problem {
        Some(text) if error.is_connect() => format!("could not connect to the endpoint: {text}"),
        _ if error.is_connect() && error.is_timeout() => {
            "could not connect to the endpoint: it did not respond in time; check the address, the network and the firewalls between".to_owned()
        }
        _ if error.is_connect() => {
            "could not connect to the endpoint; check its address and the network".to_owned()
        }
        _ if error.is_timeout() => {
            format!(
                "no response from the endpoint within {}; check it, or raise `timeout` of the sink",
                duration::exact(timeout)
            )
        }
        Some(text) => format!("the request to the endpoint failed: {text}"),
        None => "the endpoint closed the connection, or its response is not HTTP; check the port, and https or http".to_owned(),
    }
}
