//! Accepts connections and serves a bounded number of them at the same time.
//!
//! More of them wait in the listener's queue. Each connection limits its own time. If none can be
//! accepted, for example for lack of descriptors, the listener tries again after a second. A panic
//! in one connection ends that connection alone.

use axum::serve::Listener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Serves each connection with `converse`, at most `most` at the same time, until `stop`; then
/// closes every connection.
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn a_panic_in_one_connection_ends_that_connection_alone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let converse = |mut stream: TcpStream| async move {
            assert_eq!(stream.read_u8().await.unwrap(), b'?', "an odd request");
            stream.write_u8(b'!').await.unwrap();
        };
        let asking = async {
            let ask = async |byte| {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_u8(byte).await.unwrap();
                stream.read_u8().await.ok()
            };
            let replies = (ask(b'x').await, ask(b'?').await);
            stop.cancel();
            replies
        };
        let ((), replies) = tokio::join!(serve(listener, 4, &stop, converse), asking);
        assert_eq!(replies, (None, Some(b'!')));
    }
}
