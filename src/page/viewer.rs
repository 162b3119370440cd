//! Who asks for a page: what that reader may see, and how numbers and days are written.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;

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
}

impl Viewer {
    /// The sender of a request that was admitted.
    pub(super) fn of(parts: &Parts, context: &PageContext) -> Self {
        // What was not admitted sees nothing.
        let rights = parts.extensions.get().copied().unwrap_or(Rights::NONE);
        if let Some(locale) = &context.page.locale {
            let locale = locale.clone();
            return Self { locale, rights };
        }
        let mut locale = Locale::default();
        if let Some(languages) = parts.headers.get(header::ACCEPT_LANGUAGE)
            && let Ok(languages) = languages.to_str()
        {
            locale = Locale::accepted(languages);
        }
        Self { locale, rights }
    }
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
