//! A relay in front of a server: it can take the server away, hold every byte or one answer back,
//! slow the bytes down, or cut all connections in the middle of what a client sends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What the relay does with connections and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Passes everything on.
    Open,
    /// Ends every connection, and each new one at once.
    Cut,
    /// Accepts connections and passes nothing on.
    Held,
    /// Passes everything on, a little later.
    Slow,
    /// Passes everything on but the answer to what has [`LATE`] in it.
    Late,
}

/// What [`Line::Late`] looks for.
pub(crate) const LATE: &str = "ANSWER-LATE";

/// How much later [`Line::Slow`] passes a piece on.
const LATER: Duration = Duration::from_millis(5);
/// No cut is planned.
const NEVER: i64 = i64::MAX;

struct Shared {
    line: watch::Sender<Line>,
    /// Bytes that clients may still send before the line is cut.
    left: AtomicI64,
    /// Connections since the line was set.
    heard: AtomicUsize,
}

/// A relay on a free loopback port; it ends with the value.
pub(crate) struct Relay {
    port: u16,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Relay {
    /// A relay to this port of this machine.
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            line: watch::Sender::new(Line::Open),
            left: AtomicI64::new(NEVER),
            heard: AtomicUsize::new(0),
        });
        let target = SocketAddr::from(([127, 0, 0, 1], port));
        let task = tokio::spawn(accept(listener, target, Arc::clone(&shared)));
        Self {
            port: own,
            shared,
            task,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn set(&self, line: Line) {
        self.shared.left.store(NEVER, Ordering::SeqCst);
        self.shared.heard.store(0, Ordering::SeqCst);
        self.shared.line.send_replace(line);
    }

    /// Cuts the line as soon as clients have sent so many bytes more.
    pub(crate) fn cut_after(&self, bytes: i64) {
        self.shared.left.store(bytes, Ordering::SeqCst);
    }

    pub(crate) fn is_cut(&self) -> bool {
        *self.shared.line.borrow() == Line::Cut
    }

    /// Whether a client has connected since the line was set.
    pub(crate) fn has_heard(&self) -> bool {
        self.shared.heard.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.line.send_replace(Line::Cut);
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        if *shared.line.borrow() != Line::Cut {
            shared.heard.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(join(client, target, Arc::clone(&shared)));
        }
    }
}

async fn join(client: TcpStream, target: SocketAddr, shared: Arc<Shared>) {
    let mut line = shared.line.subscribe();
    let both = async {
        let Ok(server) = TcpStream::connect(target).await else {
            return;
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let is_late = AtomicBool::new(false);
        // A side that ends its direction ends the connection: no client here goes on after that.
        tokio::select! {
            () = pump(from_client, to_server, &shared, &is_late, true) => {}
            () = pump(from_server, to_client, &shared, &is_late, false) => {}
        }
    };
    tokio::select! {
        () = both => {}
        _ = line.wait_for(|line| *line == Line::Cut) => {}
    }
}

async fn pump(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    shared: &Shared,
    is_late: &AtomicBool,
    of_client: bool,
) {
    let mut line = shared.line.subscribe();
    let mut piece = vec![0; 8 * 1024];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let passes = |line: &Line| match line {
            Line::Held => false,
            Line::Late => of_client || !is_late.load(Ordering::SeqCst),
            _ => true,
        };
        let Ok(now) = line.wait_for(passes).await.map(|line| *line) else {
            return;
        };
        if of_client
            && piece[..length]
                .windows(LATE.len())
                .any(|part| part == LATE.as_bytes())
        {
            is_late.store(true, Ordering::SeqCst);
        }
        if now == Line::Slow {
            tokio::time::sleep(LATER).await;
        }
        let length = if of_client {
            shared.allowed(length)
        } else {
            length
        };
        if to.write_all(&piece[..length]).await.is_err() {
            return;
        }
        if of_client && shared.left.load(Ordering::SeqCst) <= 0 {
            shared.line.send_replace(Line::Cut);
        }
    }
}

impl Shared {
    /// How many of these bytes may be passed on before the line is cut.
    fn allowed(&self, length: usize) -> usize {
        if self.left.load(Ordering::SeqCst) == NEVER {
            return length;
        }
        let wanted = i64::try_from(length).unwrap();
        let before = self.left.fetch_sub(wanted, Ordering::SeqCst);
        usize::try_from(before.clamp(0, wanted)).unwrap()
    }
}
