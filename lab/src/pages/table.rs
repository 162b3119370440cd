//! The outcome as a table for people.

use comfy_table::Table;

use super::{Outcome, Tally};
use crate::table::columns;

/// The outcome as a table for people.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let mut table = columns(
        1,
        &[
            "lists",
            "polls",
            "stale",
            "with loss",
            "silent: new",
            "in a wide step",
            "edits",
            "in 100,000",
            "false gaps",
            "suspects",
            "in 2,000",
            "order learned",
            "wrongly",
        ],
    );
    for outcome in outcomes {
        let load = format!("{:?}", outcome.load).to_lowercase();
        add_row(&mut table, &format!("{load}, all"), &outcome.all);
        add_row(&mut table, &format!("{load}, steady ids"), &outcome.steady);
        add_row(
            &mut table,
            &format!("{load}, unsteady ids"),
            &outcome.unsteady,
        );
        add_row(&mut table, &format!("{load}, restless"), &outcome.restless);
    }
    table.to_string()
}

fn add_row(table: &mut Table, name: &str, tally: &Tally) {
    table.add_row([
        name.to_owned(),
        tally.polls.to_string(),
        tally.stale.to_string(),
        tally.with_loss.to_string(),
        tally.silent_new.to_string(),
        tally.silent_behind_wide_step.to_string(),
        tally.silent_edits.to_string(),
        format!("{:.1}", tally.silent_rate()),
        tally.false_gaps.to_string(),
        tally.false_suspects.to_string(),
        format!("{:.2}", tally.false_suspect_rate()),
        format!("{} of {}", tally.order_learned, tally.lists),
        tally.order_wrong.to_string(),
    ]);
}
