//! In which role a request is answered: by the tokens of the page, the form that asks a browser for
//! one, and the cookie that stands for a token from then on.
//!
//! The cookie does not hold the token: it names it and says until when it is valid, signed with the
//! token. So it ends when its token leaves the file, and nothing has to be kept.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use maud::{DOCTYPE, html};
use secrecy::ExposeSecret;
use serde_json::json;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use tokio::time::Instant;

use super::frame::head;
use super::viewer::asks_for_data;
use super::wrong_tokens::WrongTokens;
use crate::config::{Role, StatusSettings, Token};

/// How long a browser stays signed in.
const SIGNED_IN_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// The tokens of the page, and who tried wrong ones.
pub(super) struct SignIn {
    tokens: Vec<Token>,
    wrong: Mutex<WrongTokens>,
    /// The name of the cookie: browsers send it to every port of a host.
    cookie: String,
    /// Whether the page is served over TLS.
    is_encrypted: bool,
}

/// Why a request gets no role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denied {
    /// It has no token.
    NoToken,
    /// Its token is none of the page.
    WrongToken,
    /// Its address sent too many wrong tokens, and waits for this long.
    Wait(Duration),
    /// Its token does not show what is at this address.
    OtherRole,
}

impl SignIn {
    pub(super) fn new(settings: &StatusSettings) -> Self {
        Self {
            tokens: settings.tokens.clone(),
            wrong: Mutex::default(),
            cookie: format!("shopmirror-{}", settings.listen.port()),
            is_encrypted: settings.certificate().is_some(),
        }
    }

    /// Whether a token is needed at all.
    pub(super) fn is_needed(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// The role in which a request is answered: that of its cookie, or that of its token.
    pub(super) fn role(&self, headers: &HeaderMap, address: IpAddr) -> Result<Role, Denied> {
        if !self.is_needed() {
            return Ok(Role::Owner);
        }
        if let Some(token) = self.token_of_cookie(headers, Timestamp::now()) {
            return Ok(token.role);
        }
        match sent_token(headers) {
            Some(sent) => Ok(self.compare(&sent, address)?.role),
            None => Err(Denied::NoToken),
        }
    }

    /// The token with these bytes.
    fn compare(&self, sent: &[u8], address: IpAddr) -> Result<&Token, Denied> {
        let now = Instant::now();
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wait) = wrong.wait(address, now) {
            return Err(Denied::Wait(wait));
        }
        for token in &self.tokens {
            if sent.ct_eq(token.secret.expose_secret().as_bytes()).into() {
                return Ok(token);
            }
        }
        wrong.note(address, now);
        match wrong.wait(address, now) {
            Some(wait) => Err(Denied::Wait(wait)),
            None => Err(Denied::WrongToken),
        }
    }

    /// Answers the form. With a right token, the browser gets the cookie and requests the same page
    /// again.
    pub(super) fn submit(
        &self,
        form: &[u8],
        uri: &Uri,
        headers: &HeaderMap,
        address: IpAddr,
    ) -> Response {
        let mut sent = String::new();
        for (name, value) in url::form_urlencoded::parse(form) {
            if name == "token" {
                value.trim().clone_into(&mut sent);
            }
        }
        match self.compare(sent.as_bytes(), address) {
            Ok(token) => {
                let value = self.cookie_value(token, Timestamp::now());
                let cookie = self.set_cookie(&value, SIGNED_IN_FOR);
                again(&same_page(uri), cookie)
            }
            Err(denied) => self.deny(denied, uri, headers),
        }
    }

    /// Ends the session of a browser, which requests Home then.
    pub(super) fn sign_out(&self) -> Response {
        again("./", self.set_cookie("", Duration::ZERO))
    }

