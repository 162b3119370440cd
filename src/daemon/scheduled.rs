//! Makes the daily backup and the reports of `[reports.schedule]` at their times, one after the
//! other.
//!
//! Each reads the store on a connection of its own and never waits for a poll, nor a poll for it.
//! What fails is told in the status and tried again every few minutes; it never ends the daemon,
//! and never costs an older backup.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use shopmirror_core::clock::stamp;
use shopmirror_core::record::Kind;
use tokio_util::sync::CancellationToken;

use super::health::Watch;
use crate::config::{BackupSettings, ReportsSettings, ScheduledReport};
use crate::poll::Clocks;
use crate::report::{self, Answer, ReportRun, Timetable};
use crate::sink;
use crate::status::{BackupStatus, ScheduledReportStatus};
use crate::store::{self, BackupFolder, CopyControl, Kept, NewNotice, Reader};

/// How often it is looked whether something is due.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often the folder of backups is listed while the next one is known and not due.
const LIST_EVERY: Duration = Duration::from_secs(60);
/// How long after the start backups and reports wait for the first page, which tells whether the
/// clock is right.
const WAIT_FOR_PAGE: Duration = Duration::from_secs(600);
/// How long the reads of one report may take.
const MAX_READ: Duration = Duration::from_secs(30);

/// What the task needs.
pub(super) struct Scheduled {
    pub(super) backup: BackupSettings,
    pub(super) reports: ReportsSettings,
    pub(super) zone: TimeZone,
    pub(super) clocks: Clocks,
    pub(super) watch: Watch,
}

