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
//! What clients send in goes through one pipeline, stands in the reads at once and moves on with
//! the shop. [`Sandbox::open`] keeps it, and what the portal was told, in a file across starts.
//!
//! # The portal
//!
//! A page for people at `/_sandbox/` (asked for as HTML), and JSON in, JSON out; routes are named
//! as in their path (`job-status-changes`; `_` for `-` will do). A body needs `Content-Type:
//! application/json`. Errors are `{"error": "…"}` with 400, 404, 409, 415 or 422.
//!
//! | request under `/_sandbox` | body | does |
//! |---|---|---|
//! | `GET /` | | the keys, the clock, the settings, the faults still to come |
//! | `GET /openapi.json` | | the OpenAPI 3.1 document of everything under `/api` |
//! | `GET /truth?route=R` | | every record ever made with its content, version count and history; all routes without `route` |
//! | `GET /requests` | | requests received, and the most in any 60 s by key name |
//! | `POST /records` | `{route, business?, record?}` | adds a record; what `record` lacks is invented, `id` included |
//! | `PATCH /records` | `{route, id, fields}` | edits fields of a record |
//! | `POST /burst` | `{route, count, business?}` | adds many records at once |
//! | `POST /faults` | `{kind, route?, count?, …}` | scripts a fault, see [`FaultKind`] |
//! | `DELETE /faults` | | forgets the faults still to come |
//! | `POST /pause` | `{paused}` | stops growth or lets it go on |
//! | `POST /clock` | `{advance_s}` | moves the clock ahead, by 31 days at most |
//! | `GET /keys` | | every integration, its key's end hidden |
//! | `POST /keys` | `{key?, provider, name?}` | makes a key, see [`Provider`]; gives `key` and `integration` |
//! | `PATCH /keys` | `{key, disabled?, expires_at?, signing_secret?}` | disables, lets expire, sets the signing secret |
//! | `POST /keys/rotate`, `POST /keys/reveal`, `DELETE /keys` | `{key}`, `{integration}`, `{key}` | gives a new key for the old, shows a key, revokes one |
//! | `GET /custom-fields`, `PUT` | `{form_type, fields: [{field_name, type, placeholder?, options?}]}` | defines a form type's custom fields; none removes it |
//! | `GET /forms`, `PUT` | `{integration, form_id, map?, destination?, active?, duplicates?}` | maps, pins and activates a form; `duplicates` is `default`, `always_create`, `match_mobile`, `match_email` or `skip` |
//! | `GET /deliveries` | | every request to an intake route and what became of it |
//! | `POST /deliveries/retry` | `{id, destination?}` | submits one again; of a parked one, its record |
//! | `GET /checkins` | | self check-ins as staff see them |
//! | `PATCH /settings` | `{requests_per_minute?, ids_as_strings?, rival_per_minute?, standard_host?}` | sets limits; the rival shares the automation key; calls to the standard host get 412, `null` lets them pass |
//!
//! Fault kinds: `status` (`code`, `retry_after?`), `slow` (`ms`), `truncated`, `html`, `not_json`,
//! `object`, `null`, `invalid_utf8`, `nul`, `escaped_nul`, `deep` (`depth`), `gzip_bomb` (`mib`),
//! `huge` (`mib`), `duplicate_ids`, `record_without_id`. Routes for faults are the six, and
//! `search`, `automation-ping`, `ping`, `custom-fields`, `leads`, `self-checkin`, `submit`,
//! `ingest`; `leads` is the read and the intake.
//!
//! # Assumptions
//!
//! What the contract does not show, or shows in two ways, answered plainly. Clients must not lean
//! on it.
//!
//! | question | answer here |
//! |---|---|
//! | `limit` above 100 or below 1; not an integer | brought inside; 422 `validation_failed` |
//! | unknown business in header, strict body or envelope | 422 `validation_failed` naming `business_id` |
//! | business in both places | the body's counts |
//! | missing, unknown, disabled, expired key | 401 `missing_api_key`, `invalid_api_key`, `api_key_disabled`, `api_key_expired` |
//! | another key on automation routes | 403 `integration_not_permitted` |
//! | a marketplace's key on ping, custom-fields and intake | 403: it works on its own receiver only |
//! | 412, 423, 429, 500 | `use_custom_domain`, `workspace_locked`, `too_many_requests`, `server_error` |
//! | a query that cannot be read, a parameter given twice | 422 `validation_failed` |
//! | a JSON body that cannot be read, on any route | 422 `unreadable_submission` |
//! | unknown path, method; a body over 1 MiB | 404 `not_found`, 405 `method_not_allowed`, 413 `payload_too_large` |
//! | older paths that repeat the workspace | 404 `legacy_path_not_supported` |
//! | requests refused with 429 | are not counted against the limit |
//! | custom-field definition | `field_name`, `type`, `placeholder`, `options`; form type `Self Check-in` besides `Lead` |
//! | all fields of read records beyond those named | chosen to look like a repair shop's |
//! | a lead in `data`; a self check-in | as in the reads, with `object`; all input but the password, and `created_at` |
//! | empty strings on strict routes | count as not sent |
//! | what a valid e-mail is | one `@`, a local part of at most 64 bytes, a domain of letters, digits, `-` and `.` |
//! | what a date-time is | ISO 8601 with `T` or a space, with or without an offset |
//! | a lead source or device type the shop does not know | null |
//! | values in `custom_fields` | single values; a list or an object is of the wrong type |
//! | which 20 unlisted fields are kept | the first by name; defined ones need no place |
//! | `yes` and `no` | become booleans in boolean fields only |
//! | `business_id` as text in lenient data | is read as an integer |
//! | a wrong `destination`, `form_id` or `business_id` of an envelope | 422 naming it |
//! | `Idempotency-Key` of 191 characters; longer; empty | taken; 422; not sent |
//! | `X-Request-Id` of a replay | its own; the envelope has the original one |
//! | a replay of what is still parked | 200 `duplicate` with null data |
//! | which leads are searched for a duplicate | all of the workspace; e-mail in any case; the newest counts |
//! | parking on the self check-in route | as on the leads route |
//! | a form configured but not active, other than a form builder's | submit parks, leads ignores it |
//! | names of the signature headers | `X-Form-Builder-1-Signature`, `X-Form-Builder-2-Signature` |
//! | payloads of providers | see the receivers' own docs; names of the two marketplaces in any case |
//! | a file in a multipart form | its name |
//! | a foreign number at a marketplace | stays whole, without a dialling code |
//! | when the customer of a self check-in comes | after a step of the shop's work; till then it is open |

