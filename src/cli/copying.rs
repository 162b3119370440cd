//! What `backup` and `restore` share: a copy that shows its progress and can be interrupted.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{output, runtime};
use crate::store::{BackupError, CopyControl, CopyFacts, CopyProgress};

/// Runs a copy with a progress bar on a terminal. SIGINT and SIGTERM stop it; nothing of it stays.
pub(super) fn run<T: Send + 'static>(
    copy: impl FnOnce(&CopyControl) -> Result<T, BackupError> + Send + 'static,
) -> anyhow::Result<T> {
    let runtime = runtime()?;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    runtime.block_on(async move {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let copied = tokio::task::spawn_blocking(move || {
            let bar = bar();
            let shown = bar.clone();
            let progress = Arc::new(move |progress| show(shown.as_ref(), progress));
            let copied = copy(&CopyControl { stop: stopped, progress });
            if let Some(bar) = bar {
                bar.finish_and_clear();
            }
            copied
        });
        tokio::pin!(copied);
        tokio::select! {
            copied = &mut copied => return Ok(copied??),
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        stop.cancel();
        Ok(copied.await??)
    })
}

/// What a copy holds, for people.
pub(super) fn described(facts: &CopyFacts) -> String {
    let changes = output::count(facts.last_seq, "change", "changes");
    let until = facts.last_change_at.as_ref().map_or_else(String::new, |at| format!(" up to {at}"));
    format!("{changes}{until} ({})", HumanBytes(facts.bytes))
}

fn bar() -> Option<ProgressBar> {
    std::io::stderr().is_terminal().then(|| {
        let style = ProgressStyle::with_template("{bar:30} {bytes} of {total_bytes} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr()).with_style(style)
    })
}

fn show(bar: Option<&ProgressBar>, progress: CopyProgress) {
    let Some(bar) = bar else { return };
    match progress {
        CopyProgress::Copied { bytes, total } => {
            bar.set_length(total);
            bar.set_position(bytes);
        }
        CopyProgress::Checking => {
            bar.set_message("copied, checking the copy");
            bar.enable_steady_tick(Duration::from_millis(200));
        }
    }
}
