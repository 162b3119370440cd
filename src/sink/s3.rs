//! S3-compatible storage: objects of NDJSON, each with the changes that were due together.
//!
//! An object is named by its day, the numbers of its first and last change, and a digest of its
//! text. So two objects of the same name are equal, and none ever replaces another one: not of
//! another sink, not of another store, not after a change was cut out of a batch.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use rusty_s3::actions::{GetObject, PutObject};
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use secrecy::ExposeSecret;
use shopmirror_core::record::{Change, TEST_ID};
use url::Url;

use super::http::{self, Answer};
use super::reason::{Secrets, login};
use super::{Sink, SinkError, Verdict, short_digest};
use crate::config::S3Settings;
use crate::shape::on_one_line;

/// The most changes in one object; the engine's bound in bytes is usually reached before.
const BATCH: usize = 10_000;
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
    pub(super) fn build(settings: &S3Settings) -> Result<Self, SinkError> {
        let (id, secret) = &settings.access_key;
        let secret = secret.expose_secret();
        let endpoint = match &settings.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => Url::parse(&format!("https://s3.{}.amazonaws.com", settings.region))
                .map_err(|_| SinkError::new("correct `region`: it cannot be part of an address"))?,
        };
        let client = http::client(endpoint.scheme() == "http", settings.ca_file.as_deref())?;
        // With the bucket in the path, an address of one machine is enough.
        let bucket = Bucket::new(
            endpoint,
            UrlStyle::Path,
            settings.bucket.clone(),
            settings.region.clone(),
        );
        Ok(Self {
            client,
            bucket: bucket
                .map_err(|error| SinkError::new(format!("correct `endpoint`: {error}")))?,
            credentials: Credentials::new(id, secret),
            secrets: Secrets::new(login(id, secret)),
            workspace: settings.workspace.clone(),
            timeout: settings.timeout,
        })
    }

    fn path(&self, first: &Change, last: &Change, text: &str) -> String {
        let prefix = format!("shop/{}", self.workspace);
        // A test and a notice are in no log, so they have no number.
        let is_test = first.event_id.starts_with(TEST_ID);
        if is_test || first.kind.is_notice() {
            let folder = if is_test { "test" } else { first.kind.as_str() };
            return format!("{prefix}/{folder}/{}.ndjson", first.event_id);
        }
        let day = first
            .observed_at
            .get(..10)
            .unwrap_or_default()
            .replace('-', "/");
        let digest = short_digest(text);
        format!(
            "{prefix}/{day}/{:020}-{:020}-{digest}.ndjson",
            first.seq, last.seq
        )
    }

    /// What to do about a status.
    fn remedy(&self, code: u16) -> String {
        let bucket = self.bucket.name();
        match code {
            404 => format!("the bucket {bucket} is not there: create it, or correct `bucket`"),
            401 | 403 => format!(
                "the service refused the access key: correct `access_key_file` or this machine's \
                 clock, or let the key put objects into {bucket} and list it"
            ),
            300..=399 => {
                format!("the bucket {bucket} is elsewhere; correct `region` or `endpoint`")
            }
            _ => "check `endpoint`, `region` and the service".to_owned(),
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

    fn limit(&self) -> (Duration, &'static str) {
        (
            self.timeout,
            "check `endpoint`, the network and the service, or raise `timeout`",
        )
    }

    async fn deliver(&mut self, changes: &[&Change], now: Timestamp) -> Result<(), Verdict> {
        let ([first, .., last] | [first @ last]) = changes else {
            return Ok(());
        };
        let mut text = String::new();
        for change in changes {
            text += &on_one_line(change.data_json());
            text.push('\n');
        }
        let path = self.path(first, last, &text);
        let action = PutObject::new(&self.bucket, Some(&self.credentials), &path);
        let url = action.sign(SIGNED_FOR + self.timeout);
        let answer = Answer::to(self.client.put(url).body(text)).await?;
        match answer.code {
            200..=299 => Ok(()),
            code => Err(answer.fault(&self.remedy(code), now)),
        }
    }

    /// Checks whether the bucket is there and may be listed; stores nothing.
    async fn probe(&self) -> Result<String, SinkError> {
        // The object without a name is the list of all.
        let mut action = GetObject::new(&self.bucket, Some(&self.credentials), "");
        action.query_mut().insert("max-keys", "1");
        let answer = Answer::to(self.client.get(action.sign(SIGNED_FOR))).await?;
        if !(200..300).contains(&answer.code) {
            return Err(SinkError::new(answer.reason(&self.remedy(answer.code))));
        }
        if !String::from_utf8_lossy(&answer.body).contains("<ListBucketResult") {
            return Err(SinkError::new(
                "what answers is no S3 service: correct `endpoint`",
            ));
        }
        Ok(format!(
            "the bucket {} is there; nothing was stored",
            self.bucket.name()
        ))
    }
}
