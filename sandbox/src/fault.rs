//! Scripted faults: what goes wrong with the next requests.
//!
//! Owns the script and makes the broken bodies. A fault replaces the answer of a request that
//! would have been admitted; it never changes the workspace's records.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::io::ReaderStream;

use super::envelope::Refusal;

const MIB: usize = 1024 * 1024;
/// The deepest nesting built in one piece.
const MAX_BUILT: usize = 4 * MIB;
/// The most a gzip bomb unpacks to; it is built in memory at a 160th of this.
const MAX_UNPACKED: usize = 2048 * MIB;
/// How long a truncated answer stays open after its last byte.
const CUT_AFTER: Duration = Duration::from_millis(20);

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FaultKind {
    /// An error envelope with this status (401, 403, 412, 423, 429, 500, 503 …).
    Status {
        /// The HTTP status.
        code: u16,
        /// The `Retry-After` header as it is to be sent: seconds or an HTTP date.
        #[serde(default, deserialize_with = "seconds_or_date")]
        retry_after: Option<String>,
    },
    /// An answer of somebody between: this status and body, without the headers of the workspace.
    Between {
        /// The HTTP status.
        code: u16,
        /// The body; a web page if it begins with `<`.
        body: String,
    },
    /// The right answer, late.
    Slow {
        /// How late, in milliseconds.
        ms: u64,
    },
    /// The right answer, cut in the middle of the body.
    Truncated,
    /// 200 with a web page.
    Html,
    /// 200 with text that is not JSON.
    NotJson,
    /// 200 with an object where an array belongs.
    Object,
    /// 200 with `null`.
    Null,
    /// A page with a byte that is not UTF-8 inside a string.
    InvalidUtf8,
    /// A page with a raw NUL inside a string, which is not JSON.
    Nul,
    /// A page with `\u0000` inside a string, which is JSON.
    EscapedNul,
    /// A record whose value nests this deep.
    Deep {
        /// Levels of arrays.
        depth: usize,
    },
    /// A small gzip body that unpacks to this many MiB.
    GzipBomb {
        /// MiB when unpacked.
        mib: usize,
    },
    /// A body of this many MiB of spaces in an array that never ends.
    Huge {
        /// MiB on the wire.
        mib: u64,
    },
    /// A page whose last record is a second one with the first one's id.
    DuplicateIds,
    /// A page whose last record has no id.
    RecordWithoutId,
}

/// Marks a response that somebody between has sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct NotOfWorkspace;

/// A fault and the requests it is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Last path segment of the route it is for (`leads`, `ping`, …); absent: any under `/api`.
    #[serde(default)]
    pub route: Option<String>,
    /// What goes wrong.
    #[serde(flatten)]
    pub kind: FaultKind,
    /// The number of requests it applies to; 1 if absent.
    #[serde(default = "once")]
    pub count: u32,
}

/// Takes a number of seconds as well as the header's text.
fn seconds_or_date<'de, D: Deserializer<'de>>(input: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Wait {
        Seconds(u64),
        Text(String),
    }
    Ok(Option::deserialize(input)?.map(|wait| match wait {
        Wait::Seconds(seconds) => seconds.to_string(),
        Wait::Text(text) => text,
    }))
}

const fn once() -> u32 {
    1
}

/// The pending faults, in the order they were scripted.
#[derive(Debug, Default)]
pub(super) struct Script(Vec<Fault>);

impl Script {
    pub(super) fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn pending(&self) -> &[Fault] {
        &self.0
    }

    /// Takes the next fault meant for a route.
    pub(super) fn take(&mut self, route: &str) -> Option<FaultKind> {
        self.0.retain(|fault| fault.count > 0);
        let fault = self.0.iter_mut().find(|fault| {
            fault
                .route
                .as_deref()
                .is_none_or(|name| name.replace('_', "-") == route)
        })?;
        fault.count -= 1;
        Some(fault.kind.clone())
    }
}

