//! Where log lines go: standard error. Under the service manager they have no time and no colour, and
//! begin with their priority, so that `journalctl -p warning` finds them.

mod queue;

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use queue::LineQueue;

/// Libraries that report each of their own attempts, which the caller reports as a whole.
const QUIET: &str = "async_nats=off,rustls=off,rustls_platform_verifier=off";

/// How long the end of the process waits for lines that nobody reads.
pub(super) const LAST_WAIT: Duration = Duration::from_secs(1);

/// The lines on their way to standard error, once logging has started.
static LINES: OnceLock<LineQueue> = OnceLock::new();

/// Waits until what was logged is written; a second at most, if it is not read.
pub(super) fn flush() {
    if let Some(lines) = LINES.get() {
        lines.flush(LAST_WAIT);
    }
}

/// Says a last line on standard error, behind all that was logged; a reader that does not read it holds
/// up the end of the process by a second at most.
pub(super) fn last_words(text: &str) {
    match LINES.get() {
        Some(lines) => {
            let priority = if under_journal() { priority(Level::ERROR) } else { "" };
            lines.add(format!("{priority}{}\n", super::output::plain(text)).into_bytes());
            flush();
        }
        None => super::output::aside(text),
    }
}

/// Starts logging; `SHOPMIRROR_LOG` chooses what is logged, `SHOPMIRROR_LOG_FORMAT=json` how.
pub(super) fn start(default: &str) {
    let default = format!("{default},{QUIET}");
    let wanted = std::env::var("SHOPMIRROR_LOG").ok().filter(|text| !text.is_empty());
    let filter: Targets = wanted.as_deref().unwrap_or(&default).parse().unwrap_or_else(|error| {
        super::output::aside(&format!(
            "SHOPMIRROR_LOG cannot be used ({error}) and is ignored: write for example debug or shopmirror=debug"
        ));
        default.parse().unwrap_or_default()
    });
    let under_journal = under_journal();
    let colour =
        !under_journal && std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(writer(under_journal))
        .with_target(false)
        // Its own message about a line that cannot be written would panic, if nothing can be written.
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

/// What a line begins with, so that the journal knows how important it is; see `SyslogLevelPrefix=`.
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        Level::DEBUG | Level::TRACE => "<7>",
    }
}

/// The queue of lines; standard error itself if the system allows no thread for it.
fn writer(with_priority: bool) -> LogWriter {
    let lines = LineQueue::start(std::io::stderr(), tell_lost);
    let lines = lines.ok().map(|queue| LINES.get_or_init(|| queue).clone());
    LogWriter { lines, with_priority }
}

/// Makes the writer of each line.
struct LogWriter {
    lines: Option<LineQueue>,
    with_priority: bool,
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = LineWriter;

    fn make_writer(&'a self) -> LineWriter {
        LineWriter { lines: self.lines.clone(), priority: "" }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> LineWriter {
        let priority = if self.with_priority { priority(*metadata.level()) } else { "" };
        LineWriter { priority, ..self.make_writer() }
    }
}

/// Writes one line, which comes in one call.
struct LineWriter {
    lines: Option<LineQueue>,
    priority: &'static str,
}

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let whole = [self.priority.as_bytes(), line].concat();
        match &self.lines {
            Some(lines) => lines.add(whole),
            None => io::stderr().write_all(&whole)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn tell_lost(lines: u64) {
    tracing::error!(
        lines,
        "these lines of the log were lost, because standard error did not accept them: look at the program that reads it"
    );
}
