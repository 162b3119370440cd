//! What became of the records of some shops, as figures and as a table for people.

use comfy_table::Table;
use serde::Serialize;

use super::Outcome;
use crate::table::columns;

/// What the shops of one kind came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Tally {
    pub(crate) polls: u64,
    /// Records that were deleted or merged.
    pub(crate) deleted: u64,
    /// Of these, records that the last page of their list had shown.
    pub(crate) deleted_from_page: u64,
    /// Deleted records that were marked.
    pub(crate) found: u64,
    /// Records that were marked.
    pub(crate) marked: u64,
    /// Of these, records that are in the list.
    pub(crate) wrong: u64,
    /// Of these, records that moved to a business whose last page shows them.
    pub(crate) moved_and_shown: u64,
    /// Of these, records that moved to a business whose last page does not show them.
    pub(crate) moved_and_not_shown: u64,
    /// Records that the workspace stopped listing.
    pub(crate) hidden: u64,
    /// Of these, records that were marked.
    pub(crate) hidden_marked: u64,
    /// Records that were not marked, because they were too many in a day.
    pub(crate) withheld: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.polls += other.polls;
        self.deleted += other.deleted;
        self.deleted_from_page += other.deleted_from_page;
        self.found += other.found;
        self.marked += other.marked;
        self.wrong += other.wrong;
        self.moved_and_shown += other.moved_and_shown;
        self.moved_and_not_shown += other.moved_and_not_shown;
        self.hidden += other.hidden;
        self.hidden_marked += other.hidden_marked;
        self.withheld += other.withheld;
    }

    fn found_rate(&self) -> f64 {
        self.found as f64 * 100.0 / self.deleted_from_page.max(1) as f64
    }
}

/// What the outcomes miss, one sentence each; empty if the rule reaches its goals.
pub(crate) fn missed_goals(outcomes: &[Outcome]) -> Vec<String> {
    let mut all = Tally::default();
    for outcome in outcomes {
        all.add(&outcome.tally);
    }
    let mut missed = Vec::new();
    if all.wrong > 0 {
        missed.push(format!(
            "{} records were marked that are in their list",
            all.wrong
        ));
    }
    if all.moved_and_shown > 0 {
        missed.push(format!(
            "{} records were marked that another business shows",
            all.moved_and_shown
        ));
    }
    // A rule that marks nothing is never wrong.
    if all.found_rate() < 15.0 {
        missed.push(format!(
            "{:.1} of 100 deleted records of a page were found, at least 15 are wanted",
            all.found_rate()
        ));
    }
    missed
}

/// The outcomes as a table for people.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let mut table = columns(
        2,
        &[
            "listed by",
            "life",
            "polls",
            "deleted",
            "from a page",
            "found",
            "of 100",
            "marked in the list",
            "moved, shown",
            "moved, not shown",
            "hidden",
            "marked",
            "withheld",
        ],
    );
    let mut all = Tally::default();
    for outcome in outcomes {
        let listed_by = format!("{:?}", outcome.listed_by).to_lowercase();
        let life = format!("{:?}", outcome.life).to_lowercase();
        add_row(&mut table, [listed_by, life], &outcome.tally);
        all.add(&outcome.tally);
    }
    add_row(&mut table, ["all".to_owned(), String::new()], &all);
    table.to_string()
}

fn add_row(table: &mut Table, name: [String; 2], tally: &Tally) {
    let [listed_by, life] = name;
    table.add_row([
        listed_by,
        life,
        tally.polls.to_string(),
        tally.deleted.to_string(),
        tally.deleted_from_page.to_string(),
        tally.found.to_string(),
        format!("{:.0}", tally.found_rate()),
        tally.wrong.to_string(),
        tally.moved_and_shown.to_string(),
        tally.moved_and_not_shown.to_string(),
        tally.hidden.to_string(),
        tally.hidden_marked.to_string(),
        tally.withheld.to_string(),
    ]);
}
