//! Between which two numbers one lies that counts repairs by how they stand now, such as the open
//! ones.
//!
//! Every change of a status makes a record. So a missed one moves at most one repair, and only one
//! that was not heard of since. A repair that the mirror does not hold was missed in a gap of jobs.

use jiff::{SignedDuration, Timestamp};
use shopmirror_core::contiguity::Order;
use shopmirror_core::record::{CLOCK_SKEW, Route};

use super::coverage::{BusinessChoice, Coverage, OLD, time};
use super::hidden::{Found, Unread};
use super::knowledge::{Knowledge, SETTLED};
use super::{Cell, Exactness, number};
use crate::report::head::{OpenBy, Report};
use crate::store::{Gap, PollerRow, Reader, SqlValue, StoreError, Stretch};

/// Which repairs a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// All that are open. Those that were reopened in a gap are left out, and named in a note.
    Open,
    /// Those of some statuses: one may have come from any other status.
    OfStatus,
}

/// What may have happened to the repairs unseen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::report) struct Unseen {
    /// Where status changes may be missing, the latest first.
    missed: Vec<Missed>,
    /// Where jobs may be missing.
    jobs: Vec<Stretch>,
    /// Until then any number of jobs may be missing.
    jobs_unknown_until: Option<Timestamp>,
    /// Whether an edit of an old job is never shown, as far as is known: its list is not one by
    /// change.
    pub(super) hides_edits: bool,
}

/// What one stretch of status changes may hide.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Missed {
    stretch: Stretch,
    /// Open repairs that were not heard of since.
    open: u64,
    /// Completed repairs that were not heard of since, as far as it can have reopened them.
    completed: u64,
}

/// Some of the repairs, as they are believed to stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Believed<'a> {
    /// How many they are.
    pub(super) count: u64,
    /// For each that was not heard of lately, the number of the oldest stretch since which it was
    /// not, counted from 1.
    pub(super) unheard: &'a [u64],
    /// Which they are.
    pub(super) counted: Counted,
    /// If only those that were taken in later than this are counted.
    pub(super) taken_in_after: Option<Timestamp>,
}

/// The lowest and the highest that a number may be; `upper` is `None` if nothing limits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) lower: u64,
    pub(super) upper: Option<u64>,
}

/// What is known of the lists of jobs and of status changes.
pub(super) struct JobLists<'a> {
    pub(super) pollers: &'a [PollerRow],
    pub(super) gaps: &'a [Gap],
    pub(super) business: &'a BusinessChoice,
    pub(super) jobs: &'a Coverage,
    /// `None` if status changes do not name their job.
    pub(super) changes: Option<&'a Coverage>,
    pub(super) now: Timestamp,
}

impl JobLists<'_> {
    /// The gaps of a route that matter: in half a year every open repair was heard of.
    fn gaps(&self, route: Route) -> Vec<&Gap> {
        let mut gaps = Vec::new();
        for gap in self.gaps {
            let is_own = self
                .business
                .covers(route, &gap.route, gap.business.as_deref());
            if is_own && time(&gap.to_at).is_some_and(|at| self.is_recent(at)) {
                gaps.push(gap);
            }
        }
        gaps
    }

    fn is_recent(&self, at: Timestamp) -> bool {
        self.now.duration_since(at) < SETTLED
    }

    fn job_pollers(&self) -> impl Iterator<Item = &PollerRow> {
        self.pollers.iter().filter(|row| {
            self.business
                .covers(Route::Jobs, &row.route, row.business.as_deref())
        })
    }

    /// When the list of jobs was first read of every business.
    fn jobs_begun(&self) -> Option<Timestamp> {
        self.job_pollers()
            .filter_map(|row| time(&row.first_polled_at))
            .max()
    }

    /// Since when the row of each job shows how it stands, as far as a page has shown it: in a list
    /// by change, since the last gap. `None` if the list is not ordered so.
    fn rows_are_current_since(&self) -> Option<Timestamp> {
        let mut since = self.jobs_begun()?;
        for row in self.job_pollers() {
            if row.profile.order.order() != Order::ByChange {
                return None;
            }
        }
        for gap in self.gaps(Route::Jobs) {
            since = since.max(time(gap.read_at())?);
        }
        Some(since)
    }

    /// A time in which any number of status changes may be missing beside the gaps: while they are
    /// not read or do not name their job, or before their list was first read.
    fn unread_changes(&self) -> Option<Stretch> {
        let jobs_read_at = self.jobs.read_at?;
        let jobs_begun = self.jobs_begun()?;
        let (Some(changes), Some(read_at)) = (self.changes, self.changes_read_at()) else {
            return Some(any_number(jobs_begun, jobs_read_at));
        };
        if jobs_read_at.duration_since(read_at) > OLD {
            return Some(any_number(read_at, jobs_read_at));
        }
        let begun = changes.since.filter(|at| self.is_recent(*at))?;
        if begun.duration_since(jobs_begun) > OLD {
            return Some(any_number(jobs_begun, begun));
        }
        None
    }

    /// The time before which any number of status changes is missing, if there is one.
    fn before_changes(&self) -> Option<Stretch> {
        let since = self.changes?.since?;
        Some(any_number(Timestamp::MIN, since))
    }

    /// When status changes were last read, if they name their job.
    fn changes_read_at(&self) -> Option<Timestamp> {
        self.changes?.read_at
    }

    /// Until when any number of jobs may be missing: those from before the mirror began, or those
    /// that came since the list was read last.
    fn jobs_unknown_until(&self) -> Option<Timestamp> {
        let Some(read_at) = self.jobs.read_at else {
            return Some(self.now);
        };
        if let Some(changes_read_at) = self.changes_read_at()
            && changes_read_at.duration_since(read_at) > OLD
        {
            return Some(self.now);
        }
        self.jobs.since.filter(|at| self.is_recent(*at))
    }
}

