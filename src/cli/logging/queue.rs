//! Log lines on their way to standard error, written by a thread of their own.
//!
//! Logging never waits: a pipe that nobody reads must not hold up polls and deliveries. The queue is
//! bounded; lines that find no room are counted, and the count is logged when writing works again.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most bytes that wait.
const MAX_BYTES: usize = 1 << 20;
/// Enough for writing and for a line about lost ones.
const STACK_BYTES: usize = 256 << 10;

/// A queue of lines and the thread that writes them. Its copies are the same queue.
#[derive(Debug, Clone, Default)]
pub(super) struct LineQueue(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// A line was added, or the last one was written.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Whether the thread is writing a line.
    is_writing: bool,
    /// Lines that were not written and are not logged as lost yet.
    lost: u64,
}

impl LineQueue {
    /// Starts the thread, which writes to `out`. `tell_lost` is given the number of lost lines and logs
    /// it.
    pub(super) fn start(
        out: impl Write + Send + 'static,
        tell_lost: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Self> {
        let queue = Self::default();
        let lines = queue.clone();
        std::thread::Builder::new()
            .name("log".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || lines.write_all_to(out, tell_lost))?;
        Ok(queue)
    }

    /// Adds a line, or counts it as lost if too much waits already.
    pub(super) fn add(&self, line: Vec<u8>) {
        let mut state = self.state();
        if state.bytes + line.len() > MAX_BYTES {
            state.lost += 1;
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        self.0.changed.notify_all();
    }

    /// Waits until every line is written, but not longer than `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        let begun = Instant::now();
        let mut state = self.state();
        while state.is_writing || !state.lines.is_empty() {
            let Some(left) = limit.checked_sub(begun.elapsed()) else { return };
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn write_all_to(&self, mut out: impl Write, tell_lost: impl Fn(u64)) {
        loop {
            let line = self.next();
            let written = out.write_all(&line).and_then(|()| out.flush());
            let mut state = self.state();
            state.is_writing = false;
            state.lost += u64::from(written.is_err());
            self.0.changed.notify_all();
            // Half of the room, so that this line is not lost too.
            let lost = match written {
                Ok(()) if state.bytes < MAX_BYTES / 2 => std::mem::take(&mut state.lost),
                _ => 0,
            };
            drop(state);
            if lost > 0 {
                tell_lost(lost);
            }
        }
    }

    /// Waits for a line and takes it.
    fn next(&self) -> Vec<u8> {
        let mut state = self.state();
        loop {
            if let Some(line) = state.lines.pop_front() {
                state.bytes -= line.len();
                state.is_writing = true;
                return line;
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Takes a line for each permit, or fails if the permit says so.
    struct Gate {
        permits: mpsc::Receiver<bool>,
        taken: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Gate {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            if !self.permits.recv().unwrap_or(true) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let _ = self.taken.send(line.to_vec());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Gated {
        queue: LineQueue,
        permits: mpsc::Sender<bool>,
        taken: mpsc::Receiver<Vec<u8>>,
        told: mpsc::Receiver<u64>,
    }

    fn gated() -> Gated {
        let (permits, awaited) = mpsc::channel();
        let (sender, taken) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let gate = Gate { permits: awaited, taken: sender };
        let queue = LineQueue::start(gate, move |lost| tell.send(lost).unwrap()).unwrap();
        Gated { queue, permits, taken, told }
    }

    #[test]
    fn lines_that_find_no_room_are_counted_and_told_when_writing_works_again() {
        let Gated { queue, permits, taken, told } = gated();
        let line = vec![b'x'; MAX_BYTES / 4];
        // Nothing is taken, and nobody waits. The thread may hold one line beside the queue's four.
        for _ in 0..9 {
            queue.add(line.clone());
        }
        drop(permits);
        let lost = told.recv_timeout(LONG).unwrap();
        queue.flush(LONG);
        let written = taken.try_iter().count() as u64;
        assert_eq!(lost + written, 9);
        assert!((4..=5).contains(&written), "{written}");
    }
}
