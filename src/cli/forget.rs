//! `forget`: removes the data of records from the mirror and the log.

mod person;

use std::process::ExitCode;

use serde_json::json;
use shopmirror_core::clock::stamp;
use shopmirror_core::record::{Kind, Route};

use super::exit::{DATA, TRY_AGAIN, refuse};
use super::output::{self, Output, cell};
use super::record_line::{NAMING, RecordLine};
use super::runtime;
use crate::config::Config;
use crate::control::{self, ControlRequest};
use crate::store::{Forgotten, Operator, StoreError};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The route of the records
    #[arg(required_unless_present = "person", requires = "ids", value_parser = super::route())]
    route: Option<Route>,
    /// The id of each record; if one of them is unknown, nothing is changed
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// The records of all routes that hold these words, such as a name or a phone number, and what
    /// belongs to the repairs and customers among them; only lists them without --yes
    #[arg(long, value_name = "WORDS", conflicts_with = "route")]
    person: Option<String>,
    /// Forget the list of --person that was printed with this code, if it is still the same
    #[arg(long, value_name = "CODE", requires = "person")]
    yes: Option<String>,
}

pub(super) fn run(config: &Config, args: &Args, out: Output) -> anyhow::Result<ExitCode> {
    let records: Vec<RecordLine> = match (&args.person, args.route) {
        (Some(words), _) => person::records(&super::reader(config)?, words)?,
        (None, Some(route)) => args
            .ids
            .iter()
            .map(|id| RecordLine::new(route, id.clone(), String::new()))
            .collect(),
        (None, None) => Vec::new(),
    };
    let code = person::code(&records);
    match &args.yes {
        Some(shown) if *shown != code => {
            return refuse(
                TRY_AGAIN,
                "the records of these words are not those of the list with this code: run the command without --yes, and look at the list again",
            );
        }
        None if args.person.is_some() => return preview(config, &records, &code, out),
        _ => {}
    }
    let path = &config.store.path;
    let at = stamp(jiff::Timestamp::now());
    let mut operator = Operator::open(path)?;
    let named: Vec<_> = records
        .iter()
        .map(|record| (record.route, record.id.clone()))
        .collect();
    let forgotten = operator.forget_records(&named, &at)?;
    refuse_unknown(&records, &forgotten)?;
    // Before the file is written anew, which can take long. Without a daemon, the next run tells
    // the sinks.
    let _ = runtime()?.block_on(control::send(path, &ControlRequest::Wake));
    let purged = operator.purge();
    super::index_log(path);
    let versions: Vec<usize> = forgotten
        .iter()
        .map(versions_of)
        .filter(|n| *n > 0)
        .collect();
    let total: usize = versions.iter().sum();
    let mut text = format!(
        "removed the data of {}: {}\n{}",
        output::count(versions.len(), "record", "records"),
        output::count(total, "version", "versions"),
        left(&purged)
    );
    if total > 0 {
        text.push_str(&copies(config, &records));
    }
    let removed = json!({"versions": total, "purged": matches!(purged, Ok(true))});
    out.done(
        &json!({"records": records, "code": code, "removed": removed}),
        &text,
    )?;
    if out.json && purged.is_err() {
        eprint!("{}", left(&purged));
    }
    // What a reader of the log holds up, the daemon removes by itself.
    Ok(if purged.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(TRY_AGAIN)
    })
}

/// Lists what `--person` finds. Nothing is changed.
fn preview(
    config: &Config,
    records: &[RecordLine],
    code: &str,
    out: Output,
) -> anyhow::Result<ExitCode> {
    if out.json {
        return output::json(&json!({"records": records, "code": code, "removed": null}));
    }
    Output { wide: true, ..out }.table(records, NAMING, "nothing found")?;
    if !records.is_empty() {
        let records_found = output::count(records.len(), "record", "records");
        output::text(&format!(
            "nothing was changed. To forget {records_found}, run the same command with --yes {code}. If one is of another \
             person, name the ids instead: `shopmirror forget ROUTE ID`\n{}",
            copies(config, records)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where else copies may be: in backups, and in what sinks were given of these routes.
fn copies(config: &Config, records: &[RecordLine]) -> String {
    let has_route = |route: &Route| records.iter().any(|record| record.route == *route);
    let mut text = "copies may be left in backups made before".to_owned();
    let sinks = config
        .sinks
        .iter()
        .filter(|(_, sink)| sink.filter.routes.iter().any(has_route));
    for (name, sink) in sinks {
        let is_told = sink.filter.changes.contains(&Kind::Forgotten);
        let told = if is_told {
            ", which is sent the change `forgotten`"
        } else {
            ""
        };
        text.push_str(&format!(", in sink {name} ({}{told})", sink.type_name));
    }
    text + ": remove them there\n"
}

fn versions_of(forgotten: &Forgotten) -> usize {
    match forgotten {
        Forgotten::Now { versions } => *versions,
        Forgotten::Before | Forgotten::Unknown => 0,
    }
}

fn refuse_unknown(records: &[RecordLine], forgotten: &[Forgotten]) -> anyhow::Result<()> {
    let both = records.iter().zip(forgotten);
    let unknown: Vec<String> = both
        .filter(|(_, forgotten)| **forgotten == Forgotten::Unknown)
        .map(|(record, _)| format!("{:?}", cell(&record.id, 40)))
        .collect();
    // All are of one route: what `--person` finds is known, unless it was forgotten meanwhile.
    let Some(RecordLine { route, .. }) = records.first().filter(|_| !unknown.is_empty()) else {
        return Ok(());
    };
    refuse(
        DATA,
        format!(
            "nothing was changed, because these are not in the mirror: {}; `shopmirror records {route}` lists the records",
            unknown.join(", ")
        ),
    )
}

/// What may still hold words of the records, and what to do about it.
fn left(purged: &Result<bool, StoreError>) -> String {
    match purged {
        Ok(true) => {
            "the database file was written anew and holds no word of what was removed\n".to_owned()
        }
        Ok(false) => "the database file was written anew; the write-ahead log still holds a copy, because a \
            program reads the store; the daemon removes it within 30 seconds after that program ends\n"
            .to_owned(),
        Err(error) => format!(
            "the database file, its log or the search index may still hold words of what was removed: {error}. \
             Make room for two more copies of the file, and run the same command again\n"
        ),
    }
}
