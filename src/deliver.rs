//! Delivery: what a sink is still owed is a row of its queue, or a change after its saved position;
//! a row goes when the sink has acknowledged it.
//!
//! Each sink has one task, which feeds its queue from the log and sends from it; a dead sink slows
//! no other. Order is kept per record. A change that the sink refuses is retried and blocks only
//! its record; a fault of the endpoint pauses the sink. A change that the sink takes at once needs no
//! row: the position is saved past it. What was acknowledged is saved in groups, so a crash repeats
//! a bounded number of changes, under the same event ids.

mod backlog;
mod call;
mod feed;
mod filter;
mod flood;
mod forbidden;
mod health;
mod outcomes;
mod owed;
mod pace;
mod pending;
mod positions;
mod refusals;
mod replay;
mod resend;
mod retry_policy;
mod room;
mod send;
mod status;
mod task;
mod window;

use std::time::Duration;

use shopmirror_core::clock::{Clock, stamp};
use tokio::sync::watch;

use crate::config;
use crate::net::retry_after;
use crate::sink::Sink;
use crate::store::{Begin, LatestDue, SinkRow, Store, StoreError};
pub use backlog::{SinkView, not_sent, unread};
pub use filter::wants;
pub use positions::Positions;
pub use replay::{ReplayPreview, Take, replay_filter, replay_preview, replay_rule};
pub use resend::{Resend, Resent, resend};
pub use room::Room;
pub use status::{SinkActivity, SinkStatus};

/// Changes that a sink may have refused, with those behind them, before it takes no new ones.
const MAX_RETRYING: i64 = if cfg!(test) { 1_000 } else { 10_000 };
/// Dead letters a sink may have before it takes no new changes: the program drops none.
const MAX_DEAD: i64 = 1_000_000;
/// Rows of a sink's queue that are ready, at most.
const MAX_READY: i64 = 1_000;
/// A sink looks for work after this long even if nothing woke it.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How long a task waits before it writes again to a full disk.
const DISK_WAIT: Duration = Duration::from_secs(10);

/// What one delivery task is made of.
pub struct Deliverer {
    /// The sink's name.
    pub name: String,
    /// Where changes go: one for each call that may be in flight at the same time.
    pub sinks: Vec<Box<dyn Sink>>,
    /// What the sink asked for.
    pub settings: config::SinkSettings,
    /// Where changes come from.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// The room for large records, which it shares with the other sinks.
    pub room: Room,
    /// The positions that are saved together with those of the other sinks.
    pub positions: Positions,
    /// Woken when an operator changed something about this sink.
    pub wake: watch::Receiver<()>,
    /// Where the sink's status is published.
    pub view: watch::Sender<Option<SinkStatus>>,
}

impl Deliverer {
    /// Makes the sink's row if it has none: from here on it misses nothing.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub async fn open(&self) -> Result<SinkRow, StoreError> {
        let begin = match self.settings.start {
            config::Start::Now => Begin::Now,
            config::Start::Beginning => Begin::Beginning,
            config::Start::At(time) => Begin::At(stamp(time)),
        };
        let at = self.clock.now().stamp();
        self.store
            .open_sink(self.name.clone(), self.settings.type_name, begin, at)
            .await
    }

    /// The longest wait for a change that was refused so often and with which the endpoint failed so
    /// often: that of the schedule with its jitter, or what a receiver can ask for.
    fn longest_wait(&self, attempts: i64, faults: i64) -> Duration {
        let retry = &self.settings.retry;
        let refused = usize::try_from(attempts)
            .unwrap_or_default()
            .min(retry.len());
        let mut longest = Duration::ZERO;
        if refused > 0 {
            longest = retry[refused - 1].mul_f64(1.2);
        }
        if faults > 0 {
            longest = longest.max(retry_after::MAX_WAIT).max(health::PAUSE.cap);
        }
        // Between the plan and this look some time has passed.
        longest + Duration::from_secs(1)
    }

    /// The latest times for which an attempt can be planned now.
    fn latest_due(&self) -> LatestDue {
        let now = self.clock.now().wall;
        let after = |wait| stamp(now.checked_add(wait).unwrap_or(jiff::Timestamp::MAX));
        let most = i64::try_from(self.settings.retry.len()).unwrap_or(i64::MAX);
        LatestDue {
            refused: (0..=most).map(|n| after(self.longest_wait(n, 0))).collect(),
            failed: (0..=most).map(|n| after(self.longest_wait(n, 1))).collect(),
        }
    }
}

/// Retires the sinks that are no longer configured, and logs what each leaves undelivered. The status
/// shows it as long as it is so.
///
/// # Errors
/// [`StoreError`] if the store fails.
pub async fn retire(store: &Store, configured: Vec<String>) -> Result<(), StoreError> {
    let gone = store.retire_sinks(configured).await?;
    let read = store.read(|reader| {
        let counted = gone
            .into_iter()
            .map(|row| Ok((reader.undelivered(&row)?, row.name)));
        counted.collect::<Result<Vec<_>, StoreError>>()
    });
    for (undelivered, sink) in read.await? {
        if undelivered > 0 {
            tracing::warn!(%sink, undelivered, "the sink is no longer configured, and changes were not delivered to it; if it is configured again under this name, it continues from there; the log keeps them until `shopmirror sinks {sink} forget`");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
