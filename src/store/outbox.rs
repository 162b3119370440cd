//! What sinks are owed and have got: their positions, parked changes, notices and replays.

pub(super) mod acknowledged;
pub(super) mod alerts;
pub(super) mod deliveries;
pub(super) mod notices;
pub(super) mod passed;
pub(super) mod replays;
pub(super) mod report_runs;
pub(super) mod sink_state;
pub(super) mod sinks;
pub(super) mod state_topics;
