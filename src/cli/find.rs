//! `find`: searches every record of the mirror by words and numbers.

use std::process::ExitCode;

use shopmirror_core::record::{FoundRecord, Route};

use super::output::{self, Output};
use super::record_line::{COLUMNS, RecordLine};
use crate::config::Config;
use crate::store::Found;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Words, beginnings of words, ids, e-mail addresses, or a phone number in any spelling
    #[arg(required = true)]
    term: Vec<String>,
    /// Only records of this route
    #[arg(long, value_parser = super::route())]
    route: Option<Route>,
    /// At most this many
    #[arg(long, default_value_t = 20)]
    limit: u32,
}

pub(super) fn run(config: &Config, args: &Args, out: Output) -> anyhow::Result<ExitCode> {
    let term = args.term.join(" ");
    let limit = args.limit as usize;
    let reader = super::reader(config)?;
    let Found { changes, searched } = reader.find(&term, args.route, limit)?;
    if !searched.is_whole() {
        output::print_note(&format!(
            "note: changes {} to {} are not in the search index yet, so records may be missing \
             here: try again in a minute; without a daemon, run `shopmirror verify --rebuild`",
            searched.indexed + 1,
            searched.last_seq
        ));
    }
    if out.json {
        let mut records = Vec::new();
        for change in changes {
            records.push(FoundRecord::try_from(change)?);
        }
        return output::json(&records);
    }
    let lines: Vec<RecordLine> = changes.into_iter().map(RecordLine::from).collect();
    out.table(&lines, COLUMNS, "nothing found")
}
