//! The part of the status that only the store knows: counts, gaps, and when each poller last
//! succeeded.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::WorkspaceStatus;
use super::health::is_stale;
use crate::deliver::{SinkActivity, SinkStatus};
use crate::number::count;
use crate::poll::{PollerState, PollerStatus};
use crate::record::poller_name;
use crate::store::{Gap, GateState, Lane, PollerRow, Reader, SinkState, StoreError};

/// A stamp that is later than now by more was made by a clock that was ahead.
const CLOCK_AHEAD_S: f64 = 300.0;

/// A route whose last page was empty although the mirror has records of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EmptiedRoute {
    /// The route.
    pub route: String,
    /// The business; `None` is the workspace's default.
    pub business: Option<String>,
    /// When the first empty page was read.
    pub since: String,
    /// How many records of the route the mirror has, of all businesses.
    pub records: i64,
}

impl fmt::Display for EmptiedRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let poller = poller_name(&self.route, self.business.as_deref());
        write!(
            f,
            "{poller}: the workspace now returns no records, but the mirror has {}; check in the workspace whether they were deleted, or whether the key lost access to them",
            self.records
        )
    }
}

/// A sink that is no longer configured, and for which the log keeps changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RemovedSink {
    /// Its name.
    pub name: String,
    /// Rows of the log after its position, and changes that its queue holds.
    pub behind: i64,
}

impl fmt::Display for RemovedSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, behind, .. } = self;
        let changes = count(*behind, "change", "changes");
        write!(
            f,
            "{name} is no longer configured, and the log keeps {changes} for it: configure it again, run `shopmirror sinks {name} rename NEW` if it has another name now, or run `shopmirror sinks {name} forget`"
        )
    }
}

/// What only the store knows.
#[derive(Debug, Clone)]
pub struct Stored {
    /// The parts of the status that are what is stored.
    pub status: WorkspaceStatus,
    open_gaps: Vec<(String, Option<String>)>,
    pollers: Vec<PollerRow>,
}

impl Stored {
    /// Reads it.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn read(reader: &Reader) -> Result<Self, StoreError> {
        let records: BTreeMap<String, i64> =
            reader.counts()?.into_iter().map(|(route, n)| (route.to_string(), n)).collect();
        let pollers = reader.pollers()?;
        let open_gaps = reader
            .gaps()?
            .into_iter()
            .filter(Gap::is_unsettled)
            .map(|gap| (gap.route, gap.business))
            .collect();
        let status = WorkspaceStatus {
            emptied: emptied(&pollers, &records),
            records,
            removed_sinks: removed_sinks(reader)?,
            last_seq: reader.last_seq()?,
            job_links: reader.job_links()?,
            unlinked_routes: reader.unlinked_routes()?,
            ..WorkspaceStatus::default()
        };
        Ok(Self { status, open_gaps, pollers })
    }

    /// Adds to pollers what the store knows: open gaps, and the last success before this start.
    pub(super) fn complete(&self, pollers: &mut [PollerStatus], now: Timestamp) {
        for poller in pollers {
            let of_poller = self
                .open_gaps
                .iter()
                .filter(|(route, business)| *route == poller.route && *business == poller.business);
            poller.gaps = i64::try_from(of_poller.count()).unwrap_or(i64::MAX);
            if poller.last_success_age_s.is_none() {
                let row = self
                    .pollers
                    .iter()
                    .find(|row| row.route == poller.route && row.business == poller.business);
                poller.last_success_age_s = row.and_then(|row| age_s(&row.last_success_at, now));
                poller.last_success_unknown = row.is_some() && poller.last_success_age_s.is_none();
                // The last poll before this start succeeded a short time ago.
                if poller.state == PollerState::Starting
                    && poller.last_success_age_s.is_some()
                    && !is_stale(poller)
                {
                    poller.state = PollerState::Ok;
                }
            }
        }
    }

    /// The pollers while no daemon runs.
    pub(super) fn stopped_pollers(&self, now: Timestamp) -> Vec<PollerStatus> {
        let stopped = |row: &PollerRow| PollerStatus {
            route: row.route.clone(),
            business: row.business.clone(),
            state: PollerState::Stopped,
            last_success_age_s: age_s(&row.last_success_at, now),
            ..PollerStatus::default()
        };
        self.pollers.iter().map(stopped).collect()
    }
}

/// The sinks while no daemon runs.
pub(super) fn stopped_sinks(reader: &Reader, last_seq: i64) -> Result<Vec<SinkStatus>, StoreError> {
    let rows = reader.sinks()?.into_iter().filter(|row| row.state != SinkState::Removed);
    rows.map(|row| {
        let replay = reader.replay(&row.name)?;
        let state = match row.state {
            SinkState::Disabled => SinkActivity::Disabled,
            _ if row.gate == GateState::Held => SinkActivity::Held,
            SinkState::Active | SinkState::Removed => SinkActivity::Stopped,
        };
        let ready = reader.ready_rows(&row.name, Lane::Change)?;
        let behind = (last_seq - row.position).max(0) + ready;
        let notices = reader.notice_counts(&row.name)?;
        Ok(SinkStatus { behind, replay, notices, ..SinkStatus::of_row(row, state) })
    })
    .collect()
}

/// The sinks that are no longer configured and for which the log keeps something.
fn removed_sinks(reader: &Reader) -> Result<Vec<RemovedSink>, StoreError> {
    let mut removed = Vec::new();
    for row in reader.sinks()?.into_iter().filter(|row| row.state == SinkState::Removed) {
        let behind = reader.undelivered(&row)?;
        if behind > 0 {
            removed.push(RemovedSink { name: row.name, behind });
        }
    }
    Ok(removed)
}

/// The seconds since a stamp; `None` if it was made by a clock that was ahead, so that nobody knows.
pub(super) fn age_s(stamp: &str, now: Timestamp) -> Option<f64> {
    let at: Timestamp = stamp.parse().ok()?;
    let age = now.duration_since(at).as_secs_f64();
    (age > -CLOCK_AHEAD_S).then_some(age.max(0.0))
}

fn emptied(pollers: &[PollerRow], records: &BTreeMap<String, i64>) -> Vec<EmptiedRoute> {
    pollers
        .iter()
        .filter_map(|row| {
            Some(EmptiedRoute {
                route: row.route.clone(),
                business: row.business.clone(),
                since: row.emptied_at.clone()?,
                records: records.get(&row.route).copied().unwrap_or_default(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_what_a_clock_that_was_ahead_has_dated_is_unknown() {
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        let age = |stamp: &str| age_s(stamp, now);
        assert_eq!(age("2026-03-01T11:59:00.000000Z"), Some(60.0));
        assert_eq!(age("2026-03-01T12:00:02.000000Z"), Some(0.0), "clocks are set by seconds");
        for ahead in ["2026-03-01T13:00:00.000000Z", "2036-03-01T12:00:00.000000Z", "soon"] {
            assert_eq!(age(ahead), None, "{ahead}");
        }
    }
}
