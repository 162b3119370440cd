//! The part of the status that only the store knows: counts, gaps, and when each poller last
//! succeeded.

use jiff::Timestamp;
use shopmirror_core::clock::stamp;
use shopmirror_core::record::poller_name;

use super::WorkspaceStatus;
use super::health::is_stale;
use crate::deliver::{SinkActivity, SinkStatus};
use crate::poll::{PollerState, PollerStatus};
use crate::store::{Gap, GateState, Lane, PollerRow, Reader, SinkState, StoreError};
use crate::text::number::count;

/// A stamp that is later than now by more was made by a clock that was ahead.
const CLOCK_AHEAD_S: f64 = 300.0;

impl WorkspaceStatus {
    /// What is stored, with the pollers as they are while no daemon runs; health is not judged yet.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn stored(reader: &Reader, now: Timestamp) -> Result<Self, StoreError> {
        let counts = reader.counts()?.into_iter();
        let mut status = Self {
            at: stamp(now),
            workspace: reader.workspace()?.map(|known| known.name),
            gaps: reader
                .gaps()?
                .into_iter()
                .filter(Gap::is_unsettled)
                .collect(),
            records: counts
                .map(|(route, records)| (route.to_string(), records))
                .collect(),
            removed_sinks: removed_sinks(reader)?,
            last_seq: reader.last_seq()?,
            job_links: reader.job_links()?,
            unlinked_routes: reader.unlinked_routes()?,
            ..Self::default()
        };
        let rows = reader.pollers()?;
        for row in &rows {
            if row.emptied_at.is_some() && !row.is_gone(rows.iter()) {
                status.emptied.push(status.emptied_route(row));
            }
            let age = age_s(&row.last_success_at, now);
            status.pollers.push(PollerStatus {
                gaps: status.gaps.iter().filter(|gap| is_of(gap, row)).count() as i64,
                last_success_age_s: age,
                last_success_unknown: age.is_none(),
                route: row.route.clone(),
                business: row.business.clone(),
                ..PollerStatus::default()
            });
        }
        Ok(status)
    }

    /// What to do about a route whose last page was empty.
    fn emptied_route(&self, row: &PollerRow) -> String {
        format!(
            "{}: the workspace now returns no records, but the mirror has {}; check in the workspace whether they were deleted, or whether the key lost access to them",
            poller_name(&row.route, row.business.as_deref()),
            self.records.get(&row.route).copied().unwrap_or_default()
        )
    }

    /// Adds to a poller of the daemon what is stored of it: open gaps, and the last success before
    /// this start.
    pub(super) fn completed(&self, mut poller: PollerStatus) -> PollerStatus {
        let Some(before) = self
            .pollers
            .iter()
            .find(|before| before.name() == poller.name())
        else {
            return poller;
        };
        poller.gaps = before.gaps;
        if poller.last_success_age_s.is_none() {
            poller.last_success_age_s = before.last_success_age_s;
            poller.last_success_unknown = before.last_success_unknown;
            // The last poll before this start succeeded a short time ago.
            let is_recent = poller.last_success_age_s.is_some() && !is_stale(&poller);
            if poller.state == PollerState::Starting && is_recent {
                poller.state = PollerState::Ok;
            }
        }
        poller
    }
}

fn is_of(gap: &Gap, row: &PollerRow) -> bool {
    gap.route == row.route && gap.business == row.business
}

/// The sinks while no daemon runs.
pub(super) fn stopped_sinks(reader: &Reader, last_seq: i64) -> Result<Vec<SinkStatus>, StoreError> {
    let rows = reader
        .sinks()?
        .into_iter()
        .filter(|row| row.state != SinkState::Removed);
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
        Ok(SinkStatus {
            behind,
            replay,
            notices,
            ..SinkStatus::of_row(row, state)
        })
    })
    .collect()
}

/// What to do about the sinks that are no longer configured and for which the log keeps something.
fn removed_sinks(reader: &Reader) -> Result<Vec<String>, StoreError> {
    let mut removed = Vec::new();
    for row in reader
        .sinks()?
        .into_iter()
        .filter(|row| row.state == SinkState::Removed)
    {
        let (name, behind) = (&row.name, reader.undelivered(&row)?);
        if behind > 0 {
            removed.push(format!(
                "{name} is no longer configured, and the log keeps {} for it: configure it again, run `shopmirror sinks {name} rename NEW` if it has another name now, or run `shopmirror sinks {name} forget`",
                count(behind, "change", "changes")
            ));
        }
    }
    Ok(removed)
}

/// The seconds since a stamp; `None` if it was made by a clock that was ahead, so that nobody
/// knows.
pub(super) fn age_s(stamp: &str, now: Timestamp) -> Option<f64> {
    let at: Timestamp = stamp.parse().ok()?;
    let age = now.duration_since(at).as_secs_f64();
    (age > -CLOCK_AHEAD_S).then_some(age.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_what_a_clock_that_was_ahead_has_dated_is_unknown() {
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        let age = |stamp: &str| age_s(stamp, now);
        assert_eq!(age("2026-03-01T11:59:00.000000Z"), Some(60.0));
        assert_eq!(
            age("2026-03-01T12:00:02.000000Z"),
            Some(0.0),
            "clocks are set by seconds"
        );
        for ahead in [
            "2026-03-01T13:00:00.000000Z",
            "2036-03-01T12:00:00.000000Z",
            "soon",
        ] {
            assert_eq!(age(ahead), None, "{ahead}");
        }
    }
}
