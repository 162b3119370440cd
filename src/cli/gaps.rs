//! `gaps`: where records may have been missed, and the operator's word that it is known.

use std::process::ExitCode;

use clap::Subcommand;

use super::exit::{DATA, Wrong};
use super::output::{self, cell};
use crate::config::Config;
use crate::store::{Gap, Operator, Reader};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Accept gaps whose records cannot be found: they no longer count against health
    Accept {
        #[command(flatten)]
        which: Which,
        /// Why, for whoever reads the list later
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, clap::Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// One, by its number
    id: Option<i64>,
    /// All that are not repaired
    #[arg(long)]
    all: bool,
}

pub(super) fn run(config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    let json = args.json;
    match args.action {
        None => list(config, json),
        Some(Action::Accept { which, note }) => {
            let count =
                Operator::open(&config.store.path)?.accept_gaps(which.id, note.as_deref())?;
            if let (0, Some(id)) = (count, which.id) {
                let text =
                    format!("there is no gap {id} to accept: see the states in `shopmirror gaps`");
                return Err(Wrong { code: DATA, text }.into());
            }
            if json {
                return output::json(&serde_json::json!({ "gaps": count }));
            }
            output::text(&format!("{count} gap(s) accepted\n"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn list(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let gaps = Reader::open(&config.store.path)?.gaps()?;
    if json {
        return output::json(&gaps);
    }
    let rows = gaps.into_iter().map(row).collect();
    output::table(
        &[
            "gap",
            "route",
            "business",
            "certainty",
            "from",
            "to",
            "ids",
            "missing",
            "found",
            "state",
            "note",
        ],
        rows,
        "no gap: every page shared a record with the one before it, or was the whole list",
    )
}

fn row(gap: Gap) -> Vec<String> {
    let ids = match (&gap.after_id, &gap.before_id) {
        (Some(after), Some(before)) => format!("{} .. {}", cell(after, 20), cell(before, 20)),
        _ => "-".to_owned(),
    };
    let missing = match (gap.estimate, gap.estimate_error) {
        (Some(records), Some(0) | None) => records.to_string(),
        (Some(records), Some(error)) => format!("{records} ± {error}"),
        (None, _) => "?".to_owned(),
    };
    vec![
        gap.id.to_string(),
        gap.route,
        gap.business.map_or_else(|| "-".to_owned(), |b| cell(&b, 20)),
        gap.certainty.as_str().to_owned(),
        gap.from_at,
        gap.to_at,
        ids,
        missing,
        gap.repaired.to_string(),
        gap.state.as_str().to_owned(),
        gap.note.map_or_else(|| "-".to_owned(), |note| cell(&note, 60)),
    ]
}
