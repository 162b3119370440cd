//! What sinks are owed and have got: their queues, positions, notices and replays.

pub(super) mod alerts;
pub(super) mod made;
pub(super) mod notices;
pub(super) mod queue;
pub(super) mod replays;
pub(super) mod rows;
pub(super) mod sinks;
