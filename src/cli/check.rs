//! `check`: says what is wrong with the configuration, the key, the address and the sinks, and how
//! to mend it. Writes nothing.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;

use super::{exit, output, read_config, runtime};
use crate::api::{ApiError, Class, Client, HttpTransport, Ping};
use crate::config::{Config, KeySource, SinkKind};
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
    worst: Option<u8>,
}

impl Findings {
    fn ok(&mut self, what: impl Into<String>, said: impl Into<String>) {
        self.list.push(Finding { what: what.into(), ok: true, said: said.into() });
    }

    fn wrong(&mut self, code: u8, what: impl Into<String>, said: impl Into<String>) {
        self.list.push(Finding { what: what.into(), ok: false, said: said.into() });
        self.worst.get_or_insert(code);
    }
}

/// Tries everything that can be tried without changing anything.
pub(super) fn run(path: &Path, args: Args) -> anyhow::Result<ExitCode> {
    let config = read_config(path)?;
    let mut findings = Findings::default();
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
    if args.json.json {
        output::json(&findings.list)?;
    } else {
        for finding in &findings.list {
            let mark = if finding.ok { "ok   " } else { "WRONG" };
            output::text(&format!(
                "{mark} {:<10} {}\n",
                finding.what,
                output::plain(&finding.said)
            ))?;
        }
    }
    Ok(findings.worst.map_or(ExitCode::SUCCESS, ExitCode::from))
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
    if let KeySource::File(key) = &config.workspace.key
        && let Ok(found) = std::fs::metadata(key)
    {
        let mode = found.permissions().mode() & 0o7777;
        if mode & 0o004 != 0 {
            findings.wrong(
                exit::CONFIG,
                "key",
                format!(
                    "everyone may read {} (mode {mode:04o}): run chmod 0640 on it",
                    key.display()
                ),
            );
        }
    }
}

fn check_store(config: &Config, findings: &mut Findings) {
    let path = &config.store.path;
    if path.exists() {
        match Reader::open(path).and_then(|reader| {
            reader
                .counts()
                .map_err(|source| crate::store::OpenError::Sqlite { path: path.clone(), source })
        }) {
            Ok(counts) => {
                let records: i64 = counts.iter().map(|(_, count)| count).sum();
                findings.ok("store", format!("{}: {records} record(s)", path.display()));
            }
            Err(error) => {
                findings.wrong(exit::DATA, "store", format!("{:#}", anyhow::Error::new(error)))
            }
        }
        return;
    }
    // The first folder that exists decides whether the rest can be made.
    let folder = path
        .ancestors()
        .skip(1)
        .map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p })
        .find(|p| p.exists());
    match folder.map(|folder| (folder, rustix::fs::access(folder, rustix::fs::Access::WRITE_OK))) {
        Some((_, Ok(()))) => {
            findings.ok("store", format!("{} is made at the first start", path.display()))
        }
        Some((folder, Err(_))) => findings.wrong(
            exit::CONFIG,
            "store",
            format!(
                "this user may not write to {}: change its owner, or [store] path",
                folder.display()
            ),
        ),
        None => {
            findings.wrong(exit::CONFIG, "store", format!("no folder of {} exists", path.display()))
        }
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
    let client = Client::new(&config.workspace, &config.poll, transport, key);
    match client.automation_ping().await.0 {
        Ok(ping) => findings.ok("workspace", answered(&ping)),
        Err(error) => {
            let advice = explain(&client, &error).await;
            findings.wrong(exit::code_of_api(&error), "workspace", advice);
        }
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
