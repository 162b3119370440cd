//! `forget`: removes one record's data from the mirror and the log.

use std::process::ExitCode;

use super::exit::{DATA, ExitError};
use super::output::{self, cell};
use super::runtime;
use crate::clock::stamp;
use crate::config::Config;
use crate::control::{self, ControlRequest};
use crate::record::Route;
use crate::store::{Forgotten, Operator};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The record's route
    route: Route,
    /// The record's id
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `forget --json` prints.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ForgetResult {
    /// The versions of the record whose data was removed; 0 if it was forgotten before.
    versions: usize,
    /// False while the write-ahead log still holds a copy, because a program reads the store.
    purged: bool,
}

pub(super) fn run(config: &Config, args: &Args) -> anyhow::Result<ExitCode> {
    let Args { route, id, json } = args;
    let path = &config.store.path;
    let at = stamp(jiff::Timestamp::now());
    let shown = cell(id, 40);
    let (versions, is_purged, is_rewritten) = match Operator::open(path)?.forget(*route, id, &at)? {
        Forgotten::Unknown => {
            let text = format!(
                "{route} {shown:?} is not in the mirror; `shopmirror records {route}` lists the records"
            );
            return Err(ExitError { code: DATA, text }.into());
        }
        Forgotten::Before => (0, true, true),
        Forgotten::Now { versions, is_purged, is_rewritten } => (versions, is_purged, is_rewritten),
    };
    // Without a daemon, the next run tells the sinks.
    let _ = runtime()?.block_on(control::send(path, &ControlRequest::Wake { sink: None }));
    if *json {
        return output::json(&ForgetResult { versions, purged: is_purged });
    }
    let mut text = match versions {
        0 => format!("{shown} in {route} was forgotten before; nothing was changed\n"),
        1 => format!("removed the data of {shown} in {route}: 1 version\n"),
        _ => format!("removed the data of {shown} in {route}: {versions} versions\n"),
    };
    if !is_purged {
        text.push_str(
            "the write-ahead log still holds a copy, because a program reads the store; \
             the daemon removes it within 30 seconds after that program ends\n",
        );
    }
    if !is_rewritten {
        text.push_str(
            "the database file could not be written anew, and unused parts of it may still hold words of the record: \
             make free space of twice its size, then run this again\n",
        );
    }
    if versions > 0 {
        text.push_str(
            "backups made before, and copies that sinks made, still hold it: remove them there\n",
        );
    }
    output::text(&text)?;
    Ok(ExitCode::SUCCESS)
}
