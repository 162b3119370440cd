//! S3-compatible storage: objects of NDJSON, each with the changes that were due together.
//!
//! An object is named by its day, the numbers of its first and last change, and a digest of its
//! text. So two objects of the same name are equal, and none ever replaces another one: not of
//! another sink, not of another store, not after a change was cut out of a batch.
//!
//! An object counts as stored only when the service names the digest of what it stored: a captive
//! portal or a proxy answers 200 as well.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use md5::{Digest, Md5};
use secrecy::ExposeSecret;
use shopmirror_core::record::{Change, TEST_ID};

use super::http;
use super::reason::{Secrets, login};
use super::{Sink, SinkError, Verdict, short_digest};
use crate::config::{Proxy, S3Settings};
use crate::net::s3::{self, NO_S3_SERVICE, S3Access, S3Client};
use crate::shape::on_one_line;
use crate::text::hex;

/// The most changes in one object; the engine's bound in bytes is usually reached before.
const BATCH: usize = 10_000;
const NDJSON: &str = "application/x-ndjson";

/// One bucket.
pub(super) struct S3Sink {
    client: S3Client,
    secrets: Secrets,
    workspace: String,
    timeout: Duration,
}

impl S3Sink {
    pub(super) fn build(settings: &S3Settings) -> Result<Self, SinkError> {
        let (id, secret) = &settings.access_key;
        let secret = secret.expose_secret();
        let client = S3Client::build(&S3Access {
            endpoint: settings.endpoint.as_ref(),
            region: &settings.region,
            bucket: &settings.bucket,
            key: (id, secret),
            ca_file: settings.ca_file.as_deref(),
            proxy: settings.proxy.as_ref().map(Proxy::address),
        });
        Ok(Self {
            client: client.map_err(SinkError::new)?,
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
        let length = text.len() as u64;
        let md5 = Md5::digest(&text);
        let answer = self
            .client
            .put(&path, text, &md5, NDJSON, self.timeout)
            .await?;
        if answer.code >= 300 {
            let remedy = self.client.remedy(answer.code);
            return Err(http::fault(&answer, &remedy, now));
        }
        let Some(etag) = s3::etag(&answer) else {
            return Err(http::fault(&answer, NO_S3_SERVICE, now));
        };
        // The entity tag of a bucket that encrypts is not the digest of the text.
        if etag == hex(&md5) || self.client.holds(&path, &etag, length).await? {
            return Ok(());
        }
        Err(http::fault(&answer, NO_S3_SERVICE, now))
    }

    /// Checks whether the bucket is there and may be listed; stores nothing.
    async fn probe(&self) -> Result<String, SinkError> {
        let answer = self.client.probe().await?;
        if !(200..300).contains(&answer.code) {
            return Err(http::reason(&answer, &self.client.remedy(answer.code)).into());
        }
        if !s3::is_list(&answer) {
            return Err(SinkError::new(NO_S3_SERVICE));
        }
        Ok(format!(
            "the bucket {} is there; nothing was stored",
            self.client.bucket()
        ))
    }
}
