//! Requests to read the configuration again: from SIGHUP, and from the command `reload`, which waits
//! for the decision.

use tokio::sync::{mpsc, oneshot};

/// Requests that wait at the same time. One reload answers all that wait when it begins.
const WAITING_MAX: usize = 16;

/// Whether the daemon continues with the new configuration; else why not, in one line.
pub(super) type Decision = Result<(), String>;

/// Who requests a reload.
#[derive(Debug)]
enum Request {
    /// A signal.
    Signal,
    /// A command, which waits for the decision.
    Command(oneshot::Sender<Decision>),
}

/// Makes the daemon read its configuration again.
#[derive(Debug, Clone)]
pub struct ReloadRequests(mpsc::Sender<Request>);

/// The requests that wait for the daemon.
#[derive(Debug)]
pub struct ReloadInbox(mpsc::Receiver<Request>);

/// The requests that one reload answers.
pub(super) struct Reload(Vec<oneshot::Sender<Decision>>);

/// A way to request reloads, and the inbox of the daemon that takes them.
#[must_use]
pub fn reload_requests() -> (ReloadRequests, ReloadInbox) {
    let (requests, inbox) = mpsc::channel(WAITING_MAX);
    (ReloadRequests(requests), ReloadInbox(inbox))
}

impl ReloadRequests {
    /// Requests a reload.
    pub fn request(&self) {
        // If the inbox is full, the configuration is read after this request all the same.
        let _ = self.0.try_send(Request::Signal);
    }

    /// Requests a reload and waits for the decision; `None` if the daemon stops before.
    pub(super) async fn decision(&self) -> Option<Decision> {
        let (reply, decision) = oneshot::channel();
        self.0.send(Request::Command(reply)).await.ok()?;
        decision.await.ok()
    }
}

impl ReloadInbox {
    /// Waits for the next request, and takes all that wait with it.
    pub(super) async fn next(&mut self) -> Reload {
        let Some(first) = self.0.recv().await else {
            // Nobody is left who could request one.
            return std::future::pending().await;
        };
        let mut reload = Reload(Vec::new());
        reload.add(first);
        while let Ok(request) = self.0.try_recv() {
            reload.add(request);
        }
        reload
    }
}

impl Reload {
    fn add(&mut self, request: Request) {
        if let Request::Command(waiting) = request {
            self.0.push(waiting);
        }
    }

    /// Tells those who wait what was decided.
    pub(super) fn reply(self, decision: &Decision) {
        for waiting in self.0 {
            // The command may have been stopped.
            let _ = waiting.send(decision.clone());
        }
    }
}
