//! Which changes a sink asked for: pure.

use crate::config::SinkFilter;
use crate::record::{Change, Kind, field, same_meaning};

/// Whether the sink asked for this change.
pub(super) fn wants(filter: &SinkFilter, change: &Change) -> bool {
    filter.changes.contains(&change.kind)
        && filter.routes.contains(&change.route)
        && (change.kind == Kind::Gap
            || filter.fields.iter().all(|(name, wanted)| {
                field(&change.body, name)
                    .is_some_and(|found| same_meaning(found, &wanted.to_string()))
            }))
}
