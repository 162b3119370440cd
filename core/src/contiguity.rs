//! What a page proves about the time since the poller's previous page.
//!
//! Pure: no I/O, no clock. The store and the simulation decide by this one rule. A page proves that
//! nothing was missed when it holds a record of the previous page that still means the same, or
//! when it is the whole list. This holds whether the workspace orders a list by creation or by last
//! change. The order of a page proves nothing, but it can make a proof doubtful: an edit that sets
//! a value that the record already had moves it to the front, and the record looks unchanged.

/// A hole counts as wide when it is more than this many times as wide as the usual one.
const WIDE: i64 = 4;
/// Unchanged records needed for each record that is out of place. Records that leave a list, and
/// records that change places without an edit, put a few others out of place.
const UNCHANGED_PER_MISPLACED: usize = 4;
/// Unchanged records are few when they are at most one of this many on the page.
const UNCHANGED_SHARE: usize = 10;

/// What one page proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contiguity {
    /// The first page of a poller: there is nothing to compare it with.
    Baseline,
    /// The page holds fewer records than requested: it is the whole list.
    Complete,
    /// A record of the previous page is still on the page and means the same: nothing was missed.
    Contiguous,
    /// The page does not prove that nothing was missed, but there is reason to think so.
    Suspect,
    /// Records may have been missed.
    Gap,
    /// The page is older than the one before: it proves nothing and replaces nothing.
    Stale,
}

impl Contiguity {
    /// True unless records may have been missed.
    #[must_use]
    pub fn is_proven(self) -> bool {
        !matches!(self, Self::Suspect | Self::Gap)
    }
}

/// How a record of the new page relates to the poller's previous page. The number is its place on
/// that page, counted from 0 for the newest record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// It was on the previous page and still means the same.
    Unchanged(usize),
    /// It was on the previous page, but it changed since, or nothing shows that it did not.
    Changed(usize),
    /// It was not on the previous page, whether or not the mirror knows it.
    NotShown,
}

impl Relation {
    /// True if nothing shows that the record changed since the previous page.
    #[must_use]
    pub fn is_unchanged(self) -> bool {
        matches!(self, Self::Unchanged(_))
    }

    /// The record's place on the previous page.
    fn place(self) -> Option<usize> {
        match self {
            Self::Unchanged(place) | Self::Changed(place) => Some(place),
            Self::NotShown => None,
        }
    }
}

/// One record of the new page, which is listed as it was read: newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// The record's id while it is an integer; only used for bounds and estimates.
    pub id: Option<i64>,
    /// How it relates to the previous page.
    pub relation: Relation,
}

/// What the poller knew before it read the new page.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PreviousPage {
    /// Records on it.
    pub records: usize,
    /// The highest id the poller was ever shown, while ids are integers.
    pub high_id: Option<i64>,
    /// The width that 9 of 10 holes between neighbouring ids of the page do not exceed; 0 while ids
    /// are dense. Where several businesses share the ids, each sees holes although nothing is
    /// missing.
    pub usual_hole: i64,
    /// Which part of the ids is the poller's own, by the holes that are not wide; 1 while ids are
    /// dense.
    pub density: f64,
}

impl PreviousPage {
    /// The page with these ids, and the highest id that the poller was ever shown.
    #[must_use]
    pub fn new(ids: &[String], high_id: Option<i64>) -> Self {
        let integers: Option<Vec<i64>> = ids.iter().map(|id| id.parse().ok()).collect();
        let mut integers = integers.unwrap_or_default();
        integers.sort_unstable();
        let mut widths: Vec<i64> = integers
            .windows(2)
            .map(|ids| width(ids[0], ids[1]))
            .collect();
        widths.sort_unstable();
        let usual_hole = widths
            .get(widths.len() * 9 / 10)
            .or(widths.last())
            .copied()
            .unwrap_or(0);
        let wide = WIDE.saturating_mul(usual_hole);
        let regular = widths.iter().filter(|width| **width <= wide);
        let (own, span) = regular.fold((0.0, 0.0), |(own, span), width| {
            (own + 1.0, span + *width as f64 + 1.0)
        });
        let density = if own > 0.0 { own / span } else { 1.0 };
        Self {
            records: ids.len(),
            high_id,
            usual_hole,
            density,
        }
    }
}

/// Where the missed records lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// The highest id below them.
    pub after: Option<i64>,
    /// The lowest id above them.
    pub before: Option<i64>,
    /// About how many they are, by how densely ids are used.
    pub missed: Option<i64>,
}

/// What a page proved, and what that rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// The verdict.
    pub contiguity: Contiguity,
    /// Records that were on the previous page, changed or not.
    pub shared: usize,
    /// Where missed records lie; empty when the verdict is neither a gap nor a suspect, or when ids
    /// are not integers that grow.
    pub bounds: Bounds,
}

