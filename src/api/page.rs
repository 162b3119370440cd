//! Decodes the body of a poll: which records it holds and where their exact text is.
//!
//! Pure. If a body is not an array of records with ids, the whole body is refused, so that no fault
//! looks like an empty page. If an id occurs twice, its first record counts. One scan splits the array at its commas and limits the depth;
//! then the JSON parser checks each piece and returns its id. Pieces of valid JSON joined by commas
//! are a valid array, so the array is not parsed again. A piece that equals a record of the previous
//! page is neither scanned nor parsed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::record::{IdError, Page, Record, RecordId, Repeats, time};

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
            Self::UnexpectedShape => "unexpected_shape",
        }
    }
}

/// Decodes a body.
///
/// If a record has two members `id`, the last one counts, as in most JSON parsers. If two records have
/// one id, the first one counts, which is the newest in both orders of the contract.
///
/// # Errors
/// [`PageError`] for the first problem of the body.
pub fn decode(body: Vec<u8>) -> Result<Page, PageError> {
    decode_after(body, &Page::default())
}

/// As [`decode`], but faster if most records are on the `previous` page too, byte for byte and in the
/// same order. The result does not depend on it.
///
/// # Errors
/// As [`decode`].
pub fn decode_after(body: Vec<u8>, previous: &Page) -> Result<Page, PageError> {
    let body = text(body)?;
    let pieces = pieces(&body, previous)?;
    let mut records = Vec::with_capacity(pieces.len());
    for (place, Piece { span, seen }) in (1..).zip(pieces) {
        records.push(match seen {
            Some(known) => Record { span, ..known.clone() },
            None => read(&body, span, place)?,
        });
    }
    let (records, repeats) = distinct(&body, records);
    Ok(Page::with_repeats(body, records, repeats))
}

/// The first record of each id, and what the others were.
fn distinct(body: &str, records: Vec<Record>) -> (Vec<Record>, Repeats) {
    let mut first: HashMap<&RecordId, &str> = HashMap::with_capacity(records.len());
    let mut repeats = Repeats::default();
    let mut later = Vec::new();
    for (place, record) in records.iter().enumerate() {
        let text = &body[record.span.clone()];
        match first.entry(&record.id) {
            Entry::Vacant(vacant) => {
                vacant.insert(text);
            }
            Entry::Occupied(kept) => {
                later.push(place);
                repeats.count += 1;
                if *kept.get() != text && repeats.two_texts.is_none() {
                    repeats.two_texts = Some(record.id.clone());
                }
            }
        }
    }
    drop(first);
    if later.is_empty() {
        return (records, repeats);
    }
    let is_first = |place: &usize| later.binary_search(place).is_err();
    let records = records.into_iter().enumerate();
    (records.filter(|(place, _)| is_first(place)).map(|(_, record)| record).collect(), repeats)
}

/// Checks and reads one item, the `place`th of the page.
fn read(body: &str, span: Range<usize>, place: usize) -> Result<Record, PageError> {
    let piece = &body[span.clone()];
    if !piece.starts_with('{') {
        return Err(match serde_json::from_str::<IgnoredAny>(piece) {
            Ok(_) => PageError::NotAnObject(place),
            Err(_) => PageError::NotJson,
        });
    }
    let Members { id, created_at } = serde_json::from_str(piece).map_err(|_| PageError::NotJson)?;
    let id = id.ok_or(PageError::NoId(place))?;
    let id = RecordId::from_json(id).map_err(|error| PageError::BadId(place, error))?;
    Ok(Record { id, span, created_at: created_at.and_then(time) })
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

/// An item of the body's array.
struct Piece<'a> {
    span: Range<usize>,
    /// The record of the previous page that has the same text; an item without one is not checked
    /// yet.
    seen: Option<&'a Record>,
}

