//! The other end of a webhook: answers every POST with one status, 204 if none is named.
//!
//!     bare-receiver [STATUS]
//!
//! It prints its port. `GET /` answers with the time of the first and the last POST and their count, `GET /delays`
//! with how many seconds after `observed_at` each change of the kind `created` or `updated` arrived.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

/// What arrived; times are seconds of the epoch.
#[derive(Default, Serialize)]
struct Seen {
    first: Option<f64>,
    last: Option<f64>,
    count: u64,
    #[serde(skip)]
    delays: Vec<f64>,
}

#[derive(Deserialize)]
struct Event {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    kind: String,
    observed_at: Timestamp,
}

impl Seen {
    fn record(&mut self, body: &[u8]) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs_f64();
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.count += 1;
        // Alerts and tests carry no change.
        let Ok(Event { data }) = serde_json::from_slice(body) else {
            return;
        };
        if data.kind == "created" || data.kind == "updated" {
            let observed_at = data.observed_at.as_duration().as_secs_f64();
            self.delays.push(now - observed_at);
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    seen: Arc<Mutex<Seen>>,
    status: StatusCode,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() == Method::GET {
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let text = match request.uri().path() {
            "/delays" => serde_json::to_vec(&seen.delays),
            _ => serde_json::to_vec(&*seen),
        };
        let text = text.unwrap_or_default();
        return Ok(Response::new(Full::from(text)));
    }
    let mut response = Response::new(Full::default());
    match request.into_body().collect().await {
        Ok(body) => {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.record(&body.to_bytes());
            *response.status_mut() = status;
        }
        Err(_) => *response.status_mut() = StatusCode::BAD_REQUEST,
    }
    Ok(response)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let status: StatusCode = match std::env::args().nth(1) {
        Some(code) => code.parse()?,
        None => StatusCode::NO_CONTENT,
    };
    let seen = Arc::new(Mutex::new(Seen::default()));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let seen = Arc::clone(&seen);
        let service = service_fn(move |request| answer(request, Arc::clone(&seen), status));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}
