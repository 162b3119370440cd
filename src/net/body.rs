//! Reads the body of an HTTP response up to a limit, so that no server can fill the memory.

use reqwest::Response;

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
