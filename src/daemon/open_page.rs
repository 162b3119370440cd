//! The status page over reloads: it goes on, with the streams of its readers, unless its own
//! configuration changed.

use anyhow::anyhow;
use futures_util::FutureExt as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::health::Watch;
use crate::config::Config;
use crate::page::StatusPage;

/// The page of a configuration; `None` if it has none.
fn page_of(config: &Config) -> Option<StatusPage> {
    Some(StatusPage {
        settings: config.status.clone()?,
        shop: config
            .workspace
            .base_url
            .host_str()
            .unwrap_or_default()
            .to_owned(),
        zone: config.workspace.time_zone.clone(),
        reports: config.reports.clone(),
    })
}

/// The page, if there is one.
pub(super) struct OpenPage {
    watch: Watch,
    shown: Option<StatusPage>,
    task: JoinSet<()>,
    stop: CancellationToken,
}

impl OpenPage {
    pub(super) fn new(watch: Watch) -> Self {
        Self {
            watch,
            shown: None,
            task: JoinSet::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Opens the page, closes it or opens it anew, as the configuration says; one that it does not
    /// change goes on.
    pub(super) async fn configure(&mut self, config: &Config) {
        let shown = page_of(config);
        if shown == self.shown {
            return;
        }
        self.close().await;
        if let Some(page) = shown.clone() {
            let (watch, stop) = (self.watch.clone(), self.stop.clone());
            let (store, state) = (watch.store.clone(), watch.state.clone());
            let opened = move |address| state.send_modify(|state| state.page = address);
            let ask = Box::new(move || {
                let watch = watch.clone();
                async move { watch.snapshot().await }.boxed()
            });
            self.task
                .spawn(async move { page.run(store, opened, ask, stop).await });
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
