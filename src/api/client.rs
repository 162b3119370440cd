//! One method per read route of the contract; each sends exactly one request.
//!
//! Every call returns its result and the rate limit that the response shows, also on failure.
//! The client retries and paces nothing; its only state is the key, and whether the workspace ever
//! answered at its address.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use shopmirror_core::clock::Clock;
use shopmirror_core::record::{Page, PollerId, Route};
use url::Url;

use super::error::{self, ApiError};
use super::page::{self, PageError};
use super::rate::RateHeaders;
use super::transport::{ApiRequest, Transport};
use super::wire::{self, Ping};
use crate::config::{Auth, PollSettings, WorkspaceSettings};
use crate::text::hex;

/// The longest search term, in characters (contract, "Limits").
pub const MAX_SEARCH_TERM: usize = 100;

/// How old a response may be. A cache that keeps one for longer hides what happens.
pub const MAX_AGE: Duration = Duration::from_secs(10);

/// The result of one call, and the rate limit that the response shows.
type CallResult<T> = (Result<T, ApiError>, RateHeaders);

/// The client of one workspace; clones share the key.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    transport: Arc<dyn Transport>,
    key: RwLock<CurrentKey>,
    base_url: Url,
    auth: Auth,
    /// The address of each route's polls; built once, because nothing of it changes.
    polls: HashMap<Route, Url>,
    timeout: Duration,
    clock: Clock,
    /// Whether the workspace itself ever answered here.
    is_address_proven: AtomicBool,
}

/// The key that requests are sent with, and which one it is.
#[derive(Clone)]
struct CurrentKey {
    secret: SecretString,
    /// Counts the changes of the key.
    number: u64,
}

impl Client {
    /// A client that sends through `transport`, which decides which hosts can be reached.
    #[must_use]
    pub fn new(
        workspace: &WorkspaceSettings,
        poll: &PollSettings,
        transport: Arc<dyn Transport>,
        key: SecretString,
        clock: Clock,
    ) -> Self {
        let limit = poll.limit.to_string();
        let mut polls = HashMap::new();
        for route in Route::ALL {
            let path = ["automation", "triggers", path_of(route)];
            let url = address(&workspace.base_url, &path, &[("limit", &limit)]);
            polls.insert(route, url);
        }
        Self(Arc::new(Inner {
            transport,
            key: RwLock::new(CurrentKey {
                secret: key,
                number: 0,
            }),
            base_url: workspace.base_url.clone(),
            auth: workspace.auth,
            polls,
            timeout: poll.timeout,
            clock,
            is_address_proven: AtomicBool::new(false),
        }))
    }

    /// Replaces the key in every clone from the next request on; returns true if it differs.
    pub fn set_key(&self, key: SecretString) -> bool {
        let mut current = self.0.key.write().unwrap_or_else(PoisonError::into_inner);
        if current.secret.expose_secret() == key.expose_secret() {
            return false;
        }
        *current = CurrentKey {
            secret: key,
            number: current.number + 1,
        };
        true
    }

    /// The key that requests are sent with now.
    fn key(&self) -> RwLockReadGuard<'_, CurrentKey> {
        self.0.key.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the key that requests are sent with from now on: a response with a lower
    /// number in [`RateHeaders::key`] belongs to an older one.
    #[must_use]
    pub fn key_number(&self) -> u64 {
        self.key().number
    }

    /// Notes that the workspace has answered at this address before, so that the advice about an
    /// answer of somebody between does not begin with the address.
    pub fn set_address_proven(&self) {
        self.0.is_address_proven.store(true, Ordering::Relaxed);
    }

    /// The address and the key, by which the workspace counts requests, as a digest that reveals
    /// neither.
    #[must_use]
    pub fn account(&self) -> String {
        self.account_with(&self.key())
    }

