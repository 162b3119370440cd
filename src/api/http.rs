//! The transport over real sockets.
//!
//! Only https leaves the machine. The key is sent to the configured host only: redirects are not
//! followed, no referer is sent, no proxy of the environment is used; through a configured one only
//! TLS runs. A body is decompressed up to a limit, so that no response can fill the memory.

use std::error::Error as _;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::ACCEPT_ENCODING;
use url::Url;

use super::foreign::sanitize;
use super::transport::{
    ApiRequest, ApiResponse, MAX_BODY, MAX_ERROR_BODY, Transport, TransportError,
};
use crate::config::{WorkspaceSettings, is_loopback};
use crate::net::body;
use crate::net::problem::ConnectionProblem;
use crate::net::tls::{TlsError, client_builder, http_client, through_proxy};

/// The longest time a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection is kept: shorter than on most servers, so that the server does not
/// close it during a request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// How many idle connections are kept. At most one request per poller and one background request
/// are in flight at the same time.
const MAX_IDLE: usize = 32;

/// Sends requests over sockets.
pub struct HttpTransport {
    client: reqwest::Client,
    /// True if the configured address is https; then nothing is sent over plain http.
    https: bool,
    /// Host and port of the proxy, if there is one.
    proxy: Option<String>,
}

/// Why the configuration allows no transport.
#[derive(Debug, thiserror::Error)]
pub enum TransportBuildError {
    /// The key would be sent unencrypted.
    #[error(
        "base_url must begin with https://, because every request carries the API key; plain \
         http is for loopback addresses only"
    )]
    NotHttps,
    /// TLS could not be set up, or the file of certificate authorities cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl HttpTransport {
    /// A transport for one workspace; certificates are loaded only when it is asked over https.
    ///
    /// # Errors
    /// [`TransportBuildError`] when the address or the certificates cannot be used.
    pub fn new(workspace: &WorkspaceSettings) -> Result<Self, TransportBuildError> {
        let https = workspace.base_url.scheme() == "https";
        if !https && !is_plain_loopback(&workspace.base_url) {
            return Err(TransportBuildError::NotHttps);
        }
        let mut builder = client_builder()
            .https_only(https)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE);
        let mut proxy_name = None;
        if let Some(proxy) = &workspace.proxy {
            builder = through_proxy(builder, proxy.address().url)?;
            proxy_name = Some(proxy.address().name.to_owned());
        }
        Ok(Self {
            client: http_client(builder, !https, workspace.ca_file.as_deref())?,
            https,
            proxy: proxy_name,
        })
    }
}

impl HttpTransport {
    /// Why there is no response.
    fn sending(&self, error: &reqwest::Error) -> TransportError {
        if error.is_timeout() && !error.is_connect() {
            return TransportError::Timeout;
        }
        if !error.is_connect() {
            return TransportError::Other(causes(error));
        }
        let problem = ConnectionProblem::for_request(error);
        let text = match problem {
            Some(problem) => problem.to_string(),
            None => format!("{}; check base_url and the network", causes(error)),
        };
        match (&self.proxy, problem) {
            (Some(name), Some(problem)) if problem.is_of_proxy() => TransportError::Proxy {
                name: name.clone(),
                problem,
            },
            (Some(name), _) => TransportError::Connect(format!("through the proxy {name}: {text}")),
            (None, _) => TransportError::Connect(text),
        }
    }
}

#[async_trait]
impl Transport for HttpTransport {
    async fn send(&self, request: ApiRequest) -> Result<ApiResponse, TransportError> {
        if (request.url.scheme() == "https") != self.https
            || !self.https && !is_plain_loopback(&request.url)
        {
            return Err(TransportError::Other(
                "the address is not the configured one".into(),
            ));
        }
        let mut response = self
            .client
            .get(request.url)
            .headers(request.headers)
            .header(ACCEPT_ENCODING, body::ACCEPTED)
            .timeout(request.timeout)
            .send()
            .await
            .map_err(|error| self.sending(&error))?;
        let status = response.status().as_u16();
        let headers = std::mem::take(response.headers_mut());
        let encoding = body::is_gzip(&headers);
        let body = if response.status().is_success() {
            let is_gzip = encoding.map_err(TransportError::Encoding)?;
            page_body(&mut response, is_gzip).await?
        } else if response.status().is_redirection() {
            Bytes::new()
        } else {
            // The status is known, so a body that cannot be read is no problem.
            match encoding {
                Ok(is_gzip) => error_body(&mut response, is_gzip).await,
                Err(_) => Bytes::new(),
            }
        };
        Ok(ApiResponse {
            status,
            headers,
            body,
        })
    }
}

/// The whole body of a 2xx response, or an error.
async fn page_body(
    response: &mut reqwest::Response,
    is_gzip: bool,
) -> Result<Bytes, TransportError> {
    let received = body::whole(response, MAX_BODY)
        .await
        .map_err(|error| reading(&error))?;
    let Some(received) = received else {
        return Err(TransportError::TooLarge);
    };
    if !is_gzip {
        return Ok(Bytes::from(received));
    }
    let mut page = Vec::new();
    match body::unpack(&received, MAX_BODY, &mut page) {
        Ok(true) => Ok(Bytes::from(page)),
        Ok(false) => Err(TransportError::TooLarge),
        Err(error) => Err(TransportError::Cut(sanitize(&error.to_string(), ""))),
    }
}

/// The first part of an error's body; a body that ends early is no problem, because the status
/// is known.
async fn error_body(response: &mut reqwest::Response, is_gzip: bool) -> Bytes {
    let mut received = Vec::new();
    let _ = body::read(response, MAX_ERROR_BODY, &mut received).await;
    if !is_gzip {
        return received.into();
    }
    let mut text = Vec::new();
    let _ = body::unpack(&received, MAX_ERROR_BODY, &mut text);
    text.into()
}

fn is_plain_loopback(url: &Url) -> bool {
    url.scheme() == "http" && is_loopback(url)
}

fn reading(error: &reqwest::Error) -> TransportError {
    if error.is_timeout() {
        TransportError::Timeout
    } else {
        TransportError::Cut(causes(error))
    }
}

/// The causes of an error. The error's own text is left out, because it holds the address.
fn causes(error: &reqwest::Error) -> String {
    let mut texts = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        texts.push(cause.to_string());
        next = cause.source();
    }
    texts.dedup();
    let text = if texts.is_empty() {
        "unknown cause".to_owned()
    } else {
        texts.join(": ")
    };
    sanitize(&text, "")
}

#[cfg(test)]
mod tests;
