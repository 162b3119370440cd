//! A local imitation of the workspace API, which has no sandbox of its own.
//!
//! It shares nothing with the daemon, not even route names: two independent spellings of the
//! contract are what make tests against it mean something. It is loopback only, says in every
//! answer that it is a sandbox (`X-Sandbox: true`) and refuses every key it did not make or was
//! not given. The API lies under `/api`, its control under `/_sandbox`.
//!
//! Time is tokio's: the shop's clock starts at [`Options::start`] and runs [`Options::speed`]
//! times as fast, and the shop is grown up to it whenever it is looked at, so that a paused clock
//! works as well as a real one. A seed and a start give the same history.
//!
//! # The control API
//!
//! JSON in, JSON out; routes are named as in their path (`job-status-changes`; `_` for `-` will
//! do). Errors are `{"error": "…"}` with 404, 409 or 422.
//!
//! | request | body | does |
//! |---|---|---|
//! | `GET /_sandbox/` | | the keys, the clock, the settings, the faults still to come |
//! | `GET /_sandbox/truth?route=R` | | every record ever made with its content, version count and history; all routes without `route` |
//! | `GET /_sandbox/requests` | | requests received, and the most in any 60 s by key name |
//! | `POST /_sandbox/records` | `{route, business?, record?}` | adds a record; what `record` lacks is invented, `id` included |
//! | `PATCH /_sandbox/records` | `{route, id, fields}` | edits fields of a record |
//! | `POST /_sandbox/burst` | `{route, count, business?}` | adds many records at once |
//! | `POST /_sandbox/faults` | `{kind, route?, count?, …}` | scripts a fault, see [`FaultKind`] |
//! | `DELETE /_sandbox/faults` | | forgets the faults still to come |
//! | `POST /_sandbox/pause` | `{paused}` | stops growth or lets it go on |
//! | `POST /_sandbox/keys` | `{key, provider, name?}` | makes a key (`automation`, `rest_api`, `website`) |
//! | `PATCH /_sandbox/keys` | `{key, disabled}` | disables a key or enables it |
//! | `PATCH /_sandbox/settings` | `{requests_per_minute?, ids_as_strings?, rival_per_minute?, standard_host?}` | sets limits; the rival shares the automation key; calls to the standard host get 412, `null` lets them pass |
//!
//! Fault kinds: `status` (`code`, `retry_after?`), `slow` (`ms`), `truncated`, `html`, `not_json`,
//! `object`, `null`, `invalid_utf8`, `nul`, `escaped_nul`, `deep` (`depth`), `gzip_bomb` (`mib`),
//! `huge` (`mib`), `duplicate_ids`, `record_without_id`. Routes for faults are the six, and
//! `search`, `automation-ping`, `ping`, `custom-fields`.
//!
//! # Assumptions
//!
//! What the contract does not show, answered plainly. Clients must not lean on it.
//!
//! | question | answer here |
//! |---|---|
//! | `limit` above 100 or below 1; not an integer | brought inside; 422 `validation_failed` |
//! | unknown `X-Business` | 422 `validation_failed` naming `business_id` |
//! | missing, unknown, disabled key | 401 `missing_api_key`, `invalid_api_key`, `api_key_disabled` |
//! | another key on automation routes | 403 `integration_not_permitted` |
//! | 412, 423, 429, 500 | `use_custom_domain`, `workspace_locked`, `too_many_requests`, `server_error` |
//! | a query that cannot be read, a parameter given twice | 422 `validation_failed` |
//! | unknown path, method | 404 `not_found`, 405 `method_not_allowed` |
//! | requests refused with 429 | are not counted against the limit |
//! | custom-field definition | `field_name`, `type`, `placeholder`, `options` |
//! | all fields of read records beyond those named | chosen to look like a repair shop's |

mod control;
mod envelope;
mod fault;
mod fields;
mod gate;
mod keys;
mod rate;
mod reads;
mod records;
mod requests;
mod route;
mod shop;
mod state;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::serve::ListenerExt;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::fault::{Fault, FaultKind};
pub use self::keys::Provider;
pub use self::records::{RecordError, Truth, Version};
pub use self::requests::{Received, Requests};
pub use self::route::Route;
pub use self::shop::{Shop, UnknownShop};
use self::state::Inner;

/// How long answers under way may still take after a stop.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// What sandbox to make.
#[derive(Debug, Clone)]
pub struct Options {
    /// What its history and its keys are drawn from.
    pub seed: u64,
    /// How much goes on.
    pub shop: Shop,
    /// How many times as fast as real time its clock runs: 0 to 100,000; 1 if it is no number.
    pub speed: f64,
    /// Requests a minute one key may make.
    pub requests_per_minute: u32,
    /// Where what clients created is kept; nothing is until intake exists.
    pub state_file: Option<PathBuf>,
    /// Where its clock starts; `None`: at the same moment every time.
    pub start: Option<Timestamp>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            shop: Shop::default(),
            speed: 1.0,
            requests_per_minute: 60,
            state_file: None,
            start: None,
        }
    }
}

/// A handle on one imitated workspace; clones share it.
#[derive(Clone)]
pub struct Sandbox(Arc<Mutex<Inner>>);

