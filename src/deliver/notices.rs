//! Notices: what this program tells a sink by itself, handed over between its changes.
//!
//! A notice never touches the position or the counts of changes: a sink that cannot take one goes on
//! with its changes, and the notice is tried again later. Only a wait that the endpoint asks for holds
//! up changes too.

use std::time::Duration;

use super::Deliverer;
use super::health::Fault;
use super::settle::wait_until;
use super::task_state::{Ends, TaskState};
use crate::clock::{Moment, stamp};
use crate::sink::Verdict;
use crate::store::{DueNotice, NoticeFate, PendingNotice, SinkState, StoreError};

/// Notices read at once.
const AT_ONCE: usize = 32;
/// The shortest and the longest wait after a fault of the endpoint.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(15 * 60)];

/// What an attempt came to.
#[derive(Default)]
struct Tried {
    /// The wait before the next one; `None` if the notice is done with.
    wait: Option<Duration>,
    /// The endpoint is at fault, not the notice.
    fault: Option<Fault>,
    /// The sink did not get to it.
    is_untried: bool,
}

impl Deliverer {
    /// Hands over the notices that are due; returns the wait until the next one is, `None` if no
    /// notice waits.
    pub(super) async fn notices(
        &mut self,
        known: &mut TaskState,
        ends: &Ends<'_>,
    ) -> Result<Option<Duration>, StoreError> {
        let now = self.clock.now().elapsed;
        match known.notices_at {
            Some(at) if at <= now => {}
            later => return Ok(later.map(|at| at - now)),
        }
        if known.row.state == SinkState::Disabled {
            return Ok(None);
        }
        let name = self.name.clone();
        let due = self.clock.now().stamp();
        let read = self.store.read(move |reader| reader.due_notices(&name, AT_ONCE, &due));
        let pending = read.await?;
        // Those that are due come first: if every one that was read was due, there may be more.
        let mut are_more_due = pending.len() == AT_ONCE;
        let mut waits: Vec<Duration> = Vec::new();
        for DueNotice { id, next_attempt_at } in pending {
            let wall = self.clock.now().wall;
            let wait = wait_until(next_attempt_at.as_deref(), wall).unwrap_or_default();
            let wait = if wait > self.longest_wait() { Duration::ZERO } else { wait };
            if !wait.is_zero() || ends.finish.is_cancelled() {
                are_more_due = false;
                waits.push(wait);
                continue;
            }
            // One at a time is in memory: a report may have 4 MiB.
            let read = self.store.read(move |reader| reader.notice(id));
            let Some(notice) = read.await? else { continue };
            let tried = self.notice(notice, ends).await?;
            waits.extend(tried.wait);
            are_more_due &= !tried.is_untried && tried.fault.is_none();
            // The endpoint is at fault: what else waits is not tried now, and changes are not kept waiting.
            if let Some(fault) = tried.fault {
                waits.push(tried.wait.unwrap_or(WAITS[0]));
                self.rest(known, &fault);
                break;
            }
        }
        let now = self.clock.now().elapsed;
        let wait = if are_more_due { Some(Duration::ZERO) } else { waits.into_iter().min() };
        known.notices_at = wait.map(|wait| now + wait);
        Ok(wait)
    }

    /// Hands one over.
    async fn notice(
        &mut self,
        notice: PendingNotice,
        ends: &Ends<'_>,
    ) -> Result<Tried, StoreError> {
        let given = [notice.change];
        let wall = self.clock.now().wall;
        let verdict = self.sink.deliver(&given, wall, ends.cut).await.pop();
        let [change] = given;
        let moment = self.clock.now();
        let mut fault = None;
        let (wait, attempts, reason) = match verdict {
            Some(Verdict::Done) => {
                self.store.settle_notice(notice.id, NoticeFate::Settled).await?;
                return Ok(Tried::default());
            }
            Some(Verdict::Refused { reason, for_good }) => {
                let attempts = notice.attempts + 1;
                let tried = usize::try_from(attempts).unwrap_or(usize::MAX);
                match self.settings.retry.get(tried - 1).filter(|_| !for_good) {
                    Some(wait) => (*wait, attempts, reason),
                    None => {
                        tracing::error!(sink = %self.name, kind = %change.kind, about = change.record_id, reason,
                            "the sink refused an alert or report for good, and it is kept: correct the sink, see `shopmirror check --sink {}`, then reload, and it is sent again", self.name);
                        let fate = NoticeFate::GivenUp {
                            attempts,
                            at: moment.stamp(),
                            last_error: reason,
                        };
                        self.store.settle_notice(notice.id, fate).await?;
                        return Ok(Tried::default());
                    }
                }
            }
            Some(Verdict::Fault { reason, retry_after }) => {
                let wait =
                    patience(&change.observed_at, moment).max(retry_after.unwrap_or_default());
                fault = Some(Fault { reason: reason.clone(), asked: retry_after });
                (wait, notice.attempts, reason)
            }
            Some(Verdict::Gone { reason }) => {
                fault = Some(Fault { reason: reason.clone(), asked: None });
                (WAITS[1], notice.attempts, reason)
            }
            Some(Verdict::NotTried | Verdict::CutShort) | None => {
                return Ok(Tried { wait: Some(WAITS[0]), fault, is_untried: true });
            }
        };
        tracing::warn!(sink = %self.name, kind = %change.kind, about = change.record_id, reason,
            wait_s = wait.as_secs(), "a notice could not be delivered and will be tried again");
        let next = moment.wall.checked_add(wait).map(stamp).unwrap_or_default();
        let fate = NoticeFate::PutOff { attempts, next_attempt_at: next, last_error: reason };
        self.store.settle_notice(notice.id, fate).await?;
        Ok(Tried { wait: Some(wait), fault, is_untried: false })
    }
}

/// The wait after a fault: longer the older the notice is.
fn patience(made_at: &str, now: Moment) -> Duration {
    let made = made_at.parse::<jiff::Timestamp>().unwrap_or(now.wall);
    let age = Duration::try_from(now.wall.duration_since(made)).unwrap_or_default();
    (age / 4).clamp(WAITS[0], WAITS[1])
}
