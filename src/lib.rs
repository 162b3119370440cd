//! shopmirror keeps a complete local mirror of a repair shop's workspace API in SQLite and
//! forwards every new and changed record to the systems the shop names.
//!
//! # The flow
//!
//! ```text
//! schedule → budget → api → page → store (one transaction) → wake → deliver → sink → position
//! ```
//!
//! Polling and delivery meet only in the store. No record travels to a sink through a channel; a
//! channel only says "there is more". A crash at any point loses nothing and repeats at most what
//! was in flight, under the same event id.
//!
//! # The map
//!
//! | module | owns |
//! |---|---|
//! | [`record`] | the nouns: routes, record ids, pages, changes; what counts as a change |
//! | [`clock`], [`backoff`] | the time a task sees; how long to wait after a failure |
//! | [`contiguity`] | what a page proves about the time since the previous page; pure |
//! | [`sysexits`] | the exit codes |
//! | [`retry_after`] | reads the wait that a server asked for |
//! | [`escape`] | which characters from outside are unsafe to print |
//! | [`tls`] | the HTTP client that `api` and the webhook sink are built from |
//! | [`config`] | the TOML file: read, checked, every problem reported at once |
//! | [`schedule`] | when each poller asks next; pure |
//! | [`budget`] | how many requests this process may spend; pure |
//! | [`simulate`] | the schedule and the budget beside fixed schedules, on a virtual clock |
//! | [`api`] | the client of the workspace API |
//! | [`poll`] | the dispatcher: polls, stores, learns, and sends background requests |
//! | [`repair`] | searches for customers that slipped out between two polls |
//! | [`backfill`] | which customer search to make next to walk the whole list; pure |
//! | [`custom_fields`] | keeps the custom fields' definitions fresh |
//! | [`store`] | the SQLite file: mirror, log, ledger, positions |
//! | [`deliver`] | one task a sink over the log |
//! | [`sink`] | how one change is handed to a webhook, a file, a command |
//! | [`status`] | the state of the workspace, for people and tools |
//! | [`page`] | the status page and the metrics over HTTP |
//! | [`control`] | the local socket through which commands reach the daemon |
//! | [`daemon`] | builds everything, supervises the tasks |
//! | [`cli`] | the commands |
//!
//! # The rules
//!
//! Who may import whom is kept by the test `the_import_rules_hold`. What matters most: the
//! schedule and the budget are pure, a sink never sees the store, polling and delivery never see
//! each other, and the sandbox shares nothing with the daemon, not even route names: two
//! independent spellings of the contract are what make the tests mean something.

pub mod api;
pub mod backfill;
pub mod backoff;
pub mod budget;
pub mod cli;
pub mod clock;
pub mod config;
pub mod contiguity;
pub mod control;
pub mod custom_fields;
pub mod daemon;
pub mod deliver;
pub mod escape;
pub mod page;
pub mod poll;
pub mod record;
pub mod repair;
pub mod retry_after;
pub mod schedule;
pub mod simulate;
pub mod sink;
pub mod status;
pub mod store;
pub mod sysexits;
pub mod tls;
