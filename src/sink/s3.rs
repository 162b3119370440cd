//! S3-compatible storage: objects of NDJSON, each with the changes that were due together.
//!
//! An object is named by the day and the number of its first change, so that a repeat after a crash
//! overwrites itself. Lines that an object of this name holds and that are not handed over again are
//! kept, so that neither a replay of a part nor a restored store loses any.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::{Response, StatusCode};
use rusty_s3::actions::{GetObject, PutObject};
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::lookup::BoundedLookup;
use super::reason::Secrets;
use super::{SinkBuildError, Verdict};
use crate::body;
use crate::config::{NameTemplate, S3Settings};
use crate::duration;
use crate::record::{Change, TEST_ID};
use crate::tls;

/// The most changes in one object; the engine's bound in bytes is usually reached before.
const BATCH: usize = 10_000;
/// No object of ours is larger: its records are bounded, and each stands in it three times at most.
const MAX_BYTES: usize = 64 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a signed address is good; services accept clocks that differ by as much.
const SIGNED_FOR: Duration = Duration::from_secs(15 * 60);

/// One bucket.
pub struct S3Sink {
    client: reqwest::Client,
    bucket: Bucket,
    credentials: Credentials,
    secrets: Secrets,
    prefix: NameTemplate,
    timeout: Duration,
    /// Changes that stand in an object already, by number and event id, and were not handed over with its
    /// first ones: an attempt that seemed to fail had stored more than the next one was given.
    stored: BTreeSet<(i64, String)>,
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
            prefix: settings.prefix.clone(),
            timeout: settings.timeout,
            stored: BTreeSet::new(),
        })
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(super) fn batch(&self) -> usize {
        BATCH
    }

    /// An object is stored as a whole or not at all.
    pub(super) fn can_fail_for_one(&self) -> bool {
        false
    }

    pub(super) fn linger(&self) -> Duration {
        Duration::ZERO
    }

    pub(super) async fn deliver(
        &mut self,
        changes: &[Change],
        now: Timestamp,
        stop: &CancellationToken,
    ) -> Vec<Verdict> {
        let verdict = match stop.run_until_cancelled(self.store(changes, now)).await {
            None => Verdict::CutShort,
            Some(Ok(())) => Verdict::Done,
            Some(Err(failure)) => Verdict::fault(self.told(&failure)),
        };
        vec![verdict; changes.len()]
    }

    async fn store(&mut self, changes: &[Change], now: Timestamp) -> Result<(), Failure> {
        let is_new =
            |change: &&Change| !self.stored.contains(&(change.seq, change.event_id.clone()));
        let changes: Vec<&Change> = changes.iter().filter(is_new).collect();
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else { return Ok(()) };
        let path = self.path(first);
        let mut lines = lines_of(&self.get(&path, now).await?);
        for change in &changes {
            let line = change.data_json().replace(['\n', '\r'], " ");
            lines.insert((change.seq, change.event_id.clone()), line);
        }
        let later: BTreeSet<_> = lines
            .range((last.seq + 1, String::new())..)
            .map(|(change, _)| change.clone())
            .collect();
        let mut text = String::new();
        for line in lines.values() {
            text.push_str(line);
            text.push('\n');
        }
        self.put(&path, text, now).await?;
        // What is before this is not handed over as new again.
        self.stored = self.stored.split_off(&(last.seq, String::new()));
        self.stored.extend(later);
        Ok(())
    }

    /// How long the address of a request is valid: also for one that follows another of full length.
    fn signed_for(&self) -> Duration {
        SIGNED_FOR + 2 * self.timeout
    }

    /// The content of an object; nothing if it is not there.
    async fn get(&self, path: &str, now: Timestamp) -> Result<Vec<u8>, Failure> {
        let action = GetObject::new(&self.bucket, Some(&self.credentials), path);
        let response =
            self.client.get(action.sign_with_time(self.signed_for(), &now)).send().await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(Vec::new());
        }
        let content = body::whole(&mut accepted(response)?, MAX_BYTES).await?;
        content.ok_or_else(|| Failure::TooLarge(path.to_owned()))
    }

    async fn put(&self, path: &str, text: String, now: Timestamp) -> Result<(), Failure> {
        let action = PutObject::new(&self.bucket, Some(&self.credentials), path);
        let url = action.sign_with_time(self.signed_for(), &now);
        accepted(self.client.put(url).body(text).send().await?)?;
        Ok(())
    }

    /// The object whose first change this is: the same in every attempt.
    fn path(&self, first: &Change) -> String {
        // What is in no log has no number.
        let folder = if first.event_id.starts_with(TEST_ID) { "test" } else { first.kind.as_str() };
        if first.event_id.starts_with(TEST_ID) || first.kind.is_notice() {
            let prefix = self.prefix.pattern("");
            return format!("{prefix}/{folder}/{}.ndjson", first.event_id);
        }
        let day = first.observed_at.get(..10).unwrap_or_default().replace('-', "/");
        format!("{}/{day}/{:020}.ndjson", self.prefix.pattern(""), first.seq)
    }

    /// What a failure means, without addresses: the signature is part of an address.
    fn told(&self, failure: &Failure) -> String {
        let bucket = self.bucket.name();
        match failure {
            Failure::Answered(StatusCode::NOT_FOUND) => {
                format!("the bucket {bucket} is not there: create it, or correct `bucket`")
            }
            Failure::Answered(StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED) => format!(
                "the service refused the access key: correct `access_key_file` or this machine's \
                 clock, or let the key get, put and list objects of {bucket}"
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
            Failure::TooLarge(path) => format!(
                "the object {path} is larger than {MAX_BYTES} bytes, so another program stored it: \
                 move it away, or use another `prefix`"
            ),
        }
    }

    /// Asks whether the bucket is there and may be listed; stores nothing.
    pub(super) async fn probe(&self) -> Result<String, String> {
        // The object without a name is the list of all.
        let mut action = GetObject::new(&self.bucket, Some(&self.credentials), "");
        action.query_mut().insert("max-keys", "1");
        let listing = async {
            let response = self.client.get(action.sign(SIGNED_FOR)).send().await?;
            Ok(body::whole(&mut accepted(response)?, MAX_BYTES).await?)
        };
        match listing.await {
            Err(failure) => Err(self.told(&failure)),
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
    /// An object of the same name is larger than any of ours.
    TooLarge(String),
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
    let mut builder = tls::client_builder()
        .dns_resolver(std::sync::Arc::new(BoundedLookup))
        .connect_timeout(CONNECT_TIMEOUT.min(settings.timeout))
        .timeout(settings.timeout);
    if settings.endpoint.as_ref().is_some_and(|endpoint| endpoint.scheme() == "http") {
        // A loopback address, which needs no certificate authorities.
        builder = builder.tls_certs_only(std::iter::empty());
    }
    let builder = tls::with_authorities(builder, settings.ca_file.as_deref())?;
    builder.build().map_err(|_| {
        "making the HTTPS client failed; install the package ca-certificates".to_owned()
    })
}

/// The lines of an object by the number and the event id of their change.
///
/// A restored store uses numbers again for other changes, so the number alone names no line. A line that
/// is not one of ours is kept before them, under its own text.
fn lines_of(bytes: &[u8]) -> BTreeMap<(i64, String), String> {
    #[derive(serde::Deserialize)]
    struct Line {
        seq: i64,
        event_id: String,
    }
    let named = |line: &str| match serde_json::from_str::<Line>(line) {
        Ok(found) => (found.seq, found.event_id),
        Err(_) => (i64::MIN, line.to_owned()),
    };
    String::from_utf8_lossy(bytes).lines().map(|line| (named(line), line.to_owned())).collect()
}
