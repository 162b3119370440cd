//! Where log lines go: standard error. Under the service manager they have no time and no colour,
//! and begin with their priority, so that `journalctl -p warning` finds them.
//!
//! Logging never waits: a thread of its own writes the lines, because a pipe that nobody reads must
//! not delay polls and deliveries. Lines that do not fit into its queue are counted, and a later
//! line reports their number.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use tracing::{Level, Metadata};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Libraries that report each of their own attempts, which the caller reports as a whole.
const QUIET: &str = "async_nats=off,rustls=off,rustls_platform_verifier=off";

/// How long the end of the process waits for lines that nobody reads.
pub(super) const LAST_WAIT: Duration = Duration::from_secs(1);
/// How often the end of the process checks whether all lines are written.
const CHECK_EVERY: Duration = Duration::from_millis(5);
/// The most lines that wait to be written.
const MAX_LINES: usize = 2_000;

/// Lines that did not fit into the queue and are not reported yet.
static LOST: AtomicU64 = AtomicU64::new(0);
/// Lines that are not written yet.
static WAITING: AtomicUsize = AtomicUsize::new(0);
/// The lines on their way to standard error, once logging has started.
static LINES: OnceLock<SyncSender<Vec<u8>>> = OnceLock::new();

/// Starts the thread that writes the lines. If the system allows none, each line is written at
/// once.
fn start_writing() {
    let (sender, lines) = sync_channel(MAX_LINES);
    let thread = std::thread::Builder::new().name("log".to_owned());
    if thread.spawn(move || write_all(&lines)).is_ok() {
        // A second thread, for example in tests, ends without this sender.
        let _ = LINES.set(sender);
    }
}

fn write_all(lines: &Receiver<Vec<u8>>) {
    for line in lines {
        if io::stderr().write_all(&line).is_err() {
            count_lost();
        } else {
            let lost = LOST.swap(0, Ordering::Relaxed);
            if lost > 0 {
                tracing::error!(
                    lines = lost,
                    "these lines of the log were lost, because standard error did not accept \
                     them: look at the program that reads it"
                );
            }
        }
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

fn count_lost() {
    LOST.fetch_add(1, Ordering::Relaxed);
}

/// Waits until all lines are written; a second at most, if nobody reads them.
pub(super) fn flush() {
    let end = Instant::now() + LAST_WAIT;
    while WAITING.load(Ordering::Relaxed) > 0 && Instant::now() < end {
        std::thread::sleep(CHECK_EVERY);
    }
}

/// Writes a final line to standard error after everything logged; a reader that does not read it
/// delays the end of the process by a second at most.
pub(super) fn log_final_error(text: &str) {
    if LINES.get().is_none() {
        return super::output::print_note(text);
    }
    let priority = if under_journal() {
        priority(Level::ERROR)
    } else {
        ""
    };
    let line = format!("{}\n", super::output::plain(text));
    // It cannot fail: the queue takes the line or drops it.
    let _ = LineWriter { priority }.write(line.as_bytes());
    flush();
}

/// Starts logging; `SHOPMIRROR_LOG` chooses what is logged, `SHOPMIRROR_LOG_FORMAT=json` how.
pub(super) fn start(default: &str) {
    let default = format!("{default},{QUIET}");
    let mut filter: Targets = default.parse().unwrap_or_default();
    if let Ok(text) = std::env::var("SHOPMIRROR_LOG")
        && !text.is_empty()
    {
        match text.parse() {
            Ok(chosen) => filter = chosen,
            Err(error) => super::output::print_note(&format!(
                "SHOPMIRROR_LOG cannot be used ({error}) and is ignored: write for example debug \
                 or shopmirror=debug"
            )),
        }
    }
    start_writing();
    let under_journal = under_journal();
    let colour =
        !under_journal && std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(LogWriter {
            with_priority: under_journal,
        })
        .with_target(false)
        // Its own message about a line that cannot be written would panic, if nothing can be
        // written.
        .log_internal_errors(false)
        .with_ansi(colour);
    // A second call, for example in tests, keeps the first logger.
    let _ = if std::env::var("SHOPMIRROR_LOG_FORMAT").is_ok_and(|format| format == "json") {
        lines.json().finish().with(filter).try_init()
    } else if under_journal {
        lines.without_time().finish().with(filter).try_init()
    } else {
        lines.finish().with(filter).try_init()
    };
}

/// True if the journal reads standard error.
fn under_journal() -> bool {
    std::env::var_os("JOURNAL_STREAM").is_some()
}

/// The beginning of a line, which tells the journal how important it is; see `SyslogLevelPrefix=`.
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        Level::DEBUG | Level::TRACE => "<7>",
    }
}

/// Makes the writer of each line.
struct LogWriter {
    with_priority: bool,
}

impl MakeWriter<'_> for LogWriter {
    type Writer = LineWriter;

    fn make_writer(&self) -> LineWriter {
        LineWriter { priority: "" }
    }

    fn make_writer_for(&self, metadata: &Metadata<'_>) -> LineWriter {
        if !self.with_priority {
            return LineWriter { priority: "" };
        }
        LineWriter {
            priority: priority(*metadata.level()),
        }
    }
}

/// Writes one line, which it gets in one call.
struct LineWriter {
    priority: &'static str,
}

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let whole = [self.priority.as_bytes(), line].concat();
        match LINES.get() {
            None => io::stderr().write_all(&whole)?,
            Some(lines) => {
                WAITING.fetch_add(1, Ordering::Relaxed);
                if lines.try_send(whole).is_err() {
                    WAITING.fetch_sub(1, Ordering::Relaxed);
                    count_lost();
                }
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