impl Unseen {
    /// What may have happened unseen to the repairs of these lists. Makes the tables `unheard`,
    /// `recompleted` and `missed_changes` of the connection, for the queries of the report.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(super) fn read(reader: &Reader, lists: &JobLists<'_>) -> Result<Self, StoreError> {
        let mut changes = reader.stretches(
            Route::JobStatusChanges,
            &lists.gaps(Route::JobStatusChanges),
        )?;
        changes.extend(lists.unread_changes());
        reader.set_recompleted(&changes)?;
        let mut missed_changes = changes.clone();
        missed_changes.extend(lists.before_changes());
        reader.set_missed_changes(&missed_changes)?;
        let rows_are_current_since = lists.rows_are_current_since();
        if let Some(since) = rows_are_current_since {
            changes.retain(|stretch| stretch.from < since);
        }
        changes.sort_by_key(|stretch| std::cmp::Reverse(stretch.until));
        let business = lists.business;
        reader.set_unheard(
            &changes,
            business.asked.as_deref(),
            business.default.as_deref(),
        )?;
        let mut missed = Vec::with_capacity(changes.len());
        for (number, stretch) in (1..).zip(changes) {
            missed.push(Missed {
                open: reader.open_unheard(number)?,
                completed: match stretch.most {
                    Some(most) => reader.completed_unheard(&stretch, most)?,
                    None => 0,
                },
                stretch,
            });
        }
        Ok(Self {
            missed,
            jobs: reader.stretches(Route::Jobs, &lists.gaps(Route::Jobs))?,
            jobs_unknown_until: lists.jobs_unknown_until(),
            hides_edits: rows_are_current_since.is_none(),
        })
    }

    /// The bounds of a number.
    pub(super) fn bounds(&self, believed: Believed<'_>) -> Bounds {
        let after = believed.taken_in_after.unwrap_or(Timestamp::MIN);
        let mut left = 0;
        let mut came = Some(0);
        for (number, missed) in (1..).zip(&self.missed) {
            if missed.stretch.until <= after {
                continue;
            }
            let most = missed.stretch.most;
            let own = believed.unheard.iter().filter(|oldest| **oldest >= number);
            let own = own.count() as u64;
            left += own.min(most.unwrap_or(own));
            let others = match believed.counted {
                Counted::Open => 0,
                Counted::OfStatus => missed.open.saturating_sub(own) + missed.completed,
            };
            came = came.zip(most).map(|(came, most)| came + others.min(most));
        }
        let left = left.min(believed.unheard.len() as u64);
        let more = came.zip(self.missing(after));
        Bounds {
            lower: believed.count.saturating_sub(left),
            upper: more.map(|(came, missing)| believed.count + came + missing),
        }
    }

    /// The most repairs that the mirror does not hold and that may be open.
    fn missing(&self, after: Timestamp) -> Option<u64> {
        if self.jobs_unknown_until.is_some_and(|until| until > after) {
            return None;
        }
        let mut missing = 0;
        for stretch in &self.jobs {
            if stretch.until > after {
                missing += stretch.most?;
            }
        }
        Some(missing)
    }

    /// How many completed repairs may have been reopened unseen after a time; `None` if nothing limits
    /// it.
    pub(super) fn reopened_after(&self, time: Timestamp) -> Option<u64> {
        let mut reopened = 0;
        for missed in &self.missed {
            // The workspace's clock says when a repair was completed.
            let until = missed.stretch.until;
            if until.saturating_add(CLOCK_SKEW).unwrap_or(until) <= time {
                continue;
            }
            missed.stretch.most?;
            reopened += missed.completed;
        }
        Some(reopened)
    }

    /// The open repairs that were not heard of since the last stretch, and since when that is; `None`
    /// if all were.
    pub(super) fn unheard(&self) -> Option<(u64, Timestamp)> {
        let last = self.missed.first()?;
        (last.open > 0).then_some((last.open, last.stretch.until))
    }

    /// When the first of the missing repairs can have come, `Some(None)` if none is missing; `None`
    /// if any number of older ones may be.
    fn oldest_missing(&self) -> Option<Option<Timestamp>> {
        if self.jobs_unknown_until.is_some() {
            return None;
        }
        if self.jobs.iter().any(|stretch| stretch.most.is_none()) {
            return None;
        }
        Some(self.jobs.iter().map(|stretch| stretch.from).min())
    }
}