impl Sandbox {
    /// A workspace whose shop has been at work for a while.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "the caller has no use for them after this")]
    pub fn new(options: Options) -> Self {
        Self(Arc::new(Mutex::new(Inner::new(&options))))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change under the lock is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn grown(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.lock();
        inner.grow();
        inner
    }

    /// The API under `/api` and its control under `/_sandbox`.
    pub fn router(&self) -> Router {
        let api = reads::routes()
            .fallback(async || reads::not_found())
            .method_not_allowed_fallback(async || reads::wrong_method())
            .layer(from_fn_with_state(self.clone(), gate::pass));
        Router::new()
            .nest("/api", api)
            .nest("/_sandbox", control::routes())
            .with_state(self.clone())
    }

    /// The automation key there is from the start.
    #[must_use]
    pub fn automation_key(&self) -> String {
        self.lock().automation_key.clone()
    }

    /// The REST API key there is from the start; it may not read.
    #[must_use]
    pub fn rest_key(&self) -> String {
        self.lock().rest_key.clone()
    }

    /// Makes a key, known in the log by `name`.
    pub fn add_key(&self, key: &str, name: &str, provider: Provider) {
        self.lock().keys.put(key.to_owned(), name.to_owned(), provider);
    }

    /// Disables or enables a key; false when there is none of that text.
    pub fn disable_key(&self, key: &str, disabled: bool) -> bool {
        self.lock().keys.get_mut(key).map(|key| key.disabled = disabled).is_some()
    }

    /// Adds a record; what `record` lacks is invented. Returns the id as it is sent.
    ///
    /// # Errors
    /// When an id is given that is taken, or is no id.
    pub fn add_record(
        &self,
        route: Route,
        business: Option<i64>,
        record: Map<String, Value>,
    ) -> Result<Value, RecordError> {
        self.lock().add(route, business, record)
    }

    /// Adds `count` invented records to the default business at once.
    pub fn burst(&self, route: Route, count: usize) {
        self.burst_in(route, None, count);
    }

    /// Adds `count` invented records to a business at once.
    pub fn burst_in(&self, route: Route, business: Option<i64>, count: usize) {
        let mut inner = self.lock();
        for _ in 0..count {
            inner.add(route, business, Map::new()).expect("a record without an id gets a free one");
        }
    }

    /// Changes fields of a record.
    ///
    /// # Errors
    /// When there is no such record, or `fields` would change its id.
    pub fn edit(
        &self,
        route: Route,
        id: &Value,
        fields: Map<String, Value>,
    ) -> Result<(), RecordError> {
        self.lock().edit(route, id, fields)
    }

    /// Scripts a fault after those scripted before.
    pub fn fault(&self, fault: Fault) {
        self.lock().script.add(fault);
    }

    /// Forgets the faults still to come.
    pub fn clear_faults(&self) {
        self.lock().script.clear();
    }

    /// Every record of a route ever made, oldest first, with its history.
    #[must_use]
    pub fn truth(&self, route: Route) -> Vec<Truth> {
        self.grown().records.truth(route)
    }

    /// The requests received so far.
    #[must_use]
    pub fn requests(&self) -> Requests {
        self.lock().log.told()
    }

    /// Stops the shop's own growth, or lets it go on; records added by hand still appear.
    pub fn pause_growth(&self, paused: bool) {
        let mut inner = self.grown();
        let now = inner.now();
        inner.growth.pause(now, paused);
    }

    /// Sends integer ids as strings from now on, or as integers again.
    pub fn send_ids_as_strings(&self, yes: bool) {
        self.grown().records.send_ids_as_strings(yes);
    }

    /// Sets how many requests a minute one key may make.
    pub fn set_requests_per_minute(&self, limit: u32) {
        self.lock().requests_per_minute = limit;
    }

    /// Lets another client make so many requests a minute on the automation key; 0 ends it.
    pub fn set_rival(&self, per_minute: u32) {
        let mut inner = self.lock();
        let key = inner.automation_key.clone();
        if let Some(key) = inner.keys.get_mut(&key) {
            key.window.set_rival(Instant::now(), per_minute);
        }
    }

    /// Sets the host name, without port, whose callers get 412; `None`: no such name.
    pub fn set_standard_host(&self, name: Option<String>) {
        self.lock().standard_host = name;
    }

    /// The sandbox's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.lock().now()
    }
}

/// Serves the sandbox until `stop`, then lets answers under way finish for two seconds.
///
/// # Errors
/// When the listener is bound to anything but a loopback address, or the socket fails.
pub async fn serve(
    listener: TcpListener,
    sandbox: Sandbox,
    stop: CancellationToken,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "refusing to serve the sandbox on {address}: it has no protection of its own; \
                 listen on 127.0.0.1 or [::1]"
            ),
        ));
    }
    let listener = listener.tap_io(|stream| {
        // Only latency is at stake, so a socket that refuses is used as it is.
        stream.set_nodelay(true).ok();
    });
    let served = axum::serve(listener, sandbox.router())
        .with_graceful_shutdown(stop.clone().cancelled_owned());
    let overdue = async {
        stop.cancelled().await;
        tokio::time::sleep(STOP_WAIT).await;
    };
    tokio::select! {
        ended = served.into_future() => ended,
        () = overdue => Ok(()),
    }
}

#[cfg(test)]
mod tests;
