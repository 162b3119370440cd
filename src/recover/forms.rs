//! Mirrors the definitions of the custom fields: every form's, once a day.
//!
//! A definition is stored again only if its meaning changed, and that is logged. A form that cannot be read stays as it was. If the list itself cannot be
//! read, the retries grow from ten minutes to a day.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::api::{ApiError, Client, Retry};
use crate::backoff::Backoff;
use crate::clock::{Clock, stamp};
use crate::poll::{BackgroundClient, BackgroundError};
use crate::record::poller_name;
use crate::store::{Kept, Store, StoreError};

/// Definitions older than this are read again.
const EVERY: SignedDuration = SignedDuration::from_hours(24);
/// How often their age is checked.
const CHECK_EVERY: Duration = Duration::from_secs(600);
/// How long after the start it is checked first, so that the first polls come before.
const FIRST_CHECK: Duration = Duration::from_secs(30);
/// Waits after the workspace refused the list or did not respond.
const RETRIES: Backoff =
    Backoff { base: Duration::from_secs(600), cap: Duration::from_secs(24 * 3600) };
/// The most forms that are read per business.
const MAX_FORMS: usize = 200;
/// The most bytes of one form's definitions that are stored. A field needs some hundred of them.
const MAX_DEFINITION: usize = 256 * 1024;

