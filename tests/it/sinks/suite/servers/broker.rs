//! An MQTT broker and a subscriber of every topic.

use std::sync::Mutex;

use super::*;
use crate::support::servers::mosquitto::{Heard, Mosquitto};

struct Broker {
    server: Mutex<Mosquitto>,
    heard: Heard,
    relay: Relay,
}

pub(super) async fn start() -> Option<Box<dyn Destination>> {
    let server = Mosquitto::start(false)?;
    let heard = server.listen().await;
    let relay = Relay::to(server.port()).await;
    Some(Box::new(Broker {
        server: Mutex::new(server),
        heard,
        relay,
    }))
}

impl Destination for Broker {
    fn relay(&self) -> Option<&Relay> {
        Some(&self.relay)
    }

    fn name(&self) -> &'static str {
        "mqtt"
    }

    fn keys(&self, timeout: &str) -> String {
        format!(
            "type = \"mqtt\"\nurl = \"mqtt://all:right@127.0.0.1:{}\"\nworkspace = \"north\"\n\
             timeout = \"{timeout}\"",
            self.relay.port()
        )
    }

    fn data(&self) -> BoxFuture<'_, Option<Vec<Value>>> {
        let messages = self.heard.messages();
        let read = |(_, text): &(String, String)| serde_json::from_str(text).unwrap();
        let data = messages.iter().map(read).collect();
        Box::pin(async move { Some(data) })
    }

    fn come_back(&self) {
        let mut server = self.server.lock().unwrap();
        server.end();
        server.begin();
        self.relay.set(Line::Open);
    }

    fn trespass(&self) -> BoxFuture<'_, Option<String>> {
        let ours = |topic: &str| {
            let words: Vec<&str> = topic.split('/').collect();
            words.len() == 4 && words[..2] == ["shop", "north"]
        };
        let foreign = self
            .heard
            .messages()
            .into_iter()
            .find(|(topic, _)| !ours(topic));
        let said = foreign.map(|(topic, _)| format!("the topic {topic:?}"));
        Box::pin(async move { said })
    }
}
