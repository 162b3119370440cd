//! API keys: their providers, and where a request carries one.
//!
//! Owns the keys and their rate windows; refuses any key it did not make or was not given. A key
//! belongs to an integration, which outlives it when the key is rotated.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, header};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::rate::Window;

/// The prefix of every key made here.
pub(super) const KEY_PREFIX: &str = "sandbox_";

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
    /// A plugin of a site: intake only.
    SitePlugin,
    /// The first form builder that signs its webhooks.
    #[serde(rename = "form_builder_signed_1")]
    FormBuilderSigned1,
    /// The form builder that does not sign.
    FormBuilderUnsigned,
    /// The second form builder that signs its webhooks.
    #[serde(rename = "form_builder_signed_2")]
    FormBuilderSigned2,
    /// The marketplace for businesses: its own receiver only.
    MarketplaceB2b,
    /// The listing directory: its own receiver only.
    ListingDirectory,
}

impl Provider {
    /// Whether its forms must be mapped before a submission becomes a record.
    pub(super) const fn maps_forms(self) -> bool {
        matches!(
            self,
            Self::FormBuilderSigned1 | Self::FormBuilderUnsigned | Self::FormBuilderSigned2
        )
    }

    /// Whether its key works on its own receiver only.
    pub(super) const fn is_marketplace(self) -> bool {
        matches!(self, Self::MarketplaceB2b | Self::ListingDirectory)
    }
}

/// One key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Key {
    /// The integration, to which idempotency keys, forms and the log belong.
    pub(super) integration: u32,
    /// Its name in the log, which never shows a key.
    pub(super) name: String,
    pub(super) provider: Provider,
    pub(super) disabled: bool,
    /// The time on the sandbox's clock from which the key is refused.
    pub(super) expires_at: Option<Timestamp>,
    /// The secret that signed receivers verify with, if set.
    pub(super) signing_secret: Option<String>,
    #[serde(skip)]
    pub(super) window: Window,
}

/// Every key of the workspace, by its text.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Keys {
    by_text: BTreeMap<String, Key>,
    integrations: u32,
}

/// Why a request's key is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyFault {
    Missing,
    Unknown,
    Disabled,
    Expired,
}

impl Keys {
    /// Makes or replaces a key; the integration is a new one.
    pub(super) fn put(&mut self, text: String, name: String, provider: Provider) -> u32 {
        self.integrations += 1;
        let key = Key {
            integration: self.integrations,
            name,
            provider,
            disabled: false,
            expires_at: None,
            signing_secret: None,
            window: Window::default(),
        };
        self.by_text.insert(text, key);
        self.integrations
    }

    /// The key with this text, valid or not.
    pub(super) fn get_mut(&mut self, text: &str) -> Option<&mut Key> {
        self.by_text.get_mut(text)
    }

    /// Every key with its text, in the order of the texts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Key)> {
        self.by_text.iter().map(|(text, key)| (text.as_str(), key))
    }

    /// The text of an integration's key.
    pub(super) fn text_of(&self, integration: u32) -> Option<&str> {
        self.iter()
            .find(|(_, key)| key.integration == integration)
            .map(|(text, _)| text)
    }

    /// The integration's key.
    pub(super) fn of_integration(&self, integration: u32) -> Option<&Key> {
        self.iter()
            .find(|(_, key)| key.integration == integration)
            .map(|(_, key)| key)
    }

    /// Replaces a key by another text; false if there is no such key.
    pub(super) fn rotate(&mut self, old: &str, new: String) -> bool {
        let Some(mut key) = self.by_text.remove(old) else {
            return false;
        };
        key.window = Window::default();
        self.by_text.insert(new, key);
        true
    }

    /// Removes a key; false if there is no such key.
    pub(super) fn revoke(&mut self, text: &str) -> bool {
        self.by_text.remove(text).is_some()
    }

    /// The key a request may act under.
    pub(super) fn of(
        &mut self,
        carried: Option<&str>,
        now: Timestamp,
    ) -> Result<&mut Key, KeyFault> {
        let text = carried.ok_or(KeyFault::Missing)?;
        match self.by_text.get_mut(text) {
            None => Err(KeyFault::Unknown),
            Some(key) if key.disabled => Err(KeyFault::Disabled),
            Some(key) if key.expires_at.is_some_and(|end| end <= now) => Err(KeyFault::Expired),
            Some(key) => Ok(key),
        }
    }
}

