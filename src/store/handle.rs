//! The handle on the open store, and where calls on it leave the async threads: each waits for its
//! connection without holding a thread, then runs on one that may block.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::{Mutex, RwLock, watch};

use super::error::StoreError;
use super::log;
use super::place::StorePlace;
use super::reader::Reader;
use super::schema;
use super::search_index::Follower;
use super::writer::Writer;
use crate::store::maintenance;

pub(super) struct StoreParts {
    /// `None` once closed. Who waits for a connection holds no thread, so that the number of
    /// threads does not grow with the number of sinks.
    pub(super) writer: Arc<Mutex<Option<Writer>>>,
    reader: Arc<Mutex<Reader>>,
    /// What the search index follows the log with, while it does.
    pub(super) follower: Arc<Mutex<Option<Follower>>>,
    /// Long reads hold it shared: the store is opened again only while there is none.
    long_reads: Arc<RwLock<()>>,
    /// Held by the read of a report: the rows of several would not fit into the service's memory.
    report_reads: Arc<Mutex<()>>,
    last_seq: watch::Sender<i64>,
    path: PathBuf,
}

/// A handle on the open store; cheap to clone.
///
/// # Errors
/// Unless a method says more: the file cannot be read or written. Nothing of a failed write is
/// stored.
#[derive(Clone)]
pub struct Store {
    pub(super) shared: Arc<StoreParts>,
}

impl Store {
    /// Opens or makes the store, takes its lock and brings its schema up to date. Blocks.
    ///
    /// # Errors
    /// [`StoreError`] when the file is lost, held, foreign, newer, damaged or out of reach; nothing
    /// is changed then.
    pub fn open(place: impl Into<StorePlace>) -> Result<Self, StoreError> {
        let place = place.into();
        let path = place.path.as_path();
        let (connection, lock) = schema::open(&place)?;
        let writer = Writer::new(connection, lock, path)?;
        let reader = Reader::open(path)?;
        let last = log::last_seq(&writer.connection)?;
        let shared = StoreParts {
            writer: Arc::new(Mutex::new(Some(writer))),
            reader: Arc::new(Mutex::new(reader)),
            follower: Arc::default(),
            long_reads: Arc::default(),
            report_reads: Arc::default(),
            last_seq: watch::Sender::new(last),
            path: path.to_owned(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// The file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The number of the last row of the log; to be noted with each question to the workspace, so
    /// that its response does not overwrite what was stored since.
    #[must_use]
    pub fn seq(&self) -> i64 {
        *self.shared.last_seq.borrow()
    }

    /// The number of the last row of the log, and a wake-up whenever it grows.
    #[must_use]
    pub fn last_seq(&self) -> watch::Receiver<i64> {
        self.shared.last_seq.subscribe()
    }

    /// Runs a read on the read-only connection.
    ///
    /// # Errors
    /// What the read returns.
    pub async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    {
        let reader = Arc::clone(&self.shared.reader).lock_owned().await;
        run_blocking(move || work(&reader)).await
    }

    /// Runs a read that may take seconds on a connection of its own, which is closed at the end, so
    /// that nothing it sets up stays and no other read waits for it. A caller that stops waiting
    /// for it does not end it.
    ///
    /// # Errors
    /// What the read returns, or that the store cannot be opened.
    pub async fn read_long<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&mut Reader) -> Result<T, E> + Send + 'static,
    {
        let read = move |path: &Path| match Reader::open(path) {
            Ok(mut reader) => work(&mut reader),
            // This process has it open.
            Err(StoreError::Missing(path)) => Err(StoreError::Gone(path).into()),
            Err(error) => Err(error.into()),
        };
        self.read_file(read).await
    }

    /// Runs what opens the file of the store by its path, such as a backup. The store is not opened
    /// again before its end.
    ///
    /// # Errors
    /// What the work returns.
    pub async fn read_file<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&Path) -> Result<T, E> + Send + 'static,
    {
        let path = self.path().to_owned();
        let reading = Arc::clone(&self.shared.long_reads).read_owned().await;
        let read = move || {
            let _reading = reading;
            Ok(work(&path))
        };
        run_blocking(read).await?
    }

    /// As [`Self::read_long`], for what may need much memory: one such read at a time.
    ///
    /// # Errors
    /// What the read returns, or that the store cannot be opened.
    pub async fn read_report<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&mut Reader) -> Result<T, E> + Send + 'static,
    {
        let alone = Arc::clone(&self.shared.report_reads).lock_owned().await;
        let read = move |reader: &mut Reader| {
            // Until the read has ended, whether or not its caller still waits.
            let _alone = alone;
            work(reader)
        };
        self.read_long(read).await
    }

