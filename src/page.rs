//! The page: how the shop, the mirror and the daemon are doing, over HTTP, for people and tools.
//!
//! Serves Home, System, `/metrics`, `/healthz`, `/readyz`, reports and, if `show_records` is on, the
//! records. It only reads. Without `show_records`, it shows counts, states, ids and reports that name
//! no customer. All requests for the status share one snapshot per second; without requests, no
//! snapshot is taken.

mod access;
mod context;
mod find;
mod frame;
mod home;
mod live;
mod metrics;
mod not_shown;
mod ranges;
mod record;
mod records;
mod reports;
mod request;
mod respond;
mod server;
mod shared;
mod snapshot;
mod spark;
mod system;
mod text;
mod titles;
mod words;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use jiff::tz::TimeZone;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config;
use crate::status::WorkspaceStatus;
use crate::store::Store;
use context::PageContext;

/// How long to wait before the address is tried again.
const BIND_AGAIN: Duration = Duration::from_secs(5);

/// What the page is about; another one needs another page.
#[derive(Clone, PartialEq)]
pub struct StatusPage {
    /// `[status]`
    pub settings: config::StatusSettings,
    /// The workspace's host name, which stands for its name until a ping has told that.
    pub shop: String,
    /// The zone of the shop's dates.
    pub zone: TimeZone,
    /// The folder of the shop's own reports.
    pub folder: Option<PathBuf>,
    /// What amounts are in.
    pub currency: Option<String>,
    /// The statuses that mean ready for pickup; empty if their names say so.
    pub ready_status: Vec<String>,
}

impl StatusPage {
    /// Serves the page until `stop`; `status` returns the status, or `None` if the daemon's tasks do not
    /// answer. `opened` is told the page's address, and none when it is closed.
    ///
    /// An address that cannot be opened is logged once and tried again: polling and delivery do
    /// not need the page.
    pub async fn run<S, F>(
        self,
        store: Store,
        opened: impl Fn(Option<SocketAddr>) + Send,
        status: S,
        stop: CancellationToken,
    ) where
        S: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Option<WorkspaceStatus>> + Send + 'static,
    {
        let Some(listener) = open(self.settings.listen, &stop).await else { return };
        let address = listener.local_addr().unwrap_or(self.settings.listen);
        tracing::info!(address = %format_args!("http://{address}/"), "the status page is open");
        opened(Some(address));
        let status = Box::new(move || status().boxed());
        let context = Arc::new(PageContext::new(self, store, status));
        server::serve(listener, respond::router(context), stop).await;
        opened(None);
    }
}

/// Listens on the address; `None` if stopped before that was possible.
async fn open(address: SocketAddr, stop: &CancellationToken) -> Option<TcpListener> {
    let mut is_logged = false;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return Some(listener),
            Err(error) if !is_logged => {
                is_logged = true;
                tracing::error!(%address, %error, "could not open the status page: end the program that uses the port, or change `listen` in [status]; trying again");
            }
            Err(_) => {}
        }
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(BIND_AGAIN) => {}
        }
    }
}
