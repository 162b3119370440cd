//! A sink for tests: answers as a closure says, and remembers what it was given and when.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Verdict;
use crate::record::Change;

type Answer = dyn FnMut(&Change) -> Verdict + Send;

/// Answers each change at once.
#[derive(Clone)]
pub struct Scripted {
    at_once: usize,
    start: Instant,
    answer: Arc<Mutex<Box<Answer>>>,
    given: Arc<Mutex<Vec<(Duration, Change, Verdict)>>>,
}

impl Scripted {
    pub(crate) fn new(
        at_once: usize,
        answer: impl FnMut(&Change) -> Verdict + Send + 'static,
    ) -> Self {
        Self {
            at_once,
            start: Instant::now(),
            answer: Arc::new(Mutex::new(Box::new(answer))),
            given: Arc::default(),
        }
    }

    /// From now on, answers so.
    pub(crate) fn answers(&self, answer: impl FnMut(&Change) -> Verdict + Send + 'static) {
        *self.answer.lock().unwrap() = Box::new(answer);
    }

    /// What it was given so far: when, what, and its answer.
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
        let verdict = (self.answer.lock().unwrap())(change);
        let given = (self.start.elapsed(), change.clone(), verdict.clone());
        self.given.lock().unwrap().push(given);
        verdict
    }

    pub(super) async fn probe(&self) -> Result<String, String> {
        Ok("scripted".to_owned())
    }
}
