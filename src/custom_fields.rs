//! The mirror of the custom fields' definitions: every form's, once a day and on demand.
//!
//! Uses what polls leave of the budget. A definition is moved only when its meaning changed, and
//! that is told in the log. A form that could not be read stays as it was.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, stamp};
use crate::poll::{BackgroundClient, BackgroundError};
use crate::store::{FormChange, Store, StoreError};

/// Definitions older than this are read again.
const EVERY: SignedDuration = SignedDuration::from_hours(24);
/// How often it is looked whether they are.
const LOOK: Duration = Duration::from_secs(600);
/// How long the first polls are left alone.
const FIRST_LOOK: Duration = Duration::from_secs(30);
/// Forms read at most.
const MOST_FORMS: usize = 200;

/// Why the definitions could not be read or stored.
#[derive(Debug, thiserror::Error)]
pub enum RefreshError {
    /// The workspace was not asked, or did not answer.
    #[error("could not read the custom fields")]
    Request(#[from] BackgroundError),
    /// They could not be stored.
    #[error("could not store the custom fields")]
    Store(#[from] StoreError),
}

/// Reads every form's definitions and stores what changed.
///
/// # Errors
/// [`RefreshError`]; the forms read before it are stored.
pub async fn refresh(
    background: &BackgroundClient,
    store: &Store,
    at: Timestamp,
) -> Result<Vec<FormChange>, RefreshError> {
    let mut forms = background.form_types(None).await?;
    forms.truncate(MOST_FORMS);
    let mut changes = Vec::new();
    let mut failed = None;
    for form_type in &forms {
        let definition = match background.custom_fields(form_type, None).await {
            Ok(definition) => definition.join(","),
            // One form that cannot be read keeps no other from being read.
            Err(error @ BackgroundError::Api(_)) => {
                failed.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let stored = store.store_form(form_type.clone(), format!("[{definition}]"), at).await?;
        changes.extend(stored);
    }
    changes.extend(store.keep_forms(forms, at).await?);
    for change in &changes {
        tracing::info!(
            form_type = change.form_type,
            change = change.what,
            "custom fields changed; see `shopmirror custom-fields`"
        );
    }
    failed.map_or(Ok(changes), |error| Err(error.into()))
}

/// Keeps the definitions fresh until stopped.
///
/// # Errors
/// [`StoreError`] when the store fails in a way that waiting cannot mend.
pub async fn keep_fresh(
    background: BackgroundClient,
    store: Store,
    clock: Clock,
    stop: CancellationToken,
) -> Result<(), StoreError> {
    let mut wait = FIRST_LOOK;
    let mut said = false;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(wait) => {}
        }
        wait = LOOK;
        let now = clock.now().wall;
        match store.read(|reader| reader.forms_checked_at()).await {
            Ok(Some(at)) if is_fresh(&at, now) => continue,
            Ok(_) => {}
            Err(error) if error.passes() => continue,
            Err(error) => return Err(error),
        }
        let outcome = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            outcome = refresh(&background, &store, now) => outcome,
        };
        match outcome {
            Ok(_) => said = false,
            Err(RefreshError::Store(error)) if !error.passes() => return Err(error),
            Err(RefreshError::Request(BackgroundError::Api(error))) if !said => {
                said = true;
                tracing::warn!(%error, "could not read the custom fields; it is tried again every ten minutes");
            }
            Err(_) => {}
        }
    }
}

/// Whether definitions read `at` this stamp need not be read again.
fn is_fresh(at: &str, now: Timestamp) -> bool {
    let stale = now.checked_sub(EVERY).map(stamp).unwrap_or_default();
    // A stamp from the future was taken while the clock was wrong.
    at > stale.as_str() && at <= stamp(now).as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_fresh_for_a_day_and_never_from_the_future() {
        let now: Timestamp = "2026-01-02T12:00:00Z".parse().unwrap();
        assert!(is_fresh("2026-01-02T11:00:00.000000Z", now));
        assert!(!is_fresh("2026-01-01T11:00:00.000000Z", now));
        assert!(!is_fresh("2026-01-03T12:00:00.000000Z", now), "the clock was set back since");
    }
}