/// Why the definitions could not be read or stored.
#[derive(Debug, thiserror::Error)]
enum RefreshError {
    /// No request was sent, or the workspace did not answer it.
    #[error("could not read the custom fields")]
    Request(#[from] BackgroundError),
    /// They could not be stored.
    #[error("could not store the custom fields")]
    Store(#[from] StoreError),
}

/// Reads every form's definitions in each business and stores what changed.
/// If one cannot be read, the others still are, and the first error is returned.
async fn refresh(
    background: &BackgroundClient,
    store: &Store,
    businesses: &[Option<String>],
    at: Timestamp,
) -> Result<(), RefreshError> {
    let mut changes = Vec::new();
    let mut failed = None;
    for business in businesses {
        match refresh_business(background, store, business.as_deref(), at, &mut changes).await {
            Err(error @ RefreshError::Request(BackgroundError::Api(_))) => {
                failed.get_or_insert(error);
            }
            other => other?,
        }
    }
    if !changes.is_empty() {
        tracing::info!(forms = changes.join(", "), "custom fields changed");
    }
    failed.map_or(Ok(()), Err)
}

async fn refresh_business(
    background: &BackgroundClient,
    store: &Store,
    business: Option<&str>,
    at: Timestamp,
    changes: &mut Vec<String>,
) -> Result<(), RefreshError> {
    let listing = async |client: &Client| client.form_types(business).await;
    let mut forms = background.request(listing).await?;
    forms.truncate(MAX_FORMS);
    let (mut read, mut failed) = (Vec::new(), None);
    for form_type in &forms {
        let listing = async |client: &Client| client.custom_fields(form_type, business).await;
        let fields = match background.request(listing).await {
            Ok(fields) => fields.join(","),
            // One form that cannot be read does not keep the others from being read.
            Err(error @ BackgroundError::Api(_)) => {
                failed.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let definition = format!("[{fields}]");
        if definition.len() > MAX_DEFINITION {
            tracing::warn!(
                form_type,
                business,
                bytes = definition.len(),
                "the definitions of a form are longer than 256 KiB and were not stored; report this to the operator of the workspace"
            );
            continue;
        }
        read.push((form_type.clone(), definition));
    }
    let changed = store.store_forms(business.map(str::to_owned), forms, read, at).await?;
    let named = |(form, what)| format!("{} {what}", poller_name(form, business));
    changes.extend(changed.iter().map(|(form, what)| named((form, what))));
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// Keeps the definitions fresh until stopped.
pub struct CustomFields {
    /// Sends the requests.
    pub background: BackgroundClient,
    /// Where the definitions are stored.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// The businesses to read; `None` is the workspace's default.
    pub businesses: Vec<Option<String>>,
}

impl CustomFields {
    /// Reads the definitions once a day until stopped.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails for a reason that does not pass.
    pub async fn run(self, stop: CancellationToken) -> Result<(), StoreError> {
        let mut wait = FIRST_CHECK;
        let mut failures = 0;
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(wait) => {}
            }
            wait = CHECK_EVERY;
            if self.are_fresh().await? {
                continue;
            }
            let refreshing =
                refresh(&self.background, &self.store, &self.businesses, self.clock.now().wall);
            let outcome = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                outcome = refreshing => outcome,
            };
            match outcome {
                Ok(()) => failures = 0,
                Err(RefreshError::Store(error)) if !error.is_transient() => return Err(error),
                Err(RefreshError::Request(BackgroundError::Api(error))) => {
                    failures += 1;
                    wait = wait_after(failures, &error);
                    if failures == 1 {
                        tracing::warn!(%error, retry_s = wait.as_secs(), "could not read the custom fields; the retries grow to one a day");
                    }
                }
                Err(_) => {}
            }
        }
    }

    /// True if nothing has to be read now, or the store cannot say.
    async fn are_fresh(&self) -> Result<bool, StoreError> {
        let now = self.clock.now().wall;
        match self.store.read(|reader| reader.kept::<String>(Kept::FORMS_READ)).await {
            Ok(at) => Ok(at.is_some_and(|at| is_fresh(&at, now))),
            Err(error) if error.is_transient() => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// How long to wait after so many failures in a row.
fn wait_after(failures: u32, error: &ApiError) -> Duration {
    let asked = match error.retry() {
        Retry::After(wait) => Some(wait),
        Retry::Backoff | Retry::Never => None,
    };
    // No jitter: each retry is a single request.
    RETRIES.wait(failures, 1.0, asked)
}

/// True if definitions read `at` this time need not be read again.
fn is_fresh(at: &str, now: Timestamp) -> bool {
    let stale = now.checked_sub(EVERY).map(stamp).unwrap_or_default();
    // A time in the future was stored while the clock was wrong.
    at > stale.as_str() && at <= stamp(now).as_str()
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::poll::DispatcherRequest;

    #[test]
    fn definitions_are_fresh_for_a_day_and_never_from_the_future() {
        let now: Timestamp = "2026-01-02T12:00:00Z".parse().unwrap();
        assert!(is_fresh("2026-01-02T11:00:00.000000Z", now));
        assert!(!is_fresh("2026-01-01T11:00:00.000000Z", now));
        assert!(!is_fresh("2026-01-03T12:00:00.000000Z", now), "the clock was set back since");
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_refused_is_requested_ever_less_down_to_once_a_day() {
        let dir = tempfile::tempdir().unwrap();
        let (requests, mut received) = mpsc::channel(1);
        let fields = CustomFields {
            background: BackgroundClient::new(requests),
            store: Store::open(&dir.path().join("mirror.db")).unwrap(),
            clock: Clock::starting_at("2026-01-02T00:00:00Z".parse().unwrap()),
            businesses: vec![Some("1".to_owned()), Some("2".to_owned())],
        };
        let stop = CancellationToken::new();
        let running = tokio::spawn(fields.run(stop.clone()));
        let week = tokio::time::Instant::now() + Duration::from_secs(7 * 24 * 3600);
        let mut asked = 0;
        while let Ok(request) = tokio::time::timeout_at(week, received.recv()).await {
            let Some(DispatcherRequest::Background(reply)) = request else {
                panic!("only lists are requested");
            };
            asked += 1;
            assert!(reply.send(Err(ApiError::Unsendable("refused").into())).is_ok());
        }
        assert!((20..=30).contains(&asked), "{asked} requests in a week");
        stop.cancel();
        running.await.unwrap().unwrap();
    }
}
