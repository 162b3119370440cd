//! A webhook: one POST per change, signed as the Standard Webhooks specification says.
//!
//! A change goes to the configured address and nowhere else: no redirect is followed but to read
//! the result at a host that the configuration names, no proxy of the environment is used, no
//! referer is sent. Only 2xx is an acknowledgement. The beginning of any other response's body is
//! quoted; neither the address nor a secret is ever part of a text.

mod sign;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::{Method, RequestBuilder};
use secrecy::ExposeSecret;
use shopmirror_core::record::Change;
use url::Url;

use super::http;
use super::lookup::current;
use super::preview::{HIDDEN, Preview};
use super::reason::{Secrets, may_be_secret, secrets_of};
use super::{Sink, SinkError, Verdict};
use crate::config::{Proxy, WebhookSettings, webhook_url};
use crate::net::http::{Answer, HttpClient};
use crate::shape::Shaped;
use sign::Signer;

/// One webhook; clones share its connections.
#[derive(Clone)]
pub(super) struct WebhookSink {
    client: HttpClient,
    /// Of the address at the start, for which the client was built.
    scheme: String,
    signer: Signer,
    settings: WebhookSettings,
    /// Includes those of the address at the last attempt.
    secrets: Secrets,
}

impl WebhookSink {
    pub(super) fn build(settings: &WebhookSettings) -> Result<Self, SinkError> {
        let url = address(settings)?;
        Ok(Self {
            client: HttpClient::build(
                url.scheme() == "http",
                settings.ca_file.as_deref(),
                settings.proxy.as_ref().map(Proxy::address),
                settings.concurrency.max(1),
            )?,
            scheme: url.scheme().to_owned(),
            signer: Signer::new(&settings.secrets),
            secrets: secrets(&url, settings),
            settings: settings.clone(),
        })
    }

    /// The address of this attempt.
    fn address(&self) -> Result<Url, SinkError> {
        let url = address(&self.settings)?;
        if url.scheme() == self.scheme {
            return Ok(url);
        }
        Err(SinkError::new(format!(
            "the address in the file of `url_file` does not begin with {}:// any more: restart the \
             service, so that it counts",
            self.scheme
        )))
    }

    /// Where the result of a request is shown, if the response says so and the configuration allows
    /// it. It is read without the body, the signature and the configured headers of the request.
    fn result_of(&self, answer: &Answer, url: &Url) -> Option<Url> {
        if ![302, 303].contains(&answer.code) {
            return None;
        }
        let location = answer.headers.get(LOCATION)?.to_str().ok()?;
        let mut result = url.join(location).ok()?;
        result.set_username("").ok()?;
        result.set_password(None).ok()?;
        let allowed = self.settings.redirect_host.as_deref();
        if result.scheme() == self.scheme && result.host_str() == allowed {
            Some(result)
        } else {
            None
        }
    }

    fn request(
        &self,
        url: Url,
        change: &Change,
        now: Timestamp,
    ) -> Result<RequestBuilder, Verdict> {
        let shaped = self.settings.format.shape(change);
        let Shaped {
            body,
            content_type,
            headers: shape_headers,
        } = shaped.map_err(Verdict::refused)?;
        let sent_at = now.as_second().to_string();
        let mut headers = self.settings.headers.clone();
        if !headers.contains_key(CONTENT_TYPE) {
            headers.insert(CONTENT_TYPE, header(&content_type)?);
        }
        // The headers below identify the sender and a repeat: the configuration cannot override
        // them.
        for (name, value) in shape_headers {
            headers.insert(name, header(&value)?);
        }
        headers.insert("webhook-id", header(&change.event_id)?);
        headers.insert("webhook-timestamp", header(&sent_at)?);
        let signature = self
            .signer
            .sign(&change.event_id, &sent_at, body.as_bytes());
        if let Some(signature) = signature {
            headers.insert("webhook-signature", header(&signature)?);
        }
        // The client's builder moves a user and password out of the address into a header.
        let request = self.client.request(Method::POST, url);
        Ok(request.headers(headers).body(body))
    }
}

#[async_trait]
impl Sink for WebhookSink {
    fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    fn limit(&self) -> (Duration, &'static str) {
        (
            self.settings.timeout,
            "check the endpoint and the network, or raise `timeout`",
        )
    }

