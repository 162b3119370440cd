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
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use md5::{Digest, Md5};
use reqwest::Method;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG};
use rusty_s3::actions::{GetObject, HeadObject, PutObject};
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use secrecy::ExposeSecret;
use shopmirror_core::record::{Change, TEST_ID};
use url::Url;

use super::http::{Answer, HttpClient};
use super::reason::{Secrets, login};
use super::{Sink, SinkError, Verdict, short_digest};
use crate::config::S3Settings;
use crate::shape::on_one_line;
use crate::text::hex;

/// The most changes in one object; the engine's bound in bytes is usually reached before.
const BATCH: usize = 10_000;
/// How long a signed address is good; services accept clocks that differ by as much.
const SIGNED_FOR: Duration = Duration::from_secs(15 * 60);
/// The digest by which the service checks what it receives. A bucket with object lock refuses an
/// object without it.
const CONTENT_MD5: &str = "content-md5";
const NDJSON: &str = "application/x-ndjson";
const NO_S3_SERVICE: &str = "what answers is no S3 service: correct `endpoint`, or check what is \
    between this machine and the service";

/// One bucket.
pub(super) struct S3Sink {
    client: HttpClient,
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
        let client = HttpClient::build(
            endpoint.scheme() == "http",
            settings.ca_file.as_deref(),
            settings.proxy.as_ref(),
            1,
        )?;
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

    /// Whether the bucket holds an object of this name, entity tag and length. The entity tag of a
    /// bucket that encrypts is not the digest of the text.
    async fn holds(&self, path: &str, etag: &str, length: usize) -> Result<bool, SinkError> {
        let action = HeadObject::new(&self.bucket, Some(&self.credentials), path);
        let request = self.client.request(Method::HEAD, action.sign(SIGNED_FOR));
        let answer = self.client.send(request).await?;
        let stored_length = answer
            .header(CONTENT_LENGTH)
            .and_then(|text| text.parse().ok());
        Ok(answer.code == 200
            && self::etag(&answer).as_deref() == Some(etag)
            && stored_length == Some(length))
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
        let length = text.len();
        let md5 = Md5::digest(&text);
        let mut action = PutObject::new(&self.bucket, Some(&self.credentials), &path);
        let checksum = STANDARD.encode(md5);
        action.headers_mut().insert(CONTENT_MD5, checksum.clone());
        let url = action.sign(SIGNED_FOR + self.timeout);
        let request = self
            .client
            .request(Method::PUT, url)
            .header(CONTENT_MD5, checksum)
            .header(CONTENT_TYPE, NDJSON)
            .body(text);
        let answer = self.client.send(request).await?;
        if answer.code >= 300 {
            return Err(answer.fault(&self.remedy(answer.code), now));
        }
        let Some(etag) = etag(&answer) else {
            return Err(answer.fault(NO_S3_SERVICE, now));
        };
        if etag == hex(&md5) || self.holds(&path, &etag, length).await? {
            return Ok(());
        }
        Err(answer.fault(NO_S3_SERVICE, now))
    }

    /// Checks whether the bucket is there and may be listed; stores nothing.
    async fn probe(&self) -> Result<String, SinkError> {
        // The object without a name is the list of all.
        let mut action = GetObject::new(&self.bucket, Some(&self.credentials), "");
        action.query_mut().insert("max-keys", "1");
        let request = self.client.request(Method::GET, action.sign(SIGNED_FOR));
        let answer = self.client.send(request).await?;
        if !(200..300).contains(&answer.code) {
            return Err(answer.reason(&self.remedy(answer.code)).into());
        }
        if !String::from_utf8_lossy(&answer.body).contains("<ListBucketResult") {
            return Err(SinkError::new(NO_S3_SERVICE));
        }
        Ok(format!(
            "the bucket {} is there; nothing was stored",
            self.bucket.name()
        ))
    }
}

/// The entity tag of a response, without its quotation marks; `None` if it has none or shows a page
/// for people. S3 has no text for a stored object.
fn etag(answer: &Answer) -> Option<String> {
    if answer.body.trim_ascii_start().starts_with(b"<") {
        return None;
    }
    let etag = answer.header(ETAG)?.trim_matches('"');
    Some(etag.to_ascii_lowercase())
}
