//! The status page over reloads: it goes on, with the streams of its readers, unless its own
//! configuration changed.
//!
//! During a reload nothing answers for a moment; who asks the page then waits for the next answer.

use std::time::Duration;

use anyhow::anyhow;
use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::health::{SharedState, Watch};
use crate::config::Config;
use crate::page::StatusPage;
use crate::status::WorkspaceStatus;
use crate::store::Store;

/// How long the page waits for a status through a reload.
const PATIENCE: Duration = Duration::from_secs(10);

/// The page of a configuration; `None` if it has none.
fn page_of(config: &Config) -> Option<StatusPage> {
    Some(StatusPage {
        settings: config.status.clone()?,
        shop: config.workspace.base_url.host_str().unwrap_or_default().to_owned(),
        zone: config.workspace.time_zone.clone(),
        reports: config.reports.clone(),
    })
}

/// The page, if there is one.
pub(super) struct OpenPage {
    store: Store,
    shown: Option<StatusPage>,
    task: JoinSet<()>,
    stop: CancellationToken,
    state: SharedState,
    /// Whom the page asks; `None` during a reload.
    answers: watch::Sender<Option<Watch>>,
}

impl OpenPage {
    pub(super) fn new(store: Store, state: SharedState) -> Self {
        Self {
            store,
            shown: None,
            task: JoinSet::new(),
            stop: CancellationToken::new(),
            state,
            answers: watch::Sender::new(None),
        }
    }

    /// Opens the page, closes it or opens it anew, as the configuration says; one that it does not change
    /// goes on.
    pub(super) async fn configure(&mut self, config: &Config) {
        let shown = page_of(config);
        if shown == self.shown {
            return;
        }
        self.close().await;
        if let Some(page) = shown.clone() {
            let (store, stop, state) = (self.store.clone(), self.stop.clone(), self.state.clone());
            let opened = move |address| state.send_modify(|state| state.page = address);
            let answers = self.answers.subscribe();
            let ask = Box::new(move || status(answers.clone()).boxed());
            self.task.spawn(async move { page.run(store, opened, ask, stop).await });
        }
        self.shown = shown;
    }

    /// From here on `watch` answers; with `None` the page waits for the next one.
    pub(super) fn ask(&self, watch: Option<Watch>) {
        self.answers.send_replace(watch);
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

/// The status, through a reload as well; `None` if the tasks do not answer.
async fn status(mut answers: watch::Receiver<Option<Watch>>) -> Option<WorkspaceStatus> {
    let asked = async {
        loop {
            let watch = answers.wait_for(Option::is_some).await.ok()?.clone()?;
            let status = watch.snapshot().await;
            // Without a status the tasks are stuck, unless they were just replaced.
            if status.is_some() || !answers.has_changed().ok()? {
                return status;
            }
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.ok().flatten()
}
