//! The integration tests: one binary over the public interface, on real sockets and real files.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod alerts;
mod attempt;
mod auth;
mod backup;
mod bad_pages;
mod branches;
mod budget;
mod changes;
mod cli;
mod commands;
mod completions;
mod config_files;
mod delivery;
mod demo;
mod dependencies;
mod disk;
mod documents;
mod identity;
mod init;
mod instance;
mod interrupted_reload;
mod late_answers;
mod layout;
mod ledger;
mod locked;
mod mirror;
mod once;
mod operator;
mod packages;
mod page;
mod reload;
mod repair;
mod reports;
mod restart;
mod search_index;
mod shapes;
mod shutdown;
mod sinks;
mod support;
mod tls;
mod troubleshooting;
mod units;
mod upgrades;
mod virtual_time;
