//! The page: how the shop, the mirror and the daemon are doing, over HTTP, for people and tools.
//!
//! Serves Home, System, `/metrics`, `/healthz`, `/readyz`, reports and, if `show_records` is on,
//! the records. It only reads. Without `show_records`, it shows counts, states, ids and reports
//! that name no customer. All requests share one status per second; without requests, none is
//! taken.

mod access;
mod asked;
mod cached;
mod context;
mod find;
mod first_days;
mod frame;
mod home;
mod list_form;
mod live;
mod metrics;
mod not_shown;
mod period;
mod person;
mod record;
mod records;
mod reports;
mod respond;
mod rights;
mod server;
mod sign_in;
mod spark;
mod system;
mod text;
mod titles;
mod viewer;
mod wall;
mod wrong_tokens;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::tz::TimeZone;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::{ReportsSettings, StatusSettings};
use crate::net::server_certificate::{LastPair, ServerCertificate};
use crate::status::WorkspaceStatus;
use crate::store::Store;
use crate::text::locale::Locale;
use context::PageContext;
pub use first_days::Step;

/// How long to wait before a page that could not be opened is tried again.
const OPEN_AGAIN: Duration = Duration::from_secs(5);

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
    /// How numbers and days are written; `None`: as the browser asks.
    pub locale: Option<Locale>,
    /// What the configuration leaves to be set up.
    pub steps: Vec<Step>,
}

/// Whether the page is open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PageState {
    /// There is no page.
    #[default]
    Closed,
    /// It is open at this address.
    Open(String),
    /// It cannot be opened for this reason, and is tried again.
    Refused(String),
}

/// Takes the status; `None` if the daemon's tasks do not answer.
pub type Ask = Box<dyn Fn() -> BoxFuture<'static, Option<WorkspaceStatus>> + Send + Sync>;

/// An open page: its listener, and its certificate if it is served over TLS.
struct Opened {
    listener: TcpListener,
    address: SocketAddr,
    certificate: Option<ServerCertificate>,
}

impl StatusPage {
    /// Serves the page until `stop`. `publish` is called with each state of the page. `last` has the
    /// certificate of the page before, in case that the files have none that can be used.
    ///
    /// A page that cannot be opened is logged once and tried again: polling and delivery do not
    /// need it.
    pub async fn run(
        self,
        store: Store,
        publish: impl Fn(PageState) + Send,
        ask: Ask,
        last: Arc<LastPair>,
        stop: CancellationToken,
    ) {
        let Some(opened) = self.open(&publish, &last, &stop).await else {
            publish(PageState::Closed);
            return;
        };
        publish(PageState::Open(opened.url()));
        let context = Arc::new(PageContext::new(self, store, ask));
        let router = respond::router(context);
        let Opened {
            listener,
            certificate,
            ..
        } = opened;
        match certificate {
            Some(certificate) => {
                tokio::join!(
                    server::serve_tls(listener, router, &certificate, &stop),
                    certificate.follow(&stop),
                );
            }
            None => server::serve(listener, router, &stop).await,
        }
        publish(PageState::Closed);
    }

    /// Opens the page; `None` if stopped before that was possible.
    async fn open(
        &self,
        publish: impl Fn(PageState),
        last: &Arc<LastPair>,
        stop: &CancellationToken,
    ) -> Option<Opened> {
        let mut is_refused = false;
        loop {
            match self.try_open(last).await {
                Ok(opened) => {
                    let address = opened.url();
                    if is_refused {
                        // At the priority of the error, so that who reads only errors sees its end.
                        tracing::error!(%address, "the status page is open now");
                    } else {
                        tracing::info!(%address, "the status page is open");
                    }
                    return Some(opened);
                }
                Err(why) if !is_refused => {
                    is_refused = true;
                    tracing::error!("the status page cannot be opened: {why}; trying again");
                    publish(PageState::Refused(why));
                }
                Err(_) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(OPEN_AGAIN) => {}
            }
        }
    }

    /// Opens the page, or says why that is not possible and what to do.
    async fn try_open(&self, last: &Arc<LastPair>) -> Result<Opened, String> {
        let mut certificate = None;
        if let Some((file, key)) = self.settings.certificate() {
            match ServerCertificate::open(file, key, last) {
                Ok(opened) => certificate = Some(opened),
                Err(error) => return Err(error.to_string()),
            }
        }
        let address = self.settings.listen;
        match TcpListener::bind(address).await {
            Ok(listener) => Ok(Opened {
                address: listener.local_addr().unwrap_or(address),
                listener,
                certificate,
            }),
            Err(error) => Err(format!("{address}: {error}; {}", advice(&error))),
        }
    }
}

impl Opened {
    fn url(&self) -> String {
        let scheme = if self.certificate.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}/", self.address)
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