    /// The response to a request without a role. A browser gets the form and no challenge, which
    /// would open a dialogue of its own.
    pub(super) fn deny(&self, denied: Denied, uri: &Uri, headers: &HeaderMap) -> Response {
        let text = match denied {
            Denied::NoToken => {
                "the token is needed: send it as `Authorization: Bearer`, or as the password with \
                 any user name\n"
            }
            Denied::WrongToken => "this is no token of the page: send one of its `token_file`\n",
            Denied::Wait(_) => "too many wrong tokens came from this address: try again later\n",
            Denied::OtherRole => "this token shows nothing here; a token for the wall has /wall\n",
        };
        let body = if accepts_pages(headers) {
            form(denied, uri).into_response()
        } else if asks_for_data(uri) {
            Json(json!({ "error": text.trim_end() })).into_response()
        } else {
            text.into_response()
        };
        let challenge = "Basic realm=\"shopmirror\", charset=\"UTF-8\"";
        let challenge = [(header::WWW_AUTHENTICATE, challenge)];
        match denied {
            Denied::Wait(wait) => {
                let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                let retry_after = [(header::RETRY_AFTER, seconds.to_string())];
                (StatusCode::TOO_MANY_REQUESTS, retry_after, body).into_response()
            }
            Denied::OtherRole => (StatusCode::NOT_FOUND, body).into_response(),
            _ if is_browser(headers) => (StatusCode::UNAUTHORIZED, body).into_response(),
            _ => (StatusCode::UNAUTHORIZED, challenge, body).into_response(),
        }
    }

    /// The token that a valid cookie stands for.
    fn token_of_cookie(&self, headers: &HeaderMap, now: Timestamp) -> Option<&Token> {
        let value = self.sent_cookie(headers)?;
        let (signed, signature) = value.rsplit_once('.')?;
        let (name, until) = signed.split_once('.')?;
        if until.parse::<i64>().ok()? <= now.as_second() {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        for token in &self.tokens {
            if token.name == name {
                signer(token, signed).verify_slice(&signature).ok()?;
                return Some(token);
            }
        }
        None
    }

    /// The value of the cookie. What other programs of this host have set may be any bytes.
    fn sent_cookie<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        for cookies in headers.get_all(header::COOKIE) {
            for cookie in cookies.as_bytes().split(|byte| *byte == b';') {
                if let Ok(cookie) = std::str::from_utf8(cookie)
                    && let Some((name, value)) = cookie.trim().split_once('=')
                    && name == self.cookie
                {
                    return Some(value);
                }
            }
        }
        None
    }

    /// `NAME.UNTIL.SIGNATURE`, with a Unix time.
    fn cookie_value(&self, token: &Token, now: Timestamp) -> String {
        let until = now
            .as_second()
            .saturating_add_unsigned(SIGNED_IN_FOR.as_secs());
        let signed = format!("{}.{until}", token.name);
        let signature = signer(token, &signed).finalize().into_bytes();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn set_cookie(&self, value: &str, kept: Duration) -> String {
        let secure = if self.is_encrypted { "; Secure" } else { "" };
        format!(
            "{}={value}; Path=/; Max-Age={}; HttpOnly; SameSite=Lax{secure}",
            self.cookie,
            kept.as_secs()
        )
    }
}

fn signer(token: &Token, signed: &str) -> Hmac<Sha256> {
    let key = token.secret.expose_secret().as_bytes();
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(b"shopmirror page ");
    mac.update(signed.as_bytes());
    mac
}

/// Has the browser request a page, with a new cookie.
fn again(address: &str, cookie: String) -> Response {
    let headers = [
        (header::LOCATION, address.to_owned()),
        (header::SET_COOKIE, cookie),
    ];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// The address of a page as one that is relative to it, so that it also fits behind a proxy.
fn same_page(uri: &Uri) -> String {
    let name = uri.path().rsplit('/').next().unwrap_or_default();
    match uri.query() {
        Some(query) => format!("./{name}?{query}"),
        None => format!("./{name}"),
    }
}

/// Whether a browser would show a page that answers the request.
fn accepts_pages(headers: &HeaderMap) -> bool {
    accepts(headers, "text/html")
}

/// Whether a browser made the request, which would open a dialogue of its own at a challenge: for a
/// page, for a live page, or for what belongs to one.
fn is_browser(headers: &HeaderMap) -> bool {
    accepts_pages(headers)
        || accepts(headers, "text/event-stream")
        || headers.contains_key("sec-fetch-mode")
}

fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    match headers.get(header::ACCEPT).map(HeaderValue::to_str) {
        Some(Ok(kinds)) => kinds.contains(kind),
        _ => false,
    }
}

/// The page on which a browser signs in, in place of the one at `uri`. It says nothing of the shop.
fn form(denied: Denied, uri: &Uri) -> Html<String> {
    let folders = uri.path().matches('/').count().saturating_sub(1);
    let root = "../".repeat(folders);
    let problem = match denied {
        Denied::NoToken => None,
        Denied::WrongToken => Some("This is not a token of this page. Check it, then try again."),
        Denied::Wait(_) => Some("Too many wrong tokens: wait for half a minute, then try again."),
        Denied::OtherRole => Some("Your token does not show this page. Sign in with another one."),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head { (head("Sign in", &root)) }
            body {
                main {
                    form.sign-in method="post" {
                        h1 { "Sign in" }
                        @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
                        label for="token" { "Token" }
                        input #token type="password" name="token" required autofocus
                            autocomplete="current-password";
                        button { "Sign in" }
                        p.hint { "The owner of shopmirror has the tokens in a file." }
                    }
                }
            }
        }
    };
    Html(page.into_string())
}