/// Decides what a page proves; `previous` is `None` for the first page of a poller.
///
/// A record that changed proves nothing: where the list is ordered by last change, the change moved
/// it to the front, past others that were not shown. A record that changed and changed back, or
/// that an edit left as it was, looks unchanged. It is recognised by where it lies; see
/// [`misplaced`].
#[must_use]
pub fn classify(previous: Option<&PreviousPage>, page: &[Sighting], limit: usize) -> Proof {
    let unchanged = page
        .iter()
        .filter(|record| record.relation.is_unchanged())
        .count();
    let shared = page
        .iter()
        .filter(|record| record.relation.place().is_some())
        .count();
    let proof = |contiguity| Proof {
        contiguity,
        shared,
        bounds: Bounds::default(),
    };
    let Some(previous) = previous else {
        return proof(Contiguity::Baseline);
    };
    let is_short = page.len() < limit;
    let whole = if is_short {
        Contiguity::Complete
    } else {
        Contiguity::Contiguous
    };
    let is_in_place = unchanged > 0
        && misplaced(previous, page).saturating_mul(UNCHANGED_PER_MISPLACED) <= unchanged;
    if is_in_place && unchanged * UNCHANGED_SHARE > page.len() {
        return proof(whole);
    }
    // The API deletes nothing, so a whole list still shows all of the previous page. A server that
    // returns fewer records than requested does not.
    if is_short && shared == previous.records {
        return proof(Contiguity::Complete);
    }
    let holes = Holes::above(previous, page);
    let widest = holes.as_ref().map(Holes::widest);
    let is_wider_than = |usual: i64| widest.is_some_and(|width| width > WIDE.saturating_mul(usual));
    // One id that is never used is no hole worth a doubt: a creation that failed leaves it.
    if is_in_place && !is_wider_than(previous.usual_hole.max(1)) {
        return proof(whole);
    }
    let bounds = match (&holes, previous.high_id) {
        (Some(holes), _) => holes.bounds(previous.density),
        (None, None) => Bounds {
            before: lowest(page),
            ..Bounds::default()
        },
        (None, Some(_)) => Bounds::default(),
    };
    let is_wide = is_wider_than(previous.usual_hole);
    let shares_most = shared * 2 >= page.len() && !is_wide;
    let is_suspect = is_in_place || is_short || widest == Some(0) || shares_most;
    Proof {
        bounds,
        ..proof(if is_suspect {
            Contiguity::Suspect
        } else {
            Contiguity::Gap
        })
    }
}

/// How many records lie where they cannot lie if nothing was missed, seen from the unchanged record
/// that lies best; `usize::MAX` if none is unchanged.
///
/// If nothing was missed, a record that was not touched has all records above it on the new page
/// that were above it on the previous one, and below it only records that were below it. This holds
/// for lists ordered by creation and for lists ordered by last change. A record that an edit
/// brought to the front lacks the first, or lies above new records.
fn misplaced(previous: &PreviousPage, page: &[Sighting]) -> usize {
    let mut is_shown = vec![false; previous.records];
    for place in page.iter().filter_map(|record| record.relation.place()) {
        if let Some(is_shown) = is_shown.get_mut(place) {
            *is_shown = true;
        }
    }
    // A longer page shows older records below those of the previous page.
    let older = page.len().saturating_sub(previous.records);
    let mut least = usize::MAX;
    for (at, record) in page.iter().enumerate().rev() {
        let Relation::Unchanged(place) = record.relation else {
            continue;
        };
        let absent = is_shown
            .iter()
            .take(place)
            .filter(|is_shown| !**is_shown)
            .count();
        let below = page[at + 1..].iter().map(|record| record.relation.place());
        let strange = below
            .filter(|below| below.is_none_or(|below| below < place))
            .count();
        least = least.min(absent + strange.saturating_sub(older));
        if least == 0 {
            break;
        }
    }
    least
}

fn lowest(page: &[Sighting]) -> Option<i64> {
    let ids: Option<Vec<i64>> = page.iter().map(|record| record.id).collect();
    ids?.into_iter().min()
}

/// Ids strictly between two others.
fn width(low: i64, high: i64) -> i64 {
    high.saturating_sub(low).saturating_sub(1).max(0)
}

/// The highest id known and every id of the page above it, in order.
struct Holes(Vec<i64>);

impl Holes {
    /// `None` when an id is no integer, or none is above the highest known.
    fn above(previous: &PreviousPage, page: &[Sighting]) -> Option<Self> {
        let high = previous.high_id?;
        let mut ids: Vec<i64> = page.iter().map(|record| record.id).collect::<Option<_>>()?;
        ids.retain(|id| *id > high);
        ids.push(high);
        ids.sort_unstable();
        (ids.len() > 1).then_some(Self(ids))
    }

    fn widest(&self) -> i64 {
        self.0
            .windows(2)
            .map(|pair| width(pair[0], pair[1]))
            .max()
            .unwrap_or(0)
    }

    /// From the first hole to the last, wide or not; before the lowest new id when there is no
    /// hole.
    ///
    /// An edit may bring one of the missed records back onto the page. Those missed beside it then
    /// lie in a hole that is no wider than usual.
    fn bounds(&self, density: f64) -> Bounds {
        let holes = || self.0.windows(2).map(|pair| (pair[0], pair[1]));
        let is_open = |(low, high): &(i64, i64)| width(*low, *high) > 0;
        let first = holes().find(is_open).or_else(|| holes().next());
        let last = holes().rfind(is_open).or_else(|| holes().next());
        let (Some((after, _)), Some((_, before))) = (first, last) else {
            return Bounds::default();
        };
        let ids = width(after, before);
        let shown = self
            .0
            .iter()
            .filter(|id| after < **id && **id < before)
            .count();
        let shown = i64::try_from(shown).unwrap_or(i64::MAX);
        let own = (ids as f64 * density).round() as i64;
        let missed = own
            .saturating_sub(shown)
            .clamp(0, ids.saturating_sub(shown));
        Bounds {
            after: Some(after),
            before: Some(before),
            missed: Some(missed),
        }
    }
}

#[cfg(test)]
mod tests;
