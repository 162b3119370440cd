//! `check` of one sink: its settings can be used, and its destination accepts a connection.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::unit::Unit;
use super::writable::unwritable;
use super::{CheckReport, samples};
use crate::cli::exit;
use crate::config::{Config, SinkKind, SinkSettings};
use crate::file_owner::folder_of;
use crate::sink::{self, Sink, SinkBuildError};
use crate::store::Reader;

/// The longest first line of a script that the kernel reads.
const INTERPRETER_LINE_MAX: u64 = 255;

/// One sink, built from its settings once for all of its tests.
pub(super) struct BuiltSink<'c> {
    name: &'c str,
    settings: &'c SinkSettings,
    built: Result<Box<dyn Sink>, SinkBuildError>,
}

/// The sink of this name, which the configuration has.
pub(super) fn built<'c>(config: &'c Config, name: &'c str) -> BuiltSink<'c> {
    let settings = &config.sinks[name];
    BuiltSink { name, settings, built: sink::build_one(name, &settings.kind) }
}

impl BuiltSink<'_> {
    fn what(&self) -> String {
        format!("sink {}", self.name)
    }

    /// Tests what it makes of records, alerts and reports, and whether this program has its type. Sends
    /// nothing, and needs no network.
    pub(super) fn check_shape(&self, config: &Config, report: &mut CheckReport) {
        let problems = match &self.built {
            Ok(sink) => {
                let filter = &self.settings.filter;
                let record = samples::problem(&**sink, filter, &config.store.path);
                let notices = samples::notice_problems(config, self.name, &**sink);
                record.into_iter().chain(notices).collect()
            }
            Err(error @ SinkBuildError::LeftOut { .. }) => vec![error.to_string()],
            Err(_) => Vec::new(),
        };
        for problem in problems {
            report.wrong(exit::CONFIG, self.what(), problem);
        }
    }

    /// Tests whether its destination accepts a connection.
    pub(super) async fn probe(
        &self,
        config: &Config,
        unit: Option<&Unit>,
        report: &mut CheckReport,
    ) {
        let store = &config.store.path;
        let outcome = match &self.settings.kind {
            SinkKind::File(file) => before_file(&file.path, store, unit),
            SinkKind::Command(command) => before_command(unit, Path::new(&command.argv[0])),
            _ => None,
        };
        let outcome = match (outcome, &self.built) {
            (Some(outcome), _) => outcome,
            (None, Ok(sink)) => probed(&**sink, store).await,
            // Said already.
            (None, Err(SinkBuildError::LeftOut { .. })) => return,
            (None, Err(error)) => Err((exit::CONFIG, error.to_string())),
        };
        match outcome {
            Ok(text) => report.ok(self.what(), text),
            Err((code, text)) => report.wrong(code, self.what(), text),
        }
    }
}

type SinkResult = Result<String, (u8, String)>;

/// What the destination says, and whether what it has is of this store.
async fn probed(sink: &dyn Sink, store: &Path) -> SinkResult {
    let unavailable = |text| (exit::UNAVAILABLE, text);
    let said = sink.try_out().await.map_err(unavailable)?;
    let newest = sink.newest_stored().await.map_err(unavailable)?;
    // The log is read last: the daemon of this store may be storing just now.
    match newest.iter().find(|(seq, event_id)| !may_be_of(store, *seq, event_id)) {
        None => Ok(said),
        Some((seq, _)) => {
            let text = format!(
                "connected, but its `workspace` name is in use: change {seq} there is that of another store, or of this one before a restore; give this sink a `workspace` name that no store uses"
            );
            Err((exit::CONFIG, text))
        }
    }
}

/// Whether the log of the store has, or may have had, this change.
fn may_be_of(store: &Path, seq: i64, event_id: &str) -> bool {
    let found = Reader::open(store).map_err(anyhow::Error::new).and_then(|reader| {
        let change = reader.changes(&[seq])?.pop();
        // The log does not keep every older change.
        Ok(change.map_or(seq <= reader.last_seq()?, |change| change.event_id == event_id))
    });
    // A store that cannot be read is told by its own check.
    found.unwrap_or_else(|_| store.exists())
}

/// What is known about the file of a sink before it is opened.
fn before_file(file: &Path, store: &Path, unit: Option<&Unit>) -> Option<SinkResult> {
    let folder = folder_of(file);
    if let Some(problem) = unwritable(file, store, unit) {
        return Some(Err((exit::CONFIG, problem)));
    }
    // The unit, or the first start, creates this folder for the database.
    (!folder.exists() && store.parent() == Some(folder)).then(|| {
        Ok(format!("{} will be created by the first start, with its folder", file.display()))
    })
}

/// A program, or the interpreter of a script, that the unit of the service may not execute.
fn before_command(unit: Option<&Unit>, program: &Path) -> Option<SinkResult> {
    let unit = unit?;
    let refused = [Some(program.to_owned()), interpreter(program)]
        .into_iter()
        .flatten()
        .find(|path| !unit.may_execute(path))?;
    let text = format!(
        "the service may not execute {}: install the drop-in command-sink.conf (docs/security.md) and name it in ExecPaths=",
        refused.display()
    );
    Some(Err((exit::CONFIG, text)))
}

/// The interpreter in the first line of a script.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    let file = File::open(script).ok()?.take(INTERPRETER_LINE_MAX);
    BufReader::new(file).read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8(line).ok()?;
    line.strip_prefix("#!")?.split_whitespace().next().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_a_folder_that_the_first_start_creates_is_no_problem() {
        let store = Path::new("/no/such/folder/mirror.db");
        let beside = before_file(Path::new("/no/such/folder/audit.ndjson"), store, None);
        assert!(matches!(beside, Some(Ok(_))), "{beside:?}");
        let other = before_file(Path::new("/no/other/audit.ndjson"), store, None);
        assert!(matches!(other, Some(Err(_))), "{other:?}");
    }
}
