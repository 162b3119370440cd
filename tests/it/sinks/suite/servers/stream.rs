//! A stream of JetStream.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::support::servers::nats::Nats;

/// A longer message is refused.
const LONGEST: i32 = 20_000;

struct Stream {
    name: String,
    url: String,
    relay: Relay,
    own: Option<Mutex<Nats>>,
}

pub(super) async fn start(own: bool) -> Option<Box<dyn Destination>> {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    let own = if own { Some(Nats::start()?) } else { None };
    let server = match &own {
        Some(own) => own,
        None => Nats::shared()?,
    };
    let name = format!("SUITE{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    server.make(&name, LONGEST).await;
    let relay = Relay::to(server.port()).await;
    let url = server.url("all", "right");
    Some(Box::new(Stream {
        name,
        url,
        relay,
        own: own.map(Mutex::new),
    }))
}

impl Destination for Stream {
    fn relay(&self) -> Option<&Relay> {
        Some(&self.relay)
    }

    fn name(&self) -> &'static str {
        "nats"
    }

    fn keys(&self, timeout: &str) -> String {
        let (name, port) = (&self.name, self.relay.port());
        format!(
            "type = \"nats\"\nurl = \"nats://all:right@127.0.0.1:{port}\"\nstream = \"{name}\"\n\
             workspace = \"{name}\"\n\
             timeout = \"{timeout}\""
        )
    }

    fn data(&self) -> BoxFuture<'_, Option<Vec<Value>>> {
        Box::pin(async move {
            let messages = Nats::messages(&self.url, &self.name).await;
            Some(messages.into_iter().map(|(_, data)| data).collect())
        })
    }

    /// The stream knows the event ids of a day.
    fn shows_repeats(&self) -> bool {
        false
    }

    fn come_back(&self) {
        if let Some(server) = &self.own {
            let mut server = server.lock().unwrap();
            server.end();
            server.begin();
        }
        self.relay.set(Line::Open);
    }

    fn trespass(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            let messages = Nats::messages(&self.url, &self.name).await;
            let ours = |subject: &str| {
                let words: Vec<&str> = subject.split('.').collect();
                let known = ["created", "updated"].contains(words.last().unwrap());
                words.len() == 4 && words[1] == self.name && known
            };
            let foreign = messages.into_iter().find(|(subject, _)| !ours(subject));
            foreign.map(|(subject, _)| format!("the subject {subject:?}"))
        })
    }
}
