//! Sends a file to a bucket in parts. An upload that was cut goes on with the parts that were not
//! sent yet, also in another process: the caller keeps the id and what each part was answered with.
//!
//! The object counts as stored only after it was looked at: it must have the length of the file,
//! and either the entity tag that follows from its parts or, where the service makes tags of its
//! own, the same content, which is then read back. One part is in memory at a time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use md5::{Digest, Md5};
use reqwest::Method;
use rusty_s3::S3Action;
use rusty_s3::actions::{
    AbortMultipartUpload, CompleteMultipartUpload, CompleteMultipartUploadResponse,
    CreateMultipartUpload, UploadPart,
};

use super::objects::{LONG, S3Error, SHORT_ANSWER};
use super::{CONTENT_MD5, S3Client, SIGNED_FOR, etag};
use crate::text::hex;

/// The least size of a part that services take.
const LEAST_PART: u64 = 5 * 1024 * 1024;
/// The most parts of an object.
const MOST_PARTS: u64 = 10_000;

/// A file that is sent, and the upload that is under way.
pub struct Upload<'a> {
    client: &'a S3Client,
    /// The name that the object gets.
    name: &'a str,
    file: Arc<File>,
    length: u64,
}

impl<'a> Upload<'a> {
    /// An upload of a file of this length.
    #[must_use]
    pub fn new(client: &'a S3Client, name: &'a str, file: File, length: u64) -> Self {
        Self {
            client,
            name,
            file: Arc::new(file),
            length,
        }
    }

    /// Begins an upload; returns the id under which it can go on.
    ///
    /// # Errors
    /// [`S3Error`]
    pub async fn begin(&self) -> Result<String, S3Error> {
        let client = self.client;
        let action =
            CreateMultipartUpload::new(&client.bucket, Some(&client.credentials), self.name);
        let text = client
            .text_of(Method::POST, action.sign(SIGNED_FOR))
            .await?;
        match CreateMultipartUpload::parse_response(&text) {
            Ok(begun) => Ok(begun.upload_id().to_owned()),
            Err(_) => Err(S3Error::NoService),
        }
    }

    /// Gives an upload up, so that the service keeps no part of it. Best done, never needed.
    pub async fn give_up(client: &S3Client, name: &str, id: &str) {
        let action = AbortMultipartUpload::new(&client.bucket, Some(&client.credentials), name, id);
        let url = action.sign(SIGNED_FOR);
        let _ = client.text_of(Method::DELETE, url).await;
    }

    /// Sends one part, the first of which has the number 1, and which the service compares with its
    /// digest; returns its entity tag.
    ///
    /// # Errors
    /// [`S3Error`]; the parts before stay, and the upload can go on.
    pub async fn send(&self, id: &str, number: u16) -> Result<String, S3Error> {
        let client = self.client;
        let (bytes, md5) = self.part(number).await?;
        let checksum = STANDARD.encode(md5);
        let credentials = Some(&client.credentials);
        let request = || {
            let mut action = UploadPart::new(&client.bucket, credentials, self.name, number, id);
            action.headers_mut().insert(CONTENT_MD5, checksum.clone());
            client
                .http
                .request(Method::PUT, action.sign(SIGNED_FOR + LONG))
                .header(CONTENT_MD5, &checksum)
                .timeout(LONG)
                .body(bytes.clone())
        };
        let answer = client.done(request, SHORT_ANSWER).await?;
        etag(&answer).ok_or(S3Error::NoService)
    }

    /// Puts the parts together, by the entity tags of all of them, and checks the object.
    ///
    /// # Errors
    /// [`S3Error`]; the object does not count then.
    pub async fn finish(&self, id: &str, tags: &[String]) -> Result<(), S3Error> {
        let completed = self.complete(id, tags).await;
        // The answer may have been lost after the object was made.
        match (self.check().await, completed) {
            (Ok(()), _) => Ok(()),
            (Err(_), Err(error)) | (Err(error), Ok(())) => Err(error),
        }
    }

    fn part_size(&self) -> u64 {
        LEAST_PART.max(self.length.div_ceil(MOST_PARTS))
    }

    /// How many parts there are.
    #[must_use]
    pub fn parts(&self) -> u16 {
        let parts = self.length.div_ceil(self.part_size()).max(1);
        u16::try_from(parts).unwrap_or(u16::MAX)
    }

    /// Where a part begins in the file, and how long it is.
    fn place(&self, number: u16) -> (u64, usize) {
        let from = u64::from(number - 1) * self.part_size();
        let bytes = self.part_size().min(self.length - from);
        (from, usize::try_from(bytes).unwrap_or_default())
    }

    /// A part of the file, and its digest.
    async fn part(&self, number: u16) -> Result<(Bytes, [u8; 16]), S3Error> {
        let file = Arc::clone(&self.file);
        let (from, length) = self.place(number);
        let reading = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, from)?;
            let md5 = Md5::digest(&bytes).into();
            Ok::<_, io::Error>((Bytes::from(bytes), md5))
        });
        let read = reading.await.map_err(io::Error::other);
        match read.and_then(|read| read) {
            Ok(read) => Ok(read),
            Err(error) => Err(S3Error::File(error.to_string())),
        }
    }

    async fn complete(&self, id: &str, tags: &[String]) -> Result<(), S3Error> {
        let client = self.client;
        let credentials = Some(&client.credentials);
        let request = || {
            let tags = tags.iter().map(String::as_str);
            let action =
                CompleteMultipartUpload::new(&client.bucket, credentials, self.name, id, tags);
            let request = client
                .http
                .request(Method::POST, action.clone().sign(SIGNED_FOR + LONG));
            request.timeout(LONG).body(action.body())
        };
        let answer = client.done(request, SHORT_ANSWER).await?;
        let text = String::from_utf8_lossy(&answer.body);
        match CompleteMultipartUploadResponse::parse(&text) {
            Ok(_) => Ok(()),
            Err(_) => Err(S3Error::NoService),
        }
    }

    /// Whether the object is the file.
    async fn check(&self) -> Result<(), S3Error> {
        let altered = S3Error::Altered(self.name.to_owned());
        if self.client.length(self.name).await? != self.length {
            return Err(altered);
        }
        let mut digests = Vec::new();
        for number in 1..=self.parts() {
            let (_, md5) = self.part(number).await?;
            digests.push(md5);
        }
        let of_all = hex(&Md5::digest(digests.concat()));
        let answer = self.client.head(self.name).await?;
        if etag(&answer) == Some(format!("{of_all}-{}", digests.len())) {
            return Ok(());
        }
        for (number, digest) in (1..).zip(&digests) {
            let (from, length) = self.place(number);
            let bytes = self.client.read(self.name, from, length).await?;
            if Md5::digest(&bytes)[..] != digest[..] {
                return Err(altered);
            }
        }
        Ok(())
    }
}
