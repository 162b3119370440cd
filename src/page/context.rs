//! What every response of the page is made from.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::snapshot::Snapshots;

/// What the responses are made from.
pub(super) struct Context {
    pub(super) shop: String,
    pub(super) snapshots: Arc<Snapshots>,
    /// One permit per live stream that may still be opened.
    pub(super) streams: Arc<Semaphore>,
}
