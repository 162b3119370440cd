//! Keeping the file bounded: checkpoints whose result is read, and retention.

use std::time::Duration;

use jiff::Timestamp;

use super::error::StoreError;
use super::full_text::SearchIndex;
use super::writer::Writer;
use super::{checkpoint, log, open};
use crate::clock::stamp;

/// Rows of the log looked at in one step of retention.
const PRUNE_SPAN: i64 = 2_000;
/// Rows of `polls` deleted in one step.
const POLLS_STEP: i64 = 2_000;
/// How long `polls` goes back.
const POLLS_KEPT: Duration = Duration::from_secs(30 * 86_400);
/// Past this size the write-ahead log is cut, not only copied.
const WAL_TARGET: u64 = 16 * 1024 * 1024;

/// What one round of upkeep found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upkeep {
    /// Size of the write-ahead log in bytes.
    pub wal_bytes: u64,
    /// Whether a reader kept the checkpoint from finishing.
    pub reader_in_the_way: bool,
    /// Rows that retention deleted.
    pub pruned: usize,
}

/// One bounded step of upkeep.
pub(super) fn step(
    writer: &mut Writer,
    now: Option<Timestamp>,
    retention: Duration,
) -> Result<Upkeep, StoreError> {
    writer.refuse_replaced_file()?;
    // A command may have set it aside.
    writer.index_seen = SearchIndex::read(&writer.connection)?;
    // First: on a full disk it is what gives room back.
    let (wal_bytes, finished) = checkpoint(writer)?;
    let pruned = now.map_or(Ok(0), |now| prune(writer, now, retention))?;
    Ok(Upkeep { wal_bytes, reader_in_the_way: !finished, pruned })
}

/// Copies the write-ahead log into the store, and cuts it when it is large and no reader is open.
fn checkpoint(writer: &mut Writer) -> Result<(u64, bool), StoreError> {
    let path = open::with_suffix(&writer.path, "-wal");
    let size = || std::fs::metadata(&path).map_or(0, |m| m.len());
    if !writer.changed_since_checkpoint() && size() <= WAL_TARGET {
        return Ok((size(), true));
    }
    // A reader would keep the cut waiting; the copy goes as far as it can.
    let finished = checkpoint::run(&writer.connection, "PASSIVE")?
        && (size() <= WAL_TARGET || writer.cut_briefly()?);
    if finished {
        writer.checkpointed();
    }
    Ok((size(), finished))
}

fn prune(writer: &mut Writer, now: Timestamp, retention: Duration) -> Result<usize, StoreError> {
    let before = |kept: Duration| now.checked_sub(kept).map(stamp).unwrap_or_default();
    let last = log::last_seq(&writer.connection)?;
    let from = if writer.prune_from >= last { 0 } else { writer.prune_from };
    let cutoff = before(retention);
    // Nothing is old enough yet: the common case on a young store, and it costs one look. A row
    // from the future was observed while the clock was wrong: it says nothing of those behind it.
    let old: bool = writer
        .connection
        .prepare_cached("SELECT coalesce((SELECT observed_at FROM changes WHERE seq > ?1 ORDER BY seq LIMIT 1) NOT BETWEEN ?2 AND ?3, 0)")?
        .query_row((from, &cutoff, stamp(now)), |row| row.get(0))?;
    let mut pruned = 0;
    if old {
        let (deleted, next) = log::prune(&writer.connection, from, PRUNE_SPAN, &cutoff)?;
        writer.prune_from = next;
        pruned += deleted;
    } else {
        writer.prune_from = 0;
    }
    let polls_cutoff = before(POLLS_KEPT);
    let old_polls: bool = writer
        .connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM polls WHERE to_at < ?1)")?
        .query_row([&polls_cutoff], |row| row.get(0))?;
    if old_polls {
        pruned += writer
            .connection
            .prepare_cached(
                "DELETE FROM polls WHERE id IN (SELECT id FROM polls WHERE to_at < ?1 LIMIT ?2)",
            )?
            .execute((&polls_cutoff, POLLS_STEP))?;
    }
    Ok(pruned)
}

#[cfg(test)]
mod tests {
    use crate::record::{Page, PollerId, Record, RecordId, Route};
    use crate::store::fixtures::{self, Poll};
    use crate::store::{Begin, PollFacts, Reader, Store};

