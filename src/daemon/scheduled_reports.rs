//! Makes the reports of `[reports.schedule]` at their times and writes them, or hands them to a sink.
//!
//! Each reads the store on a connection of its own and never waits for a poll, nor a poll for it. One that
//! fails is told in the status and tried again a few times; it never ends the daemon.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::deliveries::SinkHandles;
use crate::clock::{Clock, stamp};
use crate::config::{ReportTarget, ReportsSettings, ScheduledReport};
use crate::record::Kind;
use crate::report::{self, Answer, ReportRun, ReportStep, Timetable};
use crate::sink;
use crate::status::ScheduledReportStatus;
use crate::store::{Kept, NewNotice, Store};

/// How often it is looked whether a report is due: the wall clock may be set meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How long the reads of one report may take.
const MAX_READ: Duration = Duration::from_secs(30);

/// What the task needs.
pub(super) struct ScheduledReports {
    pub(super) settings: ReportsSettings,
    pub(super) zone: TimeZone,
    pub(super) clock: Clock,
    pub(super) store: Store,
    pub(super) sinks: watch::Receiver<SinkHandles>,
    /// Where the state is published.
    pub(super) status: watch::Sender<Vec<ScheduledReportStatus>>,
}

impl ScheduledReports {
    /// Makes reports until stopped.
    pub(super) async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let Some(mut kept) = self.kept_runs(&stop).await? else { return Ok(()) };
        let mut runs = kept.clone();
        runs.retain(|name, _| self.settings.schedule.contains_key(name));
        while !stop.is_cancelled() {
            let now = self.clock.now().wall;
            let mut wait = LOOK_EVERY;
            for (name, settings) in &self.settings.schedule {
                let run = runs.entry(name.clone()).or_insert_with(|| ReportRun::new(now));
                match self.timetable(settings).step(run, now) {
                    ReportStep::Wait(until) => {
                        let left = Duration::try_from(until.duration_since(now));
                        wait = wait.min(left.unwrap_or_default());
                    }
                    ReportStep::Make(due) => {
                        let made = self.make(name, settings, run.made + 1, due);
                        let Some(made) = stop.run_until_cancelled(made).await else { break };
                        self.note(name, run, due, made);
                        // A kill while the next one is made must not repeat this one.
                        self.keep(&mut kept, &runs).await?;
                        wait = Duration::ZERO;
                    }
                }
            }
            self.publish(&runs);
            self.keep(&mut kept, &runs).await?;
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
        Ok(())
    }

    fn timetable<'a>(&'a self, settings: &'a ScheduledReport) -> Timetable<'a> {
        Timetable { at: settings.at, days: &settings.days, zone: &self.zone }
    }

    /// What became of the reports so far; `None` if it is stopped first. Waits while the store is busy.
    async fn kept_runs(
        &self,
        stop: &CancellationToken,
    ) -> anyhow::Result<Option<BTreeMap<String, ReportRun>>> {
        while !stop.is_cancelled() {
            match self.store.read(|reader| reader.kept(Kept::REPORT_RUNS)).await {
                Err(error) if error.is_transient() => {
                    tracing::warn!(%error, "the scheduled reports wait until the store can be read");
                    stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await;
                }
                read => {
                    let runs = read.context("reading what became of the reports")?;
                    return Ok(Some(runs.unwrap_or_default()));
                }
            }
        }
        Ok(None)
    }

    /// Keeps what became of the reports if it differs from what was kept last.
    async fn keep(
        &self,
        kept: &mut BTreeMap<String, ReportRun>,
        runs: &BTreeMap<String, ReportRun>,
    ) -> anyhow::Result<()> {
        if kept == runs {
            return Ok(());
        }
        match self.store.keep(Kept::REPORT_RUNS, runs).await {
            Ok(()) => runs.clone_into(kept),
            // It is in memory, and is kept with the next look.
            Err(error) if error.is_transient() => {}
            Err(error) => {
                return Err(error).context("keeping what became of the scheduled reports");
            }
        }
        Ok(())
    }

    fn note(&self, name: &str, run: &mut ReportRun, due: Timestamp, made: anyhow::Result<()>) {
        match made {
            Ok(()) => {
                tracing::info!(name, due = %stamp(due), "made a scheduled report");
                run.note_made(due);
            }
            Err(error) => {
                let why = format!("{error:#}");
                if run.failures == 0 {
                    tracing::warn!(
                        name,
                        error = why,
                        "a scheduled report failed and is tried again: see `shopmirror report --scheduled`"
                    );
                }
                run.note_failed(self.clock.now().wall, why);
            }
        }
    }

    /// Makes one report and hands it on.
    async fn make(
        &self,
        name: &str,
        settings: &ScheduledReport,
        number: i64,
        due: Timestamp,
    ) -> anyhow::Result<()> {
        let answer = self.answer(settings, due).await?;
        match &settings.to {
            ReportTarget::File(path) => {
                let text = report::rendered(&answer, settings.format)?;
                let to = path.clone();
                let written = tokio::task::spawn_blocking(move || report::write(&to, &text));
                written.await?.map_err(|error| {
                    let advice = sink::file_advice(&error);
                    anyhow::anyhow!("could not write {}: {error}{advice}", path.display())
                })
            }
            ReportTarget::Sink(name_of_sink) => {
                let body = report::notice_body(name, &answer, settings.format)?;
                let notice = NewNotice {
                    kind: Kind::Report,
                    about: name.to_owned(),
                    version: number,
                    // The same however often it is made for this time: so is its event id.
                    made_at: stamp(due),
                    body,
                };
                self.store.post_notice(vec![name_of_sink.clone()], notice).await?;
                if let Some(handle) = self.sinks.borrow().get(name_of_sink) {
                    handle.wake();
                }
                Ok(())
            }
        }
    }

    async fn answer(&self, settings: &ScheduledReport, due: Timestamp) -> anyhow::Result<Answer> {
        let (settings, zone) = (settings.clone(), self.zone.clone());
        let (folder, now) = (self.settings.folder.clone(), self.clock.now().wall);
        let currency = self.settings.currency.clone();
        let answered = self.store.read_long(move |reader| -> anyhow::Result<Answer> {
            reader.limit_time(MAX_READ)?;
            let report = report::find(&settings.report, folder.as_deref())?;
            let question = report::question_of(&settings, currency.as_deref(), &zone, due);
            Ok(report::answer(reader, &report, &question, &zone, now)?)
        });
        answered.await
    }

    fn publish(&self, runs: &BTreeMap<String, ReportRun>) {
        let now = self.clock.now().wall;
        let statuses = ScheduledReportStatus::of_all(&self.settings, &self.zone, runs, now);
        self.status.send_replace(statuses);
    }
}

#[cfg(test)]
mod tests;
