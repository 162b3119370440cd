//! What every connection needs: TLS, the causes of failures, bodies up to a limit, `Retry-After`, a
//! bounded server.

pub mod body;
pub mod connections;
pub mod problem;
pub mod retry_after;
pub mod tls;
mod verifier;
