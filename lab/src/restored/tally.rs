//! What was said of restored workspaces, as figures and as a table for people.

use serde::Serialize;

use super::Outcome;
use crate::table::columns;

/// What the workspaces of one kind came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Tally {
    pub(crate) polls: u64,
    /// Times of creation that were corrected.
    pub(crate) corrected: u64,
    /// Ids that a page showed with another record than before.
    pub(crate) reused: u64,
    /// Of these, taken for another record.
    pub(crate) found: u64,
    /// Records that were taken for another one and are the same.
    pub(crate) wrong: u64,
    /// Restores that took away what a page had shown.
    pub(crate) restores: u64,
    /// Of these, recognised before the next one.
    pub(crate) recognised: u64,
    /// Times at which it was said that a workspace was restored that was not.
    pub(crate) false_restores: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.polls += other.polls;
        self.corrected += other.corrected;
        self.reused += other.reused;
        self.found += other.found;
        self.wrong += other.wrong;
        self.restores += other.restores;
        self.recognised += other.recognised;
        self.false_restores += other.false_restores;
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
            "{} records were taken for another one that are the same",
            all.wrong
        ));
    }
    if all.false_restores > 0 {
        missed.push(format!(
            "{} times a workspace was called restored that was not",
            all.false_restores
        ));
    }
    // A rule that recognises nothing is never wrong.
    if all.recognised * 100 < all.restores * 80 {
        missed.push(format!(
            "{} of {} restores were recognised, at least 80 of 100 are wanted",
            all.recognised, all.restores
        ));
    }
    missed
}

/// The outcomes as a table for people.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let mut table = columns(
        1,
        &[
            "listed by",
            "polls",
            "corrected",
            "ids used again",
            "found",
            "taken for another",
            "restores",
            "recognised",
            "falsely said",
        ],
    );
    let mut all = Tally::default();
    for outcome in outcomes {
        let listed_by = format!("{:?}", outcome.listed_by).to_lowercase();
        add_row(&mut table, listed_by, &outcome.tally);
        all.add(&outcome.tally);
    }
    add_row(&mut table, "all".to_owned(), &all);
    table.to_string()
}

fn add_row(table: &mut comfy_table::Table, name: String, tally: &Tally) {
    table.add_row([
        name,
        tally.polls.to_string(),
        tally.corrected.to_string(),
        tally.reused.to_string(),
        tally.found.to_string(),
        tally.wrong.to_string(),
        tally.restores.to_string(),
        tally.recognised.to_string(),
        tally.false_restores.to_string(),
    ]);
}
