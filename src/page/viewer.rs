//! Who asks for a page: what that reader may see, and how numbers and days are written.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Uri, header};

use super::context::PageContext;
use super::rights::Rights;
use crate::text::locale::Locale;

/// The reader of a page.
#[derive(Debug, Clone)]
pub(super) struct Viewer {
    /// That of the configuration, or else the one of the browser's languages.
    pub(super) locale: Locale,
    /// What may be shown.
    pub(super) rights: Rights,
    /// Whether a program asks for data, and reads an error as data too.
    pub(super) wants_data: bool,
}

impl Viewer {
    /// The sender of a request that was admitted.
    pub(super) fn of(parts: &Parts, context: &PageContext) -> Self {
        // What was not admitted sees nothing.
        let rights = parts.extensions.get().copied().unwrap_or(Rights::NONE);
        let wants_data = asks_for_data(&parts.uri);
        if let Some(locale) = &context.page.locale {
            return Self {
                locale: locale.clone(),
                rights,
                wants_data,
            };
        }
        let mut locale = Locale::default();
        if let Some(languages) = parts.headers.get(header::ACCEPT_LANGUAGE)
            && let Ok(languages) = languages.to_str()
        {
            locale = Locale::accepted(languages);
        }
        Self {
            locale,
            rights,
            wants_data,
        }
    }
}

/// Whether an address asks for data.
pub(super) fn asks_for_data(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    uri.path().starts_with("/api/") || query.split('&').any(|pair| pair == "format=json")
}

impl FromRequestParts<Arc<PageContext>> for Viewer {
    type Rejection = Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        context: &Arc<PageContext>,
    ) -> Result<Self, Infallible> {
        Ok(Self::of(parts, context))
    }
}
