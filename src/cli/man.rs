//! `man`: the manual page of the program or of one command.

mod sections;

use std::process::ExitCode;

use super::{exit, output};

/// Prints a page in the format of man(1); `path` names a command, for example `dead list`.
pub(super) fn run(program: clap::Command, path: &[String]) -> anyhow::Result<ExitCode> {
    let mut page = program;
    page.build();
    let mut title = page.get_name().to_owned();
    for name in path {
        let found = page.find_subcommand(name).cloned();
        page = found.ok_or_else(|| exit::ExitError {
            code: exit::USAGE,
            text: format!("there is no command {:?}: see `shopmirror help`", path.join(" ")),
        })?;
        title = format!("{title}-{name}");
        page = page.display_name(title.clone());
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    text.extend(sections::of_command(path).into_bytes());
    output::raw(&text)
}
