//! A program that is run once for a batch of changes: one line of JSON for each on its standard
//! input, and one exit code for all.
//!
//! A batch that the program refuses is handed over again in halves, until the change that it refuses
//! stands alone. So one bad change delays no other.

use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::CommandSink;
use crate::config::CommandSettings;
use crate::record::Change;
use crate::sink::{Preview, SinkBuildError, Verdict};

/// One command for batches.
pub struct CommandBatchSink {
    command: CommandSink,
    batch: usize,
}

impl CommandBatchSink {
    pub(in crate::sink) fn build(
        name: &str,
        settings: &CommandSettings,
    ) -> Result<Self, SinkBuildError> {
        Ok(Self { command: CommandSink::build(name, settings)?, batch: settings.batch.max(1) })
    }

    pub(in crate::sink) fn batch(&self) -> usize {
        self.batch
    }

    pub(in crate::sink) fn can_fail_for_one(&self) -> bool {
        true
    }

    /// A batch holds what there is: nothing waits for more.
    pub(in crate::sink) fn linger(&self) -> Duration {
        Duration::ZERO
    }

    pub(in crate::sink) async fn deliver(
        &mut self,
        changes: &[Change],
        _now: Timestamp,
        stop: &CancellationToken,
    ) -> Vec<Verdict> {
        let mut verdicts = vec![Verdict::NotTried; changes.len()];
        let mut lines = vec![String::new(); changes.len()];
        for (index, change) in changes.iter().enumerate() {
            match self.command.input(change) {
                Ok(line) => lines[index] = line + "\n",
                Err(verdict) => verdicts[index] = verdict,
            }
        }
        // The next part last.
        let mut parts = vec![(0, changes.len())];
        while let Some((start, end)) = parts.pop() {
            let input = lines[start..end].concat();
            if input.is_empty() {
                continue;
            }
            match self.command.run(input, stop).await {
                Verdict::Refused { .. } if end - start > 1 => {
                    let middle = start + (end - start) / 2;
                    parts.extend([(middle, end), (start, middle)]);
                }
                verdict => {
                    let open = verdicts[start..end].iter_mut();
                    for one in open.filter(|verdict| **verdict == Verdict::NotTried) {
                        *one = verdict.clone();
                    }
                    if matches!(verdict, Verdict::Fault { .. } | Verdict::CutShort) {
                        break;
                    }
                }
            }
        }
        verdicts
    }

    pub(in crate::sink) fn preview(&self, change: &Change) -> Result<Preview, Verdict> {
        self.command.preview(change)
    }

    pub(in crate::sink) async fn probe(&self) -> Result<String, String> {
        self.command.probe().await
    }
}
