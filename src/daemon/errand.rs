//! What commands have the daemon ask of the workspace, so that they share its budget: searches and
//! the custom fields' definitions.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::health::Watch;
use crate::api::{ApiError, Class, Retry};
use crate::custom_fields;
use crate::poll::SpareError;
use crate::status::{SearchAsk, Searched, Told};
use crate::store::{Search, StoreError};

// sysexits(3): wrong data, not available, a temporary failure, not permitted, wrong configuration.
const DATA: u8 = 65;
const UNAVAILABLE: u8 = 69;
const TRY_AGAIN: u8 = 75;
const PERMISSION: u8 = 77;
const CONFIG: u8 = 78;
/// How long to wait after a failure that names no time.
const WAIT: Duration = Duration::from_secs(10);

impl Watch {
    pub(super) async fn search(&self, ask: SearchAsk) -> Vec<u8> {
        told(self.searched(ask).await)
    }

    pub(super) async fn custom_fields(&self) -> Vec<u8> {
        let at = self.clock.now().wall;
        told(custom_fields::refresh(&self.spare, &self.store, at).await.map_err(
            |error| match error {
                custom_fields::RefreshError::Spare(error) => refused(&error),
                custom_fields::RefreshError::Store(error) => not_stored(&error),
            },
        ))
    }

    async fn searched(&self, ask: SearchAsk) -> Result<Searched, Told<()>> {
        let SearchAsk { term, business, store, backfill } = ask;
        let asked_after = self.store.seq();
        let page =
            self.spare.search(&term, business.as_deref()).await.map_err(|error| refused(&error))?;
        let records = page
            .records()
            .iter()
            .filter_map(|record| RawValue::from_string(page.text(record).to_owned()).ok())
            .collect();
        let found = match store {
            None => None,
            Some(kind) => {
                let backfill_term = backfill.then_some(term);
                let at = self.clock.now().wall;
                let search = Search { business, page, kind, at, asked_after, backfill_term };
                Some(self.store.store_found(search).await.map_err(|error| not_stored(&error))?)
            }
        };
        Ok(Searched { records, found })
    }
}

fn told<T: Serialize>(outcome: Result<T, Told<()>>) -> Vec<u8> {
    let text = match outcome {
        Ok(done) => serde_json::to_vec(&Told::Done(done)),
        Err(failed) => serde_json::to_vec(&failed),
    };
    text.expect("an answer holds plain values and valid JSON texts")
}

fn refused(error: &SpareError) -> Told<()> {
    let (code, wait) = match error {
        SpareError::Ended => (TRY_AGAIN, Some(WAIT)),
        SpareError::Halted(_) => (UNAVAILABLE, Some(WAIT)),
        SpareError::Api(error) => (exit_code(error), wait_of(error)),
    };
    failed(code, error.to_string(), wait)
}

/// The exit code, as sysexits(3) has them, for what the workspace answered.
#[must_use]
pub fn exit_code(error: &ApiError) -> u8 {
    match error.class() {
        Class::KeyRefused | Class::KeyForbidden => PERMISSION,
        Class::WrongHost | Class::RouteBroken => CONFIG,
        Class::Busy => TRY_AGAIN,
        Class::BadPage => DATA,
    }
}

fn wait_of(error: &ApiError) -> Option<Duration> {
    match error.retry() {
        Retry::After(wait) => Some(wait),
        Retry::Backoff => Some(WAIT),
        Retry::Never => None,
    }
}

fn not_stored(error: &StoreError) -> Told<()> {
    failed(TRY_AGAIN, error.to_string(), error.passes().then_some(WAIT))
}

fn failed(code: u8, text: String, wait: Option<Duration>) -> Told<()> {
    Told::Failed { code, text, retry_after_s: wait.map(|wait| wait.as_secs_f64()) }
}
