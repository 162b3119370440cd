//! `check`: says what is wrong with the configuration, the key, the address and the sinks, and how
//! to mend it. Writes nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;

use super::direct::DirectClient;
use super::{exit, output, read_config, runtime};
use crate::api::{ApiError, Class, Client, HttpTransport, Ping};
use crate::clock::Clock;
use crate::config::{Config, SinkKind};
use crate::record::PollerId;
use crate::sink::Sink;
use crate::store::Reader;

#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Args {
    /// Read the configuration alone: no key, no network, no sinks
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    json: super::Json,
}

/// One thing that was tried.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    ok: bool,
    said: String,
}

#[derive(Default)]
struct Findings {
    list: Vec<Finding>,
    /// That of the first thing wrong.
    code: Option<u8>,
}

impl Findings {
    fn ok(&mut self, what: impl Into<String>, said: impl Into<String>) {
        self.list.push(Finding { what: what.into(), ok: true, said: said.into() });
    }

    fn wrong(&mut self, code: u8, what: impl Into<String>, said: impl Into<String>) {
        self.list.push(Finding { what: what.into(), ok: false, said: said.into() });
        self.code.get_or_insert(code);
    }

    fn tell(&self, json: bool) -> anyhow::Result<ExitCode> {
        if json {
            output::json(&self.list)?;
        } else {
            for Finding { what, ok, said } in &self.list {
                let mark = if *ok { "ok   " } else { "WRONG" };
                output::text(&format!("{mark} {what:<10} {}\n", output::plain(said)))?;
            }
        }
        Ok(self.code.map_or(ExitCode::SUCCESS, ExitCode::from))
    }
}

/// Tries everything that can be tried without changing anything.
pub(super) fn run(path: &Path, args: Args) -> anyhow::Result<ExitCode> {
    let mut findings = Findings::default();
    let config = match read_config(path) {
        Ok(config) => config,
        Err(error) => {
            findings.wrong(exit::code_of(&error), "config", format!("{error:#}"));
            return findings.tell(args.json.json);
        }
    };
    findings.ok(
        "config",
        format!(
            "{}: {} route(s), {} sink(s)",
            path.display(),
            config.routes.len(),
            config.sinks.len()
        ),
    );
    if !args.offline {
        check_modes(path, &config, &mut findings);
        check_store(&config, &mut findings);
        runtime()?.block_on(async {
            check_workspace(&config, &mut findings).await;
            for (name, sink) in &config.sinks {
                check_sink(name, &sink.kind, &mut findings).await;
            }
        });
    }
    findings.tell(args.json.json)
}

fn check_modes(path: &Path, config: &Config, findings: &mut Findings) {
    let Ok(found) = std::fs::metadata(path) else { return };
    let mode = found.permissions().mode() & 0o7777;
    let holds_secrets = config.sinks.values().any(|sink| matches!(sink.kind, SinkKind::Webhook(_)));
    if mode & 0o022 != 0 {
        findings.wrong(
            exit::CONFIG,
            "config",
            format!("others may change {} (mode {mode:04o}): run chmod 0640 on it", path.display()),
        );
    } else if holds_secrets && mode & 0o004 != 0 {
        findings.wrong(
            exit::CONFIG,
            "config",
            format!("everyone may read {} (mode {mode:04o}), and webhook addresses are secrets: run chmod 0640 on it", path.display()),
        );
    }
    if let Some(warning) = config.workspace.key.warning() {
        findings.wrong(exit::CONFIG, "key", warning);
    }
}

fn check_store(config: &Config, findings: &mut Findings) {
    let path = &config.store.path;
    // The first that exists decides whether the rest can be made.
    let there = path
        .ancestors()
        .map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p })
        .find(|p| p.exists())
        .unwrap_or(Path::new("/"));
    let folder = if there == path { path.parent().unwrap_or(path) } else { there };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let closed = |p: &&Path| rustix::fs::access(*p, rustix::fs::Access::WRITE_OK).is_err();
    if let Some(closed) = [there, folder].iter().find(|p| closed(p)) {
        let text = format!(
            "this user may not write to {}: check as the user of the service, change its owner, or [store] path",
            closed.display()
        );
        return findings.wrong(exit::CONFIG, "store", text);
    }
    if there != path {
        return findings.ok("store", format!("{} is made at the first start", path.display()));
    }
    let counted = Reader::open(path).map_err(anyhow::Error::new).and_then(|r| Ok(r.counts()?));
    match counted {
        Ok(counts) => {
            let records: i64 = counts.iter().map(|(_, count)| count).sum();
            findings.ok("store", format!("{}: {records} record(s)", path.display()));
        }
        Err(error) => findings.wrong(exit::code_of(&error), "store", format!("{error:#}")),
    }
}

async fn check_workspace(config: &Config, findings: &mut Findings) {
    let key = match config.workspace.key.read() {
        Ok(key) => key,
        Err(error) => return findings.wrong(exit::CONFIG, "key", error.to_string()),
    };
    let transport = match HttpTransport::new(&config.workspace) {
        Ok(transport) => Arc::new(transport),
        Err(error) => return findings.wrong(exit::CONFIG, "workspace", error.to_string()),
    };
    findings.ok("key", "it can be read");
    let clock = Clock::system();
    let client = Client::new(&config.workspace, &config.poll, transport, key, clock.clone());
    match client.automation_ping().await.0 {
        Ok(ping) => {
            findings.ok("workspace", answered(&ping));
            check_branches(config, client, clock, findings).await;
        }
        Err(error) => {
            let advice = explain(&client, &error).await;
            findings.wrong(exit::code_of_api(&error), "workspace", advice);
        }
    }
}

/// A branch the workspace does not know is refused by every route alike.
async fn check_branches(config: &Config, client: Client, clock: Clock, findings: &mut Findings) {
    let Some(route) = config.routes.first().map(|settings| settings.route) else { return };
    let mut client = DirectClient::with(client, clock, config);
    for business in &config.workspace.businesses {
        let what = format!("branch {business}");
        let key = PollerId { route, business: Some(business.clone()) };
        let Err(error) = client.request(async |client| client.poll(&key).await).await else {
            findings.ok(what, "the workspace knows it");
            continue;
        };
        let code = exit::code_of_api(&error);
        if error.class() != Class::RouteBroken {
            return findings.wrong(code, what, error.to_string());
        }
        findings.wrong(code, what, format!("mend `businesses` under [workspace]: {error}"));
    }
}

/// A key that may not poll may still say what it is.
async fn explain(client: &Client, error: &ApiError) -> String {
    if error.class() == Class::KeyForbidden
        && let (Ok(Ping { provider: Some(provider), .. }), _) = client.integrations_ping().await
    {
        return format!("{error}; this key's type is {provider}");
    }
    error.to_string()
}

fn answered(ping: &Ping) -> String {
    let workspace = ping.workspace.as_deref().unwrap_or("(no name)");
    let provider = ping.provider.as_deref().unwrap_or("(not told)");
    format!("{workspace} answers: {}, key type {provider}", ping.status)
}

async fn check_sink(name: &str, kind: &SinkKind, findings: &mut Findings) {
    let what = format!("sink {name}");
    match Sink::build(name, kind) {
        Err(error) => findings.wrong(exit::CONFIG, what, error.to_string()),
        Ok(sink) => match sink.probe().await {
            Ok(said) => findings.ok(what, said),
            Err(said) => findings.wrong(exit::UNAVAILABLE, what, said),
        },
    }
}
