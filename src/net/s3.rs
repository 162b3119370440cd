//! A bucket of S3-compatible storage: signs requests and sends them.
//!
//! Whether an object counts as stored is for the caller to judge, by its entity tag and its length:
//! a captive portal or a proxy answers 200 as well. No error repeats the secret of the access key.

mod objects;
mod reader;
mod upload;

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG};
use rusty_s3::actions::{GetObject, HeadObject, PutObject};
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use url::Url;

use super::http::{Answer, HttpClient, NoResponse, ProxyAddress};
use super::tls::TlsError;
pub use objects::S3Error;
pub use reader::ObjectReader;
pub use upload::Upload;

/// How long a signed address is good; services accept clocks that differ by as much.
const SIGNED_FOR: Duration = Duration::from_secs(15 * 60);
/// The digest by which the service checks what it receives. A bucket with object lock refuses an
/// object without it.
const CONTENT_MD5: &str = "content-md5";

/// Why there is no client of a bucket, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum S3BuildError {
    /// The region is no word.
    #[error("correct `region`: it cannot be part of an address")]
    Region,
    /// The address of the bucket cannot be made.
    #[error("correct `endpoint`: {0}")]
    Endpoint(String),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Where a bucket is, and the access key of it.
pub struct S3Access<'a> {
    /// The address of the service; `None` is that of AWS in the region.
    pub endpoint: Option<&'a Url>,
    /// The region.
    pub region: &'a str,
    /// The name of the bucket.
    pub bucket: &'a str,
    /// The id of the access key, and its secret.
    pub key: (&'a str, &'a str),
    /// A PEM file with the certificate authorities of the service; `None`: those of this machine.
    pub ca_file: Option<&'a Path>,
    /// The proxy through which the service is reached.
    pub proxy: Option<ProxyAddress<'a>>,
}

/// A client of one bucket.
#[derive(Clone)]
pub struct S3Client {
    http: HttpClient,
    bucket: Bucket,
    credentials: Credentials,
}

impl S3Client {
    /// A client; sends nothing yet.
    ///
    /// # Errors
    /// [`S3BuildError`]
    pub fn build(access: &S3Access<'_>) -> Result<Self, S3BuildError> {
        let endpoint = match access.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => Url::parse(&format!("https://s3.{}.amazonaws.com", access.region))
                .map_err(|_| S3BuildError::Region)?,
        };
        let is_plain = endpoint.scheme() == "http";
        let http = HttpClient::build(is_plain, access.ca_file, access.proxy, 1)?;
        // With the bucket in the path, an address of one machine is enough.
        let bucket = Bucket::new(
            endpoint,
            UrlStyle::Path,
            access.bucket.to_owned(),
            access.region.to_owned(),
        );
        let (id, secret) = access.key;
        Ok(Self {
            http,
            bucket: bucket.map_err(|error| S3BuildError::Endpoint(error.to_string()))?,
            credentials: Credentials::new(id, secret),
        })
    }

    /// The name of the bucket.
    #[must_use]
    pub fn bucket(&self) -> &str {
        self.bucket.name()
    }

    /// Sends an object, whose request may take `within`. The service compares it with its digest
    /// `md5`.
    ///
    /// # Errors
    /// [`NoResponse`]
    pub async fn put(
        &self,
        path: &str,
        text: String,
        md5: &[u8],
        content_type: &str,
        within: Duration,
    ) -> Result<Answer, NoResponse> {
        let mut action = PutObject::new(&self.bucket, Some(&self.credentials), path);
        let checksum = STANDARD.encode(md5);
        action.headers_mut().insert(CONTENT_MD5, checksum.clone());
        let url = action.sign(SIGNED_FOR + within);
        let request = self
            .http
            .request(Method::PUT, url)
            .header(CONTENT_MD5, checksum)
            .header(CONTENT_TYPE, content_type)
            .body(text);
        self.http.send(request).await
    }

    /// Whether the bucket holds an object of this name, entity tag and length.
    ///
    /// # Errors
    /// [`NoResponse`]
    pub async fn holds(&self, path: &str, etag: &str, length: u64) -> Result<bool, NoResponse> {
        let action = HeadObject::new(&self.bucket, Some(&self.credentials), path);
        let request = self.http.request(Method::HEAD, action.sign(SIGNED_FOR));
        let answer = self.http.send(request).await?;
        let stored_length = answer
            .header(CONTENT_LENGTH)
            .and_then(|text| text.parse().ok());
        Ok(answer.code == 200
            && self::etag(&answer).as_deref() == Some(etag)
            && stored_length == Some(length))
    }

    /// Asks for the first object of the bucket.
    ///
    /// # Errors
    /// [`NoResponse`]
    pub async fn probe(&self) -> Result<Answer, NoResponse> {
        // The object without a name is the list of all.
        let mut action = GetObject::new(&self.bucket, Some(&self.credentials), "");
        action.query_mut().insert("max-keys", "1");
        let request = self.http.request(Method::GET, action.sign(SIGNED_FOR));
        self.http.send(request).await
    }

    /// What to do about a status.
    #[must_use]
    pub fn remedy(&self, code: u16) -> String {
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

/// What to do if the answer is not one of S3.
pub const NO_S3_SERVICE: &str = "what answers is no S3 service: correct `endpoint`, or check what \
    is between this machine and the service";

/// Whether this is the list of a bucket.
#[must_use]
pub fn is_list(answer: &Answer) -> bool {
    String::from_utf8_lossy(&answer.body).contains("<ListBucketResult")
}

/// The entity tag of a response, without its quotation marks; `None` if it has none or shows a page
/// for people. S3 has no text for a stored object.
#[must_use]
pub fn etag(answer: &Answer) -> Option<String> {
    if answer.body.trim_ascii_start().starts_with(b"<") {
        return None;
    }
    let etag = answer.header(ETAG)?.trim_matches('"');
    Some(etag.to_ascii_lowercase())
}