/// The items of the body's array.
fn pieces<'a>(body: &str, previous: &'a Page) -> Result<Vec<Piece<'a>>, PageError> {
    let bytes = body.as_bytes();
    let open = body.len() - body.trim_start_matches(is_space).len();
    if bytes.get(open) != Some(&b'[') {
        return Err(match serde_json::from_str::<IgnoredAny>(body) {
            Ok(_) if body[open..].starts_with("null") => PageError::Null,
            Ok(_) => PageError::NotAnArray,
            Err(_) => PageError::NotJson,
        });
    }
    let mut pieces = Vec::with_capacity(128);
    let mut known = Known { page: previous, next: 0 };
    let (mut from, mut depth) = (open + 1, 1);
    let (mut seen, mut at) = known.at(body, from);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = closing_quote(bytes, at + 1).ok_or(PageError::NotJson)?,
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(PageError::TooDeep);
                }
            }
            b',' if depth == 1 => {
                if pieces.len() + 1 >= MAX_RECORDS {
                    return Err(PageError::TooManyRecords);
                }
                pieces.push(piece(body, from..at, seen));
                from = at + 1;
                (seen, at) = known.at(body, from);
                continue;
            }
            b']' | b'}' => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            _ => {}
        }
        at += 1;
    }
    let rest = body.get(at..).and_then(|rest| rest.strip_prefix(']')).ok_or(PageError::NotJson)?;
    if !rest.trim_start_matches(is_space).is_empty() {
        return Err(PageError::NotJson);
    }
    let last = piece(body, from..at, seen);
    if !(pieces.is_empty() && last.span.is_empty()) {
        pieces.push(last);
    }
    Ok(pieces)
}

/// The item at `span`. It is the record `seen` only if nothing but white space surrounds that.
fn piece<'a>(body: &str, span: Range<usize>, seen: Option<&'a Record>) -> Piece<'a> {
    let span = trimmed(body, span);
    let seen = seen.filter(|record| record.span.len() == span.len());
    Piece { span, seen }
}

/// How many records of the previous page are tried at each item: some may have been edited or have moved.
const TRIED: usize = 8;

/// The records of the previous page that the body may show again.
struct Known<'a> {
    page: &'a Page,
    next: usize,
}

impl<'a> Known<'a> {
    /// The record whose text begins at `from`, and where to go on.
    fn at(&mut self, body: &str, from: usize) -> (Option<&'a Record>, usize) {
        let rest = &body[from..];
        let start = from + rest.len() - rest.trim_start_matches(is_space).len();
        let records = self.page.records();
        let tried = self.next..records.len().min(self.next + TRIED);
        let text = &body.as_bytes()[start..];
        let found = tried
            .into_iter()
            .find(|&place| text.starts_with(self.page.text(&records[place]).as_bytes()));
        match found {
            Some(place) => {
                self.next = place + 1;
                (Some(&records[place]), start + records[place].span.len())
            }
            None => (None, start),
        }
    }
}

/// The place of the quote that ends the string that began before `at`.
fn closing_quote(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += bytes.get(at..)?.iter().position(|&b| b == b'"' || b == b'\\')?;
        if bytes[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

fn trimmed(body: &str, span: Range<usize>) -> Range<usize> {
    let piece = body[span.clone()].trim_end_matches(is_space);
    let end = span.start + piece.len();
    end - piece.trim_start_matches(is_space).len()..end
}

/// True for JSON's white space, which is a part of Unicode's.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// The texts of an object's last members `id` and `created_at`.
struct Members<'a> {
    id: Option<&'a str>,
    created_at: Option<&'a str>,
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Wanted;
        impl<'de> Visitor<'de> for Wanted {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a record")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Members { id: None, created_at: None };
                while let Some(name) = map.next_key()? {
                    let member = match name {
                        Name::Id => &mut members.id,
                        Name::CreatedAt => &mut members.created_at,
                        Name::Other => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    *member = Some(map.next_value::<&RawValue>()?.get());
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Wanted)
    }
}

/// A member's name, with or without escapes.
enum Name {
    Id,
    CreatedAt,
    Other,
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member name")
            }

            fn visit_bytes<E>(self, name: &[u8]) -> Result<Name, E> {
                Ok(match name {
                    b"id" => Name::Id,
                    b"created_at" => Name::CreatedAt,
                    _ => Name::Other,
                })
            }
        }
        // A raw value is checked as JSON: it may not hold a raw control character. Half of a surrogate
        // pair is valid JSON, but not text, and so an escaped name is read as bytes.
        match <&RawValue>::deserialize(deserializer)?.get() {
            r#""id""# => Ok(Name::Id),
            r#""created_at""# => Ok(Name::CreatedAt),
            escaped if escaped.contains('\\') => serde_json::Deserializer::from_str(escaped)
                .deserialize_bytes(Bytes)
                .map_err(serde::de::Error::custom),
            _ => Ok(Name::Other),
        }
    }
}

#[cfg(test)]
mod tests;
