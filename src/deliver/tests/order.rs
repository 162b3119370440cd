//! Whatever operators, the endpoint and kills do, the versions of a record are first received in
//! order.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::shop::Task;
use super::*;
use crate::store::ReplayChoice;

fn refused(for_good: bool) -> Verdict {
    Verdict::Refused {
        reason: "answered 422".into(),
        for_good,
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_version_that_is_sent_again_lets_none_pass_another_that_is_retried() {
    let shop = Shop::new().await;
    let settings = config::SinkSettings {
        retry: Arc::from([9 * HOUR]),
        ..settings()
    };
    let sink = Scripted::new(4, |change| refused(name(change) == "Second"));
    let task = shop.start("erp", sink, settings).await;
    shop.see("1", "Second").await;
    until("it is dead", MINUTE, || task.status().dead == 1).await;
    shop.see("1", "Third").await;
    until("the next is refused", MINUTE, || {
        task.status().retrying == 1
    })
    .await;
    shop.see("1", "Fourth").await;
    until("the last one waits", MINUTE, || task.status().retrying == 2).await;
    task.sink.now_returns(|_| Verdict::Done);
    let dead = shop.count("SELECT seq FROM _queue WHERE state = 'dead'");
    assert_eq!(shop.redrive(&task, Some(dead), false).changes, 1);
    until("all arrive", 24 * HOUR, || task.taken().len() == 3).await;
    assert_eq!(task.taken(), ["Second", "Third", "Fourth"]);
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_dead_letter_the_later_versions_of_its_record_go() {
    let shop = Shop::new().await;
    let settings = config::SinkSettings {
        retry: Arc::from([MINUTE]),
        ..settings()
    };
    let task = shop
        .start("erp", refusing(4, "First", refused(false)), settings)
        .await;
    shop.see("1", "First").await;
    until("it is refused", MINUTE, || task.status().retrying == 1).await;
    shop.see("1", "Second").await;
    shop.see("1", "Third").await;
    until("they wait", MINUTE, || task.status().retrying == 3).await;
    until("they go", 2 * MINUTE, || {
        task.taken() == ["Second", "Third"]
    })
    .await;
    assert_eq!(task.status().dead, 1);
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_not_sent_while_a_newer_version_is_in_flight_nor_after_it() {
    let shop = Shop::new().await;
    let slow = |change: &Change| {
        if name(change) == "Second" {
            MINUTE
        } else {
            Duration::ZERO
        }
    };
    let sink = refusing(4, "First", refused(true)).slow(slow);
    let task = shop.start("erp", sink, settings()).await;
    shop.see("1", "First").await;
    until("it is dead", MINUTE, || task.status().dead == 1).await;
    shop.see("1", "Second").await;
    until("the next is in flight", MINUTE, || {
        task.sink.in_flight() == 1
    })
    .await;
    task.sink.now_returns(|_| Verdict::Done);
    assert_eq!(shop.redrive(&task, None, false).changes, 1);
    until("the next arrives", 2 * MINUTE, || {
        task.taken() == ["Second"]
    })
    .await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(task.taken(), ["Second"]);
    assert_eq!(task.status().dead, 1, "it is dead again");
    task.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_version_is_not_sent_while_an_earlier_one_of_its_record_is_in_flight() {
    let shop = Shop::new().await;
    let slow = |change: &Change| {
        if name(change) == "First" {
            MINUTE
        } else {
            Duration::ZERO
        }
    };
    let sink = Scripted::new(4, |_| Verdict::Done).slow(slow);
    let task = shop.start("erp", sink, settings()).await;
    shop.see("1", "First").await;
    shop.see("1", "Second").await;
    shop.see("2", "Other").await;
    until("another record passes", MINUTE, || {
        task.taken() == ["Other"]
    })
    .await;
    assert_eq!(task.sink.in_flight(), 1);
    until("both arrive", 2 * MINUTE, || task.taken().len() == 3).await;
    assert_eq!(task.taken(), ["Other", "First", "Second"]);
    task.stop().await;
}

/// A refused change waits for hours while versions of its record come and go.
fn patient() -> config::SinkSettings {
    config::SinkSettings {
        retry: Arc::from([HOUR, 9 * HOUR]),
        ..settings()
    }
}

/// A sink, its task and an operator, all of whom do what a seed says.
struct Model {
    shop: Shop,
    random: fastrand::Rng,
    /// The verdicts follow from it.
    verdicts: Arc<Mutex<fastrand::Rng>>,
    /// From now on the endpoint takes everything.
    is_calm: Arc<AtomicBool>,
    /// The sinks of the tasks that were killed.
    killed: Vec<Scripted>,
    task: Task,
    /// Changes that an operator dropped, or sent after a newer version on purpose.
    exempt: HashSet<i64>,
    /// Receipts that no later task can know of, because the one before was killed: they are
    /// repeated.
    unsaved: HashSet<usize>,
    /// What was done, and how many receipts there were before it.
    steps: Vec<(usize, String)>,
}

impl Model {
    async fn new(seed: u64) -> Self {
        let shop = Shop::new().await;
        let verdicts = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed + 1)));
        let is_calm = Arc::new(AtomicBool::new(false));
        let task = shop
            .start("erp", sink(&verdicts, &is_calm), patient())
            .await;
        Self {
            shop,
            random: fastrand::Rng::with_seed(seed),
            verdicts,
            is_calm,
            killed: Vec::new(),
            task,
            exempt: HashSet::new(),
            unsaved: HashSet::new(),
            steps: Vec::new(),
        }
    }

    fn now(&self) -> String {
        self.shop.clock.now().stamp()
    }

    fn wake(&self) {
        self.task.wake.send_replace(());
    }

    /// One of the rows that are not ready.
    fn any_exception(&mut self, state: &str) -> Option<i64> {
        let rows = self.shop.numbers(&format!(
            "SELECT seq FROM _queue WHERE lane = 2 AND state {state}"
        ));
        self.random.choice(rows)
    }

    fn note(&mut self, step: impl Into<String>) {
        let receipts = self.received().len();
        self.steps.push((receipts, step.into()));
    }

    async fn step(&mut self, step: usize) {
        match self.random.u32(0..100) {
            0..45 => {
                let id = self.random.u32(1..=3).to_string();
                self.note(format!("see {id}"));
                self.shop.see(&id, &format!("Version {step}")).await;
            }
            45..65 => {
                let all_versions = self.random.u32(0..8) == 0;
                if let Some(seq) = self.any_exception("IN ('dead', 'retrying')") {
                    self.note(format!("redrive {seq}, all versions: {all_versions}"));
                    if all_versions {
                        self.exempt.insert(seq);
                    }
                    self.shop.redrive(&self.task, Some(seq), all_versions);
                }
            }
            65..67 => {
                self.note("redrive all");
                self.shop.redrive(&self.task, None, false);
            }
            67..70 => {
                if let Some(seq) = self.any_exception("= 'dead'") {
                    self.note(format!("drop {seq}"));
                    self.exempt.insert(seq);
                    self.shop.operator().drop_dead("erp", Some(seq)).unwrap();
                    self.wake();
                }
            }
            70..76 => self.replay(),
            76..79 => {
                self.note("cancel");
                let at = self.now();
                self.shop.operator().cancel_replay("erp", &at).unwrap();
                self.wake();
            }
            79..80 => {
                self.note("hold");
                self.shop.store.hold_sink("erp".into()).await.unwrap();
                self.wake();
            }
            80..86 => self.release(),
            86..87 => self.forget(),
            87..93 => self.wake(),
            _ => self.kill().await,
        }
        let pauses = [0, 20, 300, 300, 3_000, 3_000, 60_000, 600_000];
        let pause = self.random.choice(pauses).unwrap_or_default();
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }

    fn replay(&mut self) {
        self.note("replay");
        let position = self
            .shop
            .count("SELECT position FROM _sinks WHERE name = 'erp'");
        let from = self.random.i64(0..=position);
        let choice = ReplayChoice {
            all_versions: self.random.bool(),
            ..ReplayChoice::default()
        };
        let rate = self.random.choice([1.0, 1_000.0]).unwrap_or(1.0);
        let at = self.now();
        self.shop
            .operator()
            .begin_replay("erp", (from, position), &choice, rate, &at)
            .unwrap();
        self.wake();
    }

    /// Lets go what is held, or drops it.
    fn release(&mut self) {
        self.note("release or skip");
        let mut operator = self.shop.operator();
        if self.random.bool() {
            operator.release_sink("erp").unwrap();
        } else {
            let from = self
                .shop
                .count("SELECT position FROM _sinks WHERE name = 'erp'");
            let wanted = self.shop.numbers(&format!(
                "SELECT seq FROM changes WHERE seq > {from} AND kind IN ('created', 'updated')"
            ));
            let to = self.shop.count("SELECT max(seq) FROM changes");
            let count = i64::try_from(wanted.len()).unwrap();
            if operator.skip_held("erp", (from, to), count).unwrap() {
                self.exempt.extend(wanted);
            }
        }
        self.wake();
    }

    fn forget(&mut self) {
        let id = self.random.u32(2..=3).to_string();
        self.note(format!("forget {id}"));
        let at = self.now();
        let versions = self.shop.numbers(&format!(
            "SELECT seq FROM changes WHERE route = 'leads' AND record_id = '{id}'"
        ));
        self.exempt.extend(versions);
        crate::store::fixtures::forget(&mut self.shop.operator(), &id, &at);
        self.wake();
    }

    /// Ends the task without warning, and starts another one.
    async fn kill(&mut self) {
        self.note("kill");
        self.task.handle.abort();
        let _ = (&mut self.task.handle).await;
        // What it was saving when it was killed is saved.
        let store = &self.shop.store;
        store.hold_sink("nobody".into()).await.unwrap();
        let owed = self.shop.numbers(
            "SELECT seq FROM _queue WHERE lane = 2 UNION ALL SELECT seq FROM changes \
             WHERE seq > (SELECT position FROM _sinks WHERE name = 'erp')",
        );
        for (index, change) in self.received().iter().enumerate() {
            if owed.contains(&change.seq) {
                self.unsaved.insert(index);
            }
        }
        let sink = sink(&self.verdicts, &self.is_calm);
        let next = self.shop.start("erp", sink, patient()).await;
        let before = std::mem::replace(&mut self.task, next);
        self.killed.push(before.sink);
    }

    /// What the endpoint took, in order.
    fn received(&self) -> Vec<Change> {
        let sinks = self.killed.iter().chain([&self.task.sink]);
        let given = sinks.flat_map(|sink| sink.given());
        given
            .filter(|(_, _, verdict)| *verdict == Verdict::Done)
            .map(|(_, change, _)| change)
            .collect()
    }

    fn assert_order(&self, seed: u64) {
        let mut newest: BTreeMap<String, i64> = BTreeMap::new();
        let mut seen = HashSet::new();
        for (index, change) in self.received().into_iter().enumerate() {
            if self.unsaved.contains(&index) || !seen.insert(change.seq) {
                continue;
            }
            let newest = newest.entry(change.record_id.unwrap()).or_default();
            assert!(
                *newest < change.version || self.exempt.contains(&change.seq),
                "seed {seed}: change {} arrives first after version {newest}, as receipt {index}: {:?}",
                change.seq,
                self.steps
            );
            // One that an operator dropped arrives only by a replay, out of its turn.
            if !self.exempt.contains(&change.seq) {
                *newest = change.version.max(*newest);
            }
        }
    }

    async fn finish(self, seed: u64) {
        self.is_calm.store(true, Ordering::SeqCst);
        let at = self.now();
        let mut operator = self.shop.operator();
        operator.cancel_replay("erp", &at).unwrap();
        operator.release_sink("erp").unwrap();
        self.shop.redrive(&self.task, None, false);
        let last = self.shop.count("SELECT max(seq) FROM changes");
        until("it is done", 48 * HOUR, || {
            let status = self.task.status();
            let owed = self
                .shop
                .count("SELECT count(*) FROM _queue WHERE sink = 'erp'");
            status.position == last && owed == status.dead
        })
        .await;
        self.assert_order(seed);
        self.shop.assert_accounted().await;
        let received: HashSet<i64> = self.received().iter().map(|change| change.seq).collect();
        let wanted = self
            .shop
            .numbers("SELECT seq FROM changes WHERE kind IN ('created', 'updated')");
        let dead = self
            .shop
            .numbers("SELECT seq FROM _queue WHERE sink = 'erp'");
        for seq in wanted {
            let is_known = received.contains(&seq) || dead.contains(&seq);
            assert!(
                is_known || self.exempt.contains(&seq),
                "seed {seed}: change {seq} is lost"
            );
        }
        self.task.stop().await;
    }
}

/// An endpoint whose verdicts are drawn, until it is calm.
fn sink(verdicts: &Arc<Mutex<fastrand::Rng>>, is_calm: &Arc<AtomicBool>) -> Scripted {
    let verdicts = Arc::clone(verdicts);
    let delays = Arc::clone(&verdicts);
    let is_calm = Arc::clone(is_calm);
    let sink = Scripted::new(3, move |_| {
        if is_calm.load(Ordering::SeqCst) {
            return Verdict::Done;
        }
        match verdicts.lock().unwrap().u32(0..100) {
            0..25 => refused(false),
            25..45 => refused(true),
            45..47 => fault(),
            47..49 => wait_for(3),
            _ => Verdict::Done,
        }
    });
    sink.slow(move |_| {
        let millis = delays.lock().unwrap().choice([0, 0, 5, 100, 2_000]);
        Duration::from_millis(millis.unwrap_or_default())
    })
}

#[tokio::test(start_paused = true)]
async fn whatever_operators_do_the_versions_of_a_record_are_first_received_in_order() {
    // SHOPMIRROR_SEEDS=2000 tries that many.
    let seeds = std::env::var("SHOPMIRROR_SEEDS").map_or(6, |seeds| seeds.parse().unwrap());
    for seed in 0..seeds {
        let mut model = Model::new(seed).await;
        for step in 0..80 {
            model.step(step).await;
            model.assert_order(seed);
        }
        model.finish(seed).await;
    }
}
