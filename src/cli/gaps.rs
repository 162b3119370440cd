//! `gaps`: lists the intervals in which records may have been missed, and accepts gaps and records
//! that are gone from a list.

use std::process::ExitCode;

use clap::Subcommand;
use jiff::Timestamp;
use serde_json::json;
use shopmirror_core::clock::stamp;
use shopmirror_core::record::Route;

use super::exit::{DATA, refuse};
use super::moment;
use super::output::{self, Column, Output, cell};
use crate::config::Config;
use crate::status::WorkspaceStatus;
use crate::store::{Certainty, Gap, Operator};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Option<GapsAction>,
}

#[derive(Debug, Subcommand)]
enum GapsAction {
    /// Accept gaps whose records cannot be found, or that many records are gone from a list: they no
    /// longer count against health
    Accept {
        #[command(flatten)]
        which: GapsSelection,
        /// The reason, for later readers of the list
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        /// With --vanished: this list hides records. They count on, and none of it is marked as gone
        /// any more
        #[arg(long, requires = "vanished", conflicts_with_all = ["id", "all"])]
        never: bool,
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
    /// Records of a route that are gone from its list and were too many to be marked: they are gone
    #[arg(long, value_name = "ROUTE", value_parser = super::route())]
    vanished: Option<Route>,
}

const COLUMNS: [Column<Gap>; 11] = [
    ("gap", |gap| gap.id.to_string()),
    ("route", |gap| gap.route.clone()),
    ("state", |gap| gap.state.as_str().replace('_', " ")),
    ("certainty", |gap| match gap.certainty {
        Certainty::Gap => "sure".to_owned(),
        Certainty::Suspect => "unlikely".to_owned(),
    }),
    ("between ids", |gap| match (&gap.after_id, &gap.before_id) {
        _ if gap.left_out_id.is_some() => "left out".to_owned(),
        (Some(after), Some(before)) => format!("{} .. {}", cell(after, 20), cell(before, 20)),
        (Some(after), None) => format!("{} ..", cell(after, 20)),
        _ => "-".to_owned(),
    }),
    ("about missing", |gap| match gap.estimate {
        Some(records) => records.to_string(),
        None => "?".to_owned(),
    }),
    ("found", |gap| gap.repaired.to_string()),
    ("from", |gap| moment::shown(&gap.from_at)),
    ("to", |gap| moment::shown(&gap.to_at)),
    ("business", |gap| {
        cell(gap.business.as_deref().unwrap_or("-"), 20)
    }),
    ("note", |gap| cell(gap.note.as_deref().unwrap_or("-"), 60)),
];

pub(super) fn run(config: &Config, args: Args, out: Output) -> anyhow::Result<ExitCode> {
    let Some(GapsAction::Accept { which, note, never }) = args.action else {
        return list(config, out);
    };
    let mut operator = Operator::open(&config.store.path)?;
    if let Some(route) = which.vanished {
        return accept_vanished(&mut operator, route, never, out);
    }
    let count = operator.accept_gaps(which.id, note.as_deref())?;
    if let (0, Some(id)) = (count, which.id) {
        return refuse(
            DATA,
            format!("gap {id} cannot be accepted; `shopmirror gaps` shows each gap's state"),
        );
    }
    let gaps = output::count(count, "gap", "gaps");
    out.done(&json!({"gaps": count}), &format!("{gaps} accepted\n"))
}

/// Answers what became of the records that are gone from the lists of a route.
fn accept_vanished(
    operator: &mut Operator,
    route: Route,
    never: bool,
    out: Output,
) -> anyhow::Result<ExitCode> {
    let (count, text) = if never {
        let count = operator.accept_hidden(route)?;
        let records = output::count(count, "record counts", "records count");
        let text = format!("{records} on, and none of {route} is marked as gone any more\n");
        (count, text)
    } else {
        let count = operator.accept_vanished(route, &stamp(Timestamp::now()))?;
        let records = output::count(count, "record is", "records are");
        (
            count,
            format!("{records} marked as gone from the list of {route}\n"),
        )
    };
    out.done(&json!({"records": count}), &text)
}

fn list(config: &Config, out: Output) -> anyhow::Result<ExitCode> {
    let reader = super::reader(config)?;
    let gaps = reader.gaps()?;
    if out.json {
        return output::json(&gaps);
    }
    let status = WorkspaceStatus::stored(&reader, Timestamp::now())?;
    let mut reasons = status.gone_from_lists();
    reasons.extend(status.emptied);
    if !gaps.is_empty() || reasons.is_empty() {
        out.table(
            &gaps,
            &COLUMNS,
            "no gaps: every page shared a record with the previous page, or held the whole list",
        )?;
    }
    output::text(&advice(&gaps))?;
    for reason in &reasons {
        output::text(&format!("{}\n", output::plain(reason)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What to do about the gaps that are not settled.
fn advice(gaps: &[Gap]) -> String {
    let mut of_customers = None;
    let mut of_others = None;
    let mut of_left_out = String::new();
    for gap in gaps {
        if !gap.is_unsettled() {
            continue;
        }
        if let Some(id) = &gap.left_out_id {
            of_left_out.push_str(&format!(
                "\nThe record {} of {} cannot be stored, because its id holds a NUL. Give it another \
                 id in the\nworkspace. Then run `shopmirror gaps accept {}`.\n",
                cell(id, 60),
                gap.route.replace('_', " "),
                gap.id
            ));
            continue;
        }
        if gap.route == Route::Customers.as_str() {
            of_customers.get_or_insert(gap);
        } else {
            of_others.get_or_insert(gap);
        }
    }
    let mut advice = String::new();
    if of_customers.is_some() {
        advice.push_str(
            "\nThe daemon searches for the missed customers and stores those that it finds.\n",
        );
    }
    if let Some(gap) = of_others {
        advice.push_str(&format!(
            "\nLook in the workspace for records between the two ids: the API no longer shows \
             them.\nThen run `shopmirror gaps accept {}`.\n",
            gap.id
        ));
    }
    advice.push_str(&of_left_out);
    for gap in gaps {
        if gap.is_unsettled()
            && let Some(from) = &gap.imported_from
        {
            advice.push_str(&format!(
                "\nGap {} lies in an import of {}: those that were seen are dated from {} on. Until it \
                 is accepted, reports mark the days {} as incomplete.\n",
                gap.id,
                gap.route.replace('_', " "),
                moment::shown(from),
                if gap.import_may_be_older {
                    "up to the import"
                } else {
                    "from then on"
                },
            ));
        }
    }
    advice
}
