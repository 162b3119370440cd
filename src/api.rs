//! The client of the workspace API: every read of the contract, one request each, without retries.
//!
//! It turns a response into a [`Page`](shopmirror_core::record::Page), or into an [`ApiError`] with
//! whether and when to retry and what the operator can do. Nothing here paces, waits or stores. The
//! key is sent in one header, only to the configured host, and appears in no error and no log.

mod client;
mod error;
mod foreign;
mod http;
mod page;
mod rate;
mod transport;
mod wire;

pub use client::{Client, MAX_AGE, MAX_SEARCH_TERM};
pub use error::{ApiError, Between, BetweenKind, Class, Retry};
pub use http::{HttpTransport, TransportBuildError};
pub use page::{MAX_DEPTH, MAX_RECORDS, PageError, decode};
pub use rate::RateHeaders;
pub use transport::{ApiRequest, ApiResponse, MAX_BODY, MAX_ERROR_BODY, Transport, TransportError};
pub use wire::Ping;
