//! What every connection needs: TLS, lookups, requests over HTTP, storage, the causes of failures,
//! bodies up to a limit, `Retry-After`, a bounded server and its certificate.

pub mod body;
pub mod connections;
pub mod http;
pub mod lookup;
mod pem;
pub mod problem;
pub mod retry_after;
#[cfg(feature = "s3")]
pub mod s3;
pub mod server_certificate;
pub mod tls;
mod verifier;
