//! What the integration tests share: a recording HTTP receiver, a wait with a limit, the real
//! program in a folder of its own, and two kinds of workspace for it to poll.

mod daemon;
pub(crate) mod office;
mod pages;
mod python;
pub(crate) mod relay;
mod router;
pub(crate) mod servers;
mod workspace;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use jiff::tz::TimeZone;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

pub(crate) use daemon::{BUDGET, Daemon, EAGER, Ended, Place};
pub(crate) use pages::Pages;
pub(crate) use python::{python, run_python};
pub(crate) use router::RouterTransport;
pub(crate) use workspace::{Workspace, text};

/// How long a condition may take to hold, in seconds: far longer than it does on a busy machine.
pub(crate) const LIMIT_S: u64 = 60;

/// Waits until the condition holds, and fails the test when it does not within the limit.
pub(crate) async fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(
            begun.elapsed().as_secs() < LIMIT_S,
            "waited in vain until {what}"
        );
        look_again(begun, 20).await;
    }
}

/// A time of day that does not come while a test runs: the one of half a day from now in this zone.
pub(crate) fn far_time_of_day(zone: TimeZone) -> String {
    let far = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(12);
    far.to_zoned_datetime(zone).strftime("%H:%M").to_string()
}

/// Pauses between two looks: `least` milliseconds at first and up to ten times as many later, so
/// that tests that wait leave the processor to those that work.
pub(crate) async fn look_again(begun: Instant, least: u32) {
    let least = Duration::from_millis(least.into());
    tokio::time::sleep((begun.elapsed() / 8).clamp(least, 10 * least)).await;
}

/// A port of this machine at which nothing accepts connections, and which nobody else can take.
pub(crate) struct ClosedPort {
    _socket: TcpSocket,
    pub(crate) address: SocketAddr,
}

impl ClosedPort {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        Self {
            _socket: socket,
            address,
        }
    }

    /// The base address of a workspace that is not there.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/api", self.address)
    }
}

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Received {
    /// A header's text; empty when absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

/// One answer of the receiver.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: String::new(),
        }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }
}

struct Shared {
    received: Mutex<Vec<Received>>,
    usual: Mutex<Answer>,
    /// What a body must contain to get its own answer.
    particular: Mutex<Option<(String, Answer)>>,
    /// Permits to answer; closed to mean "always".
    gate: Semaphore,
}

/// An HTTP server on a free loopback port that records every request and answers as told.
pub(crate) struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl Receiver {
    /// Starts one that answers 204 at once.
    pub(crate) async fn start() -> Self {
        let receiver = Self::start_held().await;
        receiver.release();
        receiver
    }

    /// Starts one that records, and answers nothing before [`Self::release`].
    pub(crate) async fn start_held() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            received: Mutex::default(),
            usual: Mutex::new(Answer::status(204)),
            particular: Mutex::default(),
            gate: Semaphore::new(0),
        });
        let app = Router::new().fallback(answer).with_state(shared.clone());
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            address,
            shared,
            server,
        }
    }

    /// Answers what is held, and everything from now on.
    pub(crate) fn release(&self) {
        self.shared.gate.close();
    }

    /// Answers so many of those that are held or come next.
    pub(crate) fn answer(&self, requests: usize) {
        self.shared.gate.add_permits(requests);
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The answer to whatever has none of its own.
    pub(crate) fn always(&self, answer: Answer) {
        *self.shared.usual.lock().unwrap() = answer;
    }

    /// The answer to every body that contains `text`, until [`Self::forgive`].
    pub(crate) fn refuse(&self, text: impl Into<String>, answer: Answer) {
        *self.shared.particular.lock().unwrap() = Some((text.into(), answer));
    }

    /// Answers every body alike again.
    pub(crate) fn forgive(&self) {
        *self.shared.particular.lock().unwrap() = None;
    }

    /// The `data` objects received so far, in order of arrival.
    pub(crate) fn events(&self) -> Vec<serde_json::Value> {
        self.received()
            .iter()
            .map(|request| {
                let mut body: serde_json::Value = serde_json::from_str(&request.body).unwrap();
                assert_eq!(request.header("webhook-id"), body["data"]["event_id"]);
                body["data"].take()
            })
            .collect()
    }

    /// Every request so far, in order of arrival.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap().clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let answer = {
        let body = String::from_utf8(body.to_vec()).unwrap();
        let particular = shared.particular.lock().unwrap().clone();
        let particular = particular.filter(|(text, _)| body.contains(text));
        shared.received.lock().unwrap().push(Received {
            method,
            uri,
            headers,
            body,
        });
        match particular {
            Some((_, answer)) => answer,
            None => shared.usual.lock().unwrap().clone(),
        }
    };
    // An error means that the gate was closed, which lets everything through.
    if let Ok(permit) = shared.gate.acquire().await {
        permit.forget();
    }
    let mut response = answer.body.into_response();
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap();
    for (name, value) in answer.headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}
