//! `gaps`: lists where records may have been missed, and accepts gaps that are known.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;

use super::exit::{DATA, refuse};
use super::moment;
use super::output::{self, cell};
use crate::config::Config;
use crate::record::Route;
use crate::status::Stored;
use crate::store::{Certainty, Gap, Operator};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Option<GapsAction>,
    #[command(flatten)]
    listing: super::Listing,
}

#[derive(Debug, Subcommand)]
enum GapsAction {
    /// Accept gaps whose records cannot be found: they no longer count against health
    Accept {
        #[command(flatten)]
        which: GapsSelection,
        /// The reason, for later readers of the list
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, clap::Args)]
#[group(required = true, multiple = false)]
struct GapsSelection {
    /// The number of one gap
    id: Option<i64>,
    /// All gaps that are not repaired
    #[arg(long)]
    all: bool,
}

const COLUMNS: [&str; 11] = [
    "gap",
    "route",
    "state",
    "certainty",
    "between ids",
    "about missing",
    "found",
    "page before",
    "page after",
    "business",
    "note",
];

pub(super) fn run(config: &Config, args: Args) -> anyhow::Result<ExitCode> {
    match args.action {
        None => list(config, args.listing.json, args.listing.wide),
        Some(GapsAction::Accept { which, note }) => {
            accept(config, which, note.as_deref(), args.listing.json)
        }
    }
}

fn accept(
    config: &Config,
    which: GapsSelection,
    note: Option<&str>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let count = Operator::open(&config.store.path)?.accept_gaps(which.id, note)?;
    if let (0, Some(id)) = (count, which.id) {
        return refuse(
            DATA,
            format!("gap {id} cannot be accepted; `shopmirror gaps` shows each gap's state"),
        );
    }
    if json {
        return output::json(&json!({"gaps": count}));
    }
    let gaps = output::count(count, "gap", "gaps");
    output::text(&format!("{gaps} accepted\n"))
}

fn list(config: &Config, json: bool, wide: bool) -> anyhow::Result<ExitCode> {
    let reader = super::reader(config)?;
    let gaps = reader.gaps()?;
    if json {
        return output::json(&gaps);
    }
    let stored = Stored::read(&reader)?;
    let advice = advice(&gaps);
    let rows: Vec<Vec<String>> = gaps.into_iter().map(row).collect();
    if !rows.is_empty() || stored.status.emptied.is_empty() {
        output::table(
            &COLUMNS,
            &rows,
            "no gaps: every page shared a record with the previous page, or held the whole list",
            wide,
        )?;
    }
    output::text(&advice)?;
    for route in &stored.status.emptied {
        output::text(&format!("{}\n", output::plain(&route.to_string())))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What to do about the gaps that are not settled.
fn advice(gaps: &[Gap]) -> String {
    let is_searched = |gap: &&Gap| gap.route == Route::Customers.as_str();
    let (searched, others): (Vec<_>, Vec<_>) =
        gaps.iter().filter(|gap| gap.is_unsettled()).partition(is_searched);
    let mut advice = String::new();
    if !searched.is_empty() {
        advice.push_str(
            "\nThe daemon searches for the missed customers and stores those that it finds.\n",
        );
    }
    if let Some(gap) = others.first() {
        advice.push_str(&format!(
            "\nLook in the workspace for records between the two ids: the API no longer shows them.\nThen run `shopmirror gaps accept {}`.\n",
            gap.id
        ));
    }
    advice
}

fn row(gap: Gap) -> Vec<String> {
    let ids = match (&gap.after_id, &gap.before_id) {
        (Some(after), Some(before)) => format!("{} .. {}", cell(after, 20), cell(before, 20)),
        _ => "-".to_owned(),
    };
    let missing = gap.estimate.map_or_else(|| "?".to_owned(), |records| records.to_string());
    vec![
        gap.id.to_string(),
        gap.route,
        gap.state.as_str().replace('_', " "),
        match gap.certainty {
            Certainty::Gap => "sure",
            Certainty::Suspect => "unlikely",
        }
        .to_owned(),
        ids,
        missing,
        gap.repaired.to_string(),
        moment::shown(&gap.from_at),
        moment::shown(&gap.to_at),
        gap.business.map_or_else(|| "-".to_owned(), |b| cell(&b, 20)),
        gap.note.map_or_else(|| "-".to_owned(), |note| cell(&note, 60)),
    ]
}
