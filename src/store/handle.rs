//! The handle on the open store, and where calls on it leave the async threads: each waits for its
//! connection without holding a thread, then runs on one that may block.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::{Mutex, watch};

use super::error::StoreError;
use super::log;
use super::place::StorePlace;
use super::reader::Reader;
use super::schema;
use super::writer::Writer;
use crate::store::maintenance;

pub(super) struct StoreParts {
    /// `None` once closed. Who waits for a connection holds no thread, so that the number of
    /// threads does not grow with the number of sinks.
    pub(super) writer: Arc<Mutex<Option<Writer>>>,
    reader: Arc<Mutex<Reader>>,
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
        let path = self.path().to_owned();
        let read = move || match Reader::open(&path) {
            Ok(mut reader) => Ok(work(&mut reader)),
            // This process has it open.
            Err(StoreError::Missing(path)) => Err(StoreError::Gone(path)),
            Err(error) => Err(error),
        };
        run_blocking(read).await?
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
