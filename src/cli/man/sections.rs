//! The sections of a manual page that clap does not know: exit status, environment, files, examples.

use std::fmt::Write as _;

const EXIT_STATUS: &[(&str, &str)] = &[
    ("0", "Everything went well."),
    ("64", "The command line is wrong."),
    ("65", "The data is wrong, or what was asked for is not there."),
    ("69", "A service cannot be reached or does not work."),
    ("70", "The program has a fault. Please report it."),
    ("74", "A file or the database cannot be read or written."),
    ("75", "Try again later: something else is in the way, for example another daemon."),
    ("77", "The workspace refuses the key."),
    ("78", "The configuration is wrong."),
];

const STATUS_EXIT: &[(&str, &str)] = &[
    ("1", "With --exit-code: health is degraded or at risk."),
    ("2", "With --exit-code: health is failing."),
    ("3", "With --exit-code: health is unknown."),
];

const ENVIRONMENT: &[(&str, &str)] = &[
    ("SHOPMIRROR_API_KEY", "The key of the workspace, if no file of a key is configured."),
    ("CREDENTIALS_DIRECTORY", "Where systemd keeps the credential api-key."),
    (
        "SHOPMIRROR_LOG",
        "What is logged: error, warn, info, debug or trace, also for single modules.",
    ),
    ("SHOPMIRROR_LOG_FORMAT", "json writes each line of the log as a JSON object."),
    ("NO_COLOR", "If set, no colours are printed."),
];

const FILES: &[(&str, &str)] = &[
    ("shopmirror.toml", "The configuration, if it is in the current folder."),
    ("/etc/shopmirror/shopmirror.toml", "The configuration otherwise."),
    ("/etc/shopmirror/api-key", "The key of the workspace, as the service is installed."),
    ("/var/lib/shopmirror/mirror.db", "The database, as the service is installed."),
    ("/var/lib/shopmirror/backups", "The daily copies of the database."),
];

/// Each command with an example, and what the example does.
const EXAMPLES: &[(&str, &str, &str)] = &[
    ("", "shopmirror demo", "Try everything on this machine, with nothing to configure."),
    ("", "shopmirror check", "Test the configuration before the daemon starts."),
    ("", "shopmirror status", "See health, pollers, budget and sinks."),
    ("init", "shopmirror init --systemd", "Write the configuration and start the service."),
    (
        "run",
        "shopmirror run --config /etc/shopmirror/shopmirror.toml",
        "Run the daemon in this terminal.",
    ),
    ("once", "shopmirror once", "Poll each route once, as a timer does."),
    ("demo", "shopmirror demo --for 30s", "Show everything at work for half a minute."),
    ("sandbox", "shopmirror sandbox", "Run the imitation of the workspace alone."),
    ("check", "shopmirror check --sink erp", "Test one sink only."),
    ("status", "shopmirror status --exit-code", "Use it as a check of Nagios."),
    ("status", "shopmirror status leads", "See how often leads are polled, and why."),
    (
        "workspace",
        "shopmirror workspace accept",
        "Go on after the shop was renamed and its key or address changed.",
    ),
    ("records", "shopmirror records jobs --where status_stage=open", "List the open repairs."),
    ("report", "shopmirror report payments --by month", "See the payments of each month."),
    (
        "export",
        "shopmirror export jobs --format ndjson > jobs.ndjson",
        "Write every repair as the workspace sent it.",
    ),
    ("find", "shopmirror find miller iphone", "Find records that hold both words."),
    ("show", "shopmirror show jobs 1042", "See one repair and its history."),
    ("log", "shopmirror log --summary --since 1d", "Count what changed in a day."),
    ("search", "shopmirror search miller", "Ask the workspace for customers."),
    (
        "backfill",
        "shopmirror backfill customers --most 100",
        "Look for older customers with 100 searches.",
    ),
    (
        "gaps",
        "shopmirror gaps accept 3 --note \"asked the shop\"",
        "Accept a gap that cannot be repaired.",
    ),
    ("custom-fields", "shopmirror custom-fields --refresh", "Read the custom fields now."),
    ("sinks", "shopmirror sinks test erp", "Send one marked change to a sink."),
    ("dead", "shopmirror dead erp redrive --all", "Deliver the dead letters of a sink again."),
    ("replay", "shopmirror replay erp --from 3d --dry-run", "Count what a replay would send."),
    ("forget", "shopmirror forget leads 4711", "Remove the data of records."),
    ("rebuild", "shopmirror rebuild", "Make the mirror again from the log."),
    ("backup", "shopmirror backup copy.db", "Make a checked copy of the database."),
    ("restore", "shopmirror restore copy.db", "Put a copy back while no daemon runs."),
    ("verify", "shopmirror verify", "Check that file, log, mirror and sinks agree."),
    ("completions", "shopmirror completions bash", "Print the script for bash."),
    ("man", "shopmirror man dead redrive", "Print the page of one command."),
];

/// The sections for the page of this command; its top-level command decides the examples.
pub(super) fn of_command(path: &[String]) -> String {
    let command = path.first().map_or("", String::as_str);
    let mut exits: Vec<(&str, &str)> = EXIT_STATUS.to_vec();
    if command == "status" {
        exits.splice(1..1, STATUS_EXIT.iter().copied());
    }
    let mut text = String::new();
    section(&mut text, "EXIT STATUS", &exits);
    section(&mut text, "ENVIRONMENT", ENVIRONMENT);
    section(&mut text, "FILES", FILES);
    let examples = EXAMPLES.iter().filter(|(of, _, _)| *of == command);
    let examples: Vec<(&str, &str)> = examples.map(|(_, line, about)| (*line, *about)).collect();
    section(&mut text, "EXAMPLES", &examples);
    text
}

fn section(text: &mut String, heading: &str, entries: &[(&str, &str)]) {
    if entries.is_empty() {
        return;
    }
    // Writing to a String cannot fail.
    let _ = writeln!(text, ".SH \"{heading}\"");
    for (name, about) in entries {
        let _ = writeln!(text, ".TP\n\\fB{}\\fR\n{}", roff(name), roff(about));
    }
}

/// Text in which nothing is a request or an escape of roff, and each hyphen can be copied.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_has_an_example_that_the_program_accepts() {
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            assert!(EXAMPLES.iter().any(|(of, _, _)| *of == name), "{name} has no example");
        }
        for (_, line, _) in EXAMPLES {
            let words =
                line.split(" > ").next().unwrap_or_default().replace("\"asked the shop\"", "asked");
            let parsed = Cli::try_parse_from(words.split(' '));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}
