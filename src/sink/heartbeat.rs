//! The heartbeat: a GET by which a service on another machine notices that this program works, and
//! from whose absence it follows that it does not.

use std::time::Duration;

use reqwest::Method;

use super::SinkError;
use crate::config::{HeartbeatSettings, HeartbeatUrl};
use crate::net::http::HttpClient;

/// The longest time of one request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Sends heartbeats.
pub struct Heartbeat {
    works: Target,
    /// What is requested while the program fails; `None` requests nothing then.
    fails: Option<Target>,
    timeout: Duration,
}

/// An address, and the client that requests it.
struct Target {
    url: HeartbeatUrl,
    client: HttpClient,
}

impl Target {
    fn new(url: &HeartbeatUrl) -> Result<Self, SinkError> {
        let is_plain = url.url().scheme() == "http";
        Ok(Self {
            url: url.clone(),
            client: HttpClient::build(is_plain, None, None, 1)?,
        })
    }
}

impl Heartbeat {
    /// A heartbeat to the addresses of the settings.
    ///
    /// # Errors
    /// [`SinkError`] if TLS cannot be set up.
    pub fn new(settings: &HeartbeatSettings) -> Result<Self, SinkError> {
        let fails = match &settings.fail_url {
            Some(url) => Some(Target::new(url)?),
            None => None,
        };
        Ok(Self {
            works: Target::new(&settings.url)?,
            fails,
            timeout: settings.every.min(TIMEOUT),
        })
    }

    /// Requests the address of a program that works, or that of one that fails; false if there is none
    /// to request.
    ///
    /// # Errors
    /// Why the service did not take it, without the address.
    pub async fn send(&self, works: bool) -> Result<bool, String> {
        let target = if works {
            Some(&self.works)
        } else {
            self.fails.as_ref()
        };
        let Some(Target { url, client }) = target else {
            return Ok(false);
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
