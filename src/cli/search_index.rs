//! Brings the search index up to date at the end of a command that changed the store without a daemon.

use std::path::Path;

use super::output;
use crate::store;

/// Indexes what is in the log. A failure does not fail the command.
pub(super) fn follow(store: &Path) {
    if let Err(error) = store::index_log(store) {
        output::aside(&format!(
            "`shopmirror find` may miss records, because the search index was not brought up to date: {:#}",
            anyhow::Error::from(error)
        ));
    }
}
