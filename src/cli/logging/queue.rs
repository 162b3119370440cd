//! Log lines on their way to standard error, written by a thread of their own.
//!
//! Logging never waits: a pipe that nobody reads must not hold up polls and deliveries. The queue is
//! bounded; lines that find no room are counted, and the count is logged when writing works again.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// The most lines that wait.
const MAX_LINES: usize = 2_000;
/// Enough for writing and for a line about lost ones.
const STACK_BYTES: usize = 256 << 10;
/// How often it is tried to reach a full queue at the end of the process.
const TRY_EVERY: Duration = Duration::from_millis(10);

/// A queue of lines. Its copies are the same queue.
#[derive(Debug, Clone)]
pub(super) struct LineQueue {
    sender: SyncSender<Entry>,
    /// Lines that were not written and are not logged as lost yet.
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Entry {
    Line(Vec<u8>),
    /// Everything before it is written once this is answered.
    Flush(SyncSender<()>),
}

impl LineQueue {
    /// Starts the thread, which writes to `out`. `tell_lost` is given the number of lost lines and logs
    /// it.
    pub(super) fn start(
        out: impl Write + Send + 'static,
        tell_lost: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, entries) = sync_channel(MAX_LINES);
        let lost = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&lost);
        std::thread::Builder::new()
            .name("log".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || write_all(&entries, out, &counted, tell_lost))?;
        Ok(Self { sender, lost })
    }

    /// Adds a line, or counts it as lost if too many wait already.
    pub(super) fn add(&self, line: Vec<u8>) {
        if self.sender.try_send(Entry::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until every line is written, but not longer than `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        let end = Instant::now() + limit;
        let (written, answer) = sync_channel(1);
        while self.sender.try_send(Entry::Flush(written.clone())).is_err() {
            if Instant::now() >= end {
                return;
            }
            std::thread::sleep(TRY_EVERY);
        }
        // An error means that the time is over.
        let _ = answer.recv_timeout(end.saturating_duration_since(Instant::now()));
    }
}

fn write_all(
    entries: &Receiver<Entry>,
    mut out: impl Write,
    lost: &AtomicU64,
    tell_lost: impl Fn(u64),
) {
    for entry in entries {
        let line = match entry {
            Entry::Line(line) => line,
            Entry::Flush(answer) => {
                // Whoever asked may have gone.
                let _ = answer.try_send(());
                continue;
            }
        };
        if out.write_all(&line).and_then(|()| out.flush()).is_err() {
            lost.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let count = lost.swap(0, Ordering::Relaxed);
        if count > 0 {
            tell_lost(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Takes a line for each permit; once there are no more senders of permits, every line.
    struct Gate {
        permits: mpsc::Receiver<()>,
        taken: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Gate {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.permits.recv();
            let _ = self.taken.send(line.to_vec());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_find_no_room_are_counted_and_told_when_writing_works_again() {
        let (permits, awaited) = mpsc::channel();
        let (sender, taken) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let gate = Gate { permits: awaited, taken: sender };
        let queue = LineQueue::start(gate, move |lost| tell.send(lost).unwrap()).unwrap();
        // Nothing is taken, and nobody waits. The thread may hold one line beside the queue's.
        for _ in 0..MAX_LINES + 5 {
            queue.add(b"line".to_vec());
        }
        drop(permits);
        let lost = told.recv_timeout(LONG).unwrap();
        queue.flush(LONG);
        let written = taken.try_iter().count() as u64;
        assert_eq!(lost + written, MAX_LINES as u64 + 5);
        assert!((4..=5).contains(&lost), "{lost}");
    }
}