    /// As [`Self::account`], if this is still the number of the key; `None` after a change.
    #[must_use]
    pub fn account_of(&self, key_number: u64) -> Option<String> {
        let key = self.key();
        if key.number != key_number {
            return None;
        }
        Some(self.account_with(&key))
    }

    fn account_with(&self, key: &CurrentKey) -> String {
        let mut hash = Sha256::new();
        for part in [
            "shopmirror account",
            self.0.base_url.as_str(),
            key.secret.expose_secret(),
        ] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        hex(&hash.finalize()[..12])
    }

    /// Reads the newest records of a route (contract, "Automation-read routes"). `last` is the page
    /// of an earlier poll: it is returned if the body is still the same.
    pub async fn poll(&self, id: &PollerId, last: Option<Arc<Page>>) -> CallResult<Arc<Page>> {
        let url = self
            .0
            .polls
            .get(&id.route)
            .expect("every route has an address")
            .clone();
        self.get_at(url, id.business.as_deref(), |body| {
            page::decode_after(last, body.into())
        })
        .await
    }

    /// Searches for at most 25 customers whose name, email or mobile matches `term`, which has 1 to
    /// 100 characters.
    pub async fn search_customers(&self, term: &str, business: Option<&str>) -> CallResult<Page> {
        if !(1..=MAX_SEARCH_TERM).contains(&term.chars().count()) {
            let error = ApiError::Unsendable("a search term has 1 to 100 characters");
            return (Err(error), RateHeaders::default());
        }
        let path = ["automation", "search", "customers"];
        self.get(&path, &[("search_term", term)], business, |body| {
            page::decode(body.into())
        })
        .await
    }

    /// Tests the connection with an automation key.
    pub async fn automation_ping(&self) -> CallResult<Ping> {
        self.get(&["automation", "ping"], &[], None, |body| {
            wire::ping(body.into())
        })
        .await
    }

    /// Tests the connection with a key of any type.
    pub async fn integrations_ping(&self) -> CallResult<Ping> {
        self.get(&["integrations", "ping"], &[], None, |body| {
            wire::ping(body.into())
        })
        .await
    }

    /// Lists the forms that have custom fields.
    pub async fn form_types(&self, business: Option<&str>) -> CallResult<Vec<String>> {
        self.get(&["integrations", "custom-fields"], &[], business, |body| {
            wire::form_types(body.into())
        })
        .await
    }

    /// Lists the definitions of one form's custom fields, each its exact JSON text.
    pub async fn custom_fields(
        &self,
        form_type: &str,
        business: Option<&str>,
    ) -> CallResult<Vec<String>> {
        let path = ["integrations", "custom-fields"];
        self.get(&path, &[("form_type", form_type)], business, |body| {
            wire::custom_fields(body.into())
        })
        .await
    }

