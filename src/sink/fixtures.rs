//! A sink for tests: returns the verdicts of a closure, and records which changes it got and when.

use async_trait::async_trait;
use shopmirror_core::record::Change;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Sink, SinkError, Verdict};

type Verdicts = dyn FnMut(&Change) -> Verdict + Send;
type Delay = dyn Fn(&Change) -> Duration + Send + Sync;

/// Responds to each change at once, unless it was made [`Self::slow`].
#[derive(Clone)]
pub(crate) struct Scripted {
    at_once: usize,
    start: Instant,
    verdict_on: Arc<Mutex<Box<Verdicts>>>,
    delay: Arc<Delay>,
    responses: Arc<Mutex<Vec<(Duration, Change, Verdict)>>>,
    in_flight: Arc<Mutex<Vec<Change>>>,
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
            delay: Arc::new(|_| Duration::ZERO),
            responses: Arc::default(),
            in_flight: Arc::default(),
        }
    }

    /// Responds to each change after this time.
    pub(crate) fn slow(self, delay: impl Fn(&Change) -> Duration + Send + Sync + 'static) -> Self {
        Self {
            delay: Arc::new(delay),
            ..self
        }
    }

    /// As many as it takes calls at the same time.
    pub(crate) fn calls(&self) -> Vec<Box<dyn Sink>> {
        (0..self.at_once)
            .map(|_| Box::new(self.clone()) as Box<dyn Sink>)
            .collect()
    }

    /// From now on, gives these verdicts.
    pub(crate) fn now_returns(&self, verdict_on: impl FnMut(&Change) -> Verdict + Send + 'static) {
        *self.verdict_on.lock().unwrap() = Box::new(verdict_on);
    }

    /// What it has responded to so far: when, what, and the verdict.
    pub(crate) fn given(&self) -> Vec<(Duration, Change, Verdict)> {
        self.responses.lock().unwrap().clone()
    }

    /// How many changes it got and has not responded to.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.lock().unwrap().len()
    }

    fn begin(&self, change: &Change) {
        let mut in_flight = self.in_flight.lock().unwrap();
        let same = |other: &Change| {
            change.record_id.is_some()
                && (other.route, &other.record_id) == (change.route, &change.record_id)
        };
        assert!(
            !in_flight.iter().any(same),
            "two changes of one record are in flight"
        );
        assert!(
            in_flight.len() < self.at_once,
            "more are in flight than the sink takes"
        );
        in_flight.push(change.clone());
    }

    async fn answer(&self, change: &Change) -> Verdict {
        self.begin(change);
        let ending = InFlight {
            sink: self,
            seq: change.seq,
        };
        tokio::time::sleep((self.delay)(change)).await;
        drop(ending);
        let verdict = (self.verdict_on.lock().unwrap())(change);
        let response = (self.start.elapsed(), change.clone(), verdict.clone());
        self.responses.lock().unwrap().push(response);
        verdict
    }
}

/// A change until it is responded to, or its attempt is dropped.
struct InFlight<'a> {
    sink: &'a Scripted,
    seq: i64,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.sink
            .in_flight
            .lock()
            .unwrap()
            .retain(|other| other.seq != self.seq);
    }
}

#[async_trait]
impl Sink for Scripted {
    async fn deliver(&mut self, changes: &[&Change], _now: Timestamp) -> Result<(), Verdict> {
        for change in changes {
            match self.answer(change).await {
                Verdict::Done => {}
                verdict => return Err(verdict),
            }
        }
        Ok(())
    }

    async fn probe(&self) -> Result<String, SinkError> {
        Ok("scripted".to_owned())
    }
}