    pub(super) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
    {
        let shared = Arc::clone(&self.shared);
        let mut writer = Arc::clone(&self.shared.writer).lock_owned().await;
        run_blocking(move || {
            let writer = writer.as_mut().ok_or(StoreError::Closing)?;
            if let Some(missing) = writer.missing_side_file()? {
                shared.save_and_reopen(writer, &missing)?;
            }
            let before = writer.connection.total_changes();
            let outcome = work(writer)?;
            if writer.connection.total_changes() != before {
                let last = log::last_seq(&writer.connection)?;
                shared
                    .last_seq
                    .send_if_modified(|seen| std::mem::replace(seen, last) != last);
            }
            Ok(outcome)
        })
        .await
    }

    /// Writes what is remembered, settles the write-ahead log and gives up the lock. Later calls
    /// fail.
    ///
    /// # Errors
    /// The store is closed all the same; the next start settles what was left.
    pub async fn close(&self) -> Result<(), StoreError> {
        let mut writer = Arc::clone(&self.shared.writer).lock_owned().await;
        run_blocking(move || {
            let Some(mut writer) = writer.take() else {
                return Ok(());
            };
            let polls = writer.save_memory();
            let settled = maintenance::checkpoint(&writer.connection, "TRUNCATE");
            polls.and(settled).map(|_| ())
        })
        .await
    }
}

impl StoreParts {
    /// Saves what stands in a write-ahead log that was deleted under its name: until every
    /// connection of this process is closed it can be read, and a kill would lose it. Then opens the
    /// store again. Blocks.
    fn save_and_reopen(&self, writer: &mut Writer, missing: &Path) -> Result<(), StoreError> {
        // As much as readers let it.
        maintenance::checkpoint(&writer.connection, "PASSIVE")?;
        // Those that began end, and those that begin now wait.
        let _no_long_read = self.long_reads.blocking_write();
        let mut reader = self.reader.blocking_lock();
        let mut follower = self.follower.blocking_lock();
        // From an empty log on, a new file continues.
        if !maintenance::checkpoint(&writer.connection, "TRUNCATE")? {
            return Err(StoreError::SideFileGone(missing.to_owned()));
        }
        *follower = None;
        reader.close()?;
        writer.close(missing)?;
        writer.reopen()?;
        *reader = Reader::open(&self.path)?;
        writer.note_open();
        tracing::warn!(
            path = %missing.display(),
            "a file of the open store was deleted or replaced: what it held was saved, and the \
             store was opened again; no program may delete it while shopmirror runs"
        );
        Ok(())
    }
}

