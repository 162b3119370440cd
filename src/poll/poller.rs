//! How one poller is doing: its failures, its refusals, and what is logged about them.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use shopmirror_core::backoff::Backoff;
use shopmirror_core::clock::Moment;
use shopmirror_core::record::{Page, PollerId};
use shopmirror_core::schedule::{Observation, PollResult};

use super::waits::{self, BETWEEN, ROUTE_REFUSED};
use crate::api::{ApiError, Class, MAX_AGE, Retry};
use crate::net::retry_after::MAX_WAIT;
use crate::store::{PageOutcome, RouteRest};

/// Waits after a poll that failed for a reason that may pass.
const BUSY: Backoff = Backoff {
    base: Duration::from_secs(2),
    cap: Duration::from_secs(300),
};

/// By how much a record may be created after the time of the response that shows it: the header
/// `Date` has whole seconds.
const AHEAD: SignedDuration = SignedDuration::from_secs(5);

/// The longest body that is kept, in bytes: several times as long as a usual page.
const MAX_KEPT_BODY: usize = 512 * 1024;

/// How one poller is doing.
pub(super) struct PollerHealth {
    pub(super) id: PollerId,
    /// When the last request was sent.
    pub(super) started_at: Duration,
    pub(super) failures: u32,
    /// Refusals in a row, or answers of somebody between, that concern this route only. The route is
    /// broken if there are any.
    refusals: usize,
    /// True after the workspace accepted the key although this poller was refused.
    pub(super) key_is_good: bool,
    /// True after the workspace answered a ping although somebody between had answered polls.
    pub(super) workspace_answers: bool,
    pub(super) refused_pages: u64,
    pub(super) last_error: Option<ApiError>,
    pub(super) last_success: Option<Moment>,
    /// The last page, so that the same body is not decoded again.
    pub(super) last_page: Option<Arc<Page>>,
    /// The `Date` of the last page, and when a page with it and the same body came first.
    last_date: Option<(Timestamp, Duration)>,
    /// Until when the server's `Retry-After` forbids a poll of this route.
    retry_at: Option<Duration>,
    /// Requests that this process has sent for it.
    pub(super) sent: u64,
}

impl PollerHealth {
    pub(super) fn new(id: PollerId) -> Self {
        Self {
            id,
            started_at: Duration::ZERO,
            failures: 0,
            refusals: 0,
            key_is_good: false,
            workspace_answers: false,
            refused_pages: 0,
            last_error: None,
            last_success: None,
            last_page: None,
            last_date: None,
            retry_at: None,
            sent: 0,
        }
    }

    /// Takes over what the server asked this route to wait, from before a change of the
    /// configuration.
    pub(super) fn continue_rest(&mut self, before: &Self, now: Duration) {
        self.retry_at = before.waits_until(now);
    }

    /// Takes over what the server asked this route to wait in an earlier process.
    pub(super) fn restore_rest(&mut self, rest: &RouteRest, account: &str, now: Moment) {
        let Some(remaining) = rest.remaining(account, now.wall, MAX_WAIT) else {
            return;
        };
        self.retry_at = Some(now.elapsed + remaining);
        self.last_error = Some(ApiError::Status {
            status: rest.status,
            is_of_workspace: true,
            request_id: None,
            retry_after: Some(remaining),
            quotation: None,
        });
    }

    /// True if the workspace refuses this route although it accepts the key, or if somebody between
    /// answers for this route alone.
    pub(super) fn is_broken(&self) -> bool {
        self.refusals > 0
    }

    /// The end of a wait that the server asked for, if it is still to come.
    pub(super) fn waits_until(&self, now: Duration) -> Option<Duration> {
        self.retry_at.filter(|at| *at > now)
    }

    /// True if it waits only because the last poll failed for a reason that may pass.
    pub(super) fn is_backing_off(&self, now: Duration) -> bool {
        let is_busy = self
            .last_error
            .as_ref()
            .is_some_and(|error| error.class() == Class::Busy);
        self.failures > 0 && is_busy && self.waits_until(now).is_none()
    }

    /// How long ago the same response came first, if a cache repeats it for too long: this page has
    /// the body of the page before, and its `Date`. A server whose clock stands still shows new
    /// records at least.
    pub(super) fn repeated_for(
        &mut self,
        page: &Arc<Page>,
        date: Option<Timestamp>,
        now: Duration,
    ) -> Option<Duration> {
        let is_same = match &self.last_page {
            Some(last) => Arc::ptr_eq(last, page),
            None => false,
        };
        if let (Some((before, came)), Some(date)) = (self.last_date, date)
            && is_same
            && before == date
        {
            let ago = now.saturating_sub(came);
            return if ago > MAX_AGE { Some(ago) } else { None };
        }
        self.last_date = date.map(|date| (date, now));
        None
    }

