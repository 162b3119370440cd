//! shopmirror keeps a complete local mirror of a repair shop's workspace API in SQLite and
//! forwards every new and changed record to the systems that the shop names.
//!
//! # The flow
//!
//! ```text
//! schedule → budget → api → page → store (one transaction) → wake → deliver → sink → position
//! ```
//!
//! Polling and delivery share only the store. Channels carry no records; they only wake a task to
//! look into the store. A crash at any point loses nothing. It repeats at most the deliveries that
//! were in flight, under the same event ids.
//!
//! # The modules
//!
//! | module | what it does |
//! |---|---|
//! | [`record`] | routes, record ids, pages and changes; decides what is a change |
//! | [`clock`], [`backoff`] | the time a task sees; how long to wait after a failure |
//! | [`contiguity`] | what a page proves about the time since the previous page; pure |
//! | [`sysexits`] | the exit codes |
//! | [`connections`] | accepts connections and bounds their number |
//! | [`duration`], [`number`] | write a length of time and a number for people |
//! | [`body`] | reads the body of a response up to a limit |
//! | [`retry_after`] | reads the wait that a server asked for |
//! | [`table`] | rows as lines of plain text |
//! | [`escape`] | which characters from outside are unsafe to print |
//! | `file_lock` | locks a file that somebody may hold for a moment only |
//! | [`small_file`] | reads the files that the configuration names, none longer than it may be |
//! | `file_owner` | gives what root makes in the folder of another user to that user |
//! | [`tls`] | the HTTP client that `api` and the webhook sink are built from |
//! | [`shape`] | writes a change as a sink's destination wants it: JSON, CloudEvents, CSV, a template; pure |
//! | [`config`] | reads and checks the TOML file, and reports every problem at once |
//! | [`schedule`] | decides when each poller polls next; pure |
//! | [`budget`] | decides how many requests this process may send; pure |
//! | [`api`] | the client of the workspace API |
//! | [`poll`] | the dispatcher: polls, stores, learns, and sends background requests |
//! | [`recover`] | fetches what polls do not bring: missed and older customers, custom fields |
//! | [`store`] | the SQLite file: mirror, log, gaps, pollers, sinks |
//! | [`deliver`] | one task per sink, which reads the log and delivers |
//! | [`sink`] | delivers one change to a webhook, a file or a command |
//! | [`report`] | reports about the shop: built-in ones and the shop's own |
//! | [`status`] | the state of the workspace, for people and tools |
//! | [`alerts`] | what is worth an alert, when it is said and when it is over; pure |
//! | [`page`] | the status page and the metrics over HTTP |
//! | [`control`] | the local socket through which commands reach the daemon |
//! | [`daemon`] | builds the parts from the configuration, and supervises the tasks |
//! | [`cli`] | the commands |
//!
//! # The rules
//!
//! The test `the_import_rules_hold` checks which module may use which. The most important rules:
//! the schedule and the budget are pure; a sink does not use the store; polling and delivery do not
//! use each other; the sandbox shares nothing with the daemon, not even the names of routes, so
//! that the tests compare two independent readings of the contract.

pub mod alerts;
pub mod api;
pub mod backoff;
pub mod body;
pub mod budget;
pub mod cli;
pub mod clock;
pub mod config;
pub mod connections;
pub mod contiguity;
pub mod control;
pub mod daemon;
pub mod deliver;
pub mod duration;
pub mod escape;
mod file_lock;
mod file_owner;
pub mod number;
pub mod page;
pub mod poll;
pub mod record;
pub mod recover;
pub mod report;
pub mod retry_after;
pub mod schedule;
pub mod shape;
pub mod sink;
pub mod small_file;
pub mod status;
pub mod store;
pub mod sysexits;
pub mod table;
pub mod tls;
