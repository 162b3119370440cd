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
use object_store::path::Path;
use object_store::{Certificate, ClientOptions, Error, ObjectStore, ObjectStoreExt, RetryConfig};
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;

use super::reason::Reason;
use super::{SinkBuildError, Verdict};
use crate::config::{NameTemplate, S3Settings};
use crate::record::{Change, TEST_ID};
use crate::tls;

/// The most changes in one object; the engine's bound in bytes is usually reached before.
const BATCH: usize = 10_000;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// One bucket.
pub struct S3Sink {
    store: AmazonS3,
    bucket: String,
    prefix: NameTemplate,
    every: Duration,
}

impl S3Sink {
    pub(super) fn build(name: &str, settings: &S3Settings) -> Result<Self, SinkBuildError> {
        let refuse = |problem: String| SinkBuildError::Server { sink: name.to_owned(), problem };
        tls::use_ring();
        let mut options = ClientOptions::new()
            .with_timeout(settings.timeout)
            .with_connect_timeout(CONNECT_TIMEOUT.min(settings.timeout));
        if let Some(path) = &settings.ca_file {
            let certificates = std::fs::read(path)
                .map_err(|error| error.to_string())
                .and_then(|pem| Certificate::from_pem_bundle(&pem).map_err(|e| e.to_string()))
                .map_err(|why| {
                    refuse(format!("reading {}: {why}; name a PEM file", path.display()))
                })?;
            for certificate in certificates {
                options = options.with_root_certificate(certificate);
            }
        }
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&settings.bucket)
            .with_region(&settings.region)
            .with_access_key_id(&settings.key_id)
            .with_secret_access_key(settings.secret.expose_secret())
            // The engine decides when something is tried again.
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() });
        if let Some(endpoint) = &settings.endpoint {
            options = options.with_allow_http(endpoint.scheme() == "http");
            builder = builder.with_endpoint(endpoint.as_str().trim_end_matches('/'));
        }
        let store = builder
            .with_client_options(options)
            .build()
            .map_err(|error| refuse(format!("preparing the client: {error}")))?;
        Ok(Self {
            store,
            bucket: settings.bucket.clone(),
            prefix: settings.prefix.clone(),
            every: settings.every,
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
            Some(Err(error)) => Verdict::fault(self.told(&error)),
        };
        vec![verdict; changes.len()]
    }

    async fn store(&self, changes: &[Change]) -> Result<(), Error> {
        let Some(first) = changes.first() else { return Ok(()) };
        let path = self.path(first);
        let mut lines: BTreeMap<i64, String> = match self.store.get(&path).await {
            Ok(there) => numbered(&there.bytes().await?),
            Err(Error::NotFound { .. }) => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        for change in changes {
            let line = change.data_json().replace(['\n', '\r'], " ");
            lines.insert(change.seq, line);
        }
        let mut text = String::new();
        for line in lines.values() {
            text.push_str(line);
            text.push('\n');
        }
        self.store.put(&path, text.into()).await.map(|_| ())
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