    /// Keeps the page for the next poll, unless it is so long that it would cost much memory.
    pub(super) fn keep_page(&mut self, page: &Arc<Page>) {
        self.last_page = if page.body().len() <= MAX_KEPT_BODY {
            Some(Arc::clone(page))
        } else {
            None
        };
    }

    /// Clears the failures, so that the next one counts as the first.
    pub(super) fn clear_failures(&mut self) {
        self.failures = 0;
        self.refusals = 0;
    }

    pub(super) fn succeeded(&mut self, now: Moment, stored: &PageOutcome) {
        if self.failures > 1 {
            tracing::warn!(poller = %self.id, "polls of this route succeed again");
        }
        if let Some(gap) = &stored.gap {
            tracing::warn!(
                poller = %self.id,
                gap = gap.id,
                certainty = gap.certainty.as_str(),
                from = gap.from_at,
                to = gap.to_at,
                estimate = gap.estimate,
                "a page does not prove that nothing was missed since the page before; see \
                 `shopmirror gaps`"
            );
        }
        for gap in &stored.left_out {
            tracing::warn!(
                poller = %self.id,
                gap = gap.id,
                "a record whose id holds a NUL cannot be stored and is left out; see \
                 `shopmirror gaps`"
            );
        }
        if let Some(before) = &stored.served_before {
            tracing::warn!(
                poller = %self.id,
                before,
                "another branch answers this route now; if that is not meant, name the branches \
                 under businesses in [workspace]"
            );
        }
        self.log_server_limit(stored);
        self.clear_failures();
        self.last_error = None;
        self.key_is_good = false;
        self.workspace_answers = false;
        self.retry_at = None;
        self.last_success = Some(now);
    }

    /// Says once that the server shows fewer records than requested, and once that it does not any
    /// more.
    fn log_server_limit(&self, stored: &PageOutcome) {
        if stored.server_limit == stored.server_limit_before {
            return;
        }
        match stored.server_limit {
            Some(records) => tracing::warn!(
                poller = %self.id,
                records,
                "the server shows fewer records a page than requested, so that a shorter burst can \
                 be missed; find out what removes `limit` from the requests"
            ),
            None => tracing::warn!(
                poller = %self.id,
                "the server shows as many records a page as requested again"
            ),
        }
    }

    /// Counts a failed poll, logs it if it is the first of its kind, and decides how long to wait;
    /// `chance` is uniform in `0.0..1.0`.
    pub(super) fn failed(&mut self, error: &ApiError, now: Duration, chance: f64) -> Duration {
        let class = match error.class() {
            Class::KeyRefused | Class::KeyForbidden | Class::WrongHost if self.key_is_good => {
                Class::RouteBroken
            }
            Class::Between if self.workspace_answers => Class::RouteBroken,
            class => class,
        };
        let refusals_before = self.refusals;
        self.failures = self.failures.saturating_add(1);
        self.refusals = if class == Class::RouteBroken {
            self.refusals + 1
        } else {
            0
        };
        if is_refused_page(error) {
            self.refused_pages += 1;
        }
        self.log(error, class);
        self.last_error = Some(error.clone());
        let asked = match error.retry() {
            Retry::After(wait) => Some(wait),
            Retry::Backoff | Retry::Never => None,
        };
        self.retry_at = asked.map(|wait| now + wait);
        if error.class() == Class::Between {
            return waits::after(&BETWEEN, refusals_before, chance);
        }
        match class {
            // A route that is missing during an update of the workspace is back within minutes.
            Class::RouteBroken => waits::after(&ROUTE_REFUSED, refusals_before, chance),
            _ => BUSY.wait(self.failures, chance, asked),
        }
    }

    fn log(&self, error: &ApiError, class: Class) {
        let is_same = self
            .last_error
            .as_ref()
            .is_some_and(|last| word(last) == word(error));
        let is_new = match class {
            // A single network error is common and says nothing.
            Class::Busy => self.failures == 2,
            // The error before it may have been one of all pollers, which is not logged here.
            Class::RouteBroken => self.refusals == 1 || !is_same,
            Class::BadPage => !is_same,
            // Logged once for all pollers when they are paused.
            Class::KeyRefused | Class::KeyForbidden | Class::WrongHost | Class::Between => false,
        };
        if is_new {
            tracing::warn!(poller = %self.id, failures = self.failures, %error, "a poll failed and will be retried; nothing of it is stored");
        }
    }
}

/// Whether an error is a response with status 200 that was no page.
fn is_refused_page(error: &ApiError) -> bool {
    match error {
        ApiError::Between(between) => between.status == 200,
        _ => error.class() == Class::BadPage,
    }
}