/// The token as `Bearer`, or as the password of `Basic`.
fn sent_token(headers: &HeaderMap) -> Option<Vec<u8>> {
    let sent = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, value) = sent.split_once(' ').unwrap_or((sent, ""));
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.trim().as_bytes().to_vec());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = STANDARD.decode(value.trim()).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &str, secret: &str) -> Token {
        Token {
            name: name.to_owned(),
            role: Role::Owner,
            secret: secret.into(),
        }
    }

    fn page_with(tokens: Vec<Token>) -> SignIn {
        SignIn {
            tokens,
            wrong: Mutex::default(),
            cookie: "shopmirror-7780".to_owned(),
            is_encrypted: true,
        }
    }

    fn with_cookie(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        // Another program of the host may write what is no UTF-8.
        let mut cookies = b"user=M\xfcller; shopmirror-7780=".to_vec();
        cookies.extend(value.as_bytes());
        headers.insert(header::COOKIE, HeaderValue::from_bytes(&cookies).unwrap());
        headers
    }

    #[test]
    fn a_cookie_is_valid_for_thirty_days_and_as_long_as_its_token() {
        let now: Timestamp = "2026-11-28T09:00:00Z".parse().unwrap();
        let later = now + SIGNED_IN_FOR;
        let page = page_with(vec![token("anna", "0123456789abcdef")]);
        let value = page.cookie_value(&page.tokens[0], now);
        assert!(!value.contains("0123456789abcdef"), "{value}");
        let headers = with_cookie(&value);
        assert!(page.token_of_cookie(&headers, now).is_some());
        let second_before = later - Duration::from_secs(1);
        assert!(page.token_of_cookie(&headers, second_before).is_some());
        assert!(page.token_of_cookie(&headers, later).is_none());
        for other in [
            vec![token("anna", "0123456789abcdeF")],
            vec![token("bert", "0123456789abcdef")],
        ] {
            assert!(page_with(other).token_of_cookie(&headers, now).is_none());
        }
    }

    #[test]
    fn a_cookie_that_was_changed_is_refused() {
        let now: Timestamp = "2026-11-28T09:00:00Z".parse().unwrap();
        let page = page_with(vec![
            token("anna", "0123456789abcdef"),
            token("hall", "fedcba9876543210"),
        ]);
        let value = page.cookie_value(&page.tokens[1], now);
        let (signed, signature) = value.rsplit_once('.').unwrap();
        let until = signed.split_once('.').unwrap().1;
        for changed in [
            format!("anna.{until}.{signature}"),
            format!("hall.{until}0.{signature}"),
            format!("{signed}.{}", &signature[1..]),
            format!("{signed}."),
            signed.to_owned(),
            String::new(),
        ] {
            let headers = with_cookie(&changed);
            assert!(page.token_of_cookie(&headers, now).is_none(), "{changed}");
        }
    }

    #[test]
    fn a_browser_stays_on_its_page_also_behind_a_proxy() {
        for (uri, address) in [
            ("/", "./"),
            ("/report?name=sales&range=7", "./report?name=sales&range=7"),
            ("/api/status", "./status"),
            ("//evil.example/x", "./x"),
            ("/javascript:alert(1)", "./javascript:alert(1)"),
        ] {
            assert_eq!(same_page(&uri.parse().unwrap()), address);
        }
    }
}
