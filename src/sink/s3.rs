//! S3-compatible storage: objects of NDJSON, each with the changes that were due together.
//!
//! An object is named by its day, the numbers of its first and last change, and a digest of its text.
//! So an object of the same name is the same object, whoever stored it, and none ever takes the place of
//! another one: not of another sink, not of another store, not after a change was cut out of a batch.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use reqwest::{Response, StatusCode};
use rusty_s3::actions::{GetObject, PutObject};
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::reason::Secrets;
use super::{Sink, SinkBuildError, Verdict, short_digest};
use crate::body;
use crate::config::S3Settings;
use crate::duration;
use crate::record::{Change, TEST_ID};
use crate::tls;

/// The most changes in one object; the engine's bound in bytes is usually reached before.
const BATCH: usize = 10_000;
/// The list of one object is no longer.
const MAX_LISTING: usize = 64 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a signed address is good; services accept clocks that differ by as much.
const SIGNED_FOR: Duration = Duration::from_secs(15 * 60);

/// One bucket.
pub(super) struct S3Sink {
    client: reqwest::Client,
    bucket: Bucket,
    credentials: Credentials,
    secrets: Secrets,
    workspace: String,
    timeout: Duration,
}

impl S3Sink {
    pub(super) fn build(name: &str, settings: &S3Settings) -> Result<Self, SinkBuildError> {
        let refuse = |problem: String| SinkBuildError::Server { sink: name.to_owned(), problem };
        let client = client(settings).map_err(refuse)?;
        let endpoint = match &settings.endpoint {
            Some(endpoint) => Ok(endpoint.clone()),
            None => Url::parse(&format!("https://s3.{}.amazonaws.com", settings.region)),
        };
        let bucket = endpoint
            .map_err(|_| "correct `region`: it cannot be part of an address".to_owned())
            .and_then(|endpoint| bucket(endpoint, settings))
            .map_err(refuse)?;
        Ok(Self {
            client,
            bucket,
            credentials: Credentials::new(
                &settings.access_key.0,
                settings.access_key.1.expose_secret(),
            ),
            secrets: Secrets::of_login(
                &settings.access_key.0,
                settings.access_key.1.expose_secret(),
            ),
            workspace: settings.workspace.clone(),
            timeout: settings.timeout,
        })
    }

    async fn store(&self, changes: &[Change], now: Timestamp) -> Result<(), Failure> {
        let ([first, .., last] | [first @ last]) = changes else { return Ok(()) };
        let line = |change: &Change| change.data_json().replace(['\n', '\r'], " ") + "\n";
        let text: String = changes.iter().map(line).collect();
        let path = self.path(first, last, &text);
        let action = PutObject::new(&self.bucket, Some(&self.credentials), &path);
        let url = action.sign_with_time(SIGNED_FOR + self.timeout, &now);
        accepted(self.client.put(url).body(text).send().await?)?;
        Ok(())
    }

    fn path(&self, first: &Change, last: &Change, text: &str) -> String {
        let prefix = format!("shop/{}", self.workspace);
        // What is in no log has no number.
        let is_test = first.event_id.starts_with(TEST_ID);
        if is_test || first.kind.is_notice() {
            let folder = if is_test { "test" } else { first.kind.as_str() };
            return format!("{prefix}/{folder}/{}.ndjson", first.event_id);
        }
        let day = first.observed_at.get(..10).unwrap_or_default().replace('-', "/");
        let digest = short_digest(text);
        format!("{prefix}/{day}/{:020}-{:020}-{digest}.ndjson", first.seq, last.seq)
    }

    /// What a failure means, without addresses: the signature is part of an address.
    fn described(&self, failure: &Failure) -> String {
        let bucket = self.bucket.name();
        match failure {
            Failure::Answered(StatusCode::NOT_FOUND) => {
                format!("the bucket {bucket} is not there: create it, or correct `bucket`")
            }
            Failure::Answered(StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED) => format!(
                "the service refused the access key: correct `access_key_file` or this machine's \
                 clock, or let the key put objects into {bucket} and list it"
            ),
            Failure::Answered(status) if status.is_redirection() => format!(
                "the service answered {}: the bucket {bucket} is elsewhere; correct `region` or `endpoint`",
                status.as_u16()
            ),
            Failure::Answered(status) => format!(
                "storing an object: the service answered {}; check `endpoint`, `region` and the service",
                status.as_u16()
            ),
            Failure::Request(error) => {
                let problem = tls::connection_problem(error).unwrap_or_else(|| {
                    if error.is_timeout() {
                        format!("no answer within {}", duration::exact(self.timeout))
                    } else {
                        "the connection was closed, or the answer is not HTTP".to_owned()
                    }
                });
                format!(
                    "storing an object: {problem}; check `endpoint`, the network and the service"
                )
            }
        }
    }
}

#[async_trait]
impl Sink for S3Sink {
    fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    fn batch(&self) -> usize {
        BATCH
    }

    /// An object is stored as a whole or not at all.
    fn keeps_order(&self) -> bool {
        true
    }

    async fn deliver(
        &mut self,
        changes: &[Change],
        now: Timestamp,
        stop: &CancellationToken,
    ) -> Vec<Verdict> {
        let verdict = match stop.run_until_cancelled(self.store(changes, now)).await {
            None => Verdict::CutShort,
            Some(Ok(())) => Verdict::Done,
            Some(Err(failure)) => Verdict::fault(self.described(&failure)),
        };
        vec![verdict; changes.len()]
    }

    /// Asks whether the bucket is there and may be listed; stores nothing.
    async fn probe(&self) -> Result<String, String> {
        // The object without a name is the list of all.
        let mut action = GetObject::new(&self.bucket, Some(&self.credentials), "");
        action.query_mut().insert("max-keys", "1");
        let listing = async {
            let response = self.client.get(action.sign(SIGNED_FOR)).send().await?;
            Ok(body::whole(&mut accepted(response)?, MAX_LISTING).await?)
        };
        match listing.await {
            Err(failure) => Err(self.described(&failure)),
            Ok(Some(xml)) if String::from_utf8_lossy(&xml).contains("<ListBucketResult") => {
                Ok(format!("the bucket {} is there; nothing was stored", self.bucket.name()))
            }
            Ok(_) => Err("what answers is no S3 service: correct `endpoint`".to_owned()),
        }
    }
}

/// Why changes were not stored.
enum Failure {
    /// There was no answer, or not the whole of it.
    Request(reqwest::Error),
    /// The service refused.
    Answered(StatusCode),
}

impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        Self::Request(error)
    }
}

fn accepted(response: Response) -> Result<Response, Failure> {
    if response.status().is_success() {
        return Ok(response);
    }
    Err(Failure::Answered(response.status()))
}

fn bucket(endpoint: Url, settings: &S3Settings) -> Result<Bucket, String> {
    // With the bucket in the path, an address of one machine is enough.
    Bucket::new(endpoint, UrlStyle::Path, settings.bucket.clone(), settings.region.clone())
        .map_err(|error| format!("correct `endpoint`: {error}"))
}

fn client(settings: &S3Settings) -> Result<reqwest::Client, String> {
    let builder = tls::client_builder()
        .connect_timeout(CONNECT_TIMEOUT.min(settings.timeout))
        .timeout(settings.timeout);
    // Without TLS only a loopback address is reached.
    let is_plain = settings.endpoint.as_ref().is_some_and(|endpoint| endpoint.scheme() == "http");
    tls::http_client(builder, is_plain, settings.ca_file.as_deref())
}
