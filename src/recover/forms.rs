//! Mirrors the definitions of the custom fields: every form's, once a day.
//!
//! A definition is stored again only if its meaning changed, and that is logged. A form that cannot
//! be read stays as it was. If the list of forms cannot be read, it is tried again after an hour.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use shopmirror_core::clock::{Clock, stamp};
use tokio_util::sync::CancellationToken;

use crate::api::{ApiError, Client};
use crate::poll::{BackgroundClient, BackgroundError};
use crate::store::{MetaKey, Store, StoreError};

/// Definitions older than this are read again.
const EVERY: SignedDuration = SignedDuration::from_hours(24);
/// How often their age is checked.
const CHECK_EVERY: Duration = Duration::from_secs(3600);
/// How long after the start it is checked first, so that the first polls come before.
const FIRST_CHECK: Duration = Duration::from_secs(30);
/// The most forms that are read per business.
const MAX_FORMS: usize = 200;

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
        match stop.run_until_cancelled(self.keep_fresh()).await {
            Some(ended) => ended,
            None => Ok(()),
        }
    }

    async fn keep_fresh(&self) -> Result<(), StoreError> {
        let mut is_failing = false;
        tokio::time::sleep(FIRST_CHECK).await;
        loop {
            match self.refresh().await {
                Ok(None) => is_failing = false,
                Ok(Some(error)) if !is_failing => {
                    tracing::warn!(
                        %error,
                        "could not read the custom fields; they are read again within a day"
                    );
                    is_failing = true;
                }
                Err(error) if !error.is_transient() => return Err(error),
                _ => {}
            }
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }

    /// Reads every form's definitions in each business if that was not done for a day, and stores
    /// those that changed. A form that cannot be read does not keep the others from being read; its
    /// error is returned.
    async fn refresh(&self) -> Result<Option<ApiError>, StoreError> {
        let now = self.clock.now().wall;
        let read_at = self
            .store
            .read(|reader| reader.value::<String>(MetaKey::FORMS_READ))
            .await?;
        if let Some(at) = read_at
            && is_fresh(&at, now)
        {
            return Ok(None);
        }
        let mut failed = None;
        for business in &self.businesses {
            let forms = match self.read(business.as_deref()).await {
                Ok(forms) => forms,
                Err(BackgroundError::Api(error)) => {
                    failed = Some(error);
                    continue;
                }
                Err(BackgroundError::Paused(_) | BackgroundError::Stopped) => break,
            };
            if forms.error.is_some() {
                failed = forms.error;
            }
            let storing =
                self.store
                    .store_forms(business.clone(), forms.names, forms.definitions, now);
            for (form, what) in storing.await? {
                tracing::info!(form, business, "custom fields were {what}");
            }
        }
        Ok(failed)
    }

    /// Reads the forms of a business, and the definitions of each.
    async fn read(&self, business: Option<&str>) -> Result<Forms, BackgroundError> {
        let mut names = self
            .background
            .request(async |client: &Client| client.form_types(business).await)
            .await?;
        names.truncate(MAX_FORMS);
        let mut definitions = Vec::new();
        let mut failed = None;
        for form in &names {
            let read = self
                .background
                .request(async |client: &Client| client.custom_fields(form, business).await)
                .await;
            match read {
                Ok(fields) => definitions.push((form.clone(), format!("[{}]", fields.join(",")))),
                Err(BackgroundError::Api(error)) => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        Ok(Forms {
            names,
            definitions,
            error: failed,
        })
    }
}

/// The forms of one business.
struct Forms {
    names: Vec<String>,
    /// The definitions of each form that could be read, as JSON.
    definitions: Vec<(String, String)>,
    /// Why the last form that could not be read failed.
    error: Option<ApiError>,
}

/// True if definitions read `at` this time need not be read again.
fn is_fresh(at: &str, now: Timestamp) -> bool {
    let Ok(stale) = now.checked_sub(EVERY) else {
        return false;
    };
    // A time in the future was stored while the clock was wrong.
    at > stamp(stale).as_str() && at <= stamp(now).as_str()
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
        assert!(
            !is_fresh("2026-01-03T12:00:00.000000Z", now),
            "the clock was set back since"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_refused_is_requested_again_once_an_hour() {
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
        let day = tokio::time::Instant::now() + Duration::from_secs(24 * 3600);
        let mut count = 0;
        while let Ok(request) = tokio::time::timeout_at(day, received.recv()).await {
            let Some(DispatcherRequest::Background(reply)) = request else {
                panic!("only lists are requested");
            };
            count += 1;
            assert!(
                reply
                    .send(Err(ApiError::Unsendable("refused").into()))
                    .is_ok()
            );
        }
        assert_eq!(count, 2 * 24, "requests in a day");
        stop.cancel();
        running.await.unwrap().unwrap();
    }
}
