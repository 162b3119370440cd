//! The part of the status that only the store knows: counts, gaps, and when each poller last
//! succeeded.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use shopmirror_core::clock::stamp;
use shopmirror_core::record::poller_name;

use super::health::is_stale;
use super::{LeftOutList, WorkspaceStatus};
use crate::deliver::{SinkActivity, SinkStatus};
use crate::poll::{PollerState, PollerStatus};
use crate::store::{Gap, GateState, PollerRow, QueueLane, Reader, SinkState, StoreError};
use crate::text::number::count;

/// A stamp that is later than now by more was made by a clock that was ahead.
const CLOCK_AHEAD_S: f64 = 300.0;

impl WorkspaceStatus {
    /// What is stored, with the pollers as they are while no daemon runs; health is not judged yet.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn stored(reader: &Reader, now: Timestamp) -> Result<Self, StoreError> {
        let mut gaps = reader.gaps()?;
        gaps.retain(Gap::is_unsettled);
        let mut records = BTreeMap::new();
        for (route, number) in reader.counts()? {
            records.insert(route.to_string(), number);
        }
        let mut status = Self {
            at: stamp(now),
            workspace: reader.workspace()?.map(|workspace| workspace.name),
            gaps,
            withheld: reader.withheld()?,
            records,
            removed_sinks: removed_sinks(reader)?,
            last_seq: reader.last_seq()?,
            job_links: reader.job_links()?,
            unlinked_routes: reader.unlinked_routes()?,
            fields: reader.field_statuses()?,
            rereads: reader.rereads()?,
            ..Self::default()
        };
        let rows = reader.pollers()?;
        for row in &rows {
            if row.emptied_at.is_some() && !row.is_gone(rows.iter()) {
                status.emptied.push(status.emptied_route(row));
            }
            let age = age_s(&row.last_success_at, now);
            status.left_out.push(LeftOutList {
                name: poller_name(&row.route, row.business.as_deref()),
                last_read_at: row.last_success_at.clone(),
                replaced_at: row.set_aside_at.clone(),
            });
            status.pollers.push(PollerStatus {
                gaps: number_of_gaps(&status.gaps, row),
                server_limit: row.profile.lengths.server_limit(),
                last_success_age_s: age,
                last_success_unknown: age.is_none(),
                route: row.route.clone(),
                business: row.business.clone(),
                ..PollerStatus::default()
            });
        }
        let mut read = rows.clone();
        read.retain(|row| !row.is_gone(rows.iter()));
        status.restored = restored(&read, now);
        if status.restored.is_none() {
            for row in &read {
                status.newest_gone.extend(newest_gone(row));
            }
        }
        Ok(status)
    }

    /// The lists that none of these pollers reads, of the routes that one of them reads.
    pub(super) fn left_out_of(&self, pollers: &[PollerStatus]) -> Vec<LeftOutList> {
        let mut left_out = Vec::new();
        for list in &self.left_out {
            let mut is_route_polled = false;
            let mut is_polled = false;
            for poller in pollers {
                is_route_polled |= list.name.split('@').next() == Some(poller.route.as_str());
                is_polled |= list.name == poller.name();
            }
            if is_route_polled && !is_polled {
                left_out.push(list.clone());
            }
        }
        left_out
    }

    /// What to do about a route whose last page was empty.
    fn emptied_route(&self, row: &PollerRow) -> String {
        format!(
            "{}: the workspace now returns no records, but the mirror has {}; check in the \
             workspace whether they were deleted, or whether the key lost access to them",
            poller_name(&row.route, row.business.as_deref()),
            self.records.get(&row.route).copied().unwrap_or_default()
        )
    }

    /// Adds what is stored about a poller of the daemon: open gaps, and the last success before
    /// this start.
    pub(super) fn completed(&self, mut poller: PollerStatus) -> PollerStatus {
        let name = poller.name();
        let Some(stored) = self.pollers.iter().find(|stored| stored.name() == name) else {
            return poller;
        };
        poller.gaps = stored.gaps;
        poller.server_limit = stored.server_limit;
        if poller.last_success_age_s.is_none() {
            poller.last_success_age_s = stored.last_success_age_s;
            poller.last_success_unknown = stored.last_success_unknown;
            // The last poll before this start succeeded a short time ago.
            let is_recent = poller.last_success_age_s.is_some() && !is_stale(&poller);
            if poller.state == PollerState::Starting && is_recent {
                poller.state = PollerState::Ok;
            }
        }
        poller
    }
}

/// How long it is said that the workspace was restored.
const RESTORED_IS_SAID: SignedDuration = SignedDuration::from_hours(7 * 24);

/// That the workspace was restored from a backup, if an id was used again or two lists lost their
/// newest records at once, and what to do.
fn restored(rows: &[PollerRow], now: Timestamp) -> Option<String> {
    let mut is_restored = false;
    for row in rows {
        if let Some(at) = &row.ids_reused_at
            && let Ok(at) = at.parse::<Timestamp>()
        {
            is_restored |= now.duration_since(at) < RESTORED_IS_SAID;
        }
    }
    let mut gone = Vec::new();
    for row in rows {
        if let Some(newest) = &row.newest_gone
            && newest.is_sure
        {
            gone.push(newest);
        }
    }
    for (number, one) in gone.iter().enumerate() {
        for other in &gone[number + 1..] {
            is_restored |= one.may_be_one_restore(other);
        }
    }
    is_restored.then(|| {
        "the workspace was restored from a backup: what was entered after the backup is gone there \
         and still in the mirror; compare the newest records of `shopmirror log` with the \
         workspace, and enter again what is missing"
            .to_owned()
    })
}

