//! What `backup` and `restore` share: a copy that shows its progress and can be interrupted.

use std::sync::Arc;

use indicatif::HumanBytes;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::progress::Bar;
use super::signals::StopSignals;
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
        let mut signals = StopSignals::new()?;
        let copied = tokio::task::spawn_blocking(move || {
            let bar = Bar::bytes();
            let progress = Arc::new(move |progress| match progress {
                CopyProgress::Copied { bytes, total } => bar.at(bytes, total),
                CopyProgress::Checking => bar.say("copied, checking the copy"),
            });
            copy(&CopyControl { stop: stopped, progress })
        });
        tokio::pin!(copied);
        tokio::select! {
            copied = &mut copied => return Ok(copied??),
            () = signals.next() => {}
        }
        stop.cancel();
        Ok(copied.await??)
    })
}

/// What a copy holds, for programs.
pub(super) fn json(facts: &CopyFacts) -> Value {
    let CopyFacts { bytes, last_seq, last_change_at } = facts;
    json!({ "bytes": bytes, "last_seq": last_seq, "last_change_at": last_change_at })
}

/// What a copy holds, for people.
pub(super) fn described(facts: &CopyFacts) -> String {
    let changes = output::count(facts.last_seq, "change", "changes");
    let until = facts.last_change_at.as_ref().map_or_else(String::new, |at| format!(" up to {at}"));
    format!("{changes}{until} ({})", HumanBytes(facts.bytes))
}