mod control;
mod envelope;
mod fault;
mod fields;
mod gate;
mod intake;
mod journal;
mod keys;
mod openapi;
mod operations;
mod rate;
mod reads;
mod receivers;
mod records;
mod requests;
mod route;
mod serve;
mod shop;
mod state;
mod state_file;
mod write;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Uri;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use tokio::time::Instant;

pub use self::fault::{Fault, FaultKind};
use self::journal::Input;
pub use self::keys::Provider;
pub use self::records::{RecordError, Truth, Version};
pub use self::requests::{Received, Requests};
pub use self::route::Route;
pub use self::serve::serve;
pub use self::shop::{Shop, UnknownShop};
use self::state::Inner;
pub use self::state_file::StateError;

/// The largest body a request may have.
const MOST_BODY: usize = 1024 * 1024;

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
    /// Where what clients and the portal put in is kept; only [`Sandbox::open`] looks at it.
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

    fn must_be_saved(&self) -> bool {
        let inner = self.lock();
        inner.file.is_some() && inner.saved != inner.changes
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
        let api = operations::router()
            .fallback(async |uri: Uri| reads::not_found(&uri))
            .method_not_allowed_fallback(async || reads::wrong_method())
            .layer(DefaultBodyLimit::max(MOST_BODY))
            .layer(from_fn_with_state(self.clone(), gate::pass));
        let portal = Router::new()
            .nest("/_sandbox", control::routes())
            .route("/_sandbox/", get(control::overview))
            .layer(from_fn(control::only_by_loopback_name));
        portal.nest("/api", api).with_state(self.clone())
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
        let mut inner = self.lock();
        inner.keys.put(key.to_owned(), name.to_owned(), provider);
        inner.changed();
    }

    /// Disables or enables a key; false when there is none of that text.
    pub fn disable_key(&self, key: &str, disabled: bool) -> bool {
        let mut inner = self.lock();
        let known = inner.keys.get_mut(key).map(|key| key.disabled = disabled).is_some();
        inner.changed();
        known
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
        self.lock().put(&Input::Add { route, business, record })
    }

    /// Adds `count` invented records to the default business at once.
    pub fn burst(&self, route: Route, count: usize) {
        self.burst_in(route, None, count);
    }

    /// Adds `count` invented records to a business at once.
    pub fn burst_in(&self, route: Route, business: Option<i64>, count: usize) {
        let mut inner = self.lock();
        for _ in 0..count {
            let record = Map::new();
            inner
                .put(&Input::Add { route, business, record })
                .expect("a record without an id gets a free one");
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
        self.lock().put(&Input::Edit { route, id: id.clone(), fields }).map(|_| ())
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
        self.lock().put(&Input::Pause { paused }).expect("a pause has no id to be refused");
    }

    /// Sends integer ids as strings from now on, or as integers again.
    pub fn send_ids_as_strings(&self, yes: bool) {
        let told = self.lock().put(&Input::StringIds { yes });
        told.expect("the form of ids has no id to be refused");
    }

    /// Sets how many requests a minute one key may make.
    pub fn set_requests_per_minute(&self, limit: u32) {
        let mut inner = self.lock();
        inner.requests_per_minute = limit;
        inner.changed();
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
        let mut inner = self.lock();
        inner.standard_host = name;
        inner.changed();
    }

    /// Moves the sandbox's clock ahead by so many seconds; it never goes back.
    pub fn advance_clock(&self, seconds: u32) {
        let mut inner = self.lock();
        inner.move_clock(SignedDuration::from_secs(seconds.into()));
        inner.grow();
    }

    /// The sandbox's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.lock().now()
    }
}

#[cfg(test)]
mod tests;
