//! What a change became in another workspace.

/// What became of one change in another workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum MadeOutcome {
    /// A record was made.
    Made,
    /// The workspace had such a record, and made none.
    Duplicate,
    /// The workspace keeps it until its form is set up.
    Parked,
}

/// The result of one change in another workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeRecord {
    /// The change.
    pub event_id: String,
    /// What became of it.
    pub outcome: MadeOutcome,
    /// The id of the record there.
    pub id: Option<String>,
    /// What the workspace calls the request.
    pub request_id: Option<String>,
}
