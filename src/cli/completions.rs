//! `completions`: the script that makes a shell complete commands, routes, sinks and dead letters.
//!
//! The script calls this program for each completion. The program then reads the configuration and the
//! store, prints the candidates and exits. A file that cannot be read means no candidates and no
//! message, because a message would be printed into the line that the user is typing.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::CompleteEnv;
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::Shells;

use super::exit::{ExitError, USAGE};
use super::{Cli, config_path, output, read_config};
use crate::config::Config;
use crate::store::{QueueRow, Reader, RowState};

/// The variable by which the script asks for candidates. It holds the name of the shell.
const VARIABLE: &str = "COMPLETE";
/// The most dead letters that are offered, the oldest first.
const OFFERED_MAX: usize = 1000;
const ERROR_LENGTH_MAX: usize = 60;

/// Prints the script for a shell.
pub(super) fn run(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let shells = Shells::builtins();
    let Some(completer) = shells.completer(&shell.to_string()) else {
        let text = format!("there is no completion script for {shell}");
        return Err(ExitError { code: USAGE, text }.into());
    };
    let name = env!("CARGO_PKG_NAME");
    let mut text = Vec::new();
    completer.write_registration(VARIABLE, name, name, name, &mut text)?;
    output::raw(&text)
}

/// Prints the candidates if a script asks for them; returns whether it did.
pub(super) fn print_candidates() -> bool {
    let here = std::env::current_dir().ok();
    let environment = CompleteEnv::with_factory(Cli::command).var(VARIABLE);
    environment.try_complete(std::env::args_os(), here.as_deref()).unwrap_or(false)
}

/// The sinks of the configuration, and those of the store that are no longer configured.
pub(super) fn sinks() -> Vec<CompletionCandidate> {
    let Some(path) = config_of_line() else { return Vec::new() };
    let mut sinks: Vec<(String, &'static str)> = match read_config(&path) {
        Ok(config) => {
            config.sinks.iter().map(|(name, sink)| (name.clone(), sink.kind.type_name())).collect()
        }
        Err(_) => Vec::new(),
    };
    let stored =
        Config::store_path(&path).and_then(|store| Reader::open(&store).ok()?.sinks().ok());
    for row in stored.unwrap_or_default() {
        if !sinks.iter().any(|(name, _)| *name == row.name) {
            sinks.push((row.name, "in the database only"));
        }
    }
    let candidate = |(name, kind): (String, &'static str)| {
        CompletionCandidate::new(name).help(Some(kind.into()))
    };
    sinks.into_iter().map(candidate).collect()
}

/// The numbers of the refused changes of the sink that is named on the line.
pub(super) fn dead_letters() -> Vec<CompletionCandidate> {
    let letters = || -> Option<Vec<QueueRow>> {
        let sink = sink_of(&line())?;
        let store = Config::store_path(&config_of_line()?)?;
        let states = [RowState::Dead, RowState::Retrying];
        Reader::open(&store).ok()?.exceptions(&sink, &states, OFFERED_MAX).ok()
    };
    letters()
        .unwrap_or_default()
        .into_iter()
        .map(|letter| {
            let why = letter.last_error.as_deref().unwrap_or("no reason is known");
            let help = format!("{} {}: {why}", letter.route, letter.record_id);
            CompletionCandidate::new(letter.seq.to_string())
                .help(Some(output::cell(&help, ERROR_LENGTH_MAX).into()))
        })
        .collect()
}

/// The businesses of the configuration.
pub(super) fn businesses() -> Vec<CompletionCandidate> {
    let config = config_of_line().and_then(|path| read_config(&path).ok());
    let businesses = config.map(|config| config.workspace.businesses).unwrap_or_default();
    businesses.into_iter().map(CompletionCandidate::new).collect()
}

/// The words of the line that is completed: those after `--`.
fn line() -> Vec<String> {
    let words: Vec<OsString> =
        std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    words.into_iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

fn config_of_line() -> Option<PathBuf> {
    let given = option_of(&line(), "--config").map(|path| match path.strip_prefix("~/") {
        Some(rest) => std::env::home_dir().unwrap_or_default().join(rest),
        None => PathBuf::from(path),
    });
    config_path(given).ok()
}

/// The value of an option, written as `--name value` or `--name=value`.
fn option_of(line: &[String], name: &str) -> Option<String> {
    let mut words = line.iter();
    while let Some(word) = words.next() {
        if word == name {
            return match words.next() {
                // bash makes a word of its own of `=`.
                Some(equals) if equals == "=" => words.next().cloned(),
                value => value.cloned(),
            };
        }
        if let Some(value) = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
            return Some(value.to_owned());
        }
    }
    None
}

/// The sink after `dead`.
fn sink_of(line: &[String]) -> Option<String> {
    let after = line.iter().position(|word| word == "dead")? + 1;
    let mut words = line[after..].iter();
    while let Some(word) = words.next() {
        if word == "--config" {
            words.next();
        } else if !word.starts_with('-') {
            return Some(word.clone());
        }
    }
    None
}
