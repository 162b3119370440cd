//! Creates a lead or a self check-in from a change, in a workspace, through its intake routes.
//!
//! The `Idempotency-Key` comes from the event id, so that a repeat creates nothing (contract,
//! "Idempotency" 2). `completed`, `duplicate` and `received` are successes, and what each made is
//! kept. The key goes to the configured address only.

mod input;

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, RequestBuilder};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::Value;
use shopmirror_core::record::{Change, Kind, MadeOutcome, MadeRecord};
use url::Url;

use super::http;
use super::preview::{HIDDEN, Preview};
use super::reason::Secrets;
use super::{Reason, Sink, SinkError, Verdict};
use crate::config::{Intake, IntakeSettings, Proxy};
use crate::net::http::{Answer, HttpClient};

/// One intake route of one workspace.
pub(super) struct IntakeSink {
    client: HttpClient,
    settings: IntakeSettings,
    /// The key of the last attempt.
    secrets: Secrets,
    /// The changes whose last request was not answered: the workspace may have made their records.
    unanswered: HashSet<String>,
    made: Vec<MadeRecord>,
}

impl IntakeSink {
    pub(super) fn build(settings: &IntakeSettings) -> Result<Self, SinkError> {
        Ok(Self {
            client: HttpClient::build(
                settings.base_url.scheme() == "http",
                None,
                settings.proxy.as_ref().map(Proxy::address),
                1,
            )?,
            settings: settings.clone(),
            secrets: Secrets::new([]),
            unanswered: HashSet::new(),
            made: Vec::new(),
        })
    }

    /// The address of a route.
    fn url(&self, route: &str) -> Url {
        let mut url = self.settings.base_url.clone();
        url.set_path(&format!(
            "{}/integrations/{route}",
            url.path().trim_end_matches('/')
        ));
        url
    }

    /// The endpoint that creates records.
    fn endpoint(&self) -> Url {
        if !self.settings.strict {
            return self.url("submit");
        }
        match self.settings.create {
            Intake::Lead => self.url("leads"),
            Intake::SelfCheckin => self.url("self-checkin"),
        }
    }

    /// Adds the key, whose file is read each time, so that a new key counts at once. Returns the
    /// secrets that no reason may show, too.
    fn with_key(&self, request: RequestBuilder) -> Result<(RequestBuilder, Secrets), SinkError> {
        let key = self.settings.key.read().map_err(SinkError::new)?;
        let key = key.expose_secret();
        let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
            .map_err(|_| SinkError::new("the key cannot be sent in a header: correct its file"))?;
        value.set_sensitive(true);
        Ok((
            request.header(AUTHORIZATION, value),
            Secrets::new([key.to_owned()]),
        ))
    }

    /// A key counts for all routes and businesses of an integration: what is created from one
    /// change in each needs its own. The name of the sink is no part of it, so that a renamed sink
    /// creates nothing twice.
    fn idempotency_key(&self, change: &Change) -> String {
        let created = match self.settings.create {
            Intake::Lead => "lead",
            Intake::SelfCheckin => "checkin",
        };
        match &self.settings.business {
            Some(business) => format!("{}-{created}-{business}", change.event_id),
            None => format!("{}-{created}", change.event_id),
        }
    }
}

#[async_trait]
impl Sink for IntakeSink {
    fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    fn limit(&self) -> (Duration, &'static str) {
        (
            self.settings.timeout,
            "check the workspace and the network, or raise `timeout`",
        )
    }

    async fn deliver(&mut self, changes: &[&Change], now: Timestamp) -> Result<(), Verdict> {
        for change in changes {
            if change.kind == Kind::Vanished {
                // Nothing on the API takes a record back.
                continue;
            }
            let request = self
                .client
                .request(Method::POST, self.endpoint())
                .header(CONTENT_TYPE, "application/json")
                .header("idempotency-key", self.idempotency_key(change))
                .body(input::body(&self.settings, change)?);
            let (mut request, key) = self.with_key(request)?;
            self.secrets = key;
            if let Some(business) = &self.settings.business {
                request = request.header("x-business", business);
            }
            let is_repeat = !self.unanswered.insert(change.event_id.clone());
            let answer = self.client.send(request).await?;
            let judged = judge(&answer, now);
            // A proxy may answer in place of the workspace after that has made the record.
            if judged.is_ok() || (400..500).contains(&answer.code) {
                self.unanswered.remove(&change.event_id);
            }
            let envelope = judged?;
            self.made
                .push(envelope.record(change, is_repeat || answer.was_repeated));
        }
        Ok(())
    }

