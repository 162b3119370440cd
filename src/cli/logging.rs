//! Where log lines go: standard error, without time and colour under the service manager.

mod queue;

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

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
            lines.add(format!("{}\n", super::output::plain(text)).as_bytes());
            flush();
        }
        None => super::output::aside(text),
    }
}

/// Starts logging; `SHOPMIRROR_LOG` chooses what is logged, `SHOPMIRROR_LOG_FORMAT=json` how.
pub(super) fn start(default: &str) {
    let default = format!("{default},{QUIET}");
    let wanted = std::env::var("SHOPMIRROR_LOG").ok().filter(|text| !text.is_empty());
    let filter = EnvFilter::try_new(wanted.as_deref().unwrap_or(&default)).unwrap_or_else(|error| {
        super::output::aside(&format!(
            "SHOPMIRROR_LOG cannot be used ({error}) and is ignored: write for example debug or shopmirror=debug"
        ));
        EnvFilter::new(&default)
    });
    let under_journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let colour =
        !under_journal && std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer())
        .with_target(false)
        // Its own message about a line that cannot be written would panic, if nothing can be written.
        .log_internal_errors(false)
        .with_ansi(colour);
    // A second call, for example in tests, keeps the first logger.
    let _ = if std::env::var("SHOPMIRROR_LOG_FORMAT").is_ok_and(|format| format == "json") {
        lines.json().try_init()
    } else if under_journal {
        lines.without_time().try_init()
    } else {
        lines.try_init()
    };
}

/// The queue of lines; standard error itself if the system allows no thread for it.
fn writer() -> BoxMakeWriter {
    match LineQueue::start(std::io::stderr(), tell_lost) {
        Ok(queue) => {
            let lines = LINES.get_or_init(|| queue).clone();
            BoxMakeWriter::new(move || lines.clone())
        }
        Err(_) => BoxMakeWriter::new(std::io::stderr),
    }
}

fn tell_lost(lines: u64) {
    tracing::error!(
        lines,
        "these lines of the log were lost, because standard error did not accept them: look at the program that reads it"
    );
}
