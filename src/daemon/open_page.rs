//! Keeps the status page open over reloads, with the streams of its readers, unless its own
//! configuration changed.

use std::sync::Arc;

use anyhow::anyhow;
use futures_util::FutureExt as _;
use jiff::tz::TimeZone;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::shared::DaemonHandle;
use crate::config::Config;
use crate::net::server_certificate::LastPair;
use crate::page::{StatusPage, Step};

/// The page of a configuration; `None` if it has none.
fn page_of(config: &Config) -> Option<StatusPage> {
    let host = config.workspace.base_url.host_str();
    Some(StatusPage {
        settings: config.status.clone()?,
        shop: host.unwrap_or_default().to_owned(),
        zone: config.workspace.time_zone.clone(),
        locale: config.workspace.locale.clone(),
        reports: config.reports.clone(),
        steps: steps_left(config),
    })
}

/// The steps that a configuration leaves.
fn steps_left(config: &Config) -> Vec<Step> {
    let mut left = Vec::new();
    if config.workspace.time_zone == TimeZone::UTC {
        left.push(Step::TimeZone);
    }
    if config.reports.currency.is_none() {
        left.push(Step::Currency);
    }
    if config.reports.ready_status.is_empty() {
        left.push(Step::ReadyStatus);
    }
    let is_beside = config.backup.path.parent() == config.store.path.parent();
    if config.backup.offsite.is_none() && is_beside {
        left.push(Step::Backup);
    }
    if config.alerts.sinks.is_empty() {
        left.push(Step::Alerts);
    }
    left
}

/// The page, if there is one.
pub(super) struct OpenPage {
    daemon: DaemonHandle,
    shown: Option<StatusPage>,
    /// The certificate of the page, for when it is opened again.
    certificate: Arc<LastPair>,
    task: JoinSet<()>,
    stop: CancellationToken,
}

impl OpenPage {
    pub(super) fn new(daemon: DaemonHandle) -> Self {
        Self {
            daemon,
            shown: None,
            certificate: Arc::default(),
            task: JoinSet::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Opens the page, closes it or opens it again, as the configuration says; one that it does not
    /// change stays open, and reads its certificate again.
    pub(super) async fn configure(&mut self, config: &Config) {
        let shown = page_of(config);
        if shown == self.shown {
            self.certificate.read_again();
            return;
        }
        self.close().await;
        if let Some(page) = shown.clone() {
            let daemon = self.daemon.clone();
            let store = daemon.store.clone();
            let state = daemon.state.clone();
            let stop = self.stop.clone();
            let certificate = Arc::clone(&self.certificate);
            let publish = move |page| state.send_modify(|state| state.page = page);
            let snapshot = Box::new(move || {
                let daemon = daemon.clone();
                async move { daemon.snapshot().await }.boxed()
            });
            self.task
                .spawn(async move { page.run(store, publish, snapshot, certificate, stop).await });
        }
        self.shown = shown;
    }

    /// Closes the page and every connection.
    pub(super) async fn close(&mut self) {
        std::mem::take(&mut self.stop).cancel();
        while self.task.join_next().await.is_some() {}
        self.shown = None;
    }

    /// Waits for a page that ends without a request, which is a fault.
    pub(super) async fn failure(&mut self) -> anyhow::Error {
        match self.task.join_next().await {
            None => std::future::pending().await,
            Some(Err(error)) => anyhow!(error).context("the status page panicked"),
            Some(Ok(())) => {
                anyhow!("the status page ended without a stop request; report this as a bug")
            }
        }
    }
}
