//! `completions` and `man`: the files that a package installs for shells and for man(1).

use std::process::ExitCode;

use clap::{Command, CommandFactory};

use super::{Cli, exit, output};

/// Prints the script that completes commands, routes and options in a shell.
pub(super) fn run(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "shopmirror", &mut script);
    output::raw(&script)
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
    output::raw(&text)
}