    fn take_made(&mut self) -> Vec<MadeRecord> {
        std::mem::take(&mut self.made)
    }

    /// Requests a connection test with the key, which creates nothing.
    async fn probe(&self) -> Result<String, SinkError> {
        let (request, key) = self.with_key(self.client.request(Method::GET, self.url("ping")))?;
        let answer = self.client.send(request).await?;
        if answer.code == 200 {
            return Ok("the workspace accepts the key; nothing was created".to_owned());
        }
        let remedy = remedy(answer.code).unwrap_or("check base_url");
        Err(key.reason_without(&http::reason(&answer, remedy)).into())
    }

    /// The request as it would be sent, without the key.
    fn preview(&self, change: &Change, _now: Timestamp) -> Result<Preview, Verdict> {
        Ok(Preview {
            how: format!("POST {}", self.endpoint()),
            headers: vec![
                ("idempotency-key".to_owned(), self.idempotency_key(change)),
                ("authorization".to_owned(), HIDDEN.to_owned()),
            ],
            body: input::body(&self.settings, change)?,
        })
    }
}

/// What every response of an intake route holds.
#[derive(Deserialize)]
struct Envelope {
    status: IntakeStatus,
    request_id: Option<Value>,
    data: Option<Value>,
}

/// What became of a submission.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum IntakeStatus {
    Completed,
    Duplicate,
    Received,
}

impl Envelope {
    /// What the change became. If the request before was not answered, a duplicate is what that one
    /// has made.
    fn record(self, change: &Change, is_repeat: bool) -> MadeRecord {
        let outcome = match self.status {
            IntakeStatus::Completed => MadeOutcome::Made,
            IntakeStatus::Duplicate if is_repeat => MadeOutcome::Made,
            IntakeStatus::Duplicate => MadeOutcome::Duplicate,
            IntakeStatus::Received => MadeOutcome::Parked,
        };
        let id = self.data.as_ref().and_then(|data| data.get("id"));
        MadeRecord {
            event_id: change.event_id.clone(),
            outcome,
            id: id.and_then(as_text),
            request_id: self.request_id.as_ref().and_then(as_text),
        }
    }
}

/// An id as text; `None` if it is something else.
fn as_text(id: &Value) -> Option<String> {
    match id {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

/// The body of an error (contract, "Errors").
#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorDetails,
}

#[derive(Deserialize)]
struct ErrorDetails {
    message: Option<String>,
    #[serde(default)]
    details: Vec<Value>,
}

/// Why a change is refused, with what the workspace says about its fields: `mobile_number: is too
/// long`.
fn refusal(answer: &Answer) -> Reason {
    let Ok(ErrorBody { error }) = serde_json::from_slice(&answer.body) else {
        return http::reason(answer, "refused");
    };
    let mut problems = Vec::new();
    for detail in &error.details {
        let part = |name| detail.get(name).and_then(Value::as_str);
        match (part("field"), part("message")) {
            (Some(field), Some(message)) => problems.push(format!("{field}: {message}")),
            (_, Some(message)) => problems.push(message.to_owned()),
            _ => {}
        }
    }
    if problems.is_empty() {
        problems.extend(error.message);
    }
    if problems.is_empty() {
        return http::reason(answer, "refused");
    }
    Reason {
        quotation: Some(problems.join("; ")),
        ..http::reason(answer, "refused")
    }
}

/// Contract, "Errors": only 429, 423, 5xx and network errors are retried. Any other 4xx refuses the
/// change for good, except those that say something about the key or the address.
fn judge(answer: &Answer, now: Timestamp) -> Result<Envelope, Verdict> {
    let code = answer.code;
    if !(200..300).contains(&code) {
        return Err(match remedy(code) {
            Some(remedy) => http::fault(answer, remedy, now),
            None => Verdict::refused_for_good_with(refusal(answer)),
        });
    }
    // The record may have been created. The repeat has the same key.
    serde_json::from_slice(&answer.body).map_err(|_| {
        Verdict::fault(
            "the response is not one of an intake route: check that base_url is the workspace's \
             API address",
        )
    })
}

/// What to do about a status that does not blame the change.
fn remedy(code: u16) -> Option<&'static str> {
    Some(match code {
        300..=399 => "redirects are not followed; put the final address into base_url",
        401 => "the key is refused: put a valid key into api_key_file",
        403 => "the key may not create records: use a key of the type REST API",
        404 => "check base_url",
        412 => "the workspace has an address of its own: put it into base_url",
        423 | 429 => "the workspace asks to wait",
        500..=599 => "the workspace failed",
        _ => return None,
    })
}
