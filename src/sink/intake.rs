//! Makes a lead or a self check-in of a change, in a workspace, through its intake routes.
//!
//! The `Idempotency-Key` comes from the event id, so that a repeat makes nothing (contract,
//! "Idempotency" 2). `completed`, `duplicate` and `received` are successes. The key goes to the
//! configured address only.

mod input;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, RequestBuilder};
use secrecy::ExposeSecret;
use serde::Deserialize;
use shopmirror_core::record::Change;
use url::Url;

use super::http::{self, Answer};
use super::preview::{HIDDEN, Preview};
use super::reason::Secrets;
use super::{Sink, Verdict};
use crate::config::{Intake, IntakeSettings};

/// One intake route of one workspace.
pub(super) struct IntakeSink {
    client: Client,
    settings: IntakeSettings,
    /// The key of the last attempt.
    secrets: Secrets,
}

impl IntakeSink {
    pub(super) fn build(settings: &IntakeSettings) -> Result<Self, String> {
        Ok(Self {
            client: http::client(settings.base_url.scheme() == "http", None)?,
            settings: settings.clone(),
            secrets: Secrets::new([]),
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

    /// Where and as what a record is made.
    fn place(&self) -> (Url, &'static str) {
        match self.settings.create {
            Intake::Lead => (self.url("leads"), "lead"),
            Intake::SelfCheckin => (self.url("self-checkin"), "checkin"),
        }
    }

    /// Adds the key, whose file is read each time, so that a new key counts at once. Returns what
    /// must not be shown, too.
    fn with_key(&self, request: RequestBuilder) -> Result<(RequestBuilder, Secrets), String> {
        let key = self
            .settings
            .key
            .read()
            .map_err(|error| error.to_string())?;
        let key = key.expose_secret();
        let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
            .map_err(|_| "the key cannot be sent in a header: correct its file")?;
        value.set_sensitive(true);
        Ok((
            request.header(AUTHORIZATION, value),
            Secrets::new([key.to_owned()]),
        ))
    }

    /// A key counts for all routes and businesses of an integration: what is made of one change in
    /// each needs its own. The name of the sink is no part of it, so that a renamed sink makes
    /// nothing twice.
    fn idempotency_key(&self, change: &Change) -> String {
        let parts = [change.event_id.as_str(), self.place().1].into_iter();
        parts
            .chain(self.settings.business.as_deref())
            .collect::<Vec<_>>()
            .join("-")
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
            let request = self
                .client
                .post(self.place().0)
                .header(CONTENT_TYPE, "application/json")
                .header("idempotency-key", self.idempotency_key(change))
                .body(input::of(&self.settings, change)?);
            let (mut request, key) = self.with_key(request).map_err(Verdict::fault)?;
            self.secrets = key;
            if let Some(business) = &self.settings.business {
                request = request.header("x-business", business);
            }
            judge(&Answer::to(request).await.map_err(Verdict::fault)?, now)?;
        }
        Ok(())
    }

    /// Asks for a connection test with the key, which makes nothing.
    async fn probe(&self) -> Result<String, String> {
        let (request, key) = self.with_key(self.client.get(self.url("ping")))?;
        let answer = Answer::to(request)
            .await
            .map_err(|reason| key.reason(&reason))?;
        match answer.code {
            200 => Ok("the workspace accepts the key; nothing was created".to_owned()),
            code => Err(key.reason(&answer.reason(remedy(code).unwrap_or("check base_url")))),
        }
    }

    /// The request as it would be sent, without the key.
    fn preview(&self, change: &Change, _now: Timestamp) -> Result<Preview, Verdict> {
        let key = ("idempotency-key".to_owned(), self.idempotency_key(change));
        Ok(Preview {
            how: format!("POST {}", self.place().0),
            headers: vec![key, ("authorization".to_owned(), HIDDEN.to_owned())],
            body: input::of(&self.settings, change)?,
        })
    }
}

#[derive(Deserialize)]
struct Envelope {
    status: String,
}

/// Contract, "Errors": only 429, 423, 5xx and network errors are retried. Any other 4xx refuses the
/// change for good, except those that say something about the key or the address.
fn judge(answer: &Answer, now: Timestamp) -> Result<(), Verdict> {
    let code = answer.code;
    if !(200..300).contains(&code) {
        return Err(match remedy(code) {
            Some(remedy) => answer.fault(remedy, now),
            None => Verdict::refused_for_good(answer.reason("refused")),
        });
    }
    match serde_json::from_slice::<Envelope>(&answer.body) {
        Ok(Envelope { status })
            if ["completed", "duplicate", "received"].contains(&status.as_str()) =>
        {
            Ok(())
        }
        // It is not known what came of it. The repeat has the same key.
        _ => Err(Verdict::fault(
            "the response is not one of an intake route: check that base_url is the workspace's API address",
        )),
    }
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
