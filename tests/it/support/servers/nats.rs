//! A nats-server with JetStream, which tests share; each uses a stream of its own.

use std::path::PathBuf;
use std::sync::OnceLock;

use super::{Server, folder_of, program};

const PLACES: [&str; 2] = ["/usr/sbin/nats-server", "/usr/bin/nats-server"];

/// A server and what it runs from.
pub(crate) struct Nats {
    server: Option<Server>,
    program: PathBuf,
    folder: PathBuf,
    port: u16,
}

impl Nats {
    /// The server that tests share; `None` if it is left out.
    pub(crate) fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Nats>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// A server of its own, for a test that stops it.
    pub(crate) fn start() -> Option<Self> {
        let program = program("nats-server", &PLACES)?;
        let mut nats = Self { server: None, program, folder: folder_of(None), port: 0 };
        nats.begin();
        Some(nats)
    }

    /// Starts it, at the port it had before.
    pub(crate) fn begin(&mut self) {
        let config = self.folder.join("nats.conf");
        // One user for everything, and one that may only publish below `open.`
        std::fs::write(
            &config,
            format!(
                "jetstream {{ store_dir: {:?} }}\nmax_payload: 1048576\n\
                 authorization {{ users = [ {{ user: all, password: right }}, \
                 {{ user: few, password: right, permissions: {{ publish: [\"open.>\", \"$JS.API.STREAM.INFO.>\"], \
                 subscribe: [\"_INBOX.>\"] }} }} ] }}\n",
                self.folder.join("data")
            ),
        )
        .unwrap();
        let program = self.program.to_str().unwrap().to_owned();
        let before = (self.port != 0).then_some(self.port);
        let server = Server::start(&self.folder, "TERM", before, |port| {
            let mut arguments = vec![program.clone(), "-a".into(), "127.0.0.1".into()];
            arguments.extend(["-p".to_owned(), port.to_string()]);
            arguments.extend(["-c".to_owned(), config.to_str().unwrap().to_owned()]);
            arguments
        });
        self.port = server.port;
        self.server = Some(server);
    }

    /// Ends it; its data stays.
    pub(crate) fn end(&mut self) {
        let keep = self.folder.join("keep");
        std::fs::write(&keep, "").unwrap();
        self.server = None;
        std::fs::remove_file(keep).unwrap();
    }

    /// The address for a user, whose password is `right`.
    pub(crate) fn url(&self, user: &str, password: &str) -> String {
        format!("nats://{user}:{password}@127.0.0.1:{}", self.port)
    }

    /// What a stream says of itself, and every message of it as JSON, in order.
    pub(crate) async fn stream(&self, name: &str) -> (u64, Vec<(String, serde_json::Value)>) {
        let user = async_nats::ConnectOptions::with_user_and_password("all".into(), "right".into());
        let client = user.connect(format!("nats://127.0.0.1:{}", self.port)).await.unwrap();
        let context = async_nats::jetstream::new(client);
        let Ok(stream) = context.get_stream(name).await else { return (0, Vec::new()) };
        let info = stream.get_info().await.unwrap();
        let mut messages = Vec::new();
        for sequence in info.state.first_sequence..=info.state.last_sequence {
            let message = stream.get_raw_message(sequence).await.unwrap();
            let body = serde_json::from_slice(&message.payload).unwrap();
            messages.push((message.subject.to_string(), body));
        }
        (info.state.messages, messages)
    }
}
