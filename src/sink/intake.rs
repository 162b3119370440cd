//! Makes a lead or a self check-in of a change, in a workspace, through its intake routes.
//!
//! The `Idempotency-Key` comes from the event id, so that a repeat makes nothing (contract,
//! "Idempotency" 2). `completed`, `duplicate` and `received` are successes. The key goes to the
//! configured address only.

mod input;
mod response;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use reqwest::Client;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::preview::{HIDDEN, Preview};
use super::reason::Secrets;
use super::{Sink, SinkBuildError, Verdict};
use crate::config::{Intake, IntakeSettings};
use crate::record::Change;
use crate::tls::{client_builder, http_client};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// One intake route of one workspace.
pub(super) struct IntakeSink {
    client: Client,
    url: Url,
    settings: IntakeSettings,
}

impl IntakeSink {
    pub(super) fn build(name: &str, settings: &IntakeSettings) -> Result<Self, SinkBuildError> {
        let refuse = |problem: String| SinkBuildError::Server { sink: name.to_owned(), problem };
        let builder = client_builder()
            .user_agent(concat!("shopmirror/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .timeout(settings.timeout);
        // Without TLS only a loopback address is reached.
        let is_plain = settings.base_url.scheme() == "http";
        let client = http_client(builder, is_plain, None).map_err(refuse)?;
        let url = place(&settings.base_url, settings.create);
        Ok(Self { client, url, settings: settings.clone() })
    }

    /// The headers of a request, and what must not be shown of them.
    async fn headers(&self, change: &Change) -> Result<(HeaderMap, Secrets), Verdict> {
        let (name, value, key) = self.key().await?.ok_or_else(|| {
            Verdict::fault("the key cannot be sent in a header: correct its file")
        })?;
        let text = |text: &str, what: &str| {
            HeaderValue::from_str(text)
                .map_err(|_| Verdict::fault(format!("{what} cannot be sent in a header")))
        };
        let mut headers = HeaderMap::new();
        headers.insert(name, value);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let id = idempotency_key(&self.settings, change);
        headers.insert("idempotency-key", text(&id, "the event id")?);
        if let Some(business) = &self.settings.business {
            headers.insert("x-business", text(business, "`business`")?);
        }
        Ok((headers, key))
    }

    /// The header with the key. Its file is read each time, so that a new key counts at once.
    async fn key(&self) -> Result<Option<(HeaderName, HeaderValue, Secrets)>, Verdict> {
        let source = self.settings.key.clone();
        // On a thread of its own: a disk that hangs holds up no other task.
        let reading = tokio::task::spawn_blocking(move || source.read());
        let key = reading.await.map_err(Verdict::fault)?.map_err(Verdict::fault)?;
        let text = format!("Bearer {}", key.expose_secret());
        Ok(HeaderValue::from_str(&text).ok().map(|mut value| {
            value.set_sensitive(true);
            (AUTHORIZATION, value, Secrets::new([key.expose_secret().to_owned()]))
        }))
    }

    async fn send(&self, change: &Change, now: Timestamp, stop: &CancellationToken) -> Verdict {
        let body = match input::of(&self.settings, change) {
            Ok(body) => body,
            Err(verdict) => return verdict,
        };
        let (headers, key) = match self.headers(change).await {
            Ok(made) => made,
            Err(verdict) => return verdict,
        };
        let sending = async {
            let request = self.client.post(self.url.clone()).headers(headers).body(body);
            let said = response::read(request.send().await, self.settings.timeout, now).await;
            said.verdict.without(&key)
        };
        stop.run_until_cancelled(sending).await.unwrap_or(Verdict::CutShort)
    }
}

#[async_trait]
impl Sink for IntakeSink {
    async fn deliver(
        &mut self,
        changes: &[Change],
        now: Timestamp,
        stop: &CancellationToken,
    ) -> Vec<Verdict> {
        let mut verdicts = Vec::with_capacity(changes.len());
        for change in changes {
            verdicts.push(self.send(change, now, stop).await);
        }
        verdicts
    }

    /// Asks for a connection test with the key, which makes nothing.
    async fn probe(&self) -> Result<String, String> {
        let key = self.key().await.map_err(|verdict| match verdict {
            Verdict::Fault { reason, .. } => reason,
            _ => "the key cannot be read".to_owned(),
        })?;
        let (name, value, key) =
            key.ok_or("the key cannot be sent in a header: correct its file")?;
        let mut url = self.settings.base_url.clone();
        url.set_path(&format!("{}/integrations/ping", url.path().trim_end_matches('/')));
        let sent = self.client.get(url).header(name, value).send().await;
        let said = response::read(sent, self.settings.timeout, Timestamp::UNIX_EPOCH).await;
        match (said.status, said.verdict.without(&key)) {
            (Some(200), _) => Ok("the workspace accepts the key; nothing was created".to_owned()),
            (_, Verdict::Fault { reason, .. } | Verdict::Refused { reason, .. }) => Err(reason),
            _ => {
                Err("the response to a connection test is not understood; check base_url"
                    .to_owned())
            }
        }
    }

    /// The request as it would be sent, without the key.
    fn preview(&self, change: &Change, _now: Timestamp) -> Result<Preview, Verdict> {
        let key = ("idempotency-key".to_owned(), idempotency_key(&self.settings, change));
        Ok(Preview {
            how: format!("POST {}", self.url),
            headers: vec![key, ("authorization".to_owned(), HIDDEN.to_owned())],
            body: input::of(&self.settings, change)?,
        })
    }
}

/// A key counts for all routes and businesses of an integration: what is made of one change in each needs
/// its own. The name of the sink is no part of it, so that a renamed sink makes nothing twice.
fn idempotency_key(settings: &IntakeSettings, change: &Change) -> String {
    let kind = match settings.create {
        Intake::Lead => "lead",
        Intake::SelfCheckin => "checkin",
    };
    let parts = [change.event_id.as_str(), kind].into_iter().chain(settings.business.as_deref());
    parts.collect::<Vec<_>>().join("-")
}

fn place(base_url: &Url, create: Intake) -> Url {
    let route = match create {
        Intake::Lead => "leads",
        Intake::SelfCheckin => "self-checkin",
    };
    let mut url = base_url.clone();
    url.set_path(&format!("{}/integrations/{route}", url.path().trim_end_matches('/')));
    url
}
