//! `check`: tests the configuration, the key, the address and the sinks, and says what to do about
//! each problem. Writes nothing.

mod reports;
pub(super) mod samples;
mod sink;
mod store;
pub(super) mod unit;
pub(super) mod workspace;
mod writable;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context;

use unit::Unit;

use super::exit;
use super::sinks::unknown as unknown_sink;
use super::{output, read_config, runtime};
use crate::clock::Clock;
use crate::config::{Config, SinkKind};
use crate::store::{Acceptance, Operator, OtherWorkspace, VerifyFinding};

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Args {
    /// Check the configuration file only: no key, no network, no sinks
    #[arg(long, conflicts_with = "sink")]
    offline: bool,
    /// Check the configuration file and this sink only
    #[arg(long, value_name = "NAME")]
    sink: Option<String>,
    /// Accept the workspace behind base_url and the key as the one that filled the store: the shop was
    /// renamed, or its name cannot be read
    #[arg(long, conflicts_with_all = ["offline", "sink", "json"])]
    accept_workspace: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The results of all tests.
#[derive(Default)]
struct CheckReport {
    findings: Vec<VerifyFinding>,
    /// The exit code of the first problem.
    code: Option<u8>,
}

impl CheckReport {
    fn ok(&mut self, what: impl Into<String>, said: impl Into<String>) {
        self.findings.push(VerifyFinding { what: what.into(), ok: true, said: said.into() });
    }

    fn wrong(&mut self, code: u8, what: impl Into<String>, said: impl Into<String>) {
        self.findings.push(VerifyFinding { what: what.into(), ok: false, said: said.into() });
        self.code.get_or_insert(code);
    }

    fn print(&self, json: bool) -> anyhow::Result<ExitCode> {
        output::findings(&self.findings, json)?;
        Ok(self.code.map_or(ExitCode::SUCCESS, ExitCode::from))
    }
}

/// Runs every test that changes nothing.
pub(super) fn run(path: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    if args.accept_workspace {
        return accept(&read_config(path)?);
    }
    let mut report = CheckReport::default();
    let unit = if args.offline { None } else { Unit::of_config(path) };
    if let Some(unit) = &unit {
        match unit.own_command() {
            Ok(Some(command)) => return run_as_service(command, unit),
            Ok(None) => report_user(unit, &mut report),
            Err(error) => report.wrong(exit::CONFIG, "key", error.to_string()),
        }
    }
    let config = match read_config(path) {
        Ok(config) => config,
        Err(error) => {
            report.wrong(exit::code_of(&error), "config", format!("{error:#}"));
            return report.print(args.json);
        }
    };
    let names: Vec<&str> = config.sinks.keys().map(String::as_str).collect();
    if let Some(unknown) = args.sink.as_deref().filter(|sink| !names.contains(sink)) {
        return Err(unknown_sink(unknown, &names));
    }
    report.ok("config", summary(path, &config));
    if args.sink.is_none() {
        reports::check(&config, !args.offline, unit.as_ref(), &mut report);
    }
    let wanted = |name: &&&str| args.sink.as_deref().is_none_or(|sink| sink == **name);
    let sinks: Vec<_> =
        names.iter().filter(wanted).map(|name| sink::built(&config, name)).collect();
    sinks.iter().for_each(|sink| sink.check_shape(&config, &mut report));
    if !args.offline {
        check_modes(path, &config, &mut report);
        runtime()?.block_on(async {
            if args.sink.is_none() {
                store::check(&config, unit.as_ref(), &mut report);
                store::check_backup(&config, unit.as_ref(), &mut report);
                workspace::check(&config, unit.as_ref(), &mut report).await;
            }
            for sink in &sinks {
                sink.probe(&config, unit.as_ref(), &mut report).await;
            }
        });
    }
    report.print(args.json)
}

/// Accepts the workspace to which the address and the key lead; a running daemon notices it.
fn accept(config: &Config) -> anyhow::Result<ExitCode> {
    let mut operator = Operator::open(&config.store.path)?;
    let account = crate::daemon::client(config, Clock::system())?.account();
    let text = match operator.accept_workspace(&account)? {
        Acceptance::Met(OtherWorkspace { expected, found, .. }) => format!(
            "the store belongs to {found} from now on, before to {expected}; a daemon polls again within seconds"
        ),
        Acceptance::Unnamed { name } => format!(
            "the address and the key are accepted as those of {name}, without a look at the name; a daemon polls again within seconds"
        ),
        Acceptance::Outdated(OtherWorkspace { found, .. }) => {
            let text = format!(
                "{found} was met with another address or key than those that are configured now, so it is not accepted: reload the daemon or run `shopmirror once`, then run `shopmirror check`"
            );
            return exit::refuse(exit::DATA, text);
        }
        Acceptance::Nothing => {
            let text = "there is nothing to accept: the address and the key are those of before";
            return exit::refuse(exit::DATA, text);
        }
    };
    output::text(&format!("{}\n", output::plain(&text)))
}

/// Runs this command as the user of the service: only that user finds the files that it may not read or
/// write.
fn run_as_service(mut command: Command, unit: &Unit) -> anyhow::Result<ExitCode> {
    let context = || format!("could not become the user of {} with setpriv", unit.name);
    let status = command.status().with_context(context)?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.unwrap_or(exit::SOFTWARE).into())
}

fn report_user(unit: &Unit, report: &mut CheckReport) {
    let (user, is_own) = unit.user();
    let not_tested =
        if is_own { "" } else { "; this is another user: run check as root to test as that one" };
    report.ok("service", format!("{} runs as {user}{not_tested}", unit.name));
}

fn summary(path: &Path, config: &Config) -> String {
    let routes = output::count(config.routes.len(), "route", "routes");
    let sinks = output::count(config.sinks.len(), "sink", "sinks");
    format!("{}: {routes}, {sinks}", path.display())
}

fn check_modes(path: &Path, config: &Config, report: &mut CheckReport) {
    let Ok(found) = std::fs::metadata(path) else { return };
    let mode = found.permissions().mode() & 0o7777;
    let holds_secret = |kind: &SinkKind| match kind {
        SinkKind::File(_)
        | SinkKind::Command(_)
        | SinkKind::Email(_)
        | SinkKind::Intake(_)
        | SinkKind::S3(_) => false,
        SinkKind::Webhook(webhook) => webhook.url.is_inline() || !webhook.headers.is_empty(),
        SinkKind::Mqtt(mqtt) => mqtt.url.is_inline(),
        SinkKind::Nats(nats) => nats.url.is_inline(),
        SinkKind::Postgres(postgres) => postgres.url.is_inline(),
    };
    let holds_secrets = config.sinks.values().any(|sink| holds_secret(&sink.kind));
    if mode & 0o022 != 0 {
        report.wrong(
            exit::CONFIG,
            "config",
            format!(
                "other users may write {} (mode {mode:04o}): run chmod 0640 on it",
                path.display()
            ),
        );
    } else if holds_secrets && mode & 0o004 != 0 {
        report.wrong(
            exit::CONFIG,
            "config",
            format!("everyone may read {} (mode {mode:04o}), and the address of a sink is a secret: run chmod 0640 on it, or write the address into a file and name it with url_file", path.display()),
        );
    }
}
