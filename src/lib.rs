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
//! The crate [`shopmirror_core`] contains the parts that do no I/O: records, contiguity, the
//! schedule, the budget, the backoff, the clock. The modules of this crate are:
//!
//! | module | what it does |
//! |---|---|
//! | [`text`] | writes texts, numbers and lengths of time for people |
//! | [`files`] | reads the files that the configuration names; locks and owners of files |
//! | [`net`] | TLS, requests over HTTP, storage, bodies up to a limit, `Retry-After`, a bounded server |
//! | [`shape`] | writes a change in the form of a sink: JSON, CloudEvents, CSV, a template; pure |
//! | [`config`] | reads and checks the TOML file, and reports every problem at once |
//! | [`api`] | the client of the workspace API |
//! | [`store`] | the SQLite file: mirror, log, gaps, pollers, sinks |
//! | [`poll`] | the dispatcher: polls, stores, learns, and sends background requests |
//! | [`recover`] | fetches what polls do not return: missed and older customers, custom fields |
//! | [`sink`] | delivers changes to one destination; nine types, from a webhook to a database |
//! | [`deliver`] | one task per sink, which reads the log and delivers |
//! | [`report`] | reports about the shop: built-in ones and the shop's own |
//! | [`status`] | the state of the workspace, for people and tools, and the alerts about it |
//! | [`page`] | the status page and the metrics over HTTP |
//! | [`control`] | the local socket through which commands reach the daemon; the exit codes |
//! | [`daemon`] | builds the parts from the configuration, and supervises the tasks |
//! | [`cli`] | the commands |
//!
//! # The tasks of the daemon
//!
//! [`daemon::run`] supervises them: the dispatcher, one task per sink, upkeep, scheduled backups
//! and reports, alerts, the notifier of systemd, the search index, the control socket, missed
//! customers, custom fields, and the status page. `CONTRIBUTING.md` has the table: for each task
//! what its loop waits for, what it owns, and what ends it. They share the store and wake each
//! other by channels; no task ends another one, and if one ends early, the process ends.
//!
//! # The rules
//!
//! The compiler keeps `shopmirror_core` free of I/O. The test `the_import_rules_hold` checks which
//! module may use which: a sink does not use the store; polling and delivery do not use each other;
//! the sandbox shares nothing with the daemon, not even the names of routes, so that the tests
//! compare two independent readings of the contract.

pub mod api;
pub mod cli;
pub mod config;
pub mod control;
pub mod daemon;
pub mod deliver;
pub mod files;
pub mod net;
pub mod page;
pub mod poll;
pub mod recover;
pub mod report;
pub mod shape;
pub mod sink;
pub mod status;
pub mod store;
pub mod text;
