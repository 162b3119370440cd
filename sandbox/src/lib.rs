//! A local imitation of the workspace API. The service itself offers no sandbox.
//!
//! It imports nothing of the daemon, not even route names: the contract is written down twice,
//! independently, so that a test of the daemon against this crate can find a mistake in either.
//! It serves on loopback only, marks every answer with `X-Sandbox: true` and accepts only keys
//! that it made or was given. The API is under `/api`, the portal under `/_sandbox`.
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! let sandbox = sandbox::Sandbox::new(sandbox::Options::default());
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! println!("http://{}/api with key {}", listener.local_addr()?, sandbox.automation_key());
//! let stop = tokio_util::sync::CancellationToken::new();
//! sandbox::serve(listener, sandbox, stop).await
//! # }
//! ```
//!
//! Time is tokio's. The shop's clock starts at [`Options::start`] and runs [`Options::speed`]
//! times as fast as real time. Every read first lets the shop grow up to the present, so a paused
//! clock works as well as a real one. The same seed and start give the same history.
//!
//! Everything that clients send in goes through one pipeline, appears in the reads at once and
//! changes with the shop from then on. [`Sandbox::open`] keeps these inputs and the portal's
//! settings in a file across starts.
//!
//! # The map
//!
//! No module is used by a module that it uses; a test checks this.
//!
//! | module | owns |
//! |---|---|
//! | `route`, `fields`, `options`, `envelope`, `fault`, `rate` | the nouns: routes, record fields, error bodies, scripted faults, the rate window |
//! | `records`, `shop` | the records with their versions; the simulated shop that adds and edits them |
//! | `keys`, `journal`, `requests` | API keys; inputs with their times; the requests received |
//! | `intake` | the rules for what may be sent in: fields, forms, validation, remembered submissions |
//! | `state`, `pipeline` | all of it behind one lock; the steps from a submission to a record |
//! | `state_file`, `handle` | the state on disk; [`Sandbox`], which tests and handlers use |
//! | `gate`, `reads`, `receivers`, `write`, `operations` | the HTTP side of `/api` |
//! | `openapi`, `control`, `serve` | the description of the API; the portal; the socket |
//!
//! # The portal
//!
//! `/_sandbox/` is a page for people. Everything else takes and returns JSON. Routes are named as
//! in their path (`job-status-changes`; `_` works as `-`). A request with a body needs
//! `Content-Type: application/json`. Errors are `{"error": "…"}` with 400, 404, 409, 415 or 422.
//!
//! | request under `/_sandbox` | body | does |
//! |---|---|---|
//! | `GET /` | | returns the keys, the clock, the settings and the pending faults |
//! | `GET /openapi.json` | | returns the OpenAPI 3.1 document of everything under `/api` |
//! | `GET /truth?route=R` | | returns every record ever made with its content, version count and history; all routes without `route` |
//! | `GET /requests` | | returns the requests received, and the most in any 60 s by key name |
//! | `POST /records` | `{route, business?, record?}` | adds a record; invents what `record` lacks, `id` included |
//! | `PATCH /records` | `{route, id, fields}` | edits fields of a record; a job's `status` or `status_stage` also makes a status change |
//! | `POST /burst` | `{route, count, business?}` | adds many records at once |
//! | `POST /faults` | `{kind, route?, count?, …}` | scripts a fault, see [`FaultKind`] |
//! | `DELETE /faults` | | removes the pending faults |
//! | `POST /pause` | `{paused}` | stops the shop's growth or resumes it |
//! | `POST /clock` | `{advance_s}` | moves the clock ahead, by at most 31 days |
//! | `GET /keys` | | lists the integrations, with the end of each key hidden |
//! | `POST /keys` | `{key?, provider, name?}` | makes a key, see [`Provider`]; returns `key` and `integration` |
//! | `PATCH /keys` | `{key, disabled?, expires_at?, signing_secret?}` | disables a key, sets its expiry or its signing secret |
//! | `POST /keys/rotate`, `POST /keys/reveal`, `DELETE /keys` | `{key}`, `{integration}`, `{key}` | replaces a key, shows a key, revokes a key |
//! | `GET /custom-fields`, `PUT` | `{form_type, fields: [{field_name, type, placeholder?, options?}]}` | defines the custom fields of a form type; an empty list removes it |
//! | `GET /forms`, `PUT` | `{integration, form_id, map?, destination?, active?, duplicates?}` | maps, pins and activates a form; `duplicates` is `default`, `always_create`, `match_mobile`, `match_email` or `skip` |
//! | `GET /deliveries` | | lists every request to an intake route with its outcome |
//! | `POST /deliveries/retry` | `{id, destination?}` | submits a delivery again; a parked one then gets its record |
//! | `GET /checkins` | | lists self check-ins as staff see them |
//! | `PATCH /settings` | `{requests_per_minute?, ids_as_strings?, newest_by_change?, rival_per_minute?, standard_host?}` | sets limits and forms; `newest_by_change` lists records by their last change, not by creation; the rival shares the automation key; requests to the standard host get 412, `null` turns this off |
//!
//! Fault kinds: `status` (`code`, `retry_after?`), `between` (`code`, `body`: what a proxy or a portal
//! sends), `slow` (`ms`), `truncated`, `html`, `not_json`, `object`, `null`, `invalid_utf8`, `nul`,
//! `escaped_nul`, `deep` (`depth`), `gzip_bomb` (`mib`), `huge` (`mib`), `duplicate_ids`,
//! `record_without_id`. A fault's route is one of the six, or `search`, `automation-ping`, `ping`,
//! `custom-fields`, `leads`, `self-checkin`, `submit`, `ingest`; `leads` is both the read and the
//! intake.
//!
//! # Assumptions
//!
//! Questions that the contract leaves open or answers in two ways, with the answer here. A client
//! must not rely on these answers.
//!
//! | question | answer here |
//! |---|---|
//! | `limit` above 100 or below 1; not an integer | brought into range; 422 `validation_failed` |
//! | unknown business in header, strict body or envelope | 422 `validation_failed` naming `business_id` |
//! | business both in the header and in the body | the body's |
//! | `X-Business` of a refused or parked submission | the body's business if it exists, else the header's |
//! | `X-Business` of a replay | the original answer's |
//! | missing, unknown, disabled, expired key | 401 `missing_api_key`, `invalid_api_key`, `api_key_disabled`, `api_key_expired` |
//! | a key of another type on the automation routes | 403 `integration_not_permitted` |
//! | a marketplace's key on ping, custom-fields and intake | 403: it works on its own receiver only |
//! | keys of an automation tool, a site plugin or a form builder at `form` and `canonical` | 403: those receivers take website and REST API keys only |
//! | 412, 423, 429, 500 | `use_custom_domain`, `workspace_locked`, `too_many_requests`, `server_error` |
//! | the standard host of the workspace | `localhost`; the shop's own domain is `127.0.0.1` |
//! | a query that cannot be read, a parameter given twice | 422 `validation_failed` |
//! | a JSON body that cannot be read, on any route | 422 `unreadable_submission` |
//! | unknown path, method; a body over 1 MiB | 404 `not_found`, 405 `method_not_allowed`, 413 `payload_too_large` |
//! | GET on an unknown adapter | 405 `method_not_allowed`; POST gets 404 `unsupported_adapter` |
//! | older paths that repeat the workspace | 404 `legacy_path_not_supported` |
//! | requests refused with 429 | do not count against the limit |
//! | what "newest first" goes by | creation; by last change with the setting `newest_by_change` |
//! | a page with one id twice | never, except by the fault `duplicate_ids` |
//! | custom-field definition | `field_name`, `type`, `placeholder`, `options`; form type `Self Check-in` besides `Lead` |
//! | fields of read records beyond those named | invented, as a repair shop would have them |
//! | `data` of a lead | the record as the reads show it, and `object` |
//! | `data` of a self check-in | every input field except the password, `created_at` and `object` |
//! | booleans of a check-in that were not sent | false |
//! | `device_password` | kept for staff on a check-in whatever its type or name; dropped from a lead; never returned |
//! | empty strings on strict routes | treated as not sent |
//! | a valid e-mail address | one `@`, a local part of at most 64 bytes, a domain of letters, digits, `-` and `.` |
//! | a date-time | ISO 8601 with `T` or a space, with or without an offset |
//! | a lead source or device type the shop does not know | null |
//! | `mobile_number` as a number | strict: 422; lenient: moved to the custom fields, and no contact |
//! | one invalid part of a lenient `address` | the whole address is moved to the custom fields as JSON text |
//! | values in `custom_fields` | single values; strict routes refuse a list or an object, lenient ones keep its JSON text |
//! | which 20 unlisted fields are kept | the first by name; defined custom fields do not count |
//! | `yes` and `no` | become booleans in boolean fields only |
//! | `business_id` as text in lenient data | read as an integer |
//! | a wrong `destination`, `form_id` or `business_id` of an envelope | 422 naming it |
//! | a form builder's lead or check-in with a wrong `form_id` or `business_id` | 422, not parked |
//! | `Idempotency-Key` of 191 characters; longer; empty | accepted; 422; treated as not sent |
//! | `Idempotency-Key` on GET `listing_directory` | honoured, because the request creates a record |
//! | `X-Request-Id` of a replay | its own; the envelope has the original one |
//! | a replay of a submission that is still parked | 200 `duplicate` with null data |
//! | the derived key of `canonical` | covers the body, not the query |
//! | which leads are searched for a duplicate | all of the workspace; e-mail ignoring case; the newest match wins |
//! | parking on the self check-in route | as on the leads route |
//! | a form configured but not active, other than a form builder's | submit parks, leads ignores it |
//! | whether activating a form retries parked submissions | yes, those with its `form_id`; the portal can retry them as well |
//! | names of the signature headers | `X-Form-Builder-1-Signature`, `X-Form-Builder-2-Signature` |
//! | payloads of providers | see the receivers' own docs; the two marketplaces' names in any case |
//! | a B2B marketplace payload without `unique_query_id` | 422 `unreadable_submission` |
//! | a file in a multipart form | its name |
//! | a foreign number at a marketplace | kept whole, without a dialling code |
//! | when the customer of a self check-in comes in | after one step of the shop's work; until then the check-in is open |

mod control;
mod envelope;
mod fault;
mod fields;
mod formats;
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
pub use self::formats::DateFormats;
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
const MAX_BODY: usize = 1024 * 1024;

impl Sandbox {
    /// The API under `/api` and its control under `/_sandbox`.
    pub fn router(&self) -> Router {
        let api = operations::router()
            .fallback(async |uri: Uri| reads::not_found(&uri))
            .method_not_allowed_fallback(async || reads::wrong_method())
            .layer(DefaultBodyLimit::max(MAX_BODY))
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
