//! `forget`: removes the data of records from the mirror and the log.

use std::process::ExitCode;

use serde_json::json;
use shopmirror_core::clock::stamp;
use shopmirror_core::record::{Kind, Route};

use super::exit::{DATA, TRY_AGAIN, refuse};
use super::output::{self, Output, cell};
use super::person;
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
    let mut records = Vec::new();
    if let Some(words) = &args.person {
        records = person::records(&super::reader(config)?, words)?;
    } else if let Some(route) = args.route {
        for id in &args.ids {
            records.push(RecordLine::new(route, id.clone(), String::new()));
        }
    }
    let code = person::code(&records);
    if let Some(confirmed) = &args.yes
        && *confirmed != code
    {
        return refuse(
            TRY_AGAIN,
            "the records of these words are not those of the list with this code: run the command \
             without --yes, and look at the list again",
        );
    }
    if args.person.is_some() && args.yes.is_none() {
        return preview(config, &records, &code, out);
    }
    let path = &config.store.path;
    let at = stamp(jiff::Timestamp::now());
    let mut operator = Operator::open(path)?;
    let mut keys = Vec::new();
    for record in &records {
        keys.push((record.route, record.id.clone()));
    }
    let forgotten = operator.forget_records(&keys, &at)?;
    refuse_unknown(&records, &forgotten)?;
    // Before the file is written again, which can take long. Without a daemon, the next run sends
    // the change to the sinks.
    let _ = runtime()?.block_on(control::send(path, &ControlRequest::Wake));
    let purged = operator.purge();
    super::index_log(path);
    let mut removed = 0;
    let mut total = 0;
    for outcome in &forgotten {
        if let Forgotten::Now { versions } = outcome
            && *versions > 0
        {
            removed += 1;
            total += versions;
        }
    }
    let mut text = format!(
        "removed the data of {}: {}\n{}",
        output::count(removed, "record", "records"),
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
    // If a program still reads the write-ahead log, the daemon removes the rest later.
    if purged.is_ok() {
        Ok(ExitCode::SUCCESS)
    } else {
        Ok(ExitCode::from(TRY_AGAIN))
    }
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
        let number = output::count(records.len(), "record", "records");
        output::text(&format!(
            "nothing was changed. To forget {number}, run the same command with --yes {code}. If \
             one is of another person, name the ids instead: `shopmirror forget ROUTE ID`\n{}",
            copies(config, records)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where else copies may be: in backups, and at the sinks that receive these routes.
fn copies(config: &Config, records: &[RecordLine]) -> String {
    let mut text = "copies may be left in backups made before".to_owned();
    for (name, sink) in &config.sinks {
        let routes = &sink.filter.routes;
        if !records.iter().any(|record| routes.contains(&record.route)) {
            continue;
        }
        let mut about = sink.type_name.to_string();
        if sink.filter.changes.contains(&Kind::Forgotten) {
            about += ", which is sent the change `forgotten`";
        }
        text += &format!(", in sink {name} ({about})");
    }
    text + ": remove them there\n"
}

/// Refuses the command if a record is not in the mirror.
fn refuse_unknown(records: &[RecordLine], forgotten: &[Forgotten]) -> anyhow::Result<()> {
    let mut unknown = Vec::new();
    for (record, outcome) in records.iter().zip(forgotten) {
        if *outcome == Forgotten::Unknown {
            unknown.push(format!("{:?}", cell(&record.id, 40)));
        }
    }
    if unknown.is_empty() {
        return Ok(());
    }
    let unknown = unknown.join(", ");
    // All have one route: the records of `--person` exist, unless they were forgotten meanwhile.
    let route = records[0].route;
    refuse(
        DATA,
        format!(
            "nothing was changed, because these are not in the mirror: {unknown}; `shopmirror \
             records {route}` lists the records"
        ),
    )
}

/// Where words of the records may be left, and what to do about it.
fn left(purged: &Result<bool, StoreError>) -> String {
    match purged {
        Ok(true) => {
            "the database file was written anew and holds no word of what was removed\n".to_owned()
        }
        Ok(false) => "the database file was written anew; the write-ahead log still holds a copy, \
                      because a program reads the store; the daemon removes it within 30 seconds \
                      after that program ends\n"
            .to_owned(),
        Err(error) => format!(
            "the database file, its log or the search index may still hold words of what was \
             removed: {error}. Make room for two more copies of the file, and run the same command \
             again\n"
        ),
    }
}