impl FaultKind {
    /// How long the answer is held back.
    pub(super) fn delay(&self) -> Duration {
        match self {
            Self::Slow { ms } => Duration::from_millis(*ms),
            _ => Duration::ZERO,
        }
    }

    /// The answer of a fault that does not need the right answer.
    pub(super) fn instead(&self) -> Option<Response> {
        let json = (header::CONTENT_TYPE, "application/json");
        let body = match self {
            Self::Status { code, retry_after } => {
                let status =
                    StatusCode::from_u16(*code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                return Some(Refusal::scripted(status, retry_after.clone()).into_response());
            }
            Self::Between { code, body } => {
                let status =
                    StatusCode::from_u16(*code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                let content_type = if body.starts_with('<') {
                    "text/html"
                } else {
                    "text/plain"
                };
                let mut response = (status, body.clone()).into_response();
                let headers = response.headers_mut();
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
                response.extensions_mut().insert(NotOfWorkspace);
                return Some(response);
            }
            Self::Html => {
                let page = "<!doctype html><title>Sign in</title><p>Please sign in.";
                return Some(axum::response::Html(page).into_response());
            }
            Self::NotJson => Body::from("[{\"id\": 1, oops"),
            Self::Object => Body::from("{\"data\": []}"),
            Self::Null => Body::from("null"),
            Self::Deep { depth } => {
                let depth = (*depth).min(MAX_BUILT);
                let (open, close) = ("[".repeat(depth), "]".repeat(depth));
                Body::from(format!("[{{\"id\":1,\"deep\":{open}{close}}}]"))
            }
            Self::GzipBomb { mib } => {
                let encoded = [json, (header::CONTENT_ENCODING, "gzip")];
                return Some(
                    (
                        encoded,
                        gzip_bomb(mib.saturating_mul(MIB).min(MAX_UNPACKED)),
                    )
                        .into_response(),
                );
            }
            Self::Huge { mib } => {
                let spaces = tokio::io::repeat(b' ').take(mib.saturating_mul(MIB as u64));
                let endless = std::io::Cursor::new("[").chain(spaces);
                Body::from_stream(ReaderStream::with_capacity(endless, 64 * 1024))
            }
            _ => return None,
        };
        Some(([json], body).into_response())
    }

    /// Damages the right answer's body.
    pub(super) fn spoil(&self, response: Response, page: &Bytes) -> Response {
        let (mut head, _) = response.into_parts();
        let body = match self {
            Self::Truncated => {
                head.headers
                    .insert(header::CONTENT_LENGTH, page.len().into());
                cut_short(page.slice(..page.len() / 2))
            }
            Self::InvalidUtf8 => Body::from(with_name(page, b"broken \xff\xfe")),
            Self::Nul => Body::from(with_name(page, b"nul \0 here")),
            Self::EscapedNul => Body::from(with_name(page, b"nul \\u0000 here")),
            Self::DuplicateIds => Body::from(with_last(page, None)),
            Self::RecordWithoutId => Body::from(with_last(page, Some("{\"name\":\"No id\"}"))),
            _ => Body::from(page.clone()),
        };
        Response::from_parts(head, body)
    }
}

/// A body that sends `part` and ends a little later, so that the client has seen the head and the
/// part before the connection breaks.
fn cut_short(part: Bytes) -> Body {
    let (mut writer, reader) = tokio::io::duplex(part.len().max(1));
    tokio::spawn(async move {
        if writer.write_all(&part).await.is_ok() {
            tokio::time::sleep(CUT_AFTER).await;
        }
    });
    Body::from_stream(ReaderStream::new(reader))
}

/// The page with a first record whose name is the given bytes.
fn with_name(page: &[u8], name: &[u8]) -> Vec<u8> {
    let mut broken = b"[{\"id\":999999999,\"name\":\"".to_vec();
    broken.extend_from_slice(name);
    broken.extend_from_slice(b"\"}");
    match page.strip_prefix(b"[") {
        Some(rest) if rest != b"]" => {
            broken.push(b',');
            broken.extend_from_slice(rest);
        }
        _ => broken.push(b']'),
    }
    broken
}

/// The page with its last record replaced; `None`: by its first.
fn with_last(page: &[u8], last: Option<&str>) -> Vec<u8> {
    let mut records: Vec<Box<RawValue>> = serde_json::from_slice(page).unwrap_or_default();
    let last = last.and_then(|text| RawValue::from_string(text.to_owned()).ok());
    let last = last.or_else(|| records.first().cloned());
    if records.len() > 1 {
        records.pop();
    }
    records.extend(last);
    serde_json::to_vec(&records).expect("raw JSON values serialise")
}

/// A gzip stream of `[` and then `size` spaces: one literal, and matches of 258 bytes at distance
/// one in the fixed Huffman code. The trailer's checksum is zero: a client that reads that far has
/// already unpacked everything.
fn gzip_bomb(size: usize) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let (mut held, mut bits) = (0u32, 0u32);
    let mut put = |value: u32, length: u32, out: &mut Vec<u8>| {
        held |= value << bits;
        bits += length;
        while bits >= 8 {
            out.push((held & 0xff) as u8);
            held >>= 8;
            bits -= 8;
        }
    };
    // Huffman codes go in from their highest bit, hence reversed.
    let code = |value: u32, length: u32| value.reverse_bits() >> (32 - length);
    put(0b011, 3, &mut out);
    put(code(0x30 + u32::from(b'['), 8), 8, &mut out);
    put(code(0x30 + u32::from(b' '), 8), 8, &mut out);
    for _ in 0..size / 258 {
        put(code(0b1100_0101, 8), 8, &mut out);
        put(0, 5, &mut out);
    }
    put(0, 7, &mut out);
    put(0, 7, &mut out);
    out.extend_from_slice(&[0; 8]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_meets_as_many_requests_as_it_says_and_only_its_route() {
        let mut script = Script::default();
        let kind = FaultKind::Null;
        script.add(Fault {
            route: Some("outsourced_jobs".to_owned()),
            kind: kind.clone(),
            count: 2,
        });
        assert_eq!(script.take("leads"), None);
        assert_eq!(script.take("outsourced-jobs"), Some(kind.clone()));
        assert_eq!(script.take("outsourced-jobs"), Some(kind));
        assert_eq!(script.take("outsourced-jobs"), None);
    }

    #[test]
    fn a_fault_is_read_from_its_json() {
        let text = r#"{"route":"leads","kind":"status","code":429,"retry_after":"3"}"#;
        let fault: Fault = serde_json::from_str(text).unwrap();
        assert_eq!(fault.count, 1);
        let wait = Some("3".to_owned());
        assert_eq!(
            fault.kind,
            FaultKind::Status {
                code: 429,
                retry_after: wait
            }
        );
    }

    #[test]
    fn a_spoilt_page_is_spoilt_in_one_way_only() {
        let page = br#"[{"id":2},{"id":1}]"#;
        let duplicate = with_last(page, None);
        assert_eq!(duplicate, br#"[{"id":2},{"id":2}]"#);
        let without = with_last(page, Some("{}"));
        assert_eq!(without, br#"[{"id":2},{}]"#);
        let escaped: serde_json::Value =
            serde_json::from_slice(&with_name(page, b"a\\u0000b")).unwrap();
        assert_eq!(escaped[0]["name"], "a\0b");
        assert!(std::str::from_utf8(&with_name(b"[]", b"\xff")).is_err());
    }

    #[test]
    fn a_bomb_is_small() {
        let bomb = gzip_bomb(64 * MIB);
        assert!(bomb.len() < MIB);
        assert_eq!(&bomb[..2], b"\x1f\x8b");
    }
}
