//! A sink for tests: returns what a closure says, and remembers what it was given and when.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Verdict;
use crate::record::Change;

type Verdicts = dyn FnMut(&Change) -> Verdict + Send;

/// Answers each change at once.
#[derive(Clone)]
pub struct Scripted {
    at_once: usize,
    start: Instant,
    verdict_on: Arc<Mutex<Box<Verdicts>>>,
    given: Arc<Mutex<Vec<(Duration, Change, Verdict)>>>,
}

impl Scripted {
    pub(crate) fn new(
        at_once: usize,
        verdict_on: impl FnMut(&Change) -> Verdict + Send + 'static,
    ) -> Self {
        Self {
            at_once,
            start: Instant::now(),
            verdict_on: Arc::new(Mutex::new(Box::new(verdict_on))),
            given: Arc::default(),
        }
    }

    /// From now on, gives these verdicts.
    pub(crate) fn now_returns(&self, verdict_on: impl FnMut(&Change) -> Verdict + Send + 'static) {
        *self.verdict_on.lock().unwrap() = Box::new(verdict_on);
    }

    /// What it was given so far: when, what, and the verdict.
    pub(crate) fn given(&self) -> Vec<(Duration, Change, Verdict)> {
        self.given.lock().unwrap().clone()
    }

    pub(super) fn concurrency(&self) -> usize {
        self.at_once
    }

    pub(super) async fn deliver(
        &self,
        change: &Change,
        _now: Timestamp,
        _stop: &CancellationToken,
    ) -> Verdict {
        let verdict = (self.verdict_on.lock().unwrap())(change);
        let given = (self.start.elapsed(), change.clone(), verdict.clone());
        self.given.lock().unwrap().push(given);
        verdict
    }

    pub(super) async fn probe(&self) -> Result<String, String> {
        Ok("scripted".to_owned())
    }
}
