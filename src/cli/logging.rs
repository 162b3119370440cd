//! Where log lines go: standard error, without time and colour under the service manager.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// A client library that reports each of its own attempts, which the sink reports as a whole.
const QUIET: &str = "async_nats=off";

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
        .with_writer(std::io::stderr)
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
