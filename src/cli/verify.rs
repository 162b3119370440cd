//! `verify`: proves that the store's rows agree with one another; exits 65 if they do not.

use std::io::IsTerminal;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::exit::DATA;
use super::output;
use crate::config::Config;
use crate::store::Reader;

/// Prints one line for the file, the log, each route's mirror and each sink.
pub(super) fn run(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let reader = Reader::open(&config.store.path)?;
    let bar = std::io::stderr().is_terminal().then(|| {
        let style = ProgressStyle::with_template("{bar:30} {pos} of {len} rows")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr()).with_style(style)
    });
    let verification = reader.verify(&mut |done, total| {
        if let Some(bar) = &bar {
            bar.set_length(total);
            bar.set_position(done);
        }
    })?;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
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
