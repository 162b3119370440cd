//! The sandbox on a free loopback port, in this process: the test edits it and asks it for the
//! truth.

use sandbox::{self, Fault, FaultKind, Options, Route, Sandbox, Shop};
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Place, wait_until};

/// A served sandbox that grows only when told to.
pub(crate) struct Workspace {
    pub(crate) sandbox: Sandbox,
    base_url: String,
    stop: CancellationToken,
    _server: JoinHandle<std::io::Result<()>>,
}

impl Workspace {
    /// A few dozen records a route.
    pub(crate) async fn start() -> Self {
        Self::still(Options {
            requests_per_minute: 60_000,
            ..Self::usual()
        })
        .await
    }

    /// More records than a page shows, in every route.
    pub(crate) async fn start_full() -> Self {
        let usual = Self::usual();
        Self::still(Options {
            shop: Shop::Busy,
            requests_per_minute: 60_000,
            ..usual
        })
        .await
    }

    pub(crate) async fn still(options: Options) -> Self {
        let workspace = Self::of(options).await;
        workspace.sandbox.pause_growth(true);
        workspace
    }

    /// Options for a small shop.
    pub(crate) fn usual() -> Options {
        Options {
            shop: Shop::Quiet,
            seed: 7,
            ..Options::default()
        }
    }

    pub(crate) async fn of(options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/api", listener.local_addr().unwrap());
        let sandbox = Sandbox::new(options);
        let stop = CancellationToken::new();
        let server = tokio::spawn(sandbox::serve(listener, sandbox.clone(), stop.clone()));
        Self {
            sandbox,
            base_url,
            stop,
            _server: server,
        }
    }

    /// Its address as a configuration names it.
    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    pub(crate) fn port(&self) -> u16 {
        let port = self
            .base_url
            .trim_end_matches("/api")
            .rsplit(':')
            .next()
            .unwrap();
        port.parse().unwrap()
    }

    /// A folder whose daemon polls this workspace with its automation key.
    pub(crate) fn place(&self) -> Place {
        Place::new(&self.base_url, &self.sandbox.automation_key())
    }

    /// As [`Self::place`], under another name of this machine.
    pub(crate) fn place_at(&self, host: &str) -> Place {
        let base_url = self.base_url.replace("127.0.0.1", host);
        Place::new(&base_url, &self.sandbox.automation_key())
    }

    /// Adds a record and returns its id as text.
    pub(crate) fn add(&self, route: Route, fields: Value) -> String {
        text(
            &self
                .sandbox
                .add_record(route, None, object(fields))
                .unwrap(),
        )
    }

    pub(crate) fn edit(&self, route: Route, id: &str, fields: Value) {
        self.sandbox
            .edit(route, &Value::from(id), object(fields))
            .unwrap();
    }

    /// Scripts a fault for the next `count` requests of a route, or of any.
    pub(crate) fn fault(&self, route: Option<Route>, kind: FaultKind, count: u32) {
        let route = route.map(|route| route.segment().to_owned());
        self.sandbox.fault(Fault { route, kind, count });
    }

    /// Requests of a route that have been answered.
    pub(crate) fn asked(&self, route: Route) -> usize {
        self.sandbox
            .requests()
            .log
            .iter()
            .filter(|r| r.route == route.segment())
            .count()
    }

    /// Waits until a page that was asked for from now on has been stored: a poller asks again only
    /// when it is done with the page before, and one answer may be under way already.
    pub(crate) async fn polled(&self, route: Route) {
        let before = self.asked(route);
        wait_until("the route has been polled", || {
            self.asked(route) >= before + 3
        })
        .await;
    }

    /// As [`Self::polled`], for every route.
    pub(crate) async fn all_polled(&self) {
        let before = Route::ALL.map(|route| self.asked(route));
        wait_until("every route has been polled", || {
            Route::ALL
                .iter()
                .zip(before)
                .all(|(route, before)| self.asked(*route) >= before + 3)
        })
        .await;
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// An id as the text it is known by.
pub(crate) fn text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// The fields of an object literal.
fn object(fields: Value) -> Map<String, Value> {
    let Value::Object(map) = fields else {
        panic!("not an object: {fields}")
    };
    map
}
