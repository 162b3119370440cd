//! `records --person`: all that is stored of one person, for a person who asks. As `forget
//! --person` it lists first, and writes what the list with a code holds.

use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;
use shopmirror_core::clock::stamp;
use tempfile::NamedTempFile;

use super::{Args, Form};
use crate::cli::exit::{TRY_AGAIN, USAGE, refuse};
use crate::cli::output::{self, Output};
use crate::cli::person;
use crate::cli::record_line::{NAMING, RecordLine};
use crate::files::owner;
use crate::store::Reader;

/// Lists the records of a person, or writes all that is stored of them.
pub(super) fn run(
    reader: &Reader,
    words: &str,
    args: &Args,
    out: Output,
) -> anyhow::Result<ExitCode> {
    if !matches!(args.format, Form::Table | Form::Json) {
        return refuse(USAGE, "--person writes JSON only: give --format json");
    }
    let records = person::records(reader, words)?;
    let code = person::code(&records);
    let Some(confirmed) = &args.yes else {
        return preview(&records, &code, out);
    };
    if *confirmed != code {
        return refuse(
            TRY_AGAIN,
            "the records of these words are not those of the list with this code: run the command \
             without --yes, and look at the list again",
        );
    }
    let Some(path) = &args.output else {
        return refuse(USAGE, "name the file to write with --output FILE");
    };
    let versions = write_file(reader, words, &records, path)?;
    let records = output::count(records.len(), "record", "records");
    let text = format!(
        "{} holds {records} with {}; only you may read it. It holds the data of a person: delete it \
         when it was handed out\n",
        path.display(),
        output::count(versions, "version", "versions")
    );
    let written = json!({"file": path, "code": code, "versions": versions});
    out.done(&written, &text)
}

fn preview(records: &[RecordLine], code: &str, out: Output) -> anyhow::Result<ExitCode> {
    if out.json {
        return output::json(&json!({"records": records, "code": code}));
    }
    Output { wide: true, ..out }.table(records, NAMING, "nothing found")?;
    if records.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let number = output::count(records.len(), "record", "records");
    output::text(&format!(
        "to write all that is stored of {number}, run the same command with --format json --output \
         FILE --yes {code}. If one is of another person, add a word or a number\n"
    ))
}

/// Writes the records with all their versions into a new file; returns how many versions.
fn write_file(
    reader: &Reader,
    words: &str,
    records: &[RecordLine],
    path: &Path,
) -> anyhow::Result<usize> {
    let failed = || format!("could not write {}", path.display());
    // It gets its name when it is whole, and only its owner may read it.
    let folder = owner::folder_of(path);
    let file = NamedTempFile::new_in(folder).with_context(failed)?;
    let mut out = BufWriter::new(file);
    let head = json!({"person": words, "made_at": stamp(jiff::Timestamp::now())});
    let head = head.to_string();
    write!(out, "{},\"records\":[", head.trim_end_matches('}')).with_context(failed)?;
    let mut written = 0;
    for (number, record) in records.iter().enumerate() {
        if number > 0 {
            out.write_all(b",").with_context(failed)?;
        }
        let versions = versions(reader, record)?;
        written += versions.len();
        let now = reader.record(record.route, &record.id)?;
        let record = json!({
            "route": record.route, "id": record.id, "stored": now, "versions": versions,
        });
        write!(out, "\n{record}").with_context(failed)?;
    }
    out.write_all(b"\n]}\n").with_context(failed)?;
    let file = out.into_inner().map_err(|error| error.into_error());
    let file = file.with_context(failed)?;
    file.as_file().sync_all().with_context(failed)?;
    file.persist_noclobber(path).with_context(failed)?;
    Ok(written)
}

/// All versions of a record that are in the log, the oldest first.
fn versions(reader: &Reader, record: &RecordLine) -> anyhow::Result<Vec<serde_json::Value>> {
    let mut versions = Vec::new();
    let mut failure = None;
    let all = (0, i64::MAX);
    reader.each_version((record.route, &record.id), all, |change| {
        match serde_json::to_value(&change) {
            Ok(version) => versions.push(version),
            Err(error) => failure = Some(error),
        }
        ControlFlow::Continue(())
    })?;
    if let Some(error) = failure {
        return Err(error).context("reading a version");
    }
    versions.reverse();
    Ok(versions)
}
