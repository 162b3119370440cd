//! The examples of the manual pages and of `--help`: of each command the uses that people look for.

use clap::Command;

/// Examples of one command: its words, and lines to type, each with what it does.
type Examples = (
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
);

/// All commands that have a page.
pub(super) const EXAMPLES: [Examples; 31] = [
    (
        &[],
        &[
            (
                "shopmirror demo --for 30s",
                "see it work; nothing to configure",
            ),
            ("shopmirror init", "write the first configuration"),
            ("shopmirror status", "see how it is, and what to do"),
        ],
    ),
    (
        &["init"],
        &[(
            "shopmirror init --address https://myshop.example.com/api --key-file key",
            "ask for nothing",
        )],
    ),
    (
        &["check"],
        &[
            ("shopmirror check", "test everything; change nothing"),
            ("shopmirror check --offline", "test the file alone"),
            ("shopmirror check --sink erp", "test one sink"),
        ],
    ),
    (
        &["demo"],
        &[("shopmirror demo --for 30s", "end after half a minute")],
    ),
    (
        &["sandbox"],
        &[(
            "shopmirror sandbox --listen 127.0.0.1:8080",
            "an imitation of the API at this address",
        )],
    ),
    (
        &["run"],
        &[(
            "shopmirror run --config /etc/shopmirror/shopmirror.toml",
            "as the service does",
        )],
    ),
    (
        &["once"],
        &[("shopmirror once", "poll and deliver once, for cron")],
    ),
    (
        &["reload"],
        &[("shopmirror reload", "after a change of the configuration")],
    ),
    (
        &["status"],
        &[
            ("shopmirror status", "health, routes, budget and sinks"),
            (
                "shopmirror status leads",
                "how often this route is read, and why",
            ),
            ("shopmirror status --exit-code", "for Nagios"),
        ],
    ),
    (
        &["find"],
        &[
            ("shopmirror find ann fischer", "a person"),
            (
                "shopmirror find 030 123456",
                "a phone number in any spelling",
            ),
        ],
    ),
    (
        &["records"],
        &[
            (
                "shopmirror records jobs --where status=Ready",
                "the repairs of a status",
            ),
            (
                "shopmirror records jobs 4711",
                "one repair with its history",
            ),
            (
                "shopmirror records leads --format csv",
                "all leads for a spreadsheet",
            ),
        ],
    ),
    (
        &["log"],
        &[
            ("shopmirror log --follow", "each change as it comes"),
            (
                "shopmirror log --since 2h --route payments",
                "the payments of two hours",
            ),
        ],
    ),
    (
        &["report"],
        &[
            ("shopmirror report", "list the reports"),
            (
                "shopmirror report payments --by month --from 2026-01-01",
                "by month",
            ),
            ("shopmirror report intake --format csv", "for a spreadsheet"),
        ],
    ),
    (
        &["gaps"],
        &[
            ("shopmirror gaps", "where records may have been missed"),
            ("shopmirror gaps accept 3", "you have looked at gap 3"),
        ],
    ),
    (
        &["gaps", "accept"],
        &[
            ("shopmirror gaps accept 3", "you have looked at gap 3"),
            (
                "shopmirror gaps accept --all",
                "you have looked at all of them",
            ),
        ],
    ),
    (
        &["sinks"],
        &[
            ("shopmirror sinks", "what each sink has got and is owed"),
            ("shopmirror sinks erp test", "send a test"),
        ],
    ),
    (
        &["sinks", "test"],
        &[(
            "shopmirror sinks erp test --dry-run",
            "show what would be sent",
        )],
    ),
    (
        &["sinks", "dead"],
        &[("shopmirror sinks erp dead", "what it has refused, and why")],
    ),
    (
        &["sinks", "redrive"],
        &[(
            "shopmirror sinks erp redrive --all",
            "send again what it refused",
        )],
    ),
    (
        &["sinks", "drop"],
        &[("shopmirror sinks erp drop 4711", "never send this change")],
    ),
    (
        &["sinks", "replay"],
        &[(
            "shopmirror sinks erp replay --from 3d --route leads",
            "send the leads of three days once more",
        )],
    ),
    (
        &["sinks", "release"],
        &[(
            "shopmirror sinks erp release",
            "let a flood that was held go",
        )],
    ),
    (
        &["sinks", "rename"],
        &[(
            "shopmirror sinks erp rename books",
            "keep its position under a new name",
        )],
    ),
    (
        &["sinks", "forget"],
        &[(
            "shopmirror sinks erp forget",
            "after it left the configuration",
        )],
    ),
    (
        &["search"],
        &[(
            "shopmirror search fischer --store",
            "store what the workspace finds; one request",
        )],
    ),
    (
        &["backfill"],
        &[("shopmirror backfill --most 200", "200 searches, then stop")],
    ),
    (
        &["backup"],
        &[(
            "shopmirror backup /mnt/usb/shop.db",
            "while the daemon runs, too",
        )],
    ),
    (
        &["restore"],
        &[
            (
                "shopmirror restore /mnt/usb/shop.db",
                "after systemctl stop shopmirror",
            ),
            (
                "shopmirror restore --new-store",
                "begin with an empty store",
            ),
        ],
    ),
    (
        &["import"],
        &[
            (
                "shopmirror import jobs export.csv --map id=Number --dry-run",
                "what would be stored",
            ),
            (
                "shopmirror import jobs export.xlsx --date-format %d.%m.%Y",
                "from a spreadsheet with dates such as 31.12.2025",
            ),
            (
                "shopmirror import jobs export.csv --complete-since 2025-01-01",
                "with your word that no record since then is left out",
            ),
        ],
    ),
    (
        &["verify"],
        &[
            ("shopmirror verify", "test the store"),
            (
                "shopmirror verify --rebuild",
                "make the mirror again from the log",
            ),
        ],
    ),
    (
        &["forget"],
        &[
            (
                "shopmirror forget --person ann",
                "list what there is, with a code",
            ),
            ("shopmirror forget leads 4712", "forget one lead at once"),
        ],
    ),
];

/// The command with the examples at the end of the `--help` of each command below it.
pub(super) fn in_help(mut command: Command) -> Command {
    for (path, lines) in EXAMPLES {
        let mut text = String::from("Examples:");
        for (line, meaning) in lines {
            text += &format!("\n  {line}\n      {meaning}");
        }
        if !path.is_empty() {
            command = added(command, path, text);
        }
    }
    command
}

/// The command with a text at the end of the help of the one at `path` below it, if there is one.
fn added(command: Command, path: &[&str], text: String) -> Command {
    let Some((first, rest)) = path.split_first() else {
        return command.after_long_help(text);
    };
    if command.find_subcommand(first).is_none() {
        return command;
    }
    command.mut_subcommand(first, |below| added(below, rest, text))
}

/// The section of the manual page of a command; empty if it has none.
pub(super) fn section(path: &[String]) -> String {
    let mut text = String::new();
    for (command, lines) in EXAMPLES {
        if command != path {
            continue;
        }
        text += ".SH EXAMPLES\n";
        for (line, meaning) in lines {
            let line = line.replace('-', "\\-");
            text += &format!(".TP\n.B {line}\n{meaning}\n");
        }
    }
    text
}
