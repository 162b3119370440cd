//! The command line: what each command prints, accepts, refuses and returns.

mod attempt;
mod branches;
mod cli;
mod commands;
mod completions;
pub(crate) mod init;
mod json;
mod once;
mod operator;
mod watch;
