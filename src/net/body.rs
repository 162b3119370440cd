//! Reads the body of an HTTP response up to a limit, so that no server can fill the memory.

use reqwest::Response;

/// Appends the next bytes of a body to `body`, until that has `most`; says whether it is the whole
/// of it. What was read before an error, or before the caller gave up, stays.
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
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The whole body; `None` if it has more than `most` bytes, which is not waited for if it is
/// announced.
///
/// # Errors
/// As those of [`read`].
pub async fn whole(response: &mut Response, most: usize) -> reqwest::Result<Option<Vec<u8>>> {
    if response
        .content_length()
        .is_some_and(|length| length > most as u64)
    {
        return Ok(None);
    }
    let mut body = Vec::new();
    let is_whole = read(response, most, &mut body).await?;
    Ok(is_whole.then_some(body))
}
