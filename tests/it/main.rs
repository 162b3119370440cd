//! The integration tests: one binary over the public interface, on real sockets and real files.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod budget;
mod commands;
mod delivery;
mod documents;
mod layout;
mod missed;
mod operation;
mod page;
mod reports;
mod shops;
mod sinks;
mod store;
mod support;
