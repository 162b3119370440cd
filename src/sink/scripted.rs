//! A sink for tests: answers as a closure says, and remembers what it was given and when.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::Verdict;
use crate::record::Change;

type Answer = dyn FnMut(&Change) -> Verdict + Send;

/// Answers every change of a batch, as an endpoint does that gets them at once.
#[derive(Clone)]
pub struct Scripted {
    batch: usize,
    start: Instant,
    answer: Arc<Mutex<Box<Answer>>>,
    given: Arc<Mutex<Vec<(Duration, Change, Verdict)>>>,
}

impl Scripted {
    pub(crate) fn new(
        batch: usize,
        answer: impl FnMut(&Change) -> Verdict + Send + 'static,
    ) -> Self {
        Self {
            batch,
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

    pub(super) fn batch(&self) -> usize {
        self.batch
    }

    pub(super) fn deliver(&self, changes: &[Change]) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for change in changes {
            let verdict = (self.answer.lock().unwrap())(change);
            let given = (self.start.elapsed(), change.clone(), verdict.clone());
            self.given.lock().unwrap().push(given);
            verdicts.push(verdict);
        }
        verdicts
    }
}
