//! What commands have the daemon ask of the workspace, so that they share its budget: searches and
//! the custom fields' definitions.

use std::time::Duration;

use serde::Serialize;

use super::health::Watch;
use crate::api::{ApiError, Class, Retry};
use crate::control::{ControlReply, SearchRequest, SearchResult};
use crate::custom_fields;
use crate::poll::SpareError;
use crate::store::StoreError;

// sysexits(3): wrong data, not available, a temporary failure, not permitted, wrong configuration.
const DATA: u8 = 65;
const UNAVAILABLE: u8 = 69;
const TRY_AGAIN: u8 = 75;
const PERMISSION: u8 = 77;
const CONFIG: u8 = 78;
/// How long to wait after a failure that names no time.
const WAIT: Duration = Duration::from_secs(10);

impl Watch {
    pub(super) async fn search(&self, request: SearchRequest) -> Vec<u8> {
        reply(self.searched(request).await)
    }

    pub(super) async fn custom_fields(&self) -> Vec<u8> {
        let at = self.clock.now().wall;
        reply(custom_fields::refresh(&self.spare, &self.store, at).await.map_err(
            |error| match error {
                custom_fields::RefreshError::Spare(error) => refused(&error),
                custom_fields::RefreshError::Store(error) => not_stored(&error),
            },
        ))
    }

    async fn searched(&self, request: SearchRequest) -> Result<SearchResult, ControlReply<()>> {
        let searched_after = self.store.seq();
        let page = self.spare.search(&request.term, request.business.as_deref()).await;
        let page = page.map_err(|error| refused(&error))?;
        let at = self.clock.now().wall;
        let kept = request.keep(page, Some(&self.store), searched_after, at).await;
        kept.map_err(|error| not_stored(&error))
    }
}

/// A reply as the bytes that go to the command.
pub(super) fn reply<T: Serialize>(outcome: Result<T, ControlReply<()>>) -> Vec<u8> {
    let text = match outcome {
        Ok(done) => serde_json::to_vec(&ControlReply::Done(done)),
        Err(failed) => serde_json::to_vec(&failed),
    };
    text.expect("a reply holds plain values and valid JSON texts")
}

fn refused(error: &SpareError) -> ControlReply<()> {
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

fn not_stored(error: &StoreError) -> ControlReply<()> {
    failed(TRY_AGAIN, error.to_string(), error.passes().then_some(WAIT))
}

fn failed(code: u8, text: String, wait: Option<Duration>) -> ControlReply<()> {
    ControlReply::Failed { code, text, retry_after_s: wait.map(|wait| wait.as_secs_f64()) }
}
