//! Who asks for a page, as far as that decides how numbers and days are written.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;

use super::context::PageContext;
use crate::text::locale::Locale;

/// The reader of a page.
pub(super) struct Viewer {
    /// That of the configuration, or else the one of the browser's languages.
    pub(super) locale: Locale,
}

impl FromRequestParts<Arc<PageContext>> for Viewer {
    type Rejection = Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        context: &Arc<PageContext>,
    ) -> Result<Self, Infallible> {
        if let Some(locale) = &context.page.locale {
            let locale = locale.clone();
            return Ok(Self { locale });
        }
        let mut locale = Locale::default();
        if let Some(languages) = parts.headers.get(header::ACCEPT_LANGUAGE)
            && let Ok(languages) = languages.to_str()
        {
            locale = Locale::accepted(languages);
        }
        Ok(Self { locale })
    }
}
