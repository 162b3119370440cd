//! Lists, reads and removes objects of a bucket.
//!
//! Each request may fail for a reason that passes: it is repeated for about a minute and a half, so
//! that a short cut of the line ends nothing.

use std::time::Duration;

use reqwest::header::{CONTENT_LENGTH, RANGE};
use reqwest::{Method, RequestBuilder};
use rusty_s3::S3Action;
use rusty_s3::actions::{DeleteObject, GetObject, HeadObject, ListObjectsV2};
use url::Url;

use super::{NO_S3_SERVICE, S3Client, SIGNED_FOR};
use crate::net::http::{Answer, BodyLimit, NoResponse};

/// The waits between the attempts of one request.
const WAITS_S: [u64; 4] = [1, 5, 20, 60];
/// The longest time of one request that carries no data.
pub(super) const SHORT: Duration = Duration::from_secs(60);
/// The longest time of one that carries a part of an object: 9 KiB a second are enough.
pub(super) const LONG: Duration = Duration::from_secs(600);
/// The longest answer of a request that carries no data.
pub(super) const SHORT_ANSWER: BodyLimit = BodyLimit {
    bytes: 1024 * 1024,
    time: SHORT,
};
/// Objects in one page of a list.
const PAGE: usize = 500;
/// The most pages of a list.
const MOST_PAGES: usize = 40;

/// Why the storage did not do what it was asked for, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum S3Error {
    /// There is no response.
    #[error(transparent)]
    NoResponse(#[from] NoResponse),
    /// The service answered with this status.
    #[error("answered {code}: {remedy}")]
    Refused {
        /// The status.
        code: u16,
        /// What to do.
        remedy: String,
    },
    /// The answer is none of S3.
    #[error("{NO_S3_SERVICE}")]
    NoService,
    /// What is stored is not what was sent.
    #[error(
        "the object {0} is not what was sent, so that it does not count: check the service and \
         what is between"
    )]
    Altered(String),
    /// The list is longer than one that is read.
    #[error(
        "more than {} objects begin with the prefix: give the backups a `prefix` that nothing else \
         uses",
        MOST_PAGES * PAGE
    )]
    TooMany,
    /// The file that is sent cannot be read.
    #[error("could not read the file that is sent: {0}")]
    File(String),
}

impl S3Error {
    /// Whether another attempt may succeed without a change.
    fn may_pass(&self) -> bool {
        match self {
            Self::NoResponse(_) => true,
            Self::Refused { code, .. } => matches!(code, 408 | 429 | 500..=599),
            Self::NoService | Self::Altered(_) | Self::TooMany | Self::File(_) => false,
        }
    }

    /// Whether the service says that what was named is not there.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }

    /// Whether an upload cannot go on, and must begin again: the service knows neither it nor its
    /// parts.
    #[must_use]
    pub fn ends_upload(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                code: 400 | 404,
                ..
            } | Self::Altered(_)
        )
    }
}

impl S3Client {
    /// The names of the objects that begin with `prefix`, in their order.
    ///
    /// # Errors
    /// [`S3Error`]
    pub async fn list(&self, prefix: &str) -> Result<Vec<String>, S3Error> {
        let mut names = Vec::new();
        let mut token: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let mut action = ListObjectsV2::new(&self.bucket, Some(&self.credentials));
            action.with_prefix(prefix);
            action.with_max_keys(PAGE);
            if let Some(token) = token {
                action.with_continuation_token(token);
            }
            let url = action.sign(SIGNED_FOR);
            let text = self.text_of(Method::GET, url).await?;
            let page = ListObjectsV2::parse_response(&text).map_err(|_| S3Error::NoService)?;
            for object in page.contents {
                names.push(decoded(&object.key, page.encoding_type.as_deref()));
            }
            token = page.next_continuation_token;
            if token.is_none() {
                return Ok(names);
            }
        }
        Err(S3Error::TooMany)
    }

    /// The length of an object.
    ///
    /// # Errors
    /// [`S3Error`]
    pub async fn length(&self, name: &str) -> Result<u64, S3Error> {
        let answer = self.head(name).await?;
        let length = answer.header(CONTENT_LENGTH).unwrap_or_default();
        length.parse().map_err(|_| S3Error::NoService)
    }

    pub(super) async fn head(&self, name: &str) -> Result<Answer, S3Error> {
        let action = HeadObject::new(&self.bucket, Some(&self.credentials), name);
        let url = action.sign(SIGNED_FOR);
        let request = || self.http.request(Method::HEAD, url.clone()).timeout(SHORT);
        self.done(request, SHORT_ANSWER).await
    }

    /// So many bytes of an object, from the byte `from` on.
    ///
    /// # Errors
    /// [`S3Error`]
    pub async fn read(&self, name: &str, from: u64, bytes: usize) -> Result<Vec<u8>, S3Error> {
        let action = GetObject::new(&self.bucket, Some(&self.credentials), name);
        let url = action.sign(SIGNED_FOR + LONG);
        let range = format!("bytes={from}-{}", from + bytes as u64 - 1);
        let request = || {
            let request = self.http.request(Method::GET, url.clone());
            request.header(RANGE, &range).timeout(LONG)
        };
        let limit = BodyLimit { bytes, time: LONG };
        let answer = self.done(request, limit).await?;
        if answer.body.len() != bytes {
            return Err(S3Error::NoService);
        }
        Ok(answer.body)
    }

    /// Removes an object; one that is not there is no error.
    ///
    /// # Errors
    /// [`S3Error`]
    pub async fn remove(&self, name: &str) -> Result<(), S3Error> {
        let action = DeleteObject::new(&self.bucket, Some(&self.credentials), name);
        let url = action.sign(SIGNED_FOR);
        match self.text_of(Method::DELETE, url).await {
            Err(error) if !error.is_missing() => Err(error),
            _ => Ok(()),
        }
    }

    /// The text that a request without data is answered with.
    pub(super) async fn text_of(&self, method: Method, url: Url) -> Result<String, S3Error> {
        let request = || {
            let request = self.http.request(method.clone(), url.clone());
            request.timeout(SHORT)
        };
        let answer = self.done(request, SHORT_ANSWER).await?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    /// The whole answer of a request that succeeded, after as many attempts as it needs.
    pub(super) async fn done(
        &self,
        request: impl Fn() -> RequestBuilder,
        limit: BodyLimit,
    ) -> Result<Answer, S3Error> {
        for wait in WAITS_S {
            match self.attempt(request(), limit).await {
                Err(error) if error.may_pass() => {}
                ended => return ended,
            }
            tokio::time::sleep(Duration::from_secs(wait)).await;
        }
        self.attempt(request(), limit).await
    }

    async fn attempt(&self, request: RequestBuilder, limit: BodyLimit) -> Result<Answer, S3Error> {
        let answer = self.http.send_for(request, limit).await?;
        if !(200..300).contains(&answer.code) {
            return Err(S3Error::Refused {
                code: answer.code,
                remedy: self.remedy(answer.code),
            });
        }
        if !answer.is_whole {
            return Err(NoResponse::cut().into());
        }
        Ok(answer)
    }
}

/// The name of an object in a list, which may be written as in an address.
fn decoded(name: &str, encoding: Option<&str>) -> String {
    if encoding != Some("url") {
        return name.to_owned();
    }
    let name = name.replace('+', " ");
    percent_encoding::percent_decode_str(&name)
        .decode_utf8_lossy()
        .into_owned()
}
