//! Makes the daily backup and the reports of `[reports.schedule]` at their times, one after the
//! other.
//!
//! Each reads the store on a connection of its own and never waits for a poll, nor a poll for it. A
//! failure is shown in the status and retried every few minutes; it never ends the daemon, and
//! never costs an older backup.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use shopmirror_core::clock::stamp;
use shopmirror_core::record::Kind;
use tokio_util::sync::CancellationToken;

use super::shared::DaemonHandle;
use crate::config::{BackupSettings, ReportsSettings, ScheduledReport};
use crate::poll::Clocks;
use crate::report::{self, Answer, CsvForm, ReportRun, Timetable};
use crate::sink;
use crate::status::{BackupStatus, ScheduledReportStatus};
use crate::store::{self, BackupFolder, CopyControl, MetaKey, NewNotice, Reader};
use crate::text::locale::Locale;

/// How often to check whether something is due.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// How often the folder of backups is listed while the next one is known and not due.
const LIST_EVERY: Duration = Duration::from_secs(60);
/// How long after the start backups and reports wait for the first page, which shows whether the
/// clock is right.
const WAIT_FOR_PAGE: Duration = Duration::from_secs(600);
/// How long the reads of one report may take.
const MAX_READ: Duration = Duration::from_secs(30);

/// The task that makes backups and reports.
pub(super) struct Scheduled {
    pub(super) backup: BackupSettings,
    pub(super) reports: ReportsSettings,
    pub(super) zone: TimeZone,
    /// How numbers and days are written in reports.
    pub(super) locale: Locale,
    pub(super) clocks: Clocks,
    pub(super) daemon: DaemonHandle,
}

/// The last and the next run of each report.
struct ReportRuns {
    by_name: BTreeMap<String, ReportRun>,
    /// The store does not have the newest state yet.
    is_unsaved: bool,
}

/// How backups stand.
#[derive(Default)]
struct Backups {
    run: ReportRun,
    /// When the folder is listed next.
    list_at: Duration,
}

