//! Decodes the body of a poll: which records it holds and where their exact text is.
//!
//! Pure. If a body is not an array of records with ids, the whole body is refused, so that no fault
//! looks like an empty page.

use std::sync::Arc;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use shopmirror_core::record::{IdError, Page, Record, RecordError};

/// The deepest nesting of arrays and objects that is read, the page's own array included.
pub const MAX_DEPTH: usize = 64;

/// What some programs write before UTF-8 text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The most records one page may hold, ten times what the contract allows.
pub const MAX_RECORDS: usize = 1000;

/// Why a 200 response is not what the contract shows; nothing of it may be stored.
///
/// Positions count the records of the page from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// Empty, or white space only.
    #[error("the body is empty")]
    EmptyBody,
    /// Not UTF-8, so not JSON.
    #[error("the body is not valid UTF-8")]
    InvalidUtf8,
    /// A web page, for example from a proxy or a login page.
    #[error("the body is a web page, not JSON")]
    Html,
    /// Not JSON, or JSON that ends early.
    #[error("the body is not complete, valid JSON")]
    NotJson,
    /// The value `null`.
    #[error("the body is null, not an array")]
    Null,
    /// JSON, but not an array.
    #[error("the body is not an array")]
    NotAnArray,
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("the body is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// More than [`MAX_RECORDS`].
    #[error("the body holds more than {MAX_RECORDS} records")]
    TooManyRecords,
    /// An item that is not an object.
    #[error("record {0} of the page is not an object")]
    NotAnObject(usize),
    /// A record without the member `id`.
    #[error("record {0} of the page has no id")]
    NoId(usize),
    /// A record whose `id` cannot be used.
    #[error("record {0} of the page: {1}")]
    BadId(usize, IdError),
    /// `X-Business` names another business than the requested one.
    #[error("it belongs to another branch than the requested one; check businesses in [workspace]")]
    OtherBusiness,
    /// It is older than a cache may hold it.
    #[error(
        "a cache between shopmirror and the workspace sent it again, {0} s after it was made, \
         although no cache was allowed to: have it pass requests of the API on"
    )]
    Cached(u64),
    /// A response that is not a page and lacks what the contract shows.
    #[error("the body is not the object the contract describes")]
    UnexpectedShape,
}

impl PageError {
    /// The reason as one word, for counters and the table of polls.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::EmptyBody => "empty_body",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::Html => "html",
            Self::NotJson => "not_json",
            Self::Null => "null",
            Self::NotAnArray => "not_an_array",
            Self::TooDeep => "too_deep",
            Self::TooManyRecords => "too_many_records",
            Self::NotAnObject(_) => "not_an_object",
            Self::NoId(_) => "no_id",
            Self::BadId(..) => "bad_id",
            Self::OtherBusiness => "other_business",
            Self::Cached(_) => "cached",
            Self::UnexpectedShape => "unexpected_shape",
        }
    }
}

/// Decodes a body.
///
/// If a record has two members `id`, the last one counts, as in most JSON parsers. If two records
/// have one id, the first one counts, which is the newest in both orders of the contract. A record
/// whose id holds a NUL is left out, and the page says so.
///
/// # Errors
/// [`PageError`] for the first problem of the body.
pub fn decode(body: Vec<u8>) -> Result<Page, PageError> {
    let body = text(body)?;
    let start = body.trim_start_matches(is_space);
    if !start.starts_with('[') {
        return Err(match serde_json::from_str::<IgnoredAny>(&body) {
            Ok(_) if start.starts_with("null") => PageError::Null,
            Ok(_) => PageError::NotAnArray,
            Err(_) => PageError::NotJson,
        });
    }
    let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(&body) else {
        if is_too_deep(&body, 0) {
            return Err(PageError::TooDeep);
        }
        return Err(PageError::NotJson);
    };
    if items.len() > MAX_RECORDS {
        return Err(PageError::TooManyRecords);
    }
    let mut records = Vec::with_capacity(items.len());
    let mut left_out = Vec::new();
    for (place, item) in (1..).zip(items) {
        // The page is an array, so a record is one level down.
        if may_be_too_deep(item.get()) && is_too_deep(item.get(), 1) {
            return Err(PageError::TooDeep);
        }
        let start = item.get().as_ptr() as usize - body.as_ptr() as usize;
        match Record::read(&body, start..start + item.get().len()) {
            Ok(record) => records.push(record),
            Err(RecordError::LeftOut(record)) => left_out.push(record),
            Err(RecordError::NotAnObject) => return Err(PageError::NotAnObject(place)),
            Err(RecordError::NoId) => return Err(PageError::NoId(place)),
            Err(RecordError::BadId(error)) => return Err(PageError::BadId(place, error)),
        }
    }
    Ok(Page::new(body, records).without(left_out))
}

/// Decodes a body, unless `last` is the page of the same body: most polls show what the poll before
/// has shown.
///
/// # Errors
/// As those of [`decode`].
pub(super) fn decode_after(last: Option<Arc<Page>>, body: Vec<u8>) -> Result<Arc<Page>, PageError> {
    if let Some(last) = last
        && last.body().as_bytes() == body
    {
        return Ok(last);
    }
    decode(body).map(Arc::new)
}

/// Whether a record has enough brackets to be nested that deep. Hardly any has, and counting them is
/// much cheaper than following them.
fn may_be_too_deep(record: &str) -> bool {
    let brackets = record.bytes().filter(|byte| matches!(byte, b'[' | b'{'));
    brackets.count() >= MAX_DEPTH
}

/// Whether arrays and objects are nested deeper than [`MAX_DEPTH`] in a text that begins at `depth`.
fn is_too_deep(text: &str, mut depth: usize) -> bool {
    let mut is_text = false;
    let mut is_escaped = false;
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => depth += 1,
            b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

/// The body as text; refuses an empty body and a web page.
pub(super) fn text(body: Vec<u8>) -> Result<String, PageError> {
    let mut body = String::from_utf8(body).map_err(|_| PageError::InvalidUtf8)?;
    // RFC 8259 lets a reader ignore a byte order mark.
    if body.starts_with(BYTE_ORDER_MARK) {
        body.remove(0);
    }
    match body.trim_start_matches(is_space).as_bytes().first() {
        None => Err(PageError::EmptyBody),
        Some(b'<') => Err(PageError::Html),
        Some(_) => Ok(body),
    }
}

/// True for JSON's white space, which is a part of Unicode's.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

#[cfg(test)]
mod tests;
