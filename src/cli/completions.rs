//! `completions` and `man`: the files that a package installs for shells and for man(1).

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};

use super::{Cli, config_path, examples, exit, load_for_reading, output};
use crate::config::Config;
use crate::report;

/// The variable with which a shell's script asks for the words that may follow.
const ASKS: &str = "COMPLETE";

/// Prints the words that may follow, and ends, if the script of a shell asks for them.
pub(super) fn complete() {
    CompleteEnv::with_factory(Cli::command).var(ASKS).complete();
}

/// Prints the script that lets a shell ask this program for the words that may follow.
pub(super) fn run(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let name = shell.to_string();
    let completer = shells
        .completer(&name)
        .with_context(|| format!("there is no completion for {name}"))?;
    completer.write_registration(ASKS, "shopmirror", "shopmirror", "shopmirror", &mut script)?;
    output::raw(&script)
}

/// The names of the sinks that the configuration has.
pub(super) fn sink_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let mut names = Vec::new();
        if let Some(config) = config() {
            for name in config.sinks.keys() {
                names.push(CompletionCandidate::new(name));
            }
        }
        names
    })
}

/// The names of the reports, also of the shop's own.
pub(super) fn report_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let folder = config().and_then(|config| config.reports.folder);
        let mut names = Vec::new();
        for report in report::list(folder.as_deref()).0 {
            names.push(CompletionCandidate::new(report.name));
        }
        names
    })
}

/// The configuration that the words before name, or the one in its usual place; `None` if this user
/// may not read it, or if it has a mistake.
fn config() -> Option<Config> {
    let mut named = None;
    let mut words = std::env::args_os();
    while let Some(word) = words.next() {
        if word == "--config" {
            named = words.next().map(PathBuf::from);
        } else if let Some(path) = word
            .to_str()
            .and_then(|word| word.strip_prefix("--config="))
        {
            named = Some(path.into());
        }
    }
    load_for_reading(&config_path(named).ok()?).ok()
}

/// Prints the manual page of the program or of one command; `path` names it, for example `sinks
/// replay`.
pub(super) fn man(path: &[String]) -> anyhow::Result<ExitCode> {
    let mut page: Command = Cli::command();
    page.build();
    let mut title = page.get_name().to_owned();
    for name in path {
        let Some(command) = page.find_subcommand(name).cloned() else {
            let path = path.join(" ");
            return exit::refuse(
                exit::USAGE,
                format!("there is no command {path:?}: see `shopmirror help`"),
            );
        };
        page = command;
        title = format!("{title}-{name}");
        page = page.display_name(title.clone());
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    text.extend_from_slice(examples::section(path).as_bytes());
    output::raw(&text)
}
