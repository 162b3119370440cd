//! What the tests of this module share: a store in a folder of its own, pages, and polls.

use std::ops::RangeInclusive;
use std::time::Duration;

use shopmirror_core::record::{Change, Page, PollerId, Record, Route};
use tempfile::TempDir;

use super::sql::Sql;
use super::{
    Forgotten, Operator, PageOutcome, PollFacts, QueueLane, QueueRow, Reader, RowState, Store,
    StoreError,
};

pub(super) fn open() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("mirror.db")).unwrap();
    (dir, store)
}

/// A page of records, each given as its JSON text.
pub(super) fn page(texts: &[String]) -> Page {
    let (mut body, mut records) = (String::from("["), Vec::new());
    for text in texts {
        if !records.is_empty() {
            body.push(',');
        }
        let span = body.len()..body.len() + text.len();
        body.push_str(text);
        records.push(Record::read(&body, span).unwrap());
    }
    body.push(']');
    Page::new(body, records)
}

/// Records with these ids, the newest first.
pub(super) fn records(ids: RangeInclusive<i64>) -> Vec<String> {
    ids.rev().map(|id| record(id, "N")).collect()
}

pub(super) fn record(id: i64, name: &str) -> String {
    format!(r#"{{"id":{id},"name":"{name}"}}"#)
}

/// One poll of leads, some seconds after the one before.
pub(super) struct Poll {
    pub(super) business: Option<&'static str>,
    pub(super) served: Option<&'static str>,
    pub(super) limit: u32,
    pub(super) second: i64,
}

impl Poll {
    pub(super) const USUAL: Self = Self {
        business: None,
        served: None,
        limit: 20,
        second: 0,
    };

    /// The usual one, so many seconds after the first one.
    pub(super) const fn at(second: i64) -> Self {
        Self {
            second,
            ..Self::USUAL
        }
    }

    pub(super) async fn shows(self, store: &Store, records: &[String]) -> PageOutcome {
        self.shows_of(store, Route::Leads, records).await
    }

    pub(super) async fn shows_of(
        self,
        store: &Store,
        route: Route,
        records: &[String],
    ) -> PageOutcome {
        let business = self.business.map(str::to_owned);
        let key = PollerId { route, business };
        store
            .store_page(key, page(records), self.facts(store), None)
            .await
            .unwrap()
    }

    pub(super) fn facts(&self, store: &Store) -> PollFacts {
        PollFacts {
            at: jiff::Timestamp::from_second(1_800_000_000 + self.second).unwrap(),
            asked_after: store.seq(),
            limit: self.limit,
            page_age: Duration::ZERO,
            served_business: self.served.map(str::to_owned),
        }
    }
}

/// The steps in which SQLite runs a statement.
pub(super) fn plan(connection: &rusqlite::Connection, sql: &str) -> Vec<String> {
    let mut statement = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap();
    let steps = statement
        .raw_query()
        .mapped(|row| row.get::<_, String>("detail"));
    steps.collect::<rusqlite::Result<_>>().unwrap()
}

/// Certainty and bounds of each gap, the oldest first.
pub(super) async fn gaps(store: &Store) -> Vec<(String, String)> {
    let gaps = store.read(|reader| reader.gaps()).await.unwrap();
    let side = |id: Option<String>| id.unwrap_or_else(|| "-".to_owned());
    let shown = gaps.into_iter().rev().map(|gap| {
        let estimate = gap
            .estimate
            .map_or_else(|| "?".to_owned(), |n| n.to_string());
        let bounds = format!(
            "{}..{}: {estimate}",
            side(gap.after_id),
            side(gap.before_id)
        );
        (gap.certainty.as_str().to_owned(), bounds)
    });
    shown.collect()
}

/// Forgets a lead and purges.
pub(crate) fn forget(operator: &mut Operator, id: &str, at: &str) -> Forgotten {
    let forgotten = operator
        .forget_records(&[(Route::Leads, id.to_owned())], at)
        .unwrap()[0];
    if forgotten != Forgotten::Unknown {
        operator.purge().unwrap();
    }
    forgotten
}

/// All notices that a sink has not taken, with what they say.
pub(crate) fn notices(reader: &Reader, sink: &str) -> Result<Vec<Change>, StoreError> {
    let sql = "SELECT seq FROM _queue WHERE sink = ?1 AND lane = 0 ORDER BY seq";
    let ids: Vec<i64> = reader.connection.values(sql, [sink])?;
    ids.into_iter()
        .filter_map(|id| reader.notice(id).transpose())
        .collect()
}

/// A change of a lead that is ready in the queue of a sink.
pub(crate) fn queue_row(lane: QueueLane, seq: i64, attempts: i64) -> QueueRow {
    QueueRow {
        lane,
        seq,
        route: "leads".into(),
        record_id: seq.to_string(),
        state: RowState::Ready,
        attempts,
        faults: 0,
        due_at: None,
        last_error: None,
        last_error_quotation: None,
        since: "2026-01-01T00:00:00.000000Z".into(),
        only_if_newest: false,
    }
}
