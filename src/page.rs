//! The page: how the shop, the mirror and the daemon are doing, over HTTP, for people and tools.
//!
//! Serves Home, System, `/metrics`, `/healthz`, `/readyz`, reports and, if `show_records` is on,
//! the records. It only reads. Without `show_records`, it shows counts, states, ids and reports
//! that name no customer. All requests share one status per second; without requests, none is
//! taken.

mod access;
mod cached;
mod context;
mod find;
mod frame;
mod home;
mod live;
mod metrics;
mod not_shown;
mod period;
mod record;
mod records;
mod reports;
mod respond;
mod server;
mod spark;
mod system;
mod text;
mod titles;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::tz::TimeZone;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::{ReportsSettings, StatusSettings};
use crate::status::WorkspaceStatus;
use crate::store::Store;
use context::PageContext;

/// How long to wait before the address is tried again.
const BIND_AGAIN: Duration = Duration::from_secs(5);

/// The settings of the page; if one changes, the page is opened again.
#[derive(Clone, PartialEq)]
pub struct StatusPage {
    /// `[status]`
    pub settings: StatusSettings,
    /// `[reports]`
    pub reports: ReportsSettings,
    /// The workspace's host name, which stands for its name until a ping has returned that.
    pub shop: String,
    /// The zone of the shop's dates.
    pub zone: TimeZone,
}

/// Takes the status; `None` if the daemon's tasks do not answer.
pub type Ask = Box<dyn Fn() -> BoxFuture<'static, Option<WorkspaceStatus>> + Send + Sync>;

impl StatusPage {
    /// Serves the page until `stop`. `opened` is called with the page's address, and with `None`
    /// when the page is closed.
    ///
    /// An address that cannot be opened is logged once and tried again: polling and delivery do
    /// not need the page.
    pub async fn run(
        self,
        store: Store,
        opened: impl Fn(Option<SocketAddr>) + Send,
        ask: Ask,
        stop: CancellationToken,
    ) {
        let Some(listener) = open(self.settings.listen, &stop).await else {
            return;
        };
        let address = listener.local_addr().unwrap_or(self.settings.listen);
        tracing::info!(address = %format_args!("http://{address}/"), "the status page is open");
        opened(Some(address));
        let context = Arc::new(PageContext::new(self, store, ask));
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
                tracing::error!(
                    %address,
                    %error,
                    "could not open the status page: end the program that uses the port, or \
                     change `listen` in [status]; trying again"
                );
            }
            Err(_) => {}
        }
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(BIND_AGAIN) => {}
        }
    }
}
