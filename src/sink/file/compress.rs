//! Compresses the files that were put aside, beside the writes, one file at a time in the program.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::rotation::compress_all;

static TURN: Semaphore = Semaphore::const_new(1);

/// Compresses for one file sink. What it has not finished when it is dropped is begun again later.
pub(super) struct Compressor {
    /// Whether a file may be waiting: one that was put aside, or one that an earlier run left.
    waiting: bool,
    running: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Compressor {
    pub(super) fn new() -> Self {
        Self { waiting: true, running: None, stop: Arc::default() }
    }

    /// Begins to compress if a file may be waiting and nothing is being compressed.
    pub(super) fn look(&mut self, sink: &str, path: &Path, put_aside: bool) {
        self.waiting |= put_aside;
        let busy = self.running.as_ref().is_some_and(|running| !running.is_finished());
        if busy || !self.waiting {
            return;
        }
        let Ok(turn) = TURN.try_acquire() else { return };
        self.waiting = false;
        let (sink, path, stop) = (sink.to_owned(), path.to_owned(), Arc::clone(&self.stop));
        self.running = Some(tokio::task::spawn_blocking(move || {
            let _turn = turn;
            if let Err(error) = compress_all(&path, &stop) {
                tracing::warn!(
                    sink,
                    "compressing a file that was put aside: {error}; it is tried again after the next one"
                );
            }
        }));
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