/// The key a request carries, from the one place where its path allows it.
///
/// `path` begins below `/api`.
pub(super) fn carried(path: &str, query: Option<&str>, headers: &HeaderMap) -> Option<String> {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    let adapter = match (segments.next(), segments.next()) {
        (Some("integrations"), Some("ingest")) => segments.next(),
        _ => None,
    };
    match adapter {
        Some("marketplace_b2b" | "listing_directory") => segments.next().map(str::to_owned),
        Some("form_builder_signed_1" | "form_builder_unsigned" | "form_builder_signed_2") => {
            in_headers(headers)
                .map(str::to_owned)
                .or_else(|| token(query))
        }
        _ => in_headers(headers).map(str::to_owned),
    }
}

fn token(query: Option<&str>) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs
        .find(|(name, _)| name == "token")
        .map(|(_, value)| value.into_owned())
}

fn in_headers(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| {
        let (scheme, key) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    });
    bearer.or_else(|| {
        headers
            .get("x-api-key")
            .and_then(|value| value.to_str().ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(
            axum::http::HeaderName::from_static(name),
            axum::http::HeaderValue::from_static(value),
        )])
    }

    #[test]
    fn a_key_is_looked_for_only_where_its_route_allows_it() {
        let bearer = headers("authorization", "Bearer k");
        let own = headers("x-api-key", "k");
        let basic = headers("authorization", "Basic k");
        let none = HeaderMap::new();
        let k = Some("k".to_owned());
        assert_eq!(carried("/integrations/leads", None, &bearer), k);
        assert_eq!(carried("/integrations/leads", None, &own), k);
        assert_eq!(carried("/integrations/leads", None, &basic), None);
        assert_eq!(carried("/integrations/leads", Some("token=k"), &none), None);
        let builder = "/integrations/ingest/form_builder_unsigned";
        assert_eq!(carried(builder, Some("a=b&token=k"), &none), k);
        assert_eq!(carried(builder, None, &bearer), k);
        assert_eq!(
            carried("/integrations/ingest/form", Some("token=k"), &none),
            None
        );
        assert_eq!(
            carried("/integrations/ingest/marketplace_b2b/k", None, &none),
            k
        );
        assert_eq!(
            carried("/integrations/ingest/marketplace_b2b", None, &bearer),
            None
        );
        assert_eq!(carried("/integrations/ingest/form/k", None, &none), None);
    }

    #[test]
    fn a_key_is_refused_when_disabled_expired_or_rotated_away() {
        let mut keys = Keys::default();
        let integration = keys.put("k".to_owned(), "main".to_owned(), Provider::Automation);
        let fault = |keys: &mut Keys, text| keys.of(text, NOW).err();
        assert_eq!(fault(&mut keys, Some("k")), None);
        assert_eq!(fault(&mut keys, None), Some(KeyFault::Missing));
        assert_eq!(fault(&mut keys, Some("no")), Some(KeyFault::Unknown));
        keys.get_mut("k").unwrap().expires_at = Some(NOW);
        assert_eq!(fault(&mut keys, Some("k")), Some(KeyFault::Expired));
        keys.get_mut("k").unwrap().disabled = true;
        assert_eq!(fault(&mut keys, Some("k")), Some(KeyFault::Disabled));
        assert!(keys.rotate("k", "new".to_owned()));
        assert_eq!(fault(&mut keys, Some("k")), Some(KeyFault::Unknown));
        assert_eq!(keys.text_of(integration), Some("new"));
    }
}
