//! A webhook: one POST per change, signed as the Standard Webhooks specification says.
//!
//! A change goes to the configured address and nowhere else: no redirect is followed but to read the
//! result at a host that the configuration names, no proxy of the environment is used, no referer is
//! sent. Only 2xx is an acknowledgement. The beginning of any other response's body is quoted; neither
//! the address nor a secret is ever part of a text.

mod response;
mod sign;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Method, Response, StatusCode};
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::lookup::{LocalLookup, current, first, parsed};
use super::preview::{HIDDEN, Preview};
use super::reason::{Secrets, may_be_secret, secrets_of};
use super::{Sink, SinkBuildError, Verdict};
use crate::config::{WebhookSettings, webhook_url};
use crate::record::Change;
use crate::shape::Shaped;
use crate::tls::{client_builder, http_client};
use sign::Signer;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Shorter than the five seconds after which common servers close an idle connection, so that a
/// request seldom meets one that is just being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// One webhook; clones share its connections.
#[derive(Clone)]
pub(super) struct WebhookSink {
    client: Client,
    /// Of the address at the start: the client is made for it.
    scheme: String,
    signer: Signer,
    settings: WebhookSettings,
}

impl WebhookSink {
    pub(super) fn build(name: &str, settings: &WebhookSettings) -> Result<Self, SinkBuildError> {
        let allow_plain = settings.allow_plain;
        let url = first(name, &settings.url, |url| webhook_url(url, allow_plain))?;
        let client = client(&url, settings)
            .map_err(|problem| SinkBuildError::Server { sink: name.to_owned(), problem })?;
        Ok(Self {
            client,
            scheme: url.scheme().to_owned(),
            signer: Signer::of(&settings.secrets),
            settings: settings.clone(),
        })
    }

    /// The address of this attempt.
    async fn address(&self) -> Result<Url, String> {
        let allow_plain = self.settings.allow_plain;
        let url = current(&self.settings.url, move |url| webhook_url(url, allow_plain)).await?;
        match url.scheme() == self.scheme {
            true => Ok(url),
            false => Err(format!(
                "the address in the file of `url_file` does not begin with {}:// any more: restart the service, so that it counts",
                self.scheme
            )),
        }
    }

    /// Where the result of a request is shown, if the response says so and the configuration allows it. It
    /// is read without the body, the signature and the configured headers of the request.
    fn result_of(&self, response: &Response, url: &Url) -> Option<Url> {
        let status = response.status();
        if status != StatusCode::FOUND && status != StatusCode::SEE_OTHER {
            return None;
        }
        let mut result = url.join(response.headers().get(LOCATION)?.to_str().ok()?).ok()?;
        result.set_username("").and_then(|()| result.set_password(None)).ok()?;
        let host = self.settings.redirect_host.as_deref();
        (result.scheme() == self.scheme && result.host_str() == host).then_some(result)
    }

    fn request(
        &self,
        url: Url,
        change: &Change,
        now: Timestamp,
    ) -> Result<reqwest::Request, Verdict> {
        let Shaped { body, content_type, headers: shape } =
            self.settings.format.shape(change).map_err(Verdict::refused)?;
        let sent_at = now.as_second().to_string();
        // By what follows, a receiver knows the sender and a repeat: no header of the configuration replaces it.
        let mut headers = self.settings.headers.clone();
        headers.entry(CONTENT_TYPE).or_insert(header(&content_type)?);
        for (name, value) in shape {
            headers.insert(name, header(&value)?);
        }
        headers.insert("webhook-id", header(&change.event_id)?);
        headers.insert("webhook-timestamp", header(&sent_at)?);
        if let Some(signature) = self.signer.sign(&change.event_id, &sent_at, body.as_bytes()) {
            headers.insert("webhook-signature", header(&signature)?);
        }
        // The client's builder moves a user and password out of the address into a header.
        let request = self.client.post(url).headers(headers).body(body);
        request.build().map_err(|_| Verdict::fault("the request cannot be made from the url"))
    }

