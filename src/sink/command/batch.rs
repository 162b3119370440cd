//! A program that is run once for a batch of changes: one line of JSON for each on its standard
//! input, and one exit code for all.
//!
//! A batch that the program refuses is handed over again in halves, until the change that it refuses
//! stands alone. So one bad change delays no other. A program that hangs may take its whole time-out
//! in each of these runs: a call ends after as many time-outs as one bad change can cause.

use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::{CommandSink, Run};
use crate::config::CommandSettings;
use crate::record::Change;
use crate::sink::reason::Secrets;
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

    pub(in crate::sink) fn secrets(&self) -> &Secrets {
        self.command.secrets()
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
        self.run_parts(&lines, &mut verdicts, stop).await;
        verdicts
    }

    /// Hands over the lines of the changes that are not tried yet, in halves where it must be.
    async fn run_parts(
        &self,
        lines: &[String],
        verdicts: &mut [Verdict],
        stop: &CancellationToken,
    ) {
        // The next part last.
        let mut parts = vec![(0, lines.len())];
        let (mut time_outs, mut any_in_time) = (0, false);
        // Changes that timed out although they were handed over alone.
        let mut slow = Vec::new();
        while let Some((start, end)) = parts.pop() {
            let input = lines[start..end].concat();
            if input.is_empty() {
                continue;
            }
            let Run { verdict, timed_out } = self.command.run(input, stop).await;
            time_outs += u32::from(timed_out);
            any_in_time |= !timed_out;
            if timed_out && time_outs >= most_time_outs(lines.len()) && end - start < lines.len() {
                // More than one change hangs: the program is at fault, not they. If no run ended in
                // time, that includes the changes that were tried alone.
                slow.iter().for_each(|alone: &usize| {
                    if !any_in_time {
                        verdicts[*alone] = Verdict::NotTried;
                    }
                });
                let Verdict::Refused { reason, .. } = verdict else { return };
                let fault = Verdict::fault(format!("{reason}, for several changes in turn"));
                for verdict in verdicts.iter_mut().filter(|v| **v == Verdict::NotTried) {
                    *verdict = fault.clone();
                }
                return;
            }
            if timed_out && end - start == 1 {
                slow.push(start);
            }
            match verdict {
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
                        return;
                    }
                }
            }
        }
    }

    pub(in crate::sink) fn preview(&self, change: &Change) -> Result<Preview, Verdict> {
        self.command.preview(change)
    }

    pub(in crate::sink) async fn probe(&self) -> Result<String, String> {
        self.command.probe().await
    }
}

/// One change that hangs causes one time-out for each halving of the batch, and one for itself; one
/// more shows that it is not the only one.
fn most_time_outs(changes: usize) -> u32 {
    changes.next_power_of_two().ilog2() + 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Kind, Route};
    use crate::shape::Format;

    #[tokio::test]
    async fn a_program_that_always_hangs_is_given_few_runs_and_is_at_fault() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join("runs");
        let script = format!("echo run >> {}; exec sleep 600", runs.display());
        let settings = CommandSettings {
            argv: ["/bin/sh", "-c", &script].map(str::to_owned).to_vec(),
            timeout: Duration::from_millis(300),
            batch: 8,
            format: Format::Standard,
        };
        let change = Change {
            seq: 1,
            event_id: "evt_1".into(),
            route: Route::Leads,
            record_id: Some("1".into()),
            kind: Kind::Created,
            version: 1,
            observed_at: "2026-01-01T00:00:00.000000Z".into(),
            business: None,
            body: "{}".into(),
            before: None,
            job: None,
        };
        let mut sink = CommandBatchSink::build("label", &settings).unwrap();
        let stop = CancellationToken::new();
        let verdicts = sink.deliver(&vec![change; 8], Timestamp::UNIX_EPOCH, &stop).await;
        assert!(verdicts.iter().all(|v| matches!(v, Verdict::Fault { .. })), "{verdicts:?}");
        // On a busy machine the time may be over before a program has begun.
        let runs = std::fs::read_to_string(&runs).unwrap_or_default().lines().count();
        assert!(runs <= 5, "{runs} runs for 8 changes");
    }
}
