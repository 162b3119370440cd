//! Accepts connections and serves a bounded number of them at the same time.
//!
//! More of them wait in the listener's queue. Each connection limits its own time. If none can be
//! accepted, for example for lack of descriptors, the listener tries again after a second.

use axum::serve::Listener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Serves each connection with `converse`, at most `most` at the same time, until `stop`; then closes
/// every connection.
pub async fn serve<L, F>(
    mut listener: L,
    most: usize,
    stop: &CancellationToken,
    converse: impl Fn(L::Io) -> F,
) where
    L: Listener,
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            // A client may close early or send nothing: that is no error of the daemon.
            Some(_) = connections.join_next() => {}
            (stream, _) = listener.accept(), if connections.len() < most => {
                connections.spawn(converse(stream));
            }
        }
    }
    connections.shutdown().await;
}
