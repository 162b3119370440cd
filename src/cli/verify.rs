//! `verify`: checks that the parts of the store agree with one another; exits 65 if they do not.

use std::process::ExitCode;

use super::exit::DATA;
use super::output::{self, Bar, Output};
use crate::config::Config;
use crate::store::{self, Reader};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// First make the mirror tables again from the log; refused while a daemon runs
    #[arg(long)]
    rebuild: bool,
}

/// Prints one line for the file, the log, each route's mirror and each sink.
pub(super) fn run(config: &Config, args: &Args, out: Output) -> anyhow::Result<ExitCode> {
    if args.rebuild {
        let path = &config.store.path;
        let bar = Bar::rows();
        let records = store::rebuild(path, &mut |done, total| bar.at(done, total))?;
        drop(bar);
        super::index_log(path);
        let records = output::count(records, "record", "records");
        output::print_note(&format!("rebuilt the mirror from the log: {records}"));
    }
    store::refuse_stale_log(&config.store.path)?;
    let reader = Reader::open(&config.store.path)?;
    let bar = Bar::rows();
    let findings = reader.verify(&mut |done, total| bar.at(done, total))?;
    drop(bar);
    out.findings(&findings)?;
    if findings.iter().any(|finding| !finding.ok) {
        output::print_note(
            "shopmirror: the parts of the store do not agree: keep the file, then restore a \
             backup with `shopmirror restore FILE`",
        );
        return Ok(ExitCode::from(DATA));
    }
    Ok(ExitCode::SUCCESS)
}
