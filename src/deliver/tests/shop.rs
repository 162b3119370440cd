//! A store that tests fill, delivery tasks over it, and the time they take.

use std::sync::Arc;
use std::time::Duration;

use shopmirror_core::clock::Clock;
use shopmirror_core::record::{Change, Kind, PollerId, Route};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::{self, CommandSettings, SinkFilter, SinkKind, Start};
use crate::deliver::{Deliverer, Positions, Resend, Resent, Room, SinkStatus, resend};
use crate::shape::Format;
use crate::sink::{Scripted, Verdict};
use crate::store::{Operator, PollFacts, Reader, SinkRow, Store, StoreError};

/// A store with one poller, and the sinks that deliver from it.
pub(super) struct Shop {
    pub(super) dir: tempfile::TempDir,
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) room: Room,
    pub(super) positions: Positions,
}

/// A delivery task.
pub(super) struct Task {
    pub(super) sink: Scripted,
    pub(super) wake: watch::Sender<()>,
    pub(super) view: watch::Receiver<Option<SinkStatus>>,
    pub(super) finish: CancellationToken,
    pub(super) handle: JoinHandle<Result<(), StoreError>>,
}

impl Shop {
    pub(super) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("mirror.db")).unwrap();
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let shop = Self {
            dir,
            store,
            clock,
            room: Room::of(8_000),
            positions: Positions::default(),
        };
        shop.see("0", "baseline").await;
        shop
    }

    /// What an operator does with the store.
    pub(super) fn operator(&self) -> Operator {
        Operator::open(&self.dir.path().join("mirror.db")).unwrap()
    }

    /// Sends the dead letters of `erp` again.
    pub(super) fn resend(&self, task: &Task, all_versions: bool) -> Resent {
        self.redrive(task, None, all_versions)
    }

    /// Sends one refused change of `erp` again, or all of them.
    pub(super) fn redrive(&self, task: &Task, seq: Option<i64>, all_versions: bool) -> Resent {
        let reader = Reader::open(&self.dir.path().join("mirror.db")).unwrap();
        let row = reader.sink("erp").unwrap().unwrap();
        let filter = settings().filter;
        let wanted = Resend {
            filter: Some(&filter),
            seq,
            all_versions,
        };
        let done = resend(&mut self.operator(), &reader, &row, &wanted).unwrap();
        task.wake.send_replace(());
        done
    }

    /// Each stored change is accounted for at `erp`.
    pub(super) async fn assert_accounted(&self) {
        let row = self.row("erp").await;
        let ready = self.count("SELECT count(*) FROM _queue WHERE lane = 2 AND state = 'ready'");
        let sum = ready + row.delivered + row.retrying + row.dead + row.filtered + row.skipped;
        assert_eq!(sum, row.position, "{row:?}");
    }

    /// Stores a page with one lead, whose number is `id`.
    pub(super) async fn see(&self, id: &str, name: &str) {
        self.see_all(&[(id.to_owned(), name.to_owned())]).await;
    }

    pub(super) async fn see_all(&self, leads: &[(String, String)]) {
        for page in leads.chunks(99) {
            let text = |(id, name): &(String, String)| format!(r#"{{"id":{id},"name":"{name}"}}"#);
            let body = format!("[{}]", page.iter().map(text).collect::<Vec<_>>().join(","));
            let page = crate::api::decode(body.into_bytes()).unwrap();
            let facts = PollFacts {
                at: self.clock.now().wall,
                asked_after: i64::MAX,
                limit: 100,
                page_age: Duration::ZERO,
                served_business: None,
            };
            let key = PollerId {
                route: Route::Leads,
                business: None,
            };
            self.store.store_page(key, page, facts, None).await.unwrap();
        }
    }

    pub(super) fn deliverer(
        &self,
        name: &str,
        sink: &Scripted,
        settings: config::SinkSettings,
    ) -> (Deliverer, watch::Sender<()>) {
        let (wake, woken) = watch::channel(());
        let deliverer = Deliverer {
            name: name.to_owned(),
            sinks: sink.calls(),
            settings,
            store: self.store.clone(),
            clock: self.clock.clone(),
            room: self.room.clone(),
            positions: self.positions.clone(),
            wake: woken,
            view: watch::Sender::new(None),
        };
        (deliverer, wake)
    }

    pub(super) async fn start(
        &self,
        name: &str,
        sink: Scripted,
        settings: config::SinkSettings,
    ) -> Task {
        let (deliverer, wake) = self.deliverer(name, &sink, settings);
        deliverer.open().await.unwrap();
        let view = deliverer.view.subscribe();
        let finish = CancellationToken::new();
        let handle = tokio::spawn(deliverer.run(finish.clone(), CancellationToken::new()));
        until("it runs", MINUTE, || view.borrow().is_some()).await;
        Task {
            sink,
            wake,
            view,
            finish,
            handle,
        }
    }

    /// The row of a sink, read at once.
    pub(super) fn row_now(&self, sink: &str) -> SinkRow {
        let reader = Reader::open(&self.dir.path().join("mirror.db")).unwrap();
        reader.sink(sink).unwrap().unwrap()
    }

    pub(super) async fn row(&self, sink: &'static str) -> SinkRow {
        self.store
            .read(move |reader| reader.sink(sink))
            .await
            .unwrap()
            .unwrap()
    }

    pub(super) fn sql(&self, sql: &str) {
        rusqlite::Connection::open(self.dir.path().join("mirror.db"))
            .unwrap()
            .execute(sql, [])
            .unwrap();
    }

    /// Rows of all queues.
    pub(super) fn owed(&self) -> i64 {
        self.count("SELECT count(*) FROM _queue")
    }

    /// The first column of each row.
    pub(super) fn numbers(&self, sql: &str) -> Vec<i64> {
        let connection = rusqlite::Connection::open(self.dir.path().join("mirror.db")).unwrap();
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    pub(super) fn count(&self, sql: &str) -> i64 {
        rusqlite::Connection::open(self.dir.path().join("mirror.db"))
            .unwrap()
            .query_row(sql, [], |row| row.get(0))
            .unwrap()
    }
}

impl Task {
    pub(super) fn status(&self) -> SinkStatus {
        self.view.borrow().clone().unwrap()
    }

    /// The names of the records that the sink acknowledged, in order.
    pub(super) fn taken(&self) -> Vec<String> {
        let given = self.sink.given();
        let taken = given
            .iter()
            .filter(|(_, _, verdict)| *verdict == Verdict::Done);
        taken.map(|(_, change, _)| name(change)).collect()
    }

    pub(super) fn attempts(&self, wanted: &str) -> Vec<Duration> {
        let given = self.sink.given();
        let attempts = given.iter().filter(|(_, change, _)| name(change) == wanted);
        attempts.map(|(at, _, _)| *at).collect()
    }

    pub(super) async fn stop(self) {
        self.finish.cancel();
        self.handle.await.unwrap().unwrap();
    }
}

pub(super) fn name(change: &Change) -> String {
    let body: serde_json::Value = serde_json::from_str(&change.body).unwrap();
    body["name"].as_str().unwrap().to_owned()
}

/// What a webhook with the usual schedule asks for.
pub(super) fn settings() -> config::SinkSettings {
    let retry = [5, 300, 1800].map(Duration::from_secs);
    config::SinkSettings {
        filter: SinkFilter {
            routes: Route::ALL.to_vec(),
            changes: vec![Kind::Created, Kind::Updated],
            businesses: Vec::new(),
            conditions: Vec::new(),
        },
        start: Start::Now,
        hold_above: None,
        retry: Arc::from(retry),
        rate: None,
        type_name: "command",
        kind: SinkKind::Command(CommandSettings {
            argv: Vec::new(),
            format: Format::Standard,
            batch: 1,
            timeout: Duration::ZERO,
        }),
    }
}

/// Looks every 10 ms at first, and less often the longer it takes, so that a wait of hours of
/// virtual time needs few looks: the condition is seen at most a second late, and never after the
/// limit.
pub(super) async fn until(what: &str, limit: Duration, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        let waited = begun.elapsed();
        assert!(waited < limit, "waited {limit:?} until {what}");
        let pause = (waited / 64).clamp(Duration::from_millis(10), Duration::from_secs(1));
        tokio::time::sleep(pause.min(limit - waited)).await;
    }
}

pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
