//! The snapshot: how everything stands, for people and tools, running or not.
//!
//! One struct that every rendering shows. Beside a running daemon it comes over the socket next to
//! the store; without one it is read from the store. Counts and states only, no record's content.

mod backup;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use backup::BackupStatus;

use crate::budget::BudgetStatus;
use crate::control::ControlError;
use crate::deliver::{SinkActivity, SinkStatus};
use crate::poll::{PollerState, PollerStatus, PollingStatus};
use crate::schedule::Forecast;
use crate::store::{Gap, Reader, SinkState, StoreError};

/// A poller is stale when its last success is older than this many of its intervals …
const STALE_INTERVALS: f64 = 5.0;
/// … and older than this.
const STALE_SECONDS: f64 = 120.0;

/// How everything stands, in one word; the worst that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Everything is as it should be.
    Ok,
    /// Something needs a look, nothing is being lost.
    Degraded,
    /// The budget does not suffice for every route: records will be missed.
    AtRisk,
    /// Records are not being read.
    Failing,
}

/// How everything stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkspaceStatus {
    /// The worst that holds.
    pub health: Health,
    /// Why, each with what to do.
    pub reasons: Vec<String>,
    /// Whether a daemon answered; if not, this is what the store says.
    pub running: bool,
    /// The daemon's process id.
    pub pid: Option<u32>,
    /// Why the last reload was refused: the daemon runs with an older configuration than the file.
    pub reload_refused: Option<String>,
    /// Where the status page is open; only of a running daemon.
    pub page: Option<String>,
    /// When this was taken.
    pub at: String,
    /// One entry a poller.
    pub pollers: Vec<PollerStatus>,
    /// What was spent and what is left; only of a running daemon.
    pub budget: Option<BudgetStatus>,
    /// Whether the budget suffices; only of a running daemon.
    pub forecast: Option<Forecast>,
    /// One entry a sink.
    pub sinks: Vec<SinkStatus>,
    /// Records of each route.
    pub records: BTreeMap<String, i64>,
    /// The last row of the log.
    pub last_seq: i64,
    /// The state of the daily backup; `None` if none are made.
    #[serde(default)]
    pub backup: Option<BackupStatus>,
}

/// What only the store knows.
#[derive(Debug, Clone)]
pub struct Stored {
    records: BTreeMap<String, i64>,
    open_gaps: Vec<(String, Option<String>)>,
    last_seq: i64,
}

impl Stored {
    /// The last row of the log.
    #[must_use]
    pub fn last_seq(&self) -> i64 {
        self.last_seq
    }

    /// Reads it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn read(reader: &Reader) -> Result<Self, StoreError> {
        Ok(Self {
            records: reader
                .counts()?
                .into_iter()
                .map(|(route, n)| (route.to_string(), n))
                .collect(),
            open_gaps: reader
                .gaps()?
                .into_iter()
                .filter(Gap::is_unsettled)
                .map(|gap| (gap.route, gap.business))
                .collect(),
            last_seq: reader.last_seq()?,
        })
    }
}

impl WorkspaceStatus {
    /// Joins what a running daemon knows with what the store holds.
    #[must_use]
    pub fn of_daemon(
        polling: PollingStatus,
        sinks: Vec<SinkStatus>,
        stored: Stored,
        reload_refused: Option<String>,
        page: Option<String>,
        now: Timestamp,
    ) -> Self {
        let mut health = Findings::default();
        if let Some(reason) = polling.key_pause {
            health.add(Health::Failing, reason.advice().to_owned());
        }
        if let Some(reason) = polling.store_pause {
            health.add(Health::Failing, reason.advice().to_owned());
        }
        if !polling.forecast.feasible {
            let first = polling.forecast.first_to_fail.and_then(|index| polling.pollers.get(index));
            let route = first.map_or("a route", |poller| poller.route.as_str());
            health.add(
                Health::AtRisk,
                format!("records of {route} may be missed: a page can fill between two polls; raise requests_per_minute, lower reserve or disable a route (see `shopmirror plan`)"),
            );
        }
        if let Some(why) = &reload_refused {
            health.add(
                Health::Degraded,
                format!("the last reload was refused, the configuration before it stays: {why}; mend it, then reload"),
            );
        }
        let mut snapshot = Self {
            health: Health::Ok,
            reasons: Vec::new(),
            running: true,
            pid: Some(std::process::id()),
            reload_refused,
            page,
            at: crate::clock::stamp(now),
            pollers: polling.pollers,
            budget: Some(polling.budget),
            forecast: Some(polling.forecast),
            sinks,
            records: stored.records,
            last_seq: stored.last_seq,
            backup: None,
        };
        snapshot.count_gaps(&stored.open_gaps);
        if polling.key_pause.is_none() && polling.store_pause.is_none() {
            judge_pollers(&snapshot.pollers, &mut health);
        }
        snapshot.judge_rest(health);
        snapshot
    }