    async fn get<T>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        business: Option<&str>,
        read: fn(Bytes) -> Result<T, PageError>,
    ) -> CallResult<T> {
        self.get_at(address(&self.0.base_url, path, query), business, read)
            .await
    }

    async fn get_at<T>(
        &self,
        url: Url,
        business: Option<&str>,
        read: impl FnOnce(Bytes) -> Result<T, PageError>,
    ) -> CallResult<T> {
        let inner = &*self.0;
        // The key that is sent must also be the one that is removed from error texts.
        let CurrentKey {
            secret: key,
            number,
        } = self.key().clone();
        let unknown = RateHeaders {
            key: number,
            ..RateHeaders::default()
        };
        let headers = match inner.headers(&key, business) {
            Ok(headers) => headers,
            Err(error) => return (Err(error), unknown),
        };
        let request = ApiRequest {
            url: url.clone(),
            headers,
            timeout: inner.timeout,
        };
        let result = inner.transport.send(request).await;
        let response = match result {
            Ok(response) => response,
            Err(error) => return (Err(error.into()), unknown),
        };
        let rate = RateHeaders::read(&response, inner.clock.now().wall);
        let rate = RateHeaders {
            key: number,
            ..rate
        };
        let secret = key.expose_secret();
        let is_proven = inner.is_address_proven.load(Ordering::Relaxed);
        if response.status != 200 {
            let error =
                ApiError::from_response(&response, &url, rate.retry_after, is_proven, secret);
            if error::is_of_workspace(&response) {
                return (Err(error), rate);
            }
            return (Err(error), rate.of_somebody_between());
        }
        if let Some(error) = ApiError::from_body_between(&response, is_proven, secret) {
            return (Err(error), rate.of_somebody_between());
        }
        if rate.age > MAX_AGE {
            let error = ApiError::page(PageError::Cached(rate.age.as_secs()));
            return (Err(error), rate.of_somebody_between());
        }
        if is_of_another(business, &response.headers) {
            return (Err(ApiError::page(PageError::OtherBusiness)), rate);
        }
        // Read before the body goes; a page is an array, and has none.
        let quotation = ApiError::quotation_of_object(&response, secret);
        match read(response.body) {
            Ok(value) => {
                inner.is_address_proven.store(true, Ordering::Relaxed);
                (Ok(value), rate)
            }
            Err(problem) => (Err(ApiError::Page { problem, quotation }), rate),
        }
    }
}

impl Inner {
    fn headers(&self, key: &SecretString, business: Option<&str>) -> Result<HeaderMap, ApiError> {
        let (name, value) = match self.auth {
            Auth::Bearer => (AUTHORIZATION, format!("Bearer {}", key.expose_secret())),
            Auth::XApiKey => (
                HeaderName::from_static("x-api-key"),
                key.expose_secret().to_owned(),
            ),
        };
        if key.expose_secret().is_empty() {
            return Err(ApiError::UnusableKey);
        }
        let mut value = HeaderValue::try_from(value).map_err(|_| ApiError::UnusableKey)?;
        value.set_sensitive(true);
        let mut headers = HeaderMap::with_capacity(5);
        headers.insert(name, value);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        let agent = concat!("shopmirror/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        if let Some(business) = business {
            let business = HeaderValue::from_str(business).map_err(|_| {
                ApiError::Unsendable(
                    "an id in businesses holds characters that a header cannot carry; use the \
                     branch id",
                )
            })?;
            headers.insert(HeaderName::from_static("x-business"), business);
        }
        Ok(headers)
    }
}

fn address(base_url: &Url, path: &[&str], query: &[(&str, &str)]) -> Url {
    let mut url = base_url.clone();
    // An address without a path is not an http address; every transport refuses it.
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url.set_fragment(None);
    url.set_query(None);
    if !query.is_empty() {
        let pairs = url.query_pairs_mut().extend_pairs(query).finish().query();
        // Every server reads %20 as a space, but not every server reads a plus sign so.
        let encoded = pairs.unwrap_or_default().replace('+', "%20");
        url.set_query(Some(&encoded));
    }
    url
}

/// True if the response belongs to another business than the requested one; `X-Business` of every
/// response names its business (contract, "What the service does"). Only ids can be compared.
fn is_of_another(requested: Option<&str>, headers: &HeaderMap) -> bool {
    let (Some(requested), Some(served)) = (requested, headers.get("x-business")) else {
        return false;
    };
    let (Some(requested), Ok(served)) = (business_id(requested), served.to_str()) else {
        return false;
    };
    match business_id(served) {
        Some(served) => served != requested,
        None => false,
    }
}

fn business_id(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The route's last path segment, which spells it with hyphens.
fn path_of(route: Route) -> &'static str {
    match route {
        Route::Jobs => "jobs",
        Route::Customers => "customers",
        Route::Leads => "leads",
        Route::Payments => "payments",
        Route::JobStatusChanges => "job-status-changes",
        Route::OutsourcedJobs => "outsourced-jobs",
    }
}

#[cfg(test)]
mod tests;
