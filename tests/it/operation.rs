//! The daemon in service: configuration, reload, stop, keys, other workspaces, TLS, installation.

mod auth;
mod config_files;
mod demo;
mod interrupted_reload;
mod other_workspace;
mod packages;
mod reload;
mod shutdown;
mod tls;
mod units;
mod unread_log;
