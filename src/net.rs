//! What every connection needs: TLS, bodies up to a limit, `Retry-After`, a bounded server.

pub mod body;
pub mod connections;
pub mod retry_after;
pub mod tls;
