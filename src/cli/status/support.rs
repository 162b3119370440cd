//! `status --support`: one archive for a question to somebody else. It holds no record, no name of a
//! person and no secret: of the configuration and the status only what is known to be harmless.

mod harmless;

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::cli::check::unit::Unit;
use crate::cli::exit::{USAGE, refuse};
use crate::cli::output::{self, Output};
use crate::cli::{VERSION, load_for_reading};
use crate::config::Config;
use crate::files::read;
use crate::store::Reader;

/// How many lines of the journal are taken.
const LOG_LINES: &str = "300";
/// The longest configuration.
const CONFIG_MAX: u64 = 1024 * 1024;

/// A text of the archive.
struct Part {
    name: &'static str,
    text: String,
}

/// Collects the archive, shows it, and writes it to `target` if that is confirmed.
pub(super) fn run(
    config: &Path,
    target: &Path,
    is_confirmed: bool,
    out: Output,
) -> anyhow::Result<ExitCode> {
    let is_asked = io::stdin().is_terminal() && io::stdout().is_terminal();
    if !is_confirmed && !is_asked {
        return refuse(
            USAGE,
            "there is no terminal to show the archive on: look at what it would hold on one, or \
             give --yes to write it unseen",
        );
    }
    let parts = collected(config);
    if !is_confirmed {
        for part in &parts {
            output::text(&format!(
                "--- {}\n{}\n",
                part.name,
                output::plain(&part.text)
            ))?;
        }
        output::text(&format!("write this to {}? [y/N] ", target.display()))?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        if !answer.trim().eq_ignore_ascii_case("y") {
            return output::text("nothing was written\n");
        }
    }
    write(target, &parts).with_context(|| format!("could not write {}", target.display()))?;
    let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
    let text = format!(
        "{} holds {}: versions, configuration without secrets, status, log, gaps and schema; no \
         record. Look at it before you send it: tar xzOf {}\n",
        target.display(),
        output::count(names.len(), "file", "files"),
        target.display()
    );
    out.done(&serde_json::json!({"file": target, "parts": names}), &text)
}

fn collected(config: &Path) -> Vec<Part> {
    let loaded = load_for_reading(config);
    let mut parts = vec![
        Part {
            name: "versions.txt",
            text: versions(),
        },
        Part {
            name: "configuration.toml",
            text: or_why(configuration(config)),
        },
        Part {
            name: "log.txt",
            text: or_why(log(config)),
        },
    ];
    match loaded {
        Ok(config) => {
            for (name, text) in [
                ("status.json", status(&config)),
                ("gaps.json", gaps(&config)),
                ("schema.sql", schema(&config)),
            ] {
                let text = or_why(text);
                parts.push(Part { name, text });
            }
        }
        // What is wrong may repeat a text of the configuration.
        Err(_) => parts.push(Part {
            name: "status.json",
            text: "not known: the configuration is refused, see `shopmirror check`\n".to_owned(),
        }),
    }
    parts
}

/// A text, or why there is none.
fn or_why(text: anyhow::Result<String>) -> String {
    match text {
        Ok(text) => text,
        Err(error) => format!("not known: {error:#}\n"),
    }
}

fn versions() -> String {
    let mut text = format!("shopmirror {VERSION}\nSQLite {}\n", rusqlite::version());
    for file in ["/etc/os-release", "/proc/version"] {
        if let Ok(content) = fs::read_to_string(file) {
            text += &content;
        }
    }
    text
}

fn configuration(path: &Path) -> anyhow::Result<String> {
    harmless::configuration(&read::text(path, CONFIG_MAX)?)
}

fn status(config: &Config) -> anyhow::Result<String> {
    let status = crate::cli::current::current(config)?;
    let mut value = serde_json::to_value(&status)?;
    harmless::strip(&mut value);
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

fn gaps(config: &Config) -> anyhow::Result<String> {
    let reader = Reader::open(&config.store.path)?;
    let mut value = serde_json::to_value(reader.gaps()?)?;
    harmless::strip(&mut value);
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

fn schema(config: &Config) -> anyhow::Result<String> {
    Ok(Reader::open(&config.store.path)?.schema_text()?)
}

/// The last lines of the journal of the service. They hold no record: see docs/security.md.
fn log(config: &Path) -> anyhow::Result<String> {
    let unit = Unit::of_config(config).context("no unit runs this configuration")?;
    let lines = Command::new("journalctl")
        .args([
            "-u",
            &unit.name,
            "-n",
            LOG_LINES,
            "--no-pager",
            "-o",
            "short-iso",
        ])
        .output()
        .context("journalctl")?;
    if !lines.status.success() {
        let why = String::from_utf8_lossy(&lines.stderr);
        anyhow::bail!("journalctl: {}", why.trim());
    }
    Ok(String::from_utf8_lossy(&lines.stdout).into_owned())
}

fn write(target: &Path, parts: &[Part]) -> io::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(target)?;
    let mut tar = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    for part in parts {
        let mut header = tar::Header::new_gnu();
        header.set_size(part.text.len() as u64);
        header.set_mode(0o600);
        let name = format!("shopmirror-support/{}", part.name);
        tar.append_data(&mut header, name, part.text.as_bytes())?;
    }
    let mut file = tar.into_inner()?.finish()?;
    file.flush()?;
    file.sync_all()
}
