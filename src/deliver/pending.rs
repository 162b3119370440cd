//! What there may be to do for a sink. It is set by what makes the work possible and cleared by
//! whoever has looked: the only place that says so, besides the times that each owner waits for.

/// Work that may be there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pending {
    /// The log may have changes after the position, and the queue has room for them.
    pub(super) log: bool,
    /// The queue may have rows that are due and were not read.
    pub(super) queue: bool,
    /// A replay may have begun, continued or ended.
    pub(super) replay: bool,
    /// The task begins, an operator changed something, or the configuration was read again.
    pub(super) operator: bool,
}

impl Pending {
    /// Changes of the log.
    pub(super) const LOG: Self = Self {
        log: true,
        queue: false,
        replay: false,
        operator: false,
    };

    /// Rows of the queue.
    pub(super) const QUEUE: Self = Self {
        log: false,
        queue: true,
        replay: false,
        operator: false,
    };

    /// Everything that a look can find.
    pub(super) const ALL: Self = Self {
        log: true,
        queue: true,
        replay: true,
        operator: false,
    };

    /// What an operator may have changed.
    pub(super) const OPERATOR: Self = Self {
        log: false,
        queue: false,
        replay: false,
        operator: true,
    };

    /// Adds more work.
    pub(super) fn add(&mut self, more: Self) {
        self.log |= more.log;
        self.queue |= more.queue;
        self.replay |= more.replay;
        self.operator |= more.operator;
    }
}