/// What to do about the newest records of a list that are gone.
fn newest_gone(row: &PollerRow) -> Option<String> {
    let gone = row.newest_gone.as_ref()?;
    if !gone.is_sure {
        return None;
    }
    let name = poller_name(&row.route, row.business.as_deref());
    let records = match gone.ids.len() {
        1 => "the newest record is".to_owned(),
        number => format!("the {number} newest records are"),
    };
    Some(format!(
        "{name}: {records} gone from the list: deleted, or was the workspace restored?"
    ))
}

fn number_of_gaps(gaps: &[Gap], row: &PollerRow) -> i64 {
    let own = gaps
        .iter()
        .filter(|gap| gap.route == row.route && gap.business == row.business);
    own.count() as i64
}

/// The sinks while no daemon runs.
pub(super) fn stopped_sinks(reader: &Reader, last_seq: i64) -> Result<Vec<SinkStatus>, StoreError> {
    let mut sinks = Vec::new();
    for row in reader.sinks()? {
        let state = match row.state {
            SinkState::Removed => continue,
            SinkState::Disabled => SinkActivity::Disabled,
            SinkState::Active if row.gate == GateState::Held => SinkActivity::Held,
            SinkState::Active => SinkActivity::Stopped,
        };
        let unread = (last_seq - row.position).max(0);
        let ready = reader.ready_rows(&row.name, QueueLane::Change)?;
        sinks.push(SinkStatus {
            backlog: unread + ready + row.retrying,
            replay: reader.replay(&row.name)?,
            notices: reader.notice_counts(&row.name)?,
            ..SinkStatus::from_row(row, state)
        });
    }
    Ok(sinks)
}

/// What to do about the sinks that are no longer configured and for which the log keeps something.
fn removed_sinks(reader: &Reader) -> Result<Vec<String>, StoreError> {
    let mut removed = Vec::new();
    for row in reader.sinks()? {
        if row.state != SinkState::Removed {
            continue;
        }
        let name = &row.name;
        let undelivered = reader.undelivered(&row)?;
        if undelivered > 0 {
            removed.push(format!(
                "{name} is no longer configured, and the log keeps {} for it: configure it again, \
                 run `shopmirror sinks {name} rename NEW` if it has another name now, or run \
                 `shopmirror sinks {name} forget`",
                count(undelivered, "change", "changes")
            ));
        }
    }
    Ok(removed)
}

/// The seconds since a stamp; `None` if a clock that was ahead made it, because then its age is
/// unknown.
fn age_s(stamp: &str, now: Timestamp) -> Option<f64> {
    let at: Timestamp = stamp.parse().ok()?;
    let age = now.duration_since(at).as_secs_f64();
    if age > -CLOCK_AHEAD_S {
        Some(age.max(0.0))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shopmirror_core::newest::NewestGone;

    #[test]
    fn the_age_of_a_stamp_from_a_clock_that_was_ahead_is_unknown() {
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

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    /// A list whose newest records were shown last, and missed first, at these seconds.
    fn list(route: &str, shown_at: i64, since: i64) -> PollerRow {
        PollerRow {
            route: route.to_owned(),
            newest_gone: Some(NewestGone {
                ids: vec!["9".to_owned(), "8".to_owned()],
                shown_at: at(shown_at),
                since: at(since),
                is_sure: true,
            }),
            ..PollerRow::default()
        }
    }

    #[test]
    fn the_workspace_was_restored_if_two_lists_lose_their_newest_at_once_or_an_id_is_used_again() {
        let is_restored = |rows: &[PollerRow]| restored(rows, at(900)).is_some();
        assert!(!is_restored(&[list("jobs", 0, 10)]));
        assert!(is_restored(&[list("jobs", 0, 10), list("leads", 5, 15)]));
        let mut one = list("leads", 5, 15);
        if let Some(gone) = &mut one.newest_gone {
            gone.ids.truncate(1);
        }
        assert!(!is_restored(&[list("jobs", 0, 10), one]));
        assert!(!is_restored(&[list("jobs", 0, 10), list("leads", 20, 30)]));
        let mut unsure = list("leads", 5, 15);
        if let Some(gone) = &mut unsure.newest_gone {
            gone.is_sure = false;
        }
        assert!(!is_restored(&[list("jobs", 0, 10), unsure]));
        let reused = PollerRow {
            ids_reused_at: Some(at(0).to_string()),
            ..PollerRow::default()
        };
        assert!(is_restored(std::slice::from_ref(&reused)));
        assert!(
            restored(&[reused], at(8 * 86_400)).is_none(),
            "a week later"
        );
        let said = newest_gone(&list("jobs", 0, 10)).unwrap();
        assert_eq!(
            said,
            "jobs: the 2 newest records are gone from the list: deleted, or was the workspace restored?"
        );
    }
}
