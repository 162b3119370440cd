//! `verify`: proves that the store's rows agree with one another; exits 65 if they do not.

use std::process::ExitCode;

use super::exit::DATA;
use super::output;
use super::progress::RowBar;
use crate::config::Config;
use crate::store::Reader;

/// Prints one line for the file, the log, each route's mirror and each sink.
pub(super) fn run(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let reader = Reader::open(&config.store.path)?;
    let bar = RowBar::new();
    let verification = reader.verify(&mut |done, total| bar.at(done, total))?;
    drop(bar);
    let sound = verification.is_sound();
    if json {
        output::json(&verification.findings)?;
    } else {
        let width = verification.findings.iter().map(|f| f.what.len()).max().unwrap_or(0);
        for finding in &verification.findings {
            let mark = if finding.ok { "ok   " } else { "WRONG" };
            let line = format!("{mark} {:<width$} {}", finding.what, finding.said);
            output::text(&format!("{}\n", output::plain(&line)))?;
        }
    }
    if !sound {
        output::aside(
            "shopmirror: the parts of the store do not agree: keep the file, then restore a backup with `shopmirror restore FILE`",
        );
        return Ok(ExitCode::from(DATA));
    }
    Ok(ExitCode::SUCCESS)
}
