//! The heartbeat: a GET by which a service on another machine notices that this program works, and
//! from whose absence it follows that it does not.

use std::time::Duration;

use reqwest::Method;

use super::SinkError;
use super::http::HttpClient;
use crate::config::{HeartbeatSettings, HeartbeatUrl};

/// The longest time of one request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Sends heartbeats.
pub struct Heartbeat {
    url: HeartbeatUrl,
    fail_url: Option<HeartbeatUrl>,
    client: HttpClient,
    fail_client: HttpClient,
    timeout: Duration,
}

impl Heartbeat {
    /// A heartbeat to the addresses of the settings.
    ///
    /// # Errors
    /// [`SinkError`] if TLS cannot be set up.
    pub fn new(settings: &HeartbeatSettings) -> Result<Self, SinkError> {
        let fail_url = settings.fail_url.clone();
        Ok(Self {
            client: client_of(&settings.url)?,
            fail_client: client_of(fail_url.as_ref().unwrap_or(&settings.url))?,
            url: settings.url.clone(),
            fail_url,
            timeout: settings.every.min(TIMEOUT),
        })
    }

    /// Requests the address of a program that works, or that of one that fails; false if there is none
    /// to request.
    ///
    /// # Errors
    /// Why the service did not take it, without the address.
    pub async fn send(&self, works: bool) -> Result<bool, String> {
        let (client, url) = match (works, &self.fail_url) {
            (true, _) => (&self.client, &self.url),
            (false, Some(fail_url)) => (&self.fail_client, fail_url),
            (false, None) => return Ok(false),
        };
        let request = client
            .request(Method::GET, url.url().clone())
            .timeout(self.timeout);
        match client.send(request).await {
            Ok(answer) => match answer.code {
                200..300 => Ok(true),
                code @ (300..=399 | 401 | 403 | 404 | 410) => Err(format!(
                    "the service answered {code}: correct the address in the file that [alerts] \
                     names"
                )),
                code => Err(format!("the service answered {code}")),
            },
            Err(error) => Err(error.to_string()),
        }
    }
}

fn client_of(url: &HeartbeatUrl) -> Result<HttpClient, SinkError> {
    HttpClient::build(url.url().scheme() == "http", None, None, 1)
}