    /// What the store alone says, when no daemon answers for the reason `why`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn of_store(
        reader: &Reader,
        why: &ControlError,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let stored = Stored::read(reader)?;
        let mut health = Findings::default();
        health.add(
            Health::Failing,
            match why {
                ControlError::NotRunning => "no daemon is running on this store: start it with `shopmirror run`, or `systemctl start shopmirror`".to_owned(),
                ControlError::NotListening(_) => why.to_string(),
                ControlError::NoReply(_) => "a daemon runs on this store but does not answer: look at its log, restart it".to_owned(),
            },
        );
        let pollers = reader
            .pollers()?
            .into_iter()
            .map(|row| PollerStatus {
                last_success_age_s: row
                    .last_success_at
                    .parse::<Timestamp>()
                    .ok()
                    .map(|at| now.duration_since(at).as_secs_f64()),
                route: row.route,
                business: row.business,
                state: PollerState::Stopped,
                interval_s: None,
                next_poll_s: None,
                rate_per_hour: None,
                plan: None,
                gaps: 0,
                failures: 0,
                refused_pages: 0,
                last_error: None,
                last_error_text: None,
            })
            .collect();
        let sinks = reader
            .sinks()?
            .into_iter()
            .filter(|row| row.state != SinkState::Removed)
            .map(|row| {
                let state = match row.state {
                    SinkState::Disabled => SinkActivity::Disabled,
                    SinkState::Active | SinkState::Removed => SinkActivity::Stopped,
                };
                SinkStatus {
                    behind: (stored.last_seq - row.position).max(0),
                    ..SinkStatus::of_row(row, state)
                }
            })
            .collect();
        let mut snapshot = Self {
            health: Health::Ok,
            reasons: Vec::new(),
            running: false,
            pid: None,
            reload_refused: None,
            page: None,
            at: crate::clock::stamp(now),
            pollers,
            budget: None,
            forecast: None,
            sinks,
            records: stored.records,
            last_seq: stored.last_seq,
            backup: None,
        };
        snapshot.count_gaps(&stored.open_gaps);
        snapshot.judge_rest(health);
        Ok(snapshot)
    }

    fn count_gaps(&mut self, open: &[(String, Option<String>)]) {
        for poller in &mut self.pollers {
            let of_poller = open
                .iter()
                .filter(|(route, business)| *route == poller.route && *business == poller.business);
            poller.gaps = i64::try_from(of_poller.count()).unwrap_or(i64::MAX);
        }
    }

    fn judge_rest(&mut self, mut health: Findings) {
        for poller in self.pollers.iter().filter(|p| p.gaps > 0) {
            health.add(
                Health::Degraded,
                format!(
                    "{}: {} open gap(s), records may be missing; see `shopmirror gaps`",
                    poller.name(),
                    poller.gaps
                ),
            );
        }
        for sink in &self.sinks {
            let name = &sink.name;
            let why = sink.last_error.as_deref().unwrap_or("no reason is known");
            match sink.state {
                SinkActivity::Paused => health.add(Health::Degraded, format!("sink {name} is paused: {why}")),
                SinkActivity::Holding => health.add(
                    Health::Degraded,
                    format!("sink {name} refuses too much and takes nothing new: mend it, or see `shopmirror dead {name} list`"),
                ),
                SinkActivity::Disabled => health.add(
                    Health::Degraded,
                    format!("sink {name} is disabled since its endpoint is gone (410): mend its url, then reload"),
                ),
                SinkActivity::Active | SinkActivity::Stopped => {}
            }
            if sink.dead > 0 {
                health.add(
                    Health::Degraded,
                    format!("sink {name}: {} change(s) were refused for good; see `shopmirror dead {name} list`", sink.dead),
                );
            }
        }
        self.health = health.worst;
        self.reasons = health.reasons;
    }
}

/// True if the poller has read nothing for much longer than its interval.
#[must_use]
pub fn is_stale(poller: &PollerStatus) -> bool {
    match (poller.last_success_age_s, poller.interval_s) {
        (Some(age), Some(interval)) => age > STALE_SECONDS && age > STALE_INTERVALS * interval,
        _ => false,
    }
}

fn judge_pollers(pollers: &[PollerStatus], health: &mut Findings) {
    let failing =
        pollers.iter().filter(|p| p.failures >= 2 || p.state == PollerState::RouteBroken).count();
    for poller in pollers {
        let stale = is_stale(poller);
        if poller.failures >= 2 || poller.state == PollerState::RouteBroken {
            let why = poller.last_error_text.as_deref().unwrap_or("no reason is known");
            let level = if failing == pollers.len() { Health::Failing } else { Health::Degraded };
            health.add(level, format!("{}: {why}", poller.name()));
        } else if stale {
            let age = poller.last_success_age_s.unwrap_or_default();
            health.add(
                Health::Degraded,
                format!("{}: nothing was read for {age:.0} s", poller.name()),
            );
        }
        if poller.refused_pages > 0 && poller.failures > 0 && poller.failures < 2 {
            let word = poller.last_error.as_deref().unwrap_or("unknown");
            health.add(
                Health::Degraded,
                format!("{}: the last page was refused ({word})", poller.name()),
            );
        }
    }
}

struct Findings {
    worst: Health,
    reasons: Vec<String>,
}

impl Default for Findings {
    fn default() -> Self {
        Self { worst: Health::Ok, reasons: Vec::new() }
    }
}

impl Findings {
    fn add(&mut self, level: Health, reason: String) {
        self.worst = self.worst.max(level);
        self.reasons.push(reason);
    }
}
