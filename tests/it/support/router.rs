//! A transport that hands each request to the sandbox's router in this process, without a socket.
//!
//! Each direction takes a drawn time on tokio's clock, so that on a paused runtime an hour of
//! requests passes in a moment and the same seed gives the same hour.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use shopmirror::api::{ApiRequest, ApiResponse, MAX_BODY, Transport, TransportError};
use tower::ServiceExt;

/// How long a request or its answer is on the way, in milliseconds.
const ON_THE_WAY_MS: std::ops::Range<u64> = 10..90;

/// Sends requests to a router.
pub(crate) struct RouterTransport {
    router: Router,
    delays: Mutex<fastrand::Rng>,
}

impl RouterTransport {
    pub(crate) fn new(router: Router, seed: u64) -> Self {
        Self {
            router,
            delays: Mutex::new(fastrand::Rng::with_seed(seed)),
        }
    }

    async fn travel(&self) {
        let ms = self
            .delays
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .u64(ON_THE_WAY_MS);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    async fn exchange(&self, request: ApiRequest) -> Result<ApiResponse, TransportError> {
        let broken = |error: &dyn std::fmt::Display| TransportError::Other(error.to_string());
        let mut sent = axum::http::Request::get(request.url.as_str())
            .body(Body::empty())
            .map_err(|error| broken(&error))?;
        *sent.headers_mut() = request.headers;
        self.travel().await;
        let answer = self
            .router
            .clone()
            .oneshot(sent)
            .await
            .map_err(|error| broken(&error))?;
        let (head, body) = answer.into_parts();
        let body = to_bytes(body, MAX_BODY)
            .await
            .map_err(|_| TransportError::TooLarge)?;
        self.travel().await;
        Ok(ApiResponse {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        })
    }
}

#[async_trait]
impl Transport for RouterTransport {
    async fn send(&self, request: ApiRequest) -> Result<ApiResponse, TransportError> {
        let timeout = request.timeout;
        let answered = tokio::time::timeout(timeout, self.exchange(request)).await;
        answered.unwrap_or(Err(TransportError::Timeout))
    }
}
