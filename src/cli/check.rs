//! `check`: tests the configuration, the key, the address and the sinks, and prints what to do
//! about each problem. Writes nothing.

mod page;
pub(super) mod reports;
pub(super) mod samples;
mod sink;
mod store;
pub(super) mod unit;
pub(super) mod workspace;
mod writable;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;
use shopmirror_core::clock::Clock;

use unit::Unit;

use super::exit;
use super::output::{self, Output};
use super::sinks::unknown as unknown_sink;
use super::{read_config, runtime};
use crate::config::{Config, Problem, SinkKind};
use crate::store::{Acceptance, Operator, OtherWorkspace};

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Args {
    /// Check the configuration file only: no key, no network, no sinks
    #[arg(long, conflicts_with = "sink")]
    offline: bool,
    /// Check the configuration file and this sink only
    #[arg(long, value_name = "NAME")]
    sink: Option<String>,
    /// Accept the workspace behind base_url and the key as the one that filled the store: the shop
    /// was renamed, or its name cannot be read
    #[arg(long, conflicts_with_all = ["offline", "sink"])]
    accept_workspace: bool,
}

/// The result of one test.
#[derive(Debug, Serialize)]
struct CheckFinding {
    what: String,
    /// False if something is wrong, which the exit code says too.
    ok: bool,
    /// True for what works, but perhaps not as it is meant.
    warning: bool,
    said: String,
}

/// The results of all tests.
struct CheckReport {
    /// The unit that runs this configuration, and limits what the service can do.
    unit: Option<Unit>,
    findings: Vec<CheckFinding>,
    /// The exit code of the first problem.
    code: Option<u8>,
}

impl CheckReport {
    fn new(unit: Option<Unit>) -> Self {
        Self {
            unit,
            findings: Vec::new(),
            code: None,
        }
    }

    fn ok(&mut self, what: impl Into<String>, text: impl Into<String>) {
        self.findings.push(CheckFinding {
            what: what.into(),
            ok: true,
            warning: false,
            said: text.into(),
        });
    }

    fn warn(&mut self, what: impl Into<String>, text: impl Into<String>) {
        self.findings.push(CheckFinding {
            what: what.into(),
            ok: true,
            warning: true,
            said: text.into(),
        });
    }

    /// A problem of the configuration.
    fn wrong(&mut self, what: impl Into<String>, text: impl Into<String>) {
        self.failed(exit::CONFIG, what, text);
    }

    fn failed(&mut self, code: u8, what: impl Into<String>, text: impl Into<String>) {
        self.findings.push(CheckFinding {
            what: what.into(),
            ok: false,
            warning: false,
            said: text.into(),
        });
        self.code.get_or_insert(code);
    }

    fn print(&self, out: Output) -> anyhow::Result<ExitCode> {
        let mut lines = String::new();
        for finding in &self.findings {
            let mark = if !finding.ok {
                output::WRONG
            } else if finding.warning {
                output::WARNING
            } else {
                output::OK
            };
            lines += &output::finding(mark, &finding.what, &finding.said);
        }
        out.done(&self.findings, &lines)
    }
}

/// Runs every test that changes nothing.
pub(super) fn run(path: &Path, args: &Args, out: Output) -> anyhow::Result<ExitCode> {
    if args.accept_workspace {
        return accept(&read_config(path)?, out);
    }
    let unit = if args.offline {
        None
    } else {
        Unit::of_config(path)
    };
    if let Some(unit) = &unit
        && let Some(mut command) = unit.own_command()?
    {
        // Only the user of the service finds the files that it may not read or write.
        let status = command
            .status()
            .with_context(|| format!("could not become the user of {} with setpriv", unit.name))?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        return Ok(code.unwrap_or(exit::SOFTWARE).into());
    }
    let mut report = CheckReport::new(unit);
    check_all(path, args, &mut report)?;
    report.print(out)?;
    Ok(report.code.map_or(ExitCode::SUCCESS, ExitCode::from))
}