/// How long ago each record of the page was created, youngest first; empty unless all show it, and
/// if one shows a time that is still to come: then the clock that made them is not `at`'s. `at` is
/// the workspace's time if the response named one, so that a wrong clock here does not matter.
fn ages(page: &Page, at: Timestamp) -> Vec<Duration> {
    let mut ages = Vec::with_capacity(page.records().len());
    for record in page.records() {
        let Some(created_at) = page.created_at(record) else {
            return Vec::new();
        };
        let age = at.duration_since(created_at);
        if age < -AHEAD {
            return Vec::new();
        }
        ages.push(age.try_into().unwrap_or(Duration::ZERO));
    }
    ages.sort_unstable();
    ages
}

/// What the schedule learns from a page; `at` is the workspace's time.
pub(super) fn outcome_of(stored: &PageOutcome, page: &Page, at: Timestamp) -> PollResult {
    if stored.unchanged {
        return PollResult::Unchanged;
    }
    PollResult::Page(Observation {
        records: u32::try_from(stored.records).unwrap_or(u32::MAX),
        new: u32::try_from(stored.created).unwrap_or(u32::MAX),
        contiguous: stored.contiguity.is_proven(),
        ages: ages(page, at),
    })
}

/// An error as one short word, for the status.
pub(super) fn word(error: &ApiError) -> String {
    match error {
        ApiError::Status { status, .. } => format!("http_{status}"),
        ApiError::Between(between) => between.word(),
        ApiError::Page { problem, .. } => problem.word().to_owned(),
        ApiError::NotStored(_) => "not_stored".to_owned(),
        ApiError::OtherWorkspace(_) => "other_workspace".to_owned(),
        ApiError::Transport(transport) => transport.word().to_owned(),
        ApiError::UnusableKey | ApiError::Unsendable(_) => "not_sent".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use shopmirror_core::record::Route;

    use super::*;
    use crate::poll::hold::tests::challenge;

    #[test]
    fn a_response_with_the_same_date_and_body_more_than_ten_seconds_later_is_a_repeated_one() {
        let id = PollerId {
            route: Route::Jobs,
            business: None,
        };
        let mut poller = PollerHealth::new(id);
        let page = Arc::new(crate::api::decode(b"[]".to_vec()).unwrap());
        let other = Arc::new(crate::api::decode(b"[]".to_vec()).unwrap());
        let date: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let mut repeated = |page: &Arc<Page>, date, at| {
            let ago = poller.repeated_for(page, date, Duration::from_secs(at));
            poller.keep_page(page);
            ago.map(|ago| ago.as_secs())
        };
        assert_eq!(repeated(&page, Some(date), 0), None);
        assert_eq!(repeated(&page, Some(date), 10), None);
        assert_eq!(repeated(&page, Some(date), 11), Some(11));
        assert_eq!(repeated(&page, Some(date), 60), Some(60));
        assert_eq!(repeated(&other, Some(date), 61), None, "another body");
        assert_eq!(repeated(&other, None, 99), None, "no date");
    }

    #[test]
    fn ages_are_shown_only_by_times_that_can_be_the_past() {
        let at: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let ages_of = |times: &[&str]| {
            let records: Vec<String> = times
                .iter()
                .enumerate()
                .map(|(id, time)| format!("{{\"id\":{id},\"created_at\":{time}}}"))
                .collect();
            let text = format!("[{}]", records.join(","));
            let page = crate::api::decode(text.into_bytes()).unwrap();
            ages(&page, at)
                .iter()
                .map(Duration::as_secs)
                .collect::<Vec<_>>()
        };
        let past = "\"2026-03-01T11:59:50Z\"";
        assert_eq!(ages_of(&[past, "\"2026-03-01T12:00:01Z\""]), [0, 10]);
        assert_eq!(ages_of(&[past, "\"2026-03-01T13:00:00Z\""]), [] as [u64; 0]);
        assert_eq!(ages_of(&[past, "null"]), [] as [u64; 0]);
        assert_eq!(ages_of(&[past, "\"01/03/2026\""]), [] as [u64; 0]);
    }

    /// What a poller logs that somebody between answers, before and after a ping is answered.
    fn logged_of_a_challenge() -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(Arc::new(file.reopen().unwrap()))
            .finish();
        let mut poller = PollerHealth::new(PollerId {
            route: Route::Leads,
            business: None,
        });
        let challenge = challenge();
        tracing::subscriber::with_default(subscriber, || {
            poller.failed(&challenge, Duration::ZERO, 0.5);
            poller.workspace_answers = true;
            poller.clear_failures();
            for _ in 0..3 {
                poller.failed(&challenge, Duration::ZERO, 0.5);
            }
        });
        std::fs::read_to_string(file.path()).unwrap()
    }

    #[test]
    fn a_route_that_is_held_alone_is_logged_once() {
        let logged = logged_of_a_challenge();
        assert_eq!(logged.matches("a poll failed").count(), 1, "{logged}");
    }
}