impl Scheduled {
    /// Makes backups and reports until stopped.
    pub(super) async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let mut runs = self.stored_runs().await?;
        let mut backups = Backups::default();
        while !stop.is_cancelled() {
            let elapsed = self.daemon.clock.now().elapsed;
            if self.backup.keep > 0
                && elapsed >= backups.list_at
                && self.back_up_if_due(&mut backups.run, &stop).await?
            {
                backups.list_at = elapsed + LIST_EVERY;
            }
            self.make_due_reports(&mut runs, &stop).await?;
            let statuses = ScheduledReportStatus::from_runs(
                &self.reports,
                &self.zone,
                &runs.by_name,
                self.now(),
            );
            let state = &self.daemon.state;
            state.send_modify(|state| state.reports = statuses);
            stop.run_until_cancelled(tokio::time::sleep(CHECK_EVERY))
                .await;
        }
        Ok(())
    }

    async fn stored_runs(&self) -> anyhow::Result<ReportRuns> {
        let read = self
            .daemon
            .store
            .read(|reader| reader.value(MetaKey::REPORT_RUNS))
            .await;
        let stored: Option<BTreeMap<String, ReportRun>> =
            read.context("reading what became of the reports")?;
        let mut by_name = stored.unwrap_or_default();
        by_name.retain(|name, _| self.reports.schedule.contains_key(name));
        Ok(ReportRuns {
            by_name,
            is_unsaved: false,
        })
    }

    /// Makes each report that is due, and saves that at once: a kill while the next one is made
    /// must not repeat this one.
    async fn make_due_reports(
        &self,
        runs: &mut ReportRuns,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        for (name, settings) in &self.reports.schedule {
            if !self.knows_time() {
                return Ok(());
            }
            let now = self.now();
            if !runs.by_name.contains_key(name) {
                runs.by_name.insert(name.clone(), ReportRun::new(now));
                runs.is_unsaved = true;
            }
            let Some(run) = runs.by_name.get_mut(name) else {
                continue;
            };
            let table = Timetable {
                at: &settings.at,
                days: &settings.days,
                zone: &self.zone,
            };
            let (due, at) = table.due(run, now);
            if at <= now {
                let making = self.make(name, settings, run.made + 1, due);
                let Some(made) = stop.run_until_cancelled(making).await else {
                    return Ok(());
                };
                self.note(&format!("the report {name}"), run, due, made);
                runs.is_unsaved = true;
            }
            if runs.is_unsaved {
                runs.is_unsaved = !self.save(&runs.by_name).await?;
            }
        }
        Ok(())
    }

    /// The time by the workspace's clock, once it is known.
    fn now(&self) -> Timestamp {
        let own = self.daemon.clock.now();
        self.clocks.workspace_time(own).unwrap_or(own.wall)
    }

    /// Whether [`Self::now`] can be trusted, or the first page did not come for long.
    fn knows_time(&self) -> bool {
        let own = self.daemon.clock.now();
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
        let folder = BackupFolder::new(&self.backup.path, self.daemon.store.path());
        let listed = folder.clone();
        let is_offsite = self.backup.offsite.is_some();
        let listing = tokio::task::spawn_blocking(move || {
            BackupStatus::from_folder(&listed, is_offsite, now)
        });
        let mut status = listing.await?;
        if run.error.is_some() {
            status.last_error.clone_from(&run.error);
        }
        let last_at = match &status.last_at {
            Some(at) => at.parse().ok(),
            None => None,
        };
        let since = match last_at {
            Some(at) => Some(at),
            None => self.first_polled_at().await,
        };
        // Before the first page there is nothing to back up.
        let mut next = None;
        if let Some(since) = since {
            run.settled_at = run.settled_at.max(since);
            let table = Timetable {
                at: &self.backup.times(),
                days: &[],
                zone: &self.zone,
            };
            next = Some(table.due(run, now));
        }
        status.next_at = next.map(|(_, at)| stamp(at));
        let state = &self.daemon.state;
        state.send_modify(|state| state.backup = Some(status));
        let Some((due, at)) = next else {
            return Ok(false);
        };
        if at <= now && self.knows_time() {
            let made = self.back_up(folder, now, stop.clone()).await;
            if made.is_ok() || !stop.is_cancelled() {
                self.note("the backup", run, due, made);
            }
        }
        Ok(at > now)
    }

    /// When the first page was read: a store without a backup counts from then.
    async fn first_polled_at(&self) -> Option<Timestamp> {
        let pollers = self.daemon.store.read(Reader::pollers).await.ok()?;
        let first = pollers.iter().map(|poller| &poller.first_polled_at).min()?;
        first.parse().ok()
    }

    /// Makes one backup, then removes the oldest past the number to keep.
    async fn back_up(
        &self,
        folder: BackupFolder,
        now: Timestamp,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let keep = self.backup.keep;
        let copy = move |source: &Path| -> anyhow::Result<()> {
            let path = folder.path(now);
            let unwritten = || format!("could not write {}", path.display());
            folder.prepare().with_context(unwritten)?;
            let control = CopyControl {
                stop,
                progress: Arc::new(|_, _| ()),
            };
            let facts = store::back_up(source, &path, true, &control).with_context(unwritten)?;
            tracing::info!(
                path = %path.display(),
                bytes = facts.bytes,
                seq = facts.last_seq,
                "backed up the store"
            );
            folder
                .prune(keep, now)
                .context("could not remove an old backup")?;
            Ok(())
        };
        self.daemon.store.read_file(copy).await
    }

    /// Saves what became of the reports; false if the store cannot take it now.
    async fn save(&self, runs: &BTreeMap<String, ReportRun>) -> anyhow::Result<bool> {
        match self
            .daemon
            .store
            .set_value(MetaKey::REPORT_RUNS, runs)
            .await
        {
            Ok(()) => Ok(true),
            Err(error) if error.is_transient() => Ok(false),
            Err(error) => Err(error).context("keeping what became of the scheduled reports"),
        }
    }

    fn note(&self, what: &str, run: &mut ReportRun, due: Timestamp, made: anyhow::Result<()>) {
        match made {
            Ok(()) => {
                if run.failures > 0 {
                    tracing::warn!(due = %stamp(due), "{what} was made after all");
                } else {
                    tracing::info!(due = %stamp(due), "{what} was made");
                }
                run.note_made(due);
            }
            Err(error) => {
                let reason = format!("{error:#}");
                if run.failures == 0 {
                    tracing::warn!(
                        error = reason,
                        "{what} could not be made and is tried again: see `shopmirror status`"
                    );
                }
                run.note_failed(self.now(), reason);
            }
        }
    }

    /// Makes one report, and, if it has a reason, writes it to its file and sends it to its sink.
    async fn make(
        &self,
        name: &str,
        settings: &ScheduledReport,
        number: i64,
        due: Timestamp,
    ) -> anyhow::Result<()> {
        let answer = self.answer(settings, due).await?;
        if let Some(only_if) = &settings.only_if
            && !report::has_reason(only_if, &answer)?
        {
            tracing::info!("the report {name} has no reason to be sent now");
            return Ok(());
        }
        let csv_form = CsvForm::DATA.with_notes(settings.notes);
        if let Some(path) = &settings.path {
            let bytes = report::rendered(&answer, settings.format, csv_form)?.into_bytes();
            let to = path.clone();
            let writing = tokio::task::spawn_blocking(move || report::write(&to, &bytes));
            writing.await?.map_err(|error| {
                let advice = sink::file_advice(&error);
                anyhow::anyhow!("could not write {}: {error}{advice}", path.display())
            })?;
        }
        if let Some(sink) = &settings.sink {
            let notice = NewNotice {
                kind: Kind::Report,
                about: name.to_owned(),
                version: number,
                // The same however often it is made for this time: so is its event id.
                made_at: stamp(due),
                body: report::notice_body(name, &answer, settings.format, csv_form)?,
            };
            let store = &self.daemon.store;
            store.post_notice(vec![sink.clone()], notice).await?;
            if let Some(handle) = self.daemon.state.borrow().sinks.get(sink) {
                handle.wake();
            }
        }
        Ok(())
    }

    async fn answer(&self, settings: &ScheduledReport, due: Timestamp) -> anyhow::Result<Answer> {
        let now = self.now();
        let settings = settings.clone();
        let zone = self.zone.clone();
        let locale = self.locale.clone();
        let folder = self.reports.folder.clone();
        let currency = self.reports.currency.clone();
        let reading = self
            .daemon
            .store
            .read_report(move |reader| -> anyhow::Result<Answer> {
                reader.limit_time(MAX_READ)?;
                let report = report::find(&settings.report, folder.as_deref())?;
                let question =
                    report::question_of(&settings, currency.as_deref(), &locale, &zone, due);
                Ok(report::answer(reader, &report, &question, &zone, now)?)
            });
        reading.await
    }
}

#[cfg(test)]
mod tests;
