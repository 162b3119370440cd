//! `check` of one sink: its settings can be used, and its destination accepts a connection.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::unit::Unit;
use super::writable::unwritable;
use super::{CheckReport, samples};
use crate::cli::exit;
use crate::config::{Config, SinkKind, SinkSettings};
use crate::files::owner::folder_of;
use crate::sink::{self, Sink, SinkBuildError};

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
    BuiltSink {
        name,
        settings,
        built: sink::build_one(name, &settings.kind),
    }
}

impl BuiltSink<'_> {
    fn what(&self) -> String {
        format!("sink {}", self.name)
    }

    /// Tests what it makes of records, alerts and reports, and whether this program has its type.
    /// Sends nothing, and needs no network.
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
            report.wrong(self.what(), problem);
        }
    }

    /// Tests whether its destination accepts a connection.
    pub(super) async fn probe(&self, config: &Config, report: &mut CheckReport) {
        let unit = report.unit.as_ref();
        let store = &config.store.path;
        let outcome = match &self.settings.kind {
            SinkKind::File(file) => before_file(&file.path, store, unit),
            SinkKind::Command(command) => before_command(unit, Path::new(&command.argv[0])),
            _ => None,
        };
        let outcome = match (outcome, &self.built) {
            (Some(outcome), _) => outcome,
            (None, Ok(sink)) => sink
                .try_out()
                .await
                .map_err(|text| (exit::UNAVAILABLE, text)),
            // Said already.
            (None, Err(SinkBuildError::LeftOut { .. })) => return,
            (None, Err(error)) => Err((exit::CONFIG, error.to_string())),
        };
        match outcome {
            Ok(text) => report.ok(self.what(), text),
            Err((code, text)) => report.failed(code, self.what(), text),
        }
    }
}

type SinkResult = Result<String, (u8, String)>;

/// What is known about the file of a sink before it is opened.
fn before_file(file: &Path, store: &Path, unit: Option<&Unit>) -> Option<SinkResult> {
    let folder = folder_of(file);
    if let Some(problem) = unwritable(file, store, unit) {
        return Some(Err((exit::CONFIG, problem)));
    }
    // The unit, or the first start, creates this folder for the database.
    (!folder.exists() && store.parent() == Some(folder)).then(|| {
        Ok(format!(
            "{} will be created by the first start, with its folder",
            file.display()
        ))
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
    line.strip_prefix("#!")?
        .split_whitespace()
        .next()
        .map(PathBuf::from)
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
