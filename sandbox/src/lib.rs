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
mod handle;
mod intake;
mod journal;
mod keys;
mod openapi;
mod operations;
mod options;
mod pipeline;
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

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Uri;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;

pub use self::fault::{Fault, FaultKind};
pub use self::handle::Sandbox;
pub use self::keys::Provider;
pub use self::options::Options;
pub use self::records::{RecordError, Truth, Version};
pub use self::requests::{Received, Requests};
pub use self::route::Route;
pub use self::serve::serve;
pub use self::shop::{Shop, UnknownShop};
pub use self::state_file::StateError;

/// The largest body a request may have.
const MOST_BODY: usize = 1024 * 1024;

impl Sandbox {
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
}

#[cfg(test)]
mod tests;
