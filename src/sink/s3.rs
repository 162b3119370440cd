//! S3-compatible storage: objects of NDJSON, each with the changes that were due together.
//!
//! An object is named by the day and the number of its first change, so that a repeat after a crash
//! overwrites itself. Lines that an object of this name holds and that are not handed over again are
//! kept, so that a replay of a part loses nothing.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::time::Duration;

use futures_util::StreamExt;
use jiff::Timestamp;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{HttpClient, HttpConnector};
use object_store::path::Path;
use object_store::{ClientOptions, Error, GetResult, ObjectStore, ObjectStoreExt, RetryConfig};
use reqwest::Certificate;
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;

use super::lookup::BoundedLookup;
use super::reason::Reason;
use super::{SinkBuildError, Verdict};
use crate::config::{NameTemplate, S3Settings};
use crate::record::{Change, TEST_ID};
use crate::tls;

/// The most changes in one object; the engine's bound in bytes is usually reached before.
const BATCH: usize = 10_000;
/// No object of ours is larger: its records are bounded, and each stands in it three times at most.
const MOST_BYTES: u64 = 64 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// One bucket.
pub struct S3Sink {
    store: AmazonS3,
    bucket: String,
    prefix: NameTemplate,
    every: Duration,
    /// Changes that stand in an object already, by number, and were not handed over with its first
    /// ones: an attempt that seemed to fail had stored more than the next one was given.
    stored: BTreeMap<i64, String>,
}

impl S3Sink {
    pub(super) fn build(name: &str, settings: &S3Settings) -> Result<Self, SinkBuildError> {
        let refuse = |problem: String| SinkBuildError::Server { sink: name.to_owned(), problem };
        let client = client(settings).map_err(refuse)?;
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&settings.bucket)
            .with_region(&settings.region)
            .with_access_key_id(&settings.key_id)
            .with_secret_access_key(settings.secret.expose_secret())
            // The engine decides when something is tried again.
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .with_http_connector(OurClient(client));
        if let Some(endpoint) = &settings.endpoint {
            builder = builder.with_endpoint(endpoint.as_str().trim_end_matches('/'));
        }
        let store =
            builder.build().map_err(|error| refuse(format!("preparing the client: {error}")))?;
        Ok(Self {
            store,
            bucket: settings.bucket.clone(),
            prefix: settings.prefix.clone(),
            every: settings.every,
            stored: BTreeMap::new(),
        })
    }

    pub(super) fn batch(&self) -> usize {
        BATCH
    }

    /// An object is stored as a whole or not at all.
    pub(super) fn can_fail_for_one(&self) -> bool {
        false
    }

    pub(super) fn linger(&self) -> Duration {
        self.every
    }

    pub(super) async fn deliver(
        &mut self,
        changes: &[Change],
        _now: Timestamp,
        stop: &CancellationToken,
    ) -> Vec<Verdict> {
        let verdict = match stop.run_until_cancelled(self.store(changes)).await {
            None => Verdict::CutShort,
            Some(Ok(())) => Verdict::Done,
            Some(Err(Failure::Store(error))) => Verdict::fault(self.told(&error)),
            Some(Err(Failure::TooLarge(path))) => Verdict::fault(format!(
                "the object {path} is larger than {MOST_BYTES} bytes, so another program stored it: \
                 move it away, or use another `prefix`"
            )),
        };
        vec![verdict; changes.len()]
    }

    async fn store(&mut self, changes: &[Change]) -> Result<(), Failure> {
        let is_new = |change: &&Change| self.stored.get(&change.seq) != Some(&change.event_id);
        let changes: Vec<&Change> = changes.iter().filter(is_new).collect();
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else { return Ok(()) };
        let path = self.path(first);
        let mut lines: BTreeMap<i64, String> = match self.store.get(&path).await {
            Ok(there) => match bounded(there).await? {
                Some(text) => numbered(&text),
                None => return Err(Failure::TooLarge(path)),
            },
            Err(Error::NotFound { .. }) => BTreeMap::new(),
            Err(error) => return Err(error.into()),
        };
        for change in &changes {
            let line = change.data_json().replace(['\n', '\r'], " ");
            lines.insert(change.seq, line);
        }
        let later =
            lines.range(last.seq + 1..).filter_map(|(seq, line)| Some((*seq, event_id(line)?)));
        let later: Vec<(i64, String)> = later.collect();
        let mut text = String::new();
        for line in lines.values() {
            text.push_str(line);
            text.push('\n');
        }
        self.store.put(&path, text.into()).await?;
        // What is before this is not handed over as new again.
        self.stored = self.stored.split_off(&last.seq);
        self.stored.extend(later);
        Ok(())
    }

    /// The object whose first change this is: the same in every attempt.
    fn path(&self, first: &Change) -> Path {
        // What is in no log has no number.
        let folder = if first.event_id.starts_with(TEST_ID) { "test" } else { first.kind.as_str() };
        if first.event_id.starts_with(TEST_ID) || first.kind.is_notice() {
            let prefix = self.prefix.pattern("");
            return Path::from(format!("{prefix}/{folder}/{}.ndjson", first.event_id));
        }
        let day = first.observed_at.get(..10).unwrap_or_default().replace('-', "/");
        Path::from(format!("{}/{day}/{:020}.ndjson", self.prefix.pattern(""), first.seq))
    }

    /// What a failure means, without addresses.
    fn told(&self, error: &Error) -> String {
        let bucket = &self.bucket;
        match error {
            Error::NotFound { .. } => {
                format!("the bucket {bucket} is not there: create it, or correct `bucket`")
            }
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => format!(
                "the service refused the access key: correct `access_key_file`, or let it get, put \
                 and list objects of {bucket}"
            ),
            other if other.to_string().contains("NoSuchBucket") => {
                format!("the bucket {bucket} is not there: create it, or correct `bucket`")
            }
            other => {
                let causes = std::iter::successors(other.source(), |&cause| cause.source())
                    .collect::<Vec<_>>();
                let tls = causes.iter().find_map(|cause| tls::problem_of(*cause));
                let last = causes.last().map_or_else(|| other.to_string(), ToString::to_string);
                // What follows is the body of the answer.
                let last = last.split(": <").next().unwrap_or_default().to_owned();
                format!(
                    "storing an object: {}; check `endpoint`, the network and the service",
                    tls.unwrap_or(last)
                )
            }
        }
    }

    /// Lists the beginning of the bucket; stores nothing.
    pub(super) async fn probe(&self) -> Result<String, String> {
        let prefix = Path::from(self.prefix.pattern(""));
        match self.store.list(Some(&prefix)).next().await {
            Some(Err(error)) => Err(Reason::of(self.told(&error))),
            Some(Ok(_)) | None => {
                Ok(format!("the bucket {} is there; nothing was stored", self.bucket))
            }
        }
    }
}