pub(super) async fn run_blocking<T, F>(work: F) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, StoreError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(StoreError::Closing),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::task::JoinSet;

    use super::*;
    use crate::store::fixtures::{self, Poll, records};

    #[tokio::test]
    async fn the_reads_of_reports_go_one_after_the_other() {
        let (_dir, store) = fixtures::open();
        let is_reading = Arc::new(AtomicBool::new(false));
        let mut reads = JoinSet::new();
        for _ in 0..8 {
            let store = store.clone();
            let is_reading = Arc::clone(&is_reading);
            reads.spawn(async move {
                let read = move |reader: &mut Reader| {
                    let was_reading = is_reading.swap(true, Ordering::SeqCst);
                    for _ in 0..100 {
                        reader.counts()?;
                    }
                    is_reading.store(false, Ordering::SeqCst);
                    Ok::<bool, StoreError>(was_reading)
                };
                store.read_report(read).await.unwrap()
            });
        }
        assert_eq!(reads.join_all().await, [false; 8]);
    }

    #[tokio::test]
    async fn a_write_after_a_deleted_log_waits_for_the_long_reads_of_the_process() {
        let (dir, store) = fixtures::open();
        Poll::USUAL.shows(&store, &records(1..=3)).await;
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let of_reading = store.clone();
        let reading = tokio::spawn(async move {
            of_reading
                .read_long(move |reader| {
                    let counts = reader.counts()?;
                    begin.send(()).unwrap();
                    ended.recv().unwrap();
                    Ok::<_, StoreError>(counts)
                })
                .await
        });
        begun.await.unwrap();
        std::fs::remove_file(dir.path().join("mirror.db-wal")).unwrap();
        let of_writing = store.clone();
        let writing = tokio::spawn(async move { of_writing.try_write().await });
        // Until it waits: no other long read begins then.
        while !writing.is_finished() && store.shared.long_reads.try_read().is_ok() {
            tokio::task::yield_now().await;
        }
        end.send(()).unwrap();
        reading.await.unwrap().unwrap();
        writing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_store_that_could_not_be_opened_again_is_tried_at_the_next_write() {
        let (dir, store) = fixtures::open();
        Poll::USUAL.shows(&store, &records(1..=3)).await;
        let log = dir.path().join("mirror.db-wal");
        let mut slot = store.shared.writer.lock().await;
        let writer = slot.as_mut().unwrap();
        writer.close(&log).unwrap();
        assert_eq!(writer.missing_side_file().unwrap(), Some(log.clone()));
        // As if the reader did not open.
        writer.reopen().unwrap();
        assert_eq!(writer.missing_side_file().unwrap(), Some(log));
        drop(slot);
        store.try_write().await.unwrap();
        let mut slot = store.shared.writer.lock().await;
        let writer = slot.as_mut().unwrap();
        assert_eq!(writer.missing_side_file().unwrap(), None);
    }

    #[tokio::test]
    async fn what_a_deleted_log_holds_is_saved_as_soon_as_no_reader_is_in_the_way() {
        let (dir, store) = fixtures::open();
        let path = dir.path().join("mirror.db");
        let poll = |second| Poll {
            second,
            ..Poll::USUAL
        };
        poll(0).shows(&store, &records(1..=3)).await;
        let tool = rusqlite::Connection::open(&path).unwrap();
        tool.execute_batch("BEGIN; SELECT count(*) FROM leads;")
            .unwrap();
        std::fs::remove_file(dir.path().join("mirror.db-wal")).unwrap();
        let refused = store.try_write().await.unwrap_err();
        assert!(
            matches!(refused, StoreError::SideFileGone(_)) && refused.is_transient(),
            "{refused}"
        );
        tool.execute_batch("COMMIT").unwrap();
        drop(tool);
        poll(1).shows(&store, &records(1..=5)).await;
        let reader = store.read(|reader| reader.counts()).await.unwrap();
        assert_eq!(reader[2].1, 5, "{reader:?}");
        // As after a kill.
        let copy = tempfile::tempdir().unwrap();
        for name in ["mirror.db", "mirror.db-wal"] {
            std::fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
        }
        let reader = Reader::open(&copy.path().join("mirror.db")).unwrap();
        assert_eq!(reader.counts().unwrap()[2].1, 5);
        let findings = reader.verify(&mut |_, _| ()).unwrap();
        assert!(findings.iter().all(|finding| finding.ok), "{findings:?}");
    }
}
