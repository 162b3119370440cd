//! `forget`: removes the data of records from the mirror and the log.

use std::process::ExitCode;

use super::exit::{DATA, ExitError};
use super::output::{self, cell};
use super::runtime;
use crate::clock::stamp;
use crate::config::Config;
use crate::control::{self, ControlRequest};
use crate::record::Route;
use crate::store::{Forgotten, Operator, Purged, Rewritten};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The route of the records
    route: Route,
    /// The id of each record; if one of them is unknown, nothing is changed
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `forget --json` prints.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ForgetResult {
    /// The versions whose data was removed, of all the records; 0 if they were forgotten before.
    versions: usize,
    /// False while the write-ahead log still holds a copy.
    purged: bool,
    /// False if the database file could not be written anew, so that unused parts of it may still hold
    /// words of the records.
    rewritten: bool,
}

pub(super) fn run(config: &Config, args: &Args) -> anyhow::Result<ExitCode> {
    let Args { route, ids, json } = args;
    let path = &config.store.path;
    let at = stamp(jiff::Timestamp::now());
    let mut operator = Operator::open(path)?;
    let forgotten = operator.forget_records(*route, ids, &at)?;
    refuse_unknown(*route, ids, &forgotten)?;
    // Before the file is written anew, which can take long. Without a daemon, the next run tells the sinks.
    let _ = runtime()?.block_on(control::send(path, &ControlRequest::Wake { sink: None }));
    let purged = operator.purge(path);
    if *json {
        let versions = forgotten.iter().map(versions_of).sum();
        let rewritten = matches!(purged.rewritten, Rewritten::Done);
        let purged = matches!(purged.log_emptied, Ok(true));
        return output::json(&ForgetResult { versions, purged, rewritten });
    }
    let mut text = String::new();
    for (id, forgotten) in ids.iter().zip(&forgotten) {
        let shown = cell(id, 40);
        text.push_str(&match versions_of(forgotten) {
            0 => format!("{shown} in {route} was forgotten before\n"),
            1 => format!("removed the data of {shown} in {route}: 1 version\n"),
            versions => format!("removed the data of {shown} in {route}: {versions} versions\n"),
        });
    }
    text.push_str(&left(&purged));
    if forgotten.iter().any(|forgotten| versions_of(forgotten) > 0) {
        text.push_str(
            "backups made before, and copies that sinks made, still hold it: remove them there\n",
        );
    }
    output::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn versions_of(forgotten: &Forgotten) -> usize {
    match forgotten {
        Forgotten::Now { versions } => *versions,
        Forgotten::Before | Forgotten::Unknown => 0,
    }
}

fn refuse_unknown(route: Route, ids: &[String], forgotten: &[Forgotten]) -> anyhow::Result<()> {
    let both = ids.iter().zip(forgotten);
    let unknown: Vec<String> = both
        .filter(|(_, forgotten)| **forgotten == Forgotten::Unknown)
        .map(|(id, _)| format!("{:?}", cell(id, 40)))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let (are, nothing) = match (unknown.len(), ids.len()) {
        (1, 1) => ("is", ""),
        (1, _) => ("is", ", so nothing was changed"),
        _ => ("are", ", so nothing was changed"),
    };
    let text = format!(
        "{route} {} {are} not in the mirror{nothing}; `shopmirror records {route}` lists the records",
        unknown.join(", ")
    );
    Err(ExitError { code: DATA, text }.into())
}

/// What may still hold words of the records, and what to do about it.
fn left(purged: &Purged) -> String {
    const MIB: u64 = 1024 * 1024;
    let mut text = match &purged.rewritten {
        Rewritten::Done => {
            "the database file was written anew: it holds no word of it any more\n".to_owned()
        }
        Rewritten::NoRoom { needed, free } => format!(
            "unused parts of the database file may still hold words of it: writing the file anew needs {} MiB, and its disk has {} MiB free; make room, then run this command again\n",
            needed.div_ceil(MIB),
            free / MIB
        ),
        Rewritten::Failed(error) => format!(
            "unused parts of the database file may still hold words of it, because it could not be written anew: {error}; when that is mended, run this command again\n"
        ),
    };
    text.push_str(&match &purged.log_emptied {
        Ok(true) => String::new(),
        Ok(false) => "the write-ahead log still holds a copy, because a program reads the store; \
             the daemon removes it within 30 seconds after that program ends\n"
            .to_owned(),
        Err(error) => format!(
            "the write-ahead log still holds a copy, because it could not be emptied: {error}; when that is mended, run this command again\n"
        ),
    });
    text
}
