//! `man`: the manual page of the program or of one command.

use std::process::ExitCode;

use super::{exit, output};

/// Prints a page in the format of man(1).
pub(super) fn run(mut program: clap::Command, of: Option<&str>) -> anyhow::Result<ExitCode> {
    program.build();
    let page = match of {
        None => program,
        Some(name) => {
            let found = program.find_subcommand(name).cloned().ok_or_else(|| exit::Wrong {
                code: exit::USAGE,
                text: format!("there is no command {name:?}: see `shopmirror help`"),
            })?;
            found.display_name(format!("shopmirror-{name}"))
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    output::raw(&text)
}
