//! The webhook receiver of the demo: it takes what the sink sends, and shows the latest on a page.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Html;
use axum::routing::{get, post};
use maud::{DOCTYPE, html};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// So many of the latest webhooks are shown.
const SHOWN: usize = 30;

/// The latest webhooks, the newest first.
type Arrived = Arc<Mutex<VecDeque<Value>>>;

/// Serves the receiver until stopped.
pub(super) async fn serve(listener: TcpListener, stop: CancellationToken) -> std::io::Result<()> {
    let app = Router::new()
        .route("/", get(page))
        .route("/hook", post(take))
        .with_state(Arrived::default());
    axum::serve(listener, app)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}

async fn take(State(arrived): State<Arrived>, body: String) -> StatusCode {
    let Ok(event) = serde_json::from_str(&body) else {
        return StatusCode::BAD_REQUEST;
    };
    let mut arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner);
    arrived.push_front(event);
    arrived.truncate(SHOWN);
    StatusCode::NO_CONTENT
}

async fn page(State(arrived): State<Arrived>) -> Html<String> {
    let arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content="3";
                title { "Webhooks of the demo" }
                style { "body { font: 15px sans-serif; margin: 2em; } pre { overflow: auto; }" }
            }
            body {
                h1 { "What the webhook sink sends" }
                p { "The newest first. Your own program would take these requests." }
                @if arrived.is_empty() { p { "Nothing has arrived so far." } }
                @for event in arrived.iter() {
                    details {
                        summary { (heading(event)) }
                        pre { (format!("{event:#}")) }
                    }
                }
            }
        }
    };
    Html(page.into_string())
}

/// The time, the type and the record of an event.
fn heading(event: &Value) -> String {
    let data = &event["data"];
    let mut parts = Vec::new();
    for part in [&event["timestamp"], &event["type"], &data["record_id"]] {
        parts.extend(part.as_str());
    }
    let name = ["name", "customer_name"].map(|field| data["record"][field].as_str());
    parts.extend(name.into_iter().flatten().take(1));
    parts.join(" · ")
}