/// A column of a report that counts repairs by how they stand now.
pub(super) struct StandingColumn<'a> {
    unseen: &'a Unseen,
    open_by: OpenBy,
    taken_in_after: Option<Timestamp>,
    now: Timestamp,
    /// All that its rows count, and which of these were not heard of.
    count: u64,
    unheard: Vec<u64>,
    /// The most of those that were not heard of, if it does not count.
    most_unheard: f64,
    counts: bool,
    /// What was not read in one of its rows.
    unread: Unread,
}

impl<'a> StandingColumn<'a> {
    /// The column of this name, before its rows.
    pub(super) fn new(known: &'a Knowledge, report: &Report, name: &str) -> Self {
        let mut taken_in_after = None;
        if let Some(days) = report.max_days.get(name) {
            let span = SignedDuration::from_hours(24 * days) + CLOCK_SKEW;
            taken_in_after = known.now.checked_sub(span).ok();
        }
        Self {
            unseen: &known.unseen,
            open_by: report.open_by,
            taken_in_after,
            now: known.now,
            count: 0,
            unheard: Vec::new(),
            most_unheard: 0.0,
            counts: false,
            unread: Unread::default(),
        }
    }

    /// Adds a row.
    pub(super) fn add(&mut self, found: &Found) {
        self.unread = self.unread.and(found.unread);
        if found.heard.is_some() {
            let most = found.unheard.as_ref().and_then(number).unwrap_or(0.0);
            self.most_unheard = self.most_unheard.max(most);
        } else if let (Some(count), Some(unheard)) = (whole(&found.value), unheard(found)) {
            self.counts = true;
            self.count += count;
            self.unheard.extend(unheard);
        }
    }

    /// A value of it, once every row was added; `None` if its hidden columns do not say which
    /// repairs were not heard of.
    pub(super) fn cell(&self, found: &Found) -> Option<Cell> {
        if let Some(heard) = &found.heard {
            return Some(self.most(&found.value, heard));
        }
        let count = whole(&found.value)?;
        if self.open_by == OpenBy::LastSeen && !self.unseen.missed.is_empty() {
            return Some(Cell::of(found.value.clone(), Exactness::About));
        }
        let counted = match self.open_by {
            OpenBy::All | OpenBy::LastSeen => Counted::Open,
            OpenBy::Some | OpenBy::Status => Counted::OfStatus,
        };
        Some(self.counted(count, &unheard(found)?, counted))
    }

    /// The sum of a column that counts.
    pub(super) fn sum(&self) -> Option<Cell> {
        let counted = match self.open_by {
            OpenBy::Some => Counted::OfStatus,
            _ => Counted::Open,
        };
        if !self.counts {
            return None;
        }
        let sum = self.counted(self.count, &self.unheard, counted);
        Some(self.unread.with(sum))
    }

    fn counted(&self, count: u64, unheard: &[u64], counted: Counted) -> Cell {
        let bounds = self.unseen.bounds(Believed {
            count,
            unheard,
            counted,
            taken_in_after: self.taken_in_after,
        });
        let exactness = match bounds.upper {
            None => Exactness::AtLeast,
            Some(upper) if upper == bounds.lower => Exactness::Exact,
            Some(upper) => Exactness::Between {
                upper: upper as f64,
            },
        };
        let lower = i64::try_from(bounds.lower).unwrap_or(i64::MAX);
        Cell::of(lower.into(), exactness)
    }

    /// The most of something, such as the age of the oldest repair: that of one which was heard of,
    /// up to that of one which was not, or of one that is missing.
    fn most(&self, believed: &SqlValue, heard: &SqlValue) -> Cell {
        let lower = number(heard).unwrap_or(0.0);
        let exactness = match self.highest(believed) {
            None => Exactness::AtLeast,
            Some(upper) if upper > lower => Exactness::Between { upper },
            Some(_) => Exactness::Exact,
        };
        Cell::of(lower.into(), exactness)
    }

    /// The highest that the most of something may be; `None` if nothing limits it.
    fn highest(&self, believed: &SqlValue) -> Option<f64> {
        for missed in &self.unseen.missed {
            missed.stretch.most?;
        }
        let mut upper = number(believed).unwrap_or(0.0).max(self.most_unheard);
        if let Some(from) = self.unseen.oldest_missing()? {
            let age = self.now.duration_since(from).as_secs_f64() / 86_400.0;
            upper = upper.max(age);
        }
        Some(upper)
    }
}

/// A stretch in which any number of records may be missing.
fn any_number(from: Timestamp, until: Timestamp) -> Stretch {
    Stretch {
        from,
        until,
        ids: None,
        most: None,
    }
}

/// A count, if it is one.
fn whole(value: &SqlValue) -> Option<u64> {
    match value {
        SqlValue::Integer(count) => u64::try_from(*count).ok(),
        _ => None,
    }
}

/// The hidden list of the repairs that were not heard of; the others have no number in it.
fn unheard(found: &Found) -> Option<Vec<u64>> {
    let Some(SqlValue::Text(list)) = &found.unheard else {
        return None;
    };
    let list: Vec<Option<u64>> = serde_json::from_str(list).ok()?;
    Some(list.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests;
