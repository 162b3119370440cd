//! Reads the address of an endpoint as its configuration has it at this moment.

use secrecy::ExposeSecret;

use super::SinkError;
use crate::config::SinkUrl;

/// The address of a sink at this moment, as `parse` reads it.
///
/// # Errors
/// What is wrong with it or with its file, and what to do.
pub(super) fn current<T>(
    url: &SinkUrl,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, SinkError> {
    let url = url.read()?;
    parse(url.expose_secret()).map_err(|problem| SinkError::new(format!("the url {problem}")))
}