/// Why changes were not stored.
enum Failure {
    Store(Error),
    /// An object of the same name is larger than any of ours.
    TooLarge(Path),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// The content of an object; `None` if it is larger than [`MOST_BYTES`].
async fn bounded(object: GetResult) -> Result<Option<Vec<u8>>, Error> {
    let most = usize::try_from(MOST_BYTES).unwrap_or(usize::MAX);
    if object.meta.size > MOST_BYTES {
        return Ok(None);
    }
    let mut text = Vec::new();
    let mut pieces = object.into_stream();
    while let Some(piece) = pieces.next().await {
        text.extend_from_slice(&piece?);
        if text.len() > most {
            return Ok(None);
        }
    }
    Ok(Some(text))
}

/// Our own client, which looks names up in turn and uses no proxy of the environment.
#[derive(Debug)]
struct OurClient(reqwest::Client);

impl HttpConnector for OurClient {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.0.clone()))
    }
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
    if let Some(path) = &settings.ca_file {
        let certificates = std::fs::read(path)
            .map_err(|error| error.to_string())
            .and_then(|pem| Certificate::from_pem_bundle(&pem).map_err(|e| e.to_string()))
            .map_err(|why| format!("reading {}: {why}; name a PEM file", path.display()))?;
        builder = builder.tls_certs_only(certificates);
    }
    builder.build().map_err(|_| {
        "making the HTTPS client failed; install the package ca-certificates".to_owned()
    })
}

fn event_id(line: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Line {
        event_id: String,
    }
    Some(serde_json::from_str::<Line>(line).ok()?.event_id)
}

/// The lines of an object by the number of their change.
fn numbered(bytes: &[u8]) -> BTreeMap<i64, String> {
    #[derive(serde::Deserialize)]
    struct Line {
        seq: i64,
    }
    String::from_utf8_lossy(bytes)
        .lines()
        .filter_map(|line| Some((serde_json::from_str::<Line>(line).ok()?.seq, line.to_owned())))
        .collect()
}