    use super::*;

    async fn see(store: &Store, id: &str, name: &str, at: &str) {
        let body = format!(r#"[{{"id":{id},"name":"{name}"}}]"#);
        let id = RecordId::from_text(id).unwrap();
        let record = Record::at(1..body.len() - 1, &body, id);
        let facts = PollFacts {
            at: at.parse().unwrap(),
            asked_after: i64::MAX,
            limit: 100,
            latency: Duration::ZERO,
            remaining: None,
            served_business: None,
        };
        let poller = PollerId { route: Route::Leads, business: None };
        store.store_page(poller, Page::new(body, vec![record]), facts, None).await.unwrap();
    }

    async fn versions(store: &Store, id: &'static str) -> Vec<i64> {
        let left = store.read(|reader| reader.history(Route::Leads, id)).await.unwrap().changes;
        left.iter().map(|change| change.version).collect()
    }

    #[tokio::test]
    async fn a_reader_that_stays_open_bounds_the_write_ahead_log_and_loses_nothing() {
        const MOST: u64 = 2 * 1024 * 1024;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let store = Store::open(&path).unwrap();
        store.shared.writer.lock().unwrap().as_mut().unwrap().wal_most = MOST;
        let poll = |second: i64| {
            let shown: Vec<String> = (second * 10..second * 10 + 20)
                .rev()
                .map(|id| fixtures::record(id, &"N".repeat(400)))
                .collect();
            (Poll { second, ..Poll::USUAL }, shown)
        };
        let (first, shown) = poll(0);
        first.shows(&store, &shown).await;
        let tool = rusqlite::Connection::open(&path).unwrap();
        tool.execute_batch("BEGIN; SELECT count(*) FROM leads;").unwrap();
        // Ten minutes of polls, and the upkeep between them.
        let mut refused = Vec::new();
        for second in 1..600 {
            let (poll, shown) = poll(second);
            let facts = poll.facts(&store);
            if second % 30 == 0 {
                store.upkeep(Some(facts.at), MONTH).await.unwrap();
            }
            let poller = PollerId { route: Route::Leads, business: None };
            if let Err(error) = store.store_page(poller, fixtures::page(&shown), facts, None).await
            {
                assert!(error.passes() && store.try_write().await.is_err(), "{error}");
                refused.push(second);
            }
        }
        let size = std::fs::metadata(dir.path().join("mirror.db-wal")).unwrap().len();
        assert!(size < MOST + 512 * 1024, "{size}");
        assert!(!refused.is_empty(), "the reader was never in the way");
        tool.execute_batch("COMMIT").unwrap();
        store.try_write().await.unwrap();
        let (last, shown) = poll(600);
        last.shows(&store, &shown).await;
        let gaps = store.read(|reader| reader.gaps()).await.unwrap();
        assert_eq!(gaps.len(), 1, "what went by meanwhile is one gap: {gaps:?}");
    }

    const MONTH: Duration = Duration::from_secs(30 * 86_400);

    #[tokio::test]
    async fn a_row_from_the_future_does_not_keep_what_is_old_from_being_pruned() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("mirror.db")).unwrap();
        // The clock was wrong when the first page came.
        see(&store, "1", "Ann", "2090-01-01T00:00:00Z").await;
        see(&store, "2", "Bo", "2026-01-01T00:00:00Z").await;
        see(&store, "2", "Bob", "2026-01-02T00:00:00Z").await;
        see(&store, "2", "Rob", "2026-01-03T00:00:00Z").await;
        for _ in 0..2 {
            store.upkeep(Some("2026-06-01T00:00:00Z".parse().unwrap()), MONTH).await.unwrap();
        }
        assert_eq!(versions(&store, "2").await, [3]);
        assert_eq!(versions(&store, "1").await, [1], "the newest version of a record always stays");
    }

    #[tokio::test]
    async fn verify_finds_a_store_sound_whose_new_sink_begins_before_what_was_pruned() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let store = Store::open(&path).unwrap();
        for (version, name) in (1..=6).zip(["Ann", "Bea", "Cid", "Dan", "Eva", "Flo"]) {
            see(&store, "1", name, &format!("2026-01-0{version}T00:00:00Z")).await;
            see(&store, "2", name, &format!("2026-01-0{version}T06:00:00Z")).await;
        }
        for _ in 0..2 {
            store.upkeep(Some("2026-06-01T00:00:00Z".parse().unwrap()), MONTH).await.unwrap();
        }
        assert_eq!(versions(&store, "1").await, [6], "the log is pruned");
        let last = store.seq();
        let left = store.read(|reader| reader.changes_after(0, 100)).await.unwrap().len();
        let left = i64::try_from(left).unwrap();
        for (name, begin) in [
            ("first", Begin::Beginning),
            ("within", Begin::At("2026-01-03T00:00:00Z".to_owned())),
            ("now", Begin::Now),
        ] {
            let at = "2026-06-01T00:00:00Z".to_owned();
            let row = store.open_sink(name.to_owned(), "file", begin, at).await.unwrap();
            let expected = if name == "now" { last } else { last - left };
            assert_eq!(row.skipped, expected, "{name}");
        }
        let verified = Reader::open(&path).unwrap().verify(&mut |_, _| {}).unwrap();
        let faults: Vec<_> = verified.findings.iter().filter(|finding| !finding.ok).collect();
        assert!(verified.is_sound(), "{faults:?}");
    }

    #[tokio::test]
    async fn what_grows_old_is_pruned_although_the_log_never_rests() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("mirror.db")).unwrap();
        for month in 1..=9 {
            let at = format!("2026-0{month}-01T00:00:00Z");
            see(&store, "1", &format!("Ann {month}"), &at).await;
            store.upkeep(Some(at.parse().unwrap()), MONTH * 4).await.unwrap();
        }
        let left = versions(&store, "1").await;
        assert!(left.len() < 7 && left.contains(&9), "{left:?}");
    }

    #[tokio::test]
    async fn polls_are_noted_for_a_month() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let store = Store::open(&path).unwrap();
        for day in ["2026-01-01", "2026-03-01"] {
            see(&store, "1", day, &format!("{day}T00:00:00Z")).await;
        }
        let tool = rusqlite::Connection::open(&path).unwrap();
        let noted = || tool.query_row("SELECT min(to_at) FROM polls", (), |row| row.get(0));
        let first: String = noted().unwrap();
        assert!(first.starts_with("2026-01-01"), "{first}");
        store.upkeep(Some("2026-03-02T00:00:00Z".parse().unwrap()), MONTH * 4).await.unwrap();
        let first: String = noted().unwrap();
        assert!(first.starts_with("2026-03-01"), "{first}");
    }

    #[tokio::test]
    async fn the_log_keeps_what_a_removed_sink_or_a_replay_needs_until_it_is_let_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mirror.db");
        let store = Store::open(&path).unwrap();
        let begin =
            || store.open_sink("erp".into(), "file", crate::store::Begin::Beginning, "2026".into());
        begin().await.unwrap();
        for day in 1..=3 {
            see(&store, "1", &format!("Ann {day}"), &format!("2026-01-0{day}T00:00:00Z")).await;
        }
        store.retire_sinks(Vec::new()).await.unwrap();
        let late = "2026-06-01T00:00:00Z".parse().unwrap();
        for _ in 0..2 {
            store.upkeep(Some(late), MONTH).await.unwrap();
        }
        assert_eq!(versions(&store, "1").await, [1, 2, 3], "the removed sink never got them");
        let mut operator = crate::store::Operator::open(&path).unwrap();
        let choice = crate::store::ReplayChoice::default();
        operator.begin_replay("other", (0, 3), &choice, 1.0, "2026").unwrap();
        assert!(operator.forget_sink("erp").unwrap());
        for _ in 0..2 {
            store.upkeep(Some(late), MONTH).await.unwrap();
        }
        assert_eq!(versions(&store, "1").await, [1, 2, 3], "a replay is to send them");
        assert!(operator.cancel_replay("other", "2026").unwrap());
        for _ in 0..2 {
            store.upkeep(Some(late), MONTH).await.unwrap();
        }
        assert_eq!(versions(&store, "1").await, [3]);
        assert!(!operator.forget_sink("erp").unwrap(), "it is gone already");
    }
}