fn check_all(path: &Path, args: &Args, report: &mut CheckReport) -> anyhow::Result<()> {
    if let Some(unit) = &report.unit {
        let (user, is_own) = unit.user();
        let not_tested = if is_own {
            ""
        } else {
            "; this is another user: run check as root to test as that one"
        };
        let mut hides = None;
        if let Some((own, packaged)) = unit.hidden_by() {
            let own = own.display();
            let packaged = packaged.display();
            hides = Some(format!(
                "{own} hides {packaged} of the package, whose changes then have no effect: move what \
                 you changed into {own}.d/, remove {own}, and run systemctl daemon-reload"
            ));
        }
        let service = format!("{} runs as {user}{not_tested}", unit.name);
        report.ok("service", service);
        if let Some(text) = hides {
            report.warn("service", text);
        }
    }
    let config = match read_config(path) {
        Ok(config) => config,
        Err(error) => {
            report.failed(exit::code_of(&error), "config", format!("{error:#}"));
            return Ok(());
        }
    };
    let names: Vec<&str> = config.sinks.keys().map(String::as_str).collect();
    if let Some(sink) = args.sink.as_deref()
        && !names.contains(&sink)
    {
        return Err(unknown_sink(sink, &names));
    }
    let routes = output::count(config.routes.len(), "route", "routes");
    let sinks = output::count(names.len(), "sink", "sinks");
    report.ok("config", format!("{}: {routes}, {sinks}", path.display()));
    for warning in &config.warnings {
        let file = path.display();
        let Problem {
            line,
            column,
            message,
        } = warning;
        report.warn("config", format!("{file}:{line}:{column}: {message}"));
    }
    if args.sink.is_none() {
        reports::check(&config, !args.offline, report);
    }
    let mut sinks = Vec::new();
    for name in names {
        if args.sink.as_deref().is_none_or(|sink| sink == name) {
            sinks.push(sink::built(&config, name));
        }
    }
    for sink in &sinks {
        sink.check_shape(&config, report);
    }
    if args.offline {
        return Ok(());
    }
    check_modes(path, &config, report);
    runtime()?.block_on(async {
        if args.sink.is_none() {
            store::check(path, &config, report);
            store::check_backup(&config, report);
            page::check(&config, report);
            #[cfg(feature = "s3")]
            store::check_offsite(&config, report).await;
            workspace::check(&config, report).await;
        }
        for sink in &sinks {
            sink.probe(&config, report).await;
        }
    });
    Ok(())
}

/// Accepts the workspace to which the address and the key lead; a running daemon notices it.
fn accept(config: &Config, out: Output) -> anyhow::Result<ExitCode> {
    let mut operator = Operator::open(&config.store.path)?;
    let account = crate::daemon::client(config, Clock::system())?.account();
    let text = match operator.accept_workspace(&account)? {
        Acceptance::Met(OtherWorkspace {
            expected, found, ..
        }) => format!(
            "the store belongs to {found} from now on, before to {expected}; a daemon polls again \
             within seconds"
        ),
        Acceptance::Unnamed { name } => format!(
            "the address and the key are accepted as those of {name}, without a look at the name; \
             a daemon polls again within seconds"
        ),
        Acceptance::Outdated(OtherWorkspace { found, .. }) => {
            let text = format!(
                "{found} was met with another address or key than those that are configured now, \
                 so it is not accepted: reload the daemon or run `shopmirror once`, then run \
                 `shopmirror check`"
            );
            return exit::refuse(exit::DATA, text);
        }
        Acceptance::Nothing => {
            let text = "there is nothing to accept: the address and the key are those of before";
            return exit::refuse(exit::DATA, text);
        }
    };
    let mut report = CheckReport::new(None);
    report.ok("workspace", text);
    report.print(out)
}

fn check_modes(path: &Path, config: &Config, report: &mut CheckReport) {
    let Ok(metadata) = std::fs::metadata(path) else {
        return;
    };
    let mode = metadata.permissions().mode() & 0o7777;
    let holds_secrets = config.sinks.values().any(|sink| holds_secret(&sink.kind));
    let is_open = mode & 0o022 != 0 || (holds_secrets && mode & 0o004 != 0);
    if is_open {
        let text = format!(
            "other users may change {} or read a secret address in it (mode {mode:04o}): run \
             chmod 0640 on it",
            path.display()
        );
        report.wrong("config", text);
    }
}

/// True if the configuration itself holds a secret of the sink, not only the name of its file.
fn holds_secret(kind: &SinkKind) -> bool {
    match kind {
        SinkKind::File(_)
        | SinkKind::Command(_)
        | SinkKind::Email(_)
        | SinkKind::Intake(_)
        | SinkKind::S3(_) => false,
        SinkKind::Webhook(webhook) => webhook.url.is_inline() || !webhook.headers.is_empty(),
        SinkKind::Mqtt(mqtt) => mqtt.url.is_inline(),
        SinkKind::Nats(nats) => nats.url.is_inline(),
        SinkKind::Postgres(postgres) => postgres.url.is_inline(),
    }
}
