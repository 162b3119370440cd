//! A workspace that answers each poll with the exact text a test wrote.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::{Place, wait_until};

/// What one route answers, and how often it was asked.
struct Shown {
    body: String,
    asked: u64,
    /// What the next answer waits for.
    held: Option<Arc<Notify>>,
}

impl Shown {
    fn new(body: String) -> Self {
        Self {
            body,
            asked: 0,
            held: None,
        }
    }
}

/// The header `Date` of every response; the machine's own time if it is not set.
type Date = Arc<Mutex<Option<String>>>;

type Routes = Arc<Mutex<HashMap<String, Shown>>>;

/// The workspace; a route that shows nothing answers with an empty page.
pub(crate) struct Pages {
    base_url: String,
    routes: Routes,
    date: Date,
    server: JoinHandle<()>,
}

impl Pages {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/api", listener.local_addr().unwrap());
        let (routes, date) = (Routes::default(), Date::default());
        let app = Router::new()
            .route("/api/automation/ping", get(ping))
            .route("/api/automation/triggers/{route}", get(page))
            .route("/api/automation/search/{route}", get(found))
            .with_state(Arc::clone(&routes))
            .layer(middleware::from_fn_with_state(Arc::clone(&date), dated));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            base_url,
            routes,
            date,
            server,
        }
    }

    /// A folder whose daemon polls this workspace.
    pub(crate) fn place(&self) -> Place {
        Place::new(&self.base_url, "any-key")
    }

    /// Sets the workspace's clock, as every response shows it from now on.
    pub(crate) fn set_date(&self, date: &str) {
        *self.date.lock().unwrap() = Some(date.to_owned());
    }

    /// Sets the body a route answers with from now on.
    pub(crate) fn show(&self, route: &str, body: impl Into<String>) {
        let mut routes = self.routes.lock().unwrap();
        let shown = routes
            .entry(route.to_owned())
            .or_insert_with(|| Shown::new(String::new()));
        shown.body = body.into();
    }

    /// Has the next request of a route get, once the caller says so, what the route shows when the
    /// request arrives.
    pub(crate) fn hold_next(&self, route: &str) -> Arc<Notify> {
        let release = Arc::new(Notify::new());
        let mut routes = self.routes.lock().unwrap();
        let shown = routes
            .entry(route.to_owned())
            .or_insert_with(|| Shown::new("[]".to_owned()));
        shown.held = Some(Arc::clone(&release));
        release
    }

    /// Waits until a request is held back.
    pub(crate) async fn held(&self, route: &str) {
        let held = || {
            self.routes
                .lock()
                .unwrap()
                .get(route)
                .is_some_and(|s| s.held.is_none())
        };
        wait_until("a request is held back", held).await;
    }

    /// As [`Self::show`], and waits until a page with that body has been stored.
    pub(crate) async fn shown(&self, route: &str, body: impl Into<String>) {
        self.show(route, body);
        self.polled(route).await;
    }

    pub(crate) fn asked(&self, route: &str) -> u64 {
        self.routes
            .lock()
            .unwrap()
            .get(route)
            .map_or(0, |shown| shown.asked)
    }

    /// Waits until a page that was asked for from now on has been stored: a poller asks again only
    /// when it is done with the page before.
    pub(crate) async fn polled(&self, route: &str) {
        let before = self.asked(route);
        wait_until("the route has been polled", || {
            self.asked(route) >= before + 2
        })
        .await;
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn ping() -> Response {
    let body = r#"{"status":"connected","workspace":"Shop","provider":"automation"}"#;
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

async fn dated(State(date): State<Date>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if let Some(date) = date.lock().unwrap().as_deref() {
        response
            .headers_mut()
            .insert(header::DATE, date.parse().unwrap());
    }
    response
}

/// The customer search is the route `search`.
async fn found(state: State<Routes>, headers: HeaderMap) -> Response {
    page(state, Path("search".to_owned()), headers).await
}

async fn page(
    State(routes): State<Routes>,
    Path(route): Path<String>,
    headers: HeaderMap,
) -> Response {
    if !headers.contains_key(header::AUTHORIZATION) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let (body, held) = {
        let mut routes = routes.lock().unwrap();
        let shown = routes
            .entry(route)
            .or_insert_with(|| Shown::new("[]".to_owned()));
        shown.asked += 1;
        (shown.body.clone(), shown.held.take())
    };
    if let Some(release) = held {
        release.notified().await;
    }
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
