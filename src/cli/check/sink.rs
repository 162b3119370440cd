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

    /// Tests whether it can be built, and whether it can write records, alerts and reports. Sends
    /// nothing, and needs no network.
    pub(super) fn check_shape(&self, config: &Config, report: &mut CheckReport) {
        let mut problems = Vec::new();
        match &self.built {
            Ok(sink) => {
                let filter = &self.settings.filter;
                problems.extend(samples::problem(&**sink, filter, &config.store.path));
                problems.extend(samples::notice_problems(config, self.name, &**sink));
            }
            Err(error) => problems.push(error.to_string()),
        }
        for problem in problems {
            report.wrong(self.what(), problem);
        }
    }

    /// Tests whether its destination accepts a connection.
    pub(super) async fn probe(&self, config: &Config, report: &mut CheckReport) {
        let unit = report.unit.as_ref();
        let store = &config.store.path;
        let early_result = match &self.settings.kind {
            SinkKind::File(file) => before_file(&file.path, store, unit),
            SinkKind::Command(command) => before_command(unit, Path::new(&command.argv[0])),
            _ => None,
        };
        let result = match (early_result, &self.built) {
            (Some(result), _) => result,
            (None, Ok(sink)) => match sink.check().await {
                Ok(text) => Ok(text),
                Err(error) => Err((exit::UNAVAILABLE, error.with_quotation())),
            },
            // Reported by `check_shape`.
            (None, Err(_)) => return,
        };
        match result {
            Ok(text) => report.ok(self.what(), text),
            Err((code, text)) => report.failed(code, self.what(), text),
        }
    }
}

type SinkResult = Result<String, (u8, String)>;

/// The result for the file of a sink, if it is clear before the file is opened.
fn before_file(file: &Path, store: &Path, unit: Option<&Unit>) -> Option<SinkResult> {
    let folder = folder_of(file);
    if let Some(problem) = unwritable(file, store, unit) {
        return Some(Err((exit::CONFIG, problem)));
    }
    // The unit, or the first start, creates this folder for the database.
    let is_created_later = !folder.exists() && store.parent() == Some(folder);
    if !is_created_later {
        return None;
    }
    let file = file.display();
    Some(Ok(format!(
        "{file} will be created by the first start, with its folder"
    )))
}

/// A program, or the interpreter of a script, that the unit of the service may not execute.
fn before_command(unit: Option<&Unit>, program: &Path) -> Option<SinkResult> {
    let unit = unit?;
    let mut programs = vec![program.to_owned()];
    programs.extend(interpreter(program));
    let forbidden = programs.iter().find(|path| !unit.may_execute(path))?;
    let text = format!(
        "the service may not execute {}: install the drop-in command-sink.conf (docs/security.md) \
         and name it in ExecPaths=",
        forbidden.display()
    );
    Some(Err((exit::CONFIG, text)))
}

/// The interpreter in the first line of a script.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    let file = File::open(script).ok()?.take(INTERPRETER_LINE_MAX);
    BufReader::new(file).read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8(line).ok()?;
    let interpreter = line.strip_prefix("#!")?.split_whitespace().next()?;
    Some(interpreter.into())
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
