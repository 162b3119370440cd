//! The budget of a process that just began: what earlier processes sent within the last minute, and how
//! long the workspace asked to wait.

use std::time::Duration;

use jiff::Timestamp;

use crate::budget::Budget;
use crate::clock::{Moment, stamp};
use crate::config::BudgetSettings;
use crate::retry_after;
use crate::store::{ProcessStart, Spending, Store, StoreError};

/// The shortest time that tells two moments apart here.
const JUST_BEFORE: Duration = Duration::from_millis(1);

/// The budget of a process that may send `at_once` requests without spacing. Notes its start.
pub(super) async fn first_budget(
    settings: BudgetSettings,
    at_once: usize,
    store: &Store,
    account: &str,
    now: Moment,
) -> Result<Budget, StoreError> {
    let since = now.wall.checked_sub(Spending::REACH).map(stamp).unwrap_or_default();
    let times = store.read(move |reader| reader.poll_times_since(&since)).await?;
    // A time in the future was written while the clock was wrong.
    let mut ages: Vec<Duration> = times
        .into_iter()
        .filter_map(|time| Duration::try_from(now.wall.duration_since(time)).ok())
        .collect();
    // The times within a run of equal polls are estimates: one more request makes up for that.
    ages.extend(ages.iter().min().copied());
    let spending = store.read(|reader| reader.spending()).await?;
    let mut budget = Budget::new(settings, now);
    let per_minute = budget.pace_per_minute(now);
    suppose(&mut ages, &spending.starts, per_minute, now.wall);
    budget.recall(&ages, now);
    let rest_until = spending.rest_of(account);
    let wait = rest_until.map(|until| until.duration_since(now.wall)).unwrap_or_default();
    // A longer one was noted while the clock was wrong.
    if let Ok(wait) = Duration::try_from(wait)
        && wait <= retry_after::LONGEST
    {
        budget.rest(wait, now);
    }
    let at_once = u32::try_from(at_once).unwrap_or(u32::MAX);
    if let Err(error) = store.note_start(now.wall, at_once).await {
        tracing::warn!(%error, "could not note the start: after a kill within the next minute the daemon may send too many requests");
    }
    Ok(budget)
}

/// Replaces what is known of each process that did not end in order by the most that it may have sent,
/// if that is more: its first polls at once, then an even pace until the next start.
fn suppose(ages: &mut Vec<Duration>, starts: &[ProcessStart], per_minute: f64, now: Timestamp) {
    let age = |at: Timestamp| Duration::try_from(now.duration_since(at)).unwrap_or_default();
    let memory = Spending::REACH.unsigned_abs();
    let apart = Duration::from_secs_f64(60.0 / per_minute.max(0.01));
    for (index, start) in starts.iter().enumerate() {
        let begun = age(start.at);
        // What comes at the end itself is the next start's.
        let ended = starts.get(index + 1).map_or(Duration::ZERO, |next| age(next.at) + JUST_BEFORE);
        let is_its_own = |age: &Duration| (ended..=begun).contains(age);
        let at_once = if begun < memory { start.at_once } else { 0 };
        let mut sent = vec![begun; usize::try_from(at_once).unwrap_or(usize::MAX)];
        // From the end backwards, as far as a minute reaches.
        let mut at = ended;
        while at < begun.min(memory) {
            sent.push(at);
            at += apart;
        }
        if ages.iter().filter(|age| is_its_own(age)).count() < sent.len() {
            ages.retain(|age| !is_its_own(age));
            ages.extend(sent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supposed(known: &[u64], starts: &[u64], per_minute: f64) -> Vec<u64> {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let mut ages: Vec<Duration> = known.iter().map(|age| Duration::from_secs(*age)).collect();
        let starts: Vec<ProcessStart> = starts
            .iter()
            .map(|age| ProcessStart { at: now - Duration::from_secs(*age), at_once: 2 })
            .collect();
        suppose(&mut ages, &starts, per_minute, now);
        let mut ages: Vec<u64> = ages.iter().map(Duration::as_secs).collect();
        ages.sort_unstable();
        ages
    }

    #[test]
    fn a_process_that_was_killed_is_supposed_to_have_used_its_budget() {
        assert_eq!(supposed(&[4, 40], &[], 60.0), [4, 40]);
        assert_eq!(supposed(&[], &[3], 60.0), [0, 1, 2, 3, 3]);
        assert_eq!(supposed(&[1, 50], &[3], 60.0), [0, 1, 2, 3, 3, 50]);
        assert_eq!(supposed(&[0, 1, 1, 2, 2, 3], &[3], 60.0), [0, 1, 1, 2, 2, 3]);
        assert_eq!(supposed(&[], &[20, 10], 6.0), [0, 10, 10, 10, 20, 20]);
        assert_eq!(supposed(&[], &[5_000], 2.0), [0, 30, 60]);
    }
}
