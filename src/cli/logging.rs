//! Where log lines go: standard error. Under the service manager they have no time and no colour,
//! and begin with their priority, so that `journalctl -p warning` finds them.
//!
//! Logging never waits: a thread of its own writes the lines, because a pipe that nobody reads must
//! not hold up polls and deliveries. Lines that find no room in its queue are counted, and a line
//! says so later.

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
/// How often the end of the process looks whether all is written.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The most lines that wait to be written.
const MAX_LINES: usize = 2_000;

/// Lines that found no room, and that nothing says yet.
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
                    "these lines of the log were lost, because standard error did not accept them: look at the program that reads it"
                );
            }
        }
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

fn count_lost() {
    LOST.fetch_add(1, Ordering::Relaxed);
}

/// Waits until what was logged is written; a second at most, if it is not read.
pub(super) fn flush() {
    let end = Instant::now() + LAST_WAIT;
    while WAITING.load(Ordering::Relaxed) > 0 && Instant::now() < end {
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Says a last line on standard error, behind all that was logged; a reader that does not read it
/// holds up the end of the process by a second at most.
pub(super) fn last_words(text: &str) {
    if LINES.get().is_none() {
        return super::output::aside(text);
    }
    let priority = if under_journal() {
        priority(Level::ERROR)
    } else {
        ""
    };
    let line = format!("{}\n", super::output::plain(text));
    // It cannot fail: the queue takes it or drops it.
    let _ = LineWriter { priority }.write(line.as_bytes());
    flush();
}

/// Starts logging; `SHOPMIRROR_LOG` chooses what is logged, `SHOPMIRROR_LOG_FORMAT=json` how.
pub(super) fn start(default: &str) {
    let default = format!("{default},{QUIET}");
    let wanted = std::env::var("SHOPMIRROR_LOG")
        .ok()
        .filter(|text| !text.is_empty());
    let filter: Targets = wanted.as_deref().unwrap_or(&default).parse().unwrap_or_else(|error| {
        super::output::aside(&format!(
            "SHOPMIRROR_LOG cannot be used ({error}) and is ignored: write for example debug or shopmirror=debug"
        ));
        default.parse().unwrap_or_default()
    });
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

/// Whether standard error is read by the journal.
fn under_journal() -> bool {
    std::env::var_os("JOURNAL_STREAM").is_some()
}

/// What a line begins with, so that the journal knows how important it is; see
/// `SyslogLevelPrefix=`.
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
        LineWriter {
            priority: if self.with_priority {
                priority(*metadata.level())
            } else {
                ""
            },
        }
    }
}

/// Writes one line, which comes in one call.
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