    async fn post(&self, change: &Change, now: Timestamp, stop: &CancellationToken) -> Verdict {
        let attempt = async {
            let url = match self.address().await {
                Ok(url) => url,
                Err(reason) => return Verdict::fault(reason),
            };
            let request = match self.request(url.clone(), change, now) {
                Ok(request) => request,
                Err(verdict) => return verdict,
            };
            let mut outcome = self.client.execute(request).await;
            if let Ok(response) = &outcome
                && let Some(result) = self.result_of(response, &url)
            {
                outcome = self.client.get(result).send().await;
            }
            match response::of(outcome, self.settings.timeout, now).await {
                Verdict::Done => Verdict::Done,
                verdict => verdict.without(&secrets(&url, &self.settings)),
            }
        };
        stop.run_until_cancelled(attempt).await.unwrap_or(Verdict::CutShort)
    }
}

#[async_trait]
impl Sink for WebhookSink {
    async fn deliver(
        &mut self,
        changes: &[Change],
        now: Timestamp,
        stop: &CancellationToken,
    ) -> Vec<Verdict> {
        let mut verdicts = Vec::with_capacity(changes.len());
        for change in changes {
            verdicts.push(self.post(change, now, stop).await);
        }
        verdicts
    }

    /// Sends an `OPTIONS` request, which changes nothing, to test name, connection and certificate, and
    /// what the endpoint says of the address and the headers.
    async fn probe(&self) -> Result<String, String> {
        let url = self.address().await?;
        let request = self.client.request(Method::OPTIONS, url.clone());
        let outcome = request.headers(self.settings.headers.clone()).send().await;
        let follows = self.settings.redirect_host.is_some();
        response::of_probe(outcome, self.settings.timeout, follows)
            .map_err(|reason| secrets(&url, &self.settings).reason(&reason))
    }

    /// The request as it would be sent. Configured headers may be secrets, and the address is one.
    fn preview(&self, change: &Change, now: Timestamp) -> Result<Preview, Verdict> {
        let allow_plain = self.settings.allow_plain;
        let url = parsed(&self.settings.url, |url| webhook_url(url, allow_plain));
        let request = self.request(url.map_err(Verdict::fault)?, change, now)?;
        let shown = |name: &HeaderName, value: &HeaderValue| {
            let own = !self.settings.headers.contains_key(name) && name != AUTHORIZATION;
            let value = if own { value.to_str().unwrap_or(HIDDEN) } else { HIDDEN };
            (name.to_string(), value.to_owned())
        };
        let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default();
        Ok(Preview {
            how: "POST to the url of the configuration (hidden)".to_owned(),
            headers: request.headers().iter().map(|(name, value)| shown(name, value)).collect(),
            body: String::from_utf8_lossy(body).into_owned(),
        })
    }
}

/// What an endpoint may repeat and no reason may show.
fn secrets(url: &Url, settings: &WebhookSettings) -> Secrets {
    let mut secrets = secrets_of(url);
    for secret in &settings.secrets {
        let secret = secret.expose_secret();
        secrets.push(secret.to_owned());
        secrets.extend(secret.strip_prefix("whsec_").map(str::to_owned));
    }
    for (name, value) in &settings.headers {
        let value = value.to_str().unwrap_or_default();
        // `Bearer TOKEN`
        let token = value.split_once(' ').map_or(value, |(_, token)| token);
        if name == AUTHORIZATION || may_be_secret(token) {
            secrets.push(token.to_owned());
        }
    }
    Secrets::new(secrets)
}

fn header(text: &str) -> Result<HeaderValue, Verdict> {
    HeaderValue::from_str(text)
        .map_err(|_| Verdict::refused_for_good("the event id cannot be sent as a header"))
}

fn client(url: &Url, settings: &WebhookSettings) -> Result<Client, String> {
    let timeout = settings.timeout;
    let mut builder = client_builder()
        .user_agent(concat!("shopmirror/", env!("CARGO_PKG_VERSION")))
        .gzip(false)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT.min(timeout))
        .timeout(timeout);
    let is_plain = url.scheme() == "http";
    if is_plain {
        builder = builder.dns_resolver(Arc::new(LocalLookup));
    }
    http_client(builder, is_plain, settings.ca_file.as_deref())
}
