//! Reads the body of an HTTP response up to a limit, so that no server can fill the memory, and
//! unpacks it.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, HeaderMap};

/// The encoding to request with `Accept-Encoding`.
pub const ACCEPTED: &str = "gzip";

/// The longest name of an encoding that is repeated.
const MAX_NAME: usize = 40;

/// Appends the next bytes of a body to `body`, until that has `most`; returns whether it is the
/// whole of it. What was read before an error, or before the caller gave up, stays.
///
/// # Errors
/// If the connection ends before the body does.
pub async fn read(
    response: &mut Response,
    most: usize,
    body: &mut Vec<u8>,
) -> reqwest::Result<bool> {
    while let Some(chunk) = response.chunk().await? {
        let room = most - body.len();
        if chunk.len() > room {
            body.extend_from_slice(&chunk[..room]);
            return Ok(false);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(true)
}

/// The whole body; `None` if it has more than `most` bytes, which is not waited for if it is
/// announced.
///
/// # Errors
/// As those of [`read`].
pub async fn whole(response: &mut Response, most: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let announced = response.content_length().unwrap_or_default();
    if announced > most as u64 {
        return Ok(None);
    }
    let mut body = Vec::with_capacity(announced as usize);
    if read(response, most, &mut body).await? {
        Ok(Some(body))
    } else {
        Ok(None)
    }
}

/// Whether the headers say that a body is packed with gzip.
///
/// # Errors
/// The name of any other encoding.
pub fn is_gzip(headers: &HeaderMap) -> Result<bool, String> {
    let mut names = Vec::new();
    for value in headers.get_all(CONTENT_ENCODING) {
        for name in value.to_str().unwrap_or("?").split(',') {
            let name = name.trim().to_ascii_lowercase();
            if !name.is_empty() && name != "identity" {
                names.push(name);
            }
        }
    }
    match names.as_slice() {
        [] => Ok(false),
        [name] if name == "gzip" || name == "x-gzip" => Ok(true),
        _ => Err(shown_name(&names.join(", "))),
    }
}

/// A name that becomes part of our own words.
fn shown_name(name: &str) -> String {
    let is_name = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_, ".contains(&byte));
    if is_name && name.len() <= MAX_NAME {
        name.to_owned()
    } else {
        "something without a name".to_owned()
    }
}

/// Appends what a body that is packed with gzip holds to `body`, until that has `most` bytes, also
/// of several parts behind one another; returns whether it is the whole of it.
///
/// # Errors
/// If it is not gzip, or not whole; what was unpacked before stays.
pub fn unpack(packed: &[u8], most: usize, body: &mut Vec<u8>) -> io::Result<bool> {
    if packed.is_empty() {
        return Ok(true);
    }
    let room = most - body.len();
    let mut unpacked = MultiGzDecoder::new(packed);
    (&mut unpacked).take(room as u64).read_to_end(body)?;
    Ok(body.len() < most || unpacked.read(&mut [0])? == 0)
}
