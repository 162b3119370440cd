//! What was lost in a list, what was said of it, and what may be lost at most.

use serde::Serialize;

/// What the polls of some lists came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Tally {
    /// Pages that were compared with a previous one.
    pub(crate) polls: u64,
    /// Of these, pages that an older copy of the list answered, as far as the poller noticed.
    pub(crate) stale: u64,
    /// Polls before which something was lost.
    pub(crate) with_loss: u64,
    /// Polls whose page was called proven although new records were lost.
    pub(crate) silent_new: u64,
    /// Those of them with a lost record in a step that the rule calls wide.
    pub(crate) silent_behind_wide_step: u64,
    /// Polls whose page was called proven although an edit was lost.
    pub(crate) silent_edits: u64,
    /// Polls called a suspect although nothing was lost.
    pub(crate) false_suspects: u64,
    /// Polls called a gap although nothing was lost.
    pub(crate) false_gaps: u64,
    /// Lists.
    pub(crate) lists: u64,
    /// Lists whose order was known in the end.
    pub(crate) order_learned: u64,
    /// Lists for which a wrong order was ever learned.
    pub(crate) order_wrong: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.polls += other.polls;
        self.stale += other.stale;
        self.with_loss += other.with_loss;
        self.silent_new += other.silent_new;
        self.silent_behind_wide_step += other.silent_behind_wide_step;
        self.silent_edits += other.silent_edits;
        self.false_suspects += other.false_suspects;
        self.false_gaps += other.false_gaps;
        self.lists += other.lists;
        self.order_learned += other.order_learned;
        self.order_wrong += other.order_wrong;
    }

    /// Polls with a silent loss in 100,000.
    pub(crate) fn silent_rate(&self) -> f64 {
        rate(self.silent_new + self.silent_edits, self.polls, 100_000.0)
    }

    /// False suspects in 2,000 polls without a loss.
    pub(crate) fn false_suspect_rate(&self) -> f64 {
        rate(self.false_suspects, self.polls - self.with_loss, 2_000.0)
    }
}

fn rate(count: u64, of: u64, per: f64) -> f64 {
    count as f64 * per / of.max(1) as f64
}
