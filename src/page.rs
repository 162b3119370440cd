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

use std::io;
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

/// Whether the page is open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PageState {
    /// There is no page.
    #[default]
    Closed,
    /// It is open at this address.
    Open(SocketAddr),
    /// It cannot be opened for this reason, and is tried again.
    Refused(String),
}

/// Takes the status; `None` if the daemon's tasks do not answer.
pub type Ask = Box<dyn Fn() -> BoxFuture<'static, Option<WorkspaceStatus>> + Send + Sync>;

impl StatusPage {
    /// Serves the page until `stop`. `publish` is called with each state of the page.
    ///
    /// An address that cannot be opened is logged once and tried again: polling and delivery do
    /// not need the page.
    pub async fn run(
        self,
        store: Store,
        publish: impl Fn(PageState) + Send,
        ask: Ask,
        stop: CancellationToken,
    ) {
        let Some(listener) = open(self.settings.listen, &publish, &stop).await else {
            publish(PageState::Closed);
            return;
        };
        let address = listener.local_addr().unwrap_or(self.settings.listen);
        publish(PageState::Open(address));
        let context = Arc::new(PageContext::new(self, store, ask));
        server::serve(listener, respond::router(context), stop).await;
        publish(PageState::Closed);
    }
}

/// What to do about an address that cannot be opened.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "end the program that uses the port, or change `listen` in [status]"
        }
        io::ErrorKind::PermissionDenied => {
            "this user may not use the port: choose one above 1023 for `listen` in [status]"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine does not have the address: correct `listen` in [status]"
        }
        _ => "correct `listen` in [status]",
    }
}

/// Listens on the address; `None` if stopped before that was possible.
async fn open(
    address: SocketAddr,
    publish: impl Fn(PageState),
    stop: &CancellationToken,
) -> Option<TcpListener> {
    let mut is_refused = false;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => {
                let address = listener.local_addr().unwrap_or(address);
                let address = format!("http://{address}/");
                if is_refused {
                    // At the priority of the error, so that who reads only errors sees its end.
                    tracing::error!(%address, "the status page is open now");
                } else {
                    tracing::info!(%address, "the status page is open");
                }
                return Some(listener);
            }
            Err(error) if !is_refused => {
                is_refused = true;
                let why = format!("{address}: {error}; {}", advice(&error));
                tracing::error!("the status page cannot be opened at {why}; trying again");
                publish(PageState::Refused(why));
            }
            Err(_) => {}
        }
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(BIND_AGAIN) => {}
        }
    }
}
