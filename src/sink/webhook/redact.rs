//! Quotes the body of a response without repeating a secret that the request carried.
//!
//! An endpoint may echo its address, a header or a token. Every part of the configuration that may
//! be secret is replaced before the body is cut, so that no part of one is left at the end.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use secrecy::ExposeSecret;
use url::Url;

use crate::config::WebhookSettings;
use crate::sink::reason::Reason;
use crate::sink::secrets::Secrets;

/// The most characters of a body that a reason quotes.
const QUOTED_CHARS: usize = 300;
/// A path segment that is shorter is a word, for example `webhooks`; the whole path is replaced.
const MIN_SEGMENT: usize = 10;

/// Knows the secrets of one webhook.
pub(super) struct Redactor(Secrets);

impl Redactor {
    pub(super) fn new(url: &Url, settings: &WebhookSettings) -> Self {
        let mut secrets = parts_of(url);
        for secret in &settings.secrets {
            let secret = secret.expose_secret().trim();
            secrets.push(secret.to_owned());
            secrets.extend(secret.strip_prefix("whsec_").map(str::to_owned));
        }
        for value in settings.headers.values() {
            let value = value.expose_secret().trim();
            secrets.push(value.to_owned());
            // `Bearer TOKEN`
            secrets.extend(value.split_once(' ').map(|(_, token)| token.trim().to_owned()));
        }
        Self(Secrets::new(secrets))
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.0
    }

    /// The beginning of a body on one line; `None` if it holds nothing to read. `whole` says whether
    /// the body ends where `body` ends.
    pub(super) fn quote(&self, body: &[u8], whole: bool) -> Option<String> {
        let text = String::from_utf8_lossy(body);
        let text = if whole { self.0.hide(&text) } else { self.0.hide_in_part(&text) };
        let words: Vec<&str> = text.split_whitespace().collect();
        (!words.is_empty()).then(|| Reason::cut(&words.join(" "), QUOTED_CHARS))
    }
}

/// The address, and the parts of it that may be secret by themselves.
fn parts_of(url: &Url) -> Vec<String> {
    let mut parts = vec![url.as_str().to_owned(), url.as_str().trim_end_matches('/').to_owned()];
    parts.push(url.path().trim_end_matches('/').to_owned());
    let segments = url.path_segments().into_iter().flatten();
    parts.extend(segments.filter(|s| s.len() >= MIN_SEGMENT).map(str::to_owned));
    parts.extend(url.query().map(str::to_owned));
    parts.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
    parts.extend(url.fragment().map(str::to_owned));
    if let Some(password) = url.password() {
        let decoded = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let pair = format!("{}:{}", decoded(url.username()), decoded(password));
        parts.extend([password.to_owned(), STANDARD.encode(&pair), pair]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::shape::Format;
    use crate::sink::secrets::REPLACEMENT;

    const URL: &str =
        "https://shop:pass%20word@hooks.example.com/in/T0AB/CANARYSEGMENT9?token=CANARYTOKEN&n=1";

    fn redactor() -> Redactor {
        let settings = WebhookSettings {
            url: URL.into(),
            allow_plain: false,
            ca_file: None,
            secrets: vec!["whsec_CANARYSIGNINGSECRET".into()],
            format: Format::Standard,
            headers: BTreeMap::from([("authorization".into(), "Bearer CANARYHEADER".into())]),
            timeout: Duration::from_secs(1),
            concurrency: 1,
        };
        Redactor::new(&Url::parse(URL).unwrap(), &settings)
    }

    fn quote(body: &str) -> Option<String> {
        redactor().quote(body.as_bytes(), true)
    }

    #[test]
    fn no_secret_is_repeated_however_it_is_written() {
        for body in [
            URL.to_owned(),
            URL.replace('/', "\\/"),
            "no route for /in/T0AB/CANARYSEGMENT9".to_owned(),
            "token=CANARYTOKEN is bad, and so is CANARYTOKEN".to_owned(),
            "you sent Authorization: Bearer CANARYHEADER".to_owned(),
            "token CANARYHEADER".to_owned(),
            "signed with whsec_CANARYSIGNINGSECRET or CANARYSIGNINGSECRET".to_owned(),
            "user shop:pass word, pass%20word".to_owned(),
            format!("Basic {}", STANDARD.encode("shop:pass word")),
        ] {
            let quoted = quote(&body).unwrap();
            let leaks = ["CANARY", "T0AB", "pass", &STANDARD.encode("shop:pass word")]
                .into_iter()
                .filter(|secret| quoted.contains(*secret))
                .count();
            assert!(leaks == 0 && quoted.contains(REPLACEMENT), "{quoted}");
        }
    }
}