    async fn deliver(&mut self, changes: &[&Change], now: Timestamp) -> Result<(), Verdict> {
        for change in changes {
            let url = self.address()?;
            self.secrets = secrets(&url, &self.settings);
            let request = self.request(url.clone(), change, now)?;
            let mut answer = self.client.send(request).await?;
            if let Some(result) = self.result_of(&answer, &url) {
                answer = self
                    .client
                    .send(self.client.request(Method::GET, result))
                    .await?;
            }
            judge(&answer, now)?;
        }
        Ok(())
    }

    /// Sends an `OPTIONS` request, which changes nothing, to test name, connection and certificate,
    /// and whether the endpoint accepts the address and the headers. Many endpoints take `POST`
    /// only and answer 405.
    async fn probe(&self) -> Result<String, SinkError> {
        let request = self
            .client
            .request(Method::OPTIONS, self.address()?)
            .headers(self.settings.headers.clone());
        let code = self.client.send(request).await?.code;
        let shows_result = matches!(code, 302 | 303) && self.settings.redirect_host.is_some();
        let is_refusal = matches!(code, 300..=399 | 401 | 403 | 404 | 410 | 500 | 502..=599);
        if is_refusal && !shows_result {
            return Err(SinkError::new(format!(
                "the endpoint answered {code} to OPTIONS: {}; if it takes POST only, try \
                 `shopmirror sinks NAME test`",
                hint(code)
            )));
        }
        Ok(format!(
            "the endpoint responds ({code} to OPTIONS); nothing was posted"
        ))
    }

    /// The request as it would be sent. Configured headers may be secrets, and the address is one.
    fn preview(&self, change: &Change, now: Timestamp) -> Result<Preview, Verdict> {
        let url = address(&self.settings)?;
        let request = self.request(url, change, now)?.build().map_err(|_| {
            Verdict::fault("the request cannot be made from the url and the headers")
        })?;
        let mut headers = Vec::new();
        for (name, value) in request.headers() {
            let is_configured = self.settings.headers.contains_key(name) || name == AUTHORIZATION;
            let shown = if is_configured {
                HIDDEN
            } else {
                value.to_str().unwrap_or(HIDDEN)
            };
            headers.push((name.to_string(), shown.to_owned()));
        }
        let body = request.body().and_then(reqwest::Body::as_bytes);
        Ok(Preview {
            how: "POST to the url of the configuration (hidden)".to_owned(),
            headers,
            body: String::from_utf8_lossy(body.unwrap_or_default()).into_owned(),
        })
    }
}

/// The secrets that an endpoint may repeat and no reason may show.
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
        let token = match value.split_once(' ') {
            Some((_, token)) => token,
            None => value,
        };
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

fn address(settings: &WebhookSettings) -> Result<Url, SinkError> {
    current(&settings.url, |url| webhook_url(url, settings.allow_plain))
}

fn judge(answer: &Answer, now: Timestamp) -> Result<(), Verdict> {
    match answer.code {
        200..=299 => Ok(()),
        410 => Err(Verdict::Gone {
            reason: http::reason(answer, "the endpoint is gone"),
        }),
        400 | 409 | 413 | 415 | 422 => Err(Verdict::refused_with(http::reason(
            answer,
            "the endpoint refused this change",
        ))),
        code => Err(http::fault(answer, hint(code), now)),
    }
}

/// What to do about a status.
fn hint(code: u16) -> &'static str {
    match code {
        300..=399 => {
            "redirects are not followed: put the final address into the url; a service that shows its \
             result elsewhere, as Google Apps Script does, needs `redirect_host`"
        }
        401 => "check the address, the headers and the secret",
        403 | 406 | 451 => {
            "check the address, the headers and the secret, and the rules of a firewall before the \
             endpoint"
        }
        404 | 405 => "check the address",
        407 => "a proxy before the endpoint wants a login: let requests pass it without",
        408 => {
            "the request did not arrive in time: check the network, and the time limits of the \
             endpoint and of a proxy before it"
        }
        410 => "the endpoint is gone: put its new address into the url",
        421 => {
            "this server does not answer for the host name of the url: check the url, and what the \
             proxy before the endpoint passes on"
        }
        423 | 429 => "the endpoint asks to wait",
        425 => "the endpoint wants the request later: switch early data (0-RTT) off before it",
        500..=599 => "the endpoint failed: see its log",
        _ => "only 2xx counts as delivered; check the address",
    }
}
