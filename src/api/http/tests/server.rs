//! A server on a free port that says whatever a test wants said, well-formed or not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use url::Url;

/// What a server does with a connection whose request it has read.
pub(super) type Script = fn(TcpStream, Arc<AtomicUsize>) -> JoinHandle<()>;

/// A server that keeps the heads of the requests it saw and the number of bytes it could send.
pub(super) struct Server {
    pub(super) url: Url,
    heads: Arc<Mutex<Vec<String>>>,
    pub(super) sent: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Server {
    pub(super) async fn start<S>(script: S) -> Self
    where
        S: Fn(TcpStream, Arc<AtomicUsize>) -> JoinHandle<()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/api", listener.local_addr().unwrap()).parse().unwrap();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let sent: Arc<AtomicUsize> = Arc::default();
        let (seen, count) = (Arc::clone(&heads), Arc::clone(&sent));
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let head = read_head(&mut stream).await;
                seen.lock().unwrap().push(head);
                script(stream, Arc::clone(&count));
            }
        });
        Self { url, heads, sent, task }
    }

    pub(super) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads a request to the end of its head, or as much of it as comes.
pub(super) async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

/// Sends the bytes and ends the connection.
pub(super) fn say(mut stream: TcpStream, bytes: Vec<u8>) -> JoinHandle<()> {
    tokio::spawn(async move {
        stream.write_all(&bytes).await.unwrap();
        stream.shutdown().await.unwrap();
    })
}

/// Sends the head, then the piece again and again until the client has had enough.
pub(super) fn flood(
    mut stream: TcpStream,
    head: Vec<u8>,
    piece: Vec<u8>,
    sent: Arc<AtomicUsize>,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut result = stream.write_all(&head).await;
        while result.is_ok() {
            result = stream.write_all(&piece).await;
            sent.fetch_add(piece.len(), Ordering::SeqCst);
        }
    })
}
