//! Where the records lie that a page may lack: as narrow as the order of the list allows, and no
//! narrower.
//!
//! In a list by creation the page shows everything above its oldest record, by the key that never
//! rose down a page: ids, times of creation, or both. In any other list an edit may have pushed out
//! a record that is newer than all that the page shows, so that only a record which was created
//! after the reading lies above the missed ones.

use jiff::Timestamp;

use super::steps::NewIds;
use super::{ListProfile, PreviousPage, Relation, Sighting};
use crate::record::CLOCK_SKEW;

/// Where the missed records lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// The highest id below them.
    pub after: Option<i64>,
    /// The lowest id above them; `None` until a record is shown that was created after the page.
    pub before: Option<i64>,
    /// Ids between these two that the page shows.
    pub shown: i64,
    /// The highest of these.
    pub shown_to: Option<i64>,
    /// About how many are missed, by how densely ids are used.
    pub missed: Option<i64>,
    /// When they were created, where the list is ordered by that: from the newest record that was
    /// known until the oldest one of the page.
    pub created: Option<(Timestamp, Timestamp)>,
    /// The import that the page shows a part of.
    pub import: Option<Import>,
}

/// New records that were created before the page before, by their own dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Import {
    /// The oldest date that the page shows.
    pub from: Timestamp,
    /// Whether missed records of it may be older still: their dates do not get younger towards
    /// lower ids, and it is the lower ids that are missed.
    pub may_be_older: bool,
}

impl Bounds {
    /// The bounds of what a page may lack.
    pub(super) fn find(
        profile: &ListProfile,
        previous: PreviousPage,
        page: &[Sighting],
        new_ids: Option<&NewIds>,
    ) -> Self {
        let import = find_import(profile, previous, page);
        let mut bounds = if profile.order.ids_never_rise() {
            by_id(profile, previous, page, new_ids)
        } else {
            open_above(profile, previous, page, new_ids)
        };
        if import.is_none() && profile.order.created_at_never_rises() {
            bounds.created = times(profile, previous, page);
        }
        bounds.import = import;
        bounds
    }
}

/// The bounds in a list by creation whose ids never rise down a page.
fn by_id(
    profile: &ListProfile,
    previous: PreviousPage,
    page: &[Sighting],
    new_ids: Option<&NewIds>,
) -> Bounds {
    let Some(high_id) = previous.high_id else {
        // No id was known, so that nothing lies below the missed records.
        return Bounds {
            before: page.last().and_then(|record| record.id),
            ..Bounds::default()
        };
    };
    let lowest_new = match new_ids {
        Some(new_ids) => new_ids.lowest(),
        // The page shows no new id: none is missed.
        None => high_id.saturating_add(1),
    };
    Bounds {
        after: Some(high_id),
        before: Some(lowest_new),
        missed: Some(profile.steps.own_ids(high_id, lowest_new)),
        ..Bounds::default()
    }
}

/// The bounds in any other list.
fn open_above(
    profile: &ListProfile,
    previous: PreviousPage,
    page: &[Sighting],
    new_ids: Option<&NewIds>,
) -> Bounds {
    let Some(high_id) = previous.high_id else {
        return Bounds::default();
    };
    if page.iter().any(|record| record.id.is_none()) {
        return Bounds::default();
    }
    let Some(new_ids) = new_ids else {
        return Bounds {
            after: Some(high_id),
            missed: Some(0),
            ..Bounds::default()
        };
    };
    let shown = new_ids.count();
    let own_ids = profile.steps.own_ids(high_id, new_ids.highest() + 1);
    Bounds {
        after: Some(high_id),
        shown,
        shown_to: Some(new_ids.highest()),
        missed: Some((own_ids - shown).max(0)),
        ..Bounds::default()
    }
}

/// From the newest time of creation that was known to that of the oldest record of a page whose
/// times never rise.
fn times(
    profile: &ListProfile,
    previous: PreviousPage,
    page: &[Sighting],
) -> Option<(Timestamp, Timestamp)> {
    let from = profile.newest_before(previous)?;
    let to = page.last()?.created_at?;
    if from > to {
        return None;
    }
    Some((from, to))
}

/// The import that a page shows a part of. Only ids show which records are new.
fn find_import(profile: &ListProfile, previous: PreviousPage, page: &[Sighting]) -> Option<Import> {
    let high_id = previous.high_id?;
    let page_before = profile.newest_before(previous)?;
    let mut imported = Vec::new();
    for record in page {
        let (Some(id), Some(created_at)) = (record.id, record.created_at) else {
            continue;
        };
        let is_new = record.relation == Relation::NotShown && id > high_id;
        if is_new && page_before.duration_since(created_at) > CLOCK_SKEW {
            imported.push((id, created_at));
        }
    }
    imported.sort_unstable();
    let from = imported.iter().map(|(_, created_at)| *created_at).min()?;
    let mut older_towards_lower_ids = 0;
    for pair in imported.windows(2) {
        if pair[0].1 < pair[1].1 {
            older_towards_lower_ids += 1;
        }
    }
    Some(Import {
        from,
        // A few may be out of order.
        may_be_older: older_towards_lower_ids * 5 >= imported.len().saturating_sub(1).max(1),
    })
}
