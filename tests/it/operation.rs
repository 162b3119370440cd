//! The daemon in service: configuration, reload, stop, keys, other workspaces, TLS, installation.

mod auth;
mod configuration;
mod demo;
mod heartbeat;
mod install;
mod other_workspace;
mod proxy;
mod reload;
mod stop;
mod tls;