impl Scheduled {
    /// Makes backups and reports until stopped.
    pub(super) async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let read = self
            .watch
            .store
            .read(|reader| reader.kept(Kept::REPORT_RUNS))
            .await;
        let read: Option<BTreeMap<String, ReportRun>> =
            read.context("reading what became of the reports")?;
        let mut runs = read.unwrap_or_default();
        runs.retain(|name, _| self.reports.schedule.contains_key(name));
        let (mut backups, mut list_at) = (ReportRun::default(), Duration::ZERO);
        let mut is_unkept = false;
        while !stop.is_cancelled() {
            let elapsed = self.watch.clock.now().elapsed;
            if self.backup.keep > 0
                && elapsed >= list_at
                && self.back_up_if_due(&mut backups, &stop).await?
            {
                list_at = elapsed + LIST_EVERY;
            }
            for (name, settings) in &self.reports.schedule {
                if !self.knows_time() {
                    break;
                }
                let (now, is_new) = (self.now(), !runs.contains_key(name));
                let run = runs
                    .entry(name.clone())
                    .or_insert_with(|| ReportRun::new(now));
                let table = Timetable {
                    at: settings.at,
                    days: &settings.days,
                    zone: &self.zone,
                };
                let (due, at) = table.due(run, now);
                if at <= now {
                    let made = self.make(name, settings, run.made + 1, due);
                    let Some(made) = stop.run_until_cancelled(made).await else {
                        break;
                    };
                    self.note(&format!("the report {name}"), run, due, made);
                }
                // A kill while the next one is made must not repeat this one.
                is_unkept |= is_new || at <= now;
                if is_unkept {
                    is_unkept = !self.keep(&runs).await?;
                }
            }
            let statuses =
                ScheduledReportStatus::of_all(&self.reports, &self.zone, &runs, self.now());
            self.watch
                .state
                .send_modify(|state| state.reports = statuses);
            stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY))
                .await;
        }
        Ok(())
    }

    /// The time by the workspace's clock, once it is known.
    fn now(&self) -> Timestamp {
        let own = self.watch.clock.now();
        self.clocks.workspace_time(own).unwrap_or(own.wall)
    }

    /// Whether [`Self::now`] can be trusted, or the first page did not come for long.
    fn knows_time(&self) -> bool {
        let own = self.watch.clock.now();
        self.clocks.workspace_time(own).is_some() || own.elapsed >= WAIT_FOR_PAGE
    }

    /// Makes a backup if one is due, and publishes how backups stand; returns whether the next one
    /// is known and lies ahead.
    async fn back_up_if_due(
        &self,
        run: &mut ReportRun,
        stop: &CancellationToken,
    ) -> anyhow::Result<bool> {
        let now = self.now();
        let folder = BackupFolder::new(&self.backup.path, self.watch.store.path());
        let listed = folder.clone();
        let list = move || BackupStatus::of_folder(&listed, now);
        let mut status = tokio::task::spawn_blocking(list).await?;
        status.last_error = run.error.clone().or(status.last_error);
        let since = match status.last_at.as_ref().and_then(|at| at.parse().ok()) {
            None => self.first_polled_at().await,
            last => last,
        };
        // Before the first page there is nothing to back up.
        let due = since.map(|since| {
            run.settled_at = run.settled_at.max(since);
            Timetable {
                at: self.backup.at,
                days: &[],
                zone: &self.zone,
            }
            .due(run, now)
        });
        status.next_at = due.map(|(_, at)| stamp(at));
        self.watch
            .state
            .send_modify(|state| state.backup = Some(status));
        if let Some((due, at)) = due
            && at <= now
            && self.knows_time()
        {
            let made = self.back_up(folder, now, stop.clone()).await;
            if made.is_ok() || !stop.is_cancelled() {
                self.note("the backup", run, due, made);
            }
        }
        Ok(due.is_some_and(|(_, at)| at > now))
    }

    /// When the first page was read: a store without a backup counts from then.
    async fn first_polled_at(&self) -> Option<Timestamp> {
        let pollers = self.watch.store.read(Reader::pollers).await.ok()?;
        pollers
            .iter()
            .map(|poller| &poller.first_polled_at)
            .min()?
            .parse()
            .ok()
    }

    /// Makes one backup, then removes the oldest past the number to keep.
    async fn back_up(
        &self,
        folder: BackupFolder,
        now: Timestamp,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let (source, keep) = (self.watch.store.path().to_owned(), self.backup.keep);
        let copy = move || {
            let path = folder.path(now);
            let unwritten = || format!("could not write {}", path.display());
            folder.prepare().with_context(unwritten)?;
            let control = CopyControl {
                stop,
                progress: Arc::new(|_, _| ()),
            };
            let facts = store::back_up(&source, &path, true, &control).with_context(unwritten)?;
            tracing::info!(path = %path.display(), bytes = facts.bytes, seq = facts.last_seq, "backed up the store");
            folder
                .prune(keep, now)
                .context("could not remove an old backup")?;
            Ok(())
        };
        tokio::task::spawn_blocking(copy).await?
    }

    /// Keeps what became of the reports; false if the store cannot take it now.
    async fn keep(&self, runs: &BTreeMap<String, ReportRun>) -> anyhow::Result<bool> {
        match self.watch.store.keep(Kept::REPORT_RUNS, runs).await {
            Err(error) if !error.is_transient() => {
                Err(error).context("keeping what became of the scheduled reports")
            }
            kept => Ok(kept.is_ok()),
        }
    }

    fn note(&self, what: &str, run: &mut ReportRun, due: Timestamp, made: anyhow::Result<()>) {
        match made {
            Ok(()) => {
                tracing::info!(due = %stamp(due), "{what} was made");
                run.note_made(due);
            }
            Err(error) => {
                let why = format!("{error:#}");
                if run.failures == 0 {
                    tracing::warn!(
                        error = why,
                        "{what} could not be made and is tried again: see `shopmirror status`"
                    );
                }
                run.note_failed(self.now(), why);
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
        if let Some(path) = &settings.path {
            let text = report::rendered(&answer, settings.format)?;
            let to = path.clone();
            let written = tokio::task::spawn_blocking(move || report::write(&to, &text));
            written.await?.map_err(|error| {
                let advice = sink::file_advice(&error);
                anyhow::anyhow!("could not write {}: {error}{advice}", path.display())
            })?;
        }
        if let Some(name_of_sink) = &settings.sink {
            let body = report::notice_body(name, &answer, settings.format)?;
            let notice = NewNotice {
                kind: Kind::Report,
                about: name.to_owned(),
                version: number,
                // The same however often it is made for this time: so is its event id.
                made_at: stamp(due),
                body,
            };
            self.watch
                .store
                .post_notice(vec![name_of_sink.clone()], notice)
                .await?;
            if let Some(handle) = self.watch.state.borrow().sinks.get(name_of_sink) {
                handle.wake();
            }
        }
        Ok(())
    }

    async fn answer(&self, settings: &ScheduledReport, due: Timestamp) -> anyhow::Result<Answer> {
        let (settings, zone) = (settings.clone(), self.zone.clone());
        let (folder, now) = (self.reports.folder.clone(), self.now());
        let currency = self.reports.currency.clone();
        let answered = self
            .watch
            .store
            .read_long(move |reader| -> anyhow::Result<Answer> {
                reader.limit_time(MAX_READ)?;
                let report = report::find(&settings.report, folder.as_deref())?;
                let question = report::question_of(&settings, currency.as_deref(), &zone, due);
                Ok(report::answer(reader, &report, &question, &zone, now)?)
            });
        answered.await
    }
}

#[cfg(test)]
mod tests;
