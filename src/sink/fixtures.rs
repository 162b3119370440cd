//! A sink for tests: returns what a closure says, and remembers what it was given and when.

use async_trait::async_trait;
use shopmirror_core::record::Change;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{Sink, Verdict};

type Verdicts = dyn FnMut(&Change) -> Verdict + Send;
type Delay = dyn Fn(&Change) -> Duration + Send + Sync;

/// Responds to each change at once, unless it was made [`Self::slow`].
#[derive(Clone)]
pub(crate) struct Scripted {
    at_once: usize,
    start: Instant,
    verdict_on: Arc<Mutex<Box<Verdicts>>>,
    delay: Arc<Delay>,
    given: Arc<Mutex<Vec<(Duration, Change, Verdict)>>>,
    under_way: Arc<Mutex<Vec<Change>>>,
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
            given: Arc::default(),
            under_way: Arc::default(),
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
        self.given.lock().unwrap().clone()
    }

    /// How many changes it was given and has not responded to.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.lock().unwrap().len()
    }

    fn begin(&self, change: &Change) {
        let mut under_way = self.under_way.lock().unwrap();
        let same = |other: &Change| {
            change.record_id.is_some()
                && (other.route, &other.record_id) == (change.route, &change.record_id)
        };
        assert!(
            !under_way.iter().any(same),
            "two changes of one record are under way"
        );
        assert!(
            under_way.len() < self.at_once,
            "more are under way than the sink takes"
        );
        under_way.push(change.clone());
    }

    async fn answer(&self, change: &Change) -> Verdict {
        self.begin(change);
        let ending = UnderWay {
            sink: self,
            seq: change.seq,
        };
        tokio::time::sleep((self.delay)(change)).await;
        drop(ending);
        let verdict = (self.verdict_on.lock().unwrap())(change);
        let given = (self.start.elapsed(), change.clone(), verdict.clone());
        self.given.lock().unwrap().push(given);
        verdict
    }
}

/// A change until it is responded to, or its attempt is dropped.
struct UnderWay<'a> {
    sink: &'a Scripted,
    seq: i64,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.sink
            .under_way
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

    async fn probe(&self) -> Result<String, String> {
        Ok("scripted".to_owned())
    }
}
