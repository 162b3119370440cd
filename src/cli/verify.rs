//! `verify`: checks that the parts of the store agree with one another; exits 65 if they do not.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use super::exit::DATA;
use super::output::{self, Bar, Output};
use crate::config::Config;
use crate::store::{self, Reader};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// First make the store again from its log, in a new file; refused while a daemon runs
    #[arg(long)]
    rebuild: bool,
}

/// Prints one line for the file, the log, each route's mirror and each sink.
pub(super) fn run(config: &Config, args: &Args, out: Output) -> anyhow::Result<ExitCode> {
    if args.rebuild {
        rebuild(&config.store.path)?;
    }
    store::refuse_stale_log(&config.store.path)?;
    let reader = Reader::open(&config.store.path)?;
    let bar = Bar::rows();
    let findings = reader.verify(&mut |done, total| bar.at(done, total))?;
    drop(bar);
    out.findings(&findings)?;
    if findings.iter().any(|finding| !finding.ok) {
        output::print_note(
            "shopmirror: the parts of the store do not agree: stop the daemon and make the store \
             again with `shopmirror verify --rebuild`, which keeps the file; if that does not help, \
             restore a backup with `shopmirror restore FILE`",
        );
        return Ok(ExitCode::from(DATA));
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the store again, and says what could not be read of it.
fn rebuild(path: &Path) -> anyhow::Result<()> {
    let bar = Bar::rows();
    let now = jiff::Timestamp::now();
    let rebuilt = store::rebuild(path, now, &mut |done, total| bar.at(done, total));
    drop(bar);
    let rebuilt = rebuilt.context(
        "could not make the store again, and nothing was changed; if it is damaged, restore a backup \
         with `shopmirror restore FILE`",
    )?;
    super::index_log(path);
    let records = output::count(rebuilt.records, "record", "records");
    output::print_note(&format!("made the store again from its log: {records}"));
    for lost in &rebuilt.lost {
        output::print_note(&format!("could not be read and is lost: {lost}"));
    }
    for object in &rebuilt.left_out {
        output::print_note(&format!(
            "made by another program, and not taken over: {object}"
        ));
    }
    if let Some(kept) = &rebuilt.kept {
        output::print_note(&format!(
            "the store that was there is kept as {}; delete it when you no longer need it",
            kept.display()
        ));
    }
    Ok(())
}
