//! API keys: which there are, what they are for, and how a request carries one.
//!
//! Owns the keys and their rate windows; refuses any key it did not make or was not given.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, header};
use serde::{Deserialize, Serialize};

use super::rate::Window;

/// What a key was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// An automation tool: may read.
    Automation,
    /// The REST API: intake only.
    RestApi,
    /// A website: intake only.
    Website,
}

/// One key.
#[derive(Debug)]
pub(super) struct Key {
    /// What the log calls it, so that no key is ever shown there.
    pub(super) name: String,
    pub(super) provider: Provider,
    pub(super) disabled: bool,
    pub(super) window: Window,
}

/// Every key of the workspace, by its text.
#[derive(Debug, Default)]
pub(super) struct Keys(BTreeMap<String, Key>);

/// Why a request's key is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyFault {
    Missing,
    Unknown,
    Disabled,
}

impl Keys {
    /// Makes or replaces a key.
    pub(super) fn put(&mut self, text: String, name: String, provider: Provider) {
        let key = Key { name, provider, disabled: false, window: Window::default() };
        self.0.insert(text, key);
    }

    /// The key of that text, whether disabled or not.
    pub(super) fn get_mut(&mut self, text: &str) -> Option<&mut Key> {
        self.0.get_mut(text)
    }

    /// The key a request may act under.
    pub(super) fn of(&mut self, headers: &HeaderMap) -> Result<&mut Key, KeyFault> {
        let text = carried(headers).ok_or(KeyFault::Missing)?;
        match self.0.get_mut(text) {
            None => Err(KeyFault::Unknown),
            Some(key) if key.disabled => Err(KeyFault::Disabled),
            Some(key) => Ok(key),
        }
    }
}

fn carried(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    bearer.or_else(|| headers.get("x-api-key").and_then(|value| value.to_str().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(
            axum::http::HeaderName::from_static(name),
            axum::http::HeaderValue::from_static(value),
        )])
    }

    #[test]
    fn a_key_comes_as_a_bearer_token_or_in_its_own_header() {
        let mut keys = Keys::default();
        keys.put("k".to_owned(), "main".to_owned(), Provider::Automation);
        assert!(keys.of(&headers("authorization", "Bearer k")).is_ok());
        assert!(keys.of(&headers("x-api-key", "k")).is_ok());
        let fault = |keys: &mut Keys, headers| keys.of(&headers).err();
        assert_eq!(fault(&mut keys, HeaderMap::new()), Some(KeyFault::Missing));
        let basic = headers("authorization", "Basic k");
        assert_eq!(fault(&mut keys, basic), Some(KeyFault::Missing));
        assert_eq!(fault(&mut keys, headers("x-api-key", "no")), Some(KeyFault::Unknown));
        keys.get_mut("k").unwrap().disabled = true;
        assert_eq!(fault(&mut keys, headers("x-api-key", "k")), Some(KeyFault::Disabled));
    }
}
