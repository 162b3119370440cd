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
        let mut nats = Self {
            server: None,
            program,
            folder: folder_of(None),
            port: 0,
        };
        nats.begin();
        Some(nats)
    }

    /// Starts it, at the port it had before.
    pub(crate) fn begin(&mut self) {
        let config = self.folder.join("nats.conf");
        // One user for everything, and one that may only publish below `open.` A client that is
        // held back, or slow, may take its time to log in.
        std::fs::write(
            &config,
            format!(
                "jetstream {{ store_dir: {:?} }}\nmax_payload: 1048576\n\
                 authorization {{ timeout: 600, users = [ {{ user: all, password: right }}, \
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
        self.server.take().unwrap().end(&self.folder);
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Makes a stream that refuses longer messages; its subjects begin with its name.
    pub(crate) async fn make(&self, name: &str, longest: i32) {
        let context = async_nats::jetstream::new(connected(&self.url("all", "right")).await);
        let stream = async_nats::jetstream::stream::Config {
            name: name.to_owned(),
            subjects: vec![format!("shop.{name}.*.*")],
            max_message_size: longest,
            duplicate_window: std::time::Duration::from_secs(86_400),
            ..Default::default()
        };
        context.create_stream(stream).await.unwrap();
    }

    /// Makes a stream of this configuration.
    pub(crate) async fn make_as(&self, stream: async_nats::jetstream::stream::Config) {
        let context = async_nats::jetstream::new(connected(&self.url("all", "right")).await);
        context.create_stream(stream).await.unwrap();
    }

    /// Subject and JSON of every message of a stream of the server at this address, in order.
    pub(crate) async fn messages(url: &str, name: &str) -> Vec<(String, serde_json::Value)> {
        use async_nats::jetstream::consumer::pull::OrderedConfig;
        use futures_util::StreamExt;

        let context = async_nats::jetstream::new(connected(url).await);
        let stream = context.get_stream(name).await.unwrap();
        let count = stream.cached_info().state.messages;
        let mut messages = Vec::new();
        if count > 0 {
            let consumer = stream
                .create_consumer(OrderedConfig::default())
                .await
                .unwrap();
            let mut all = consumer.messages().await.unwrap();
            while (messages.len() as u64) < count {
                let message = all.next().await.unwrap().unwrap();
                let body = serde_json::from_slice(&message.payload).unwrap();
                messages.push((message.subject.to_string(), body));
            }
        }
        messages
    }

    /// Deletes a stream, as an administrator does.
    pub(crate) async fn delete(&self, name: &str) {
        let context = async_nats::jetstream::new(connected(&self.url("all", "right")).await);
        context.delete_stream(name).await.unwrap();
    }

    /// The address for a user, whose password is `right`.
    pub(crate) fn url(&self, user: &str, password: &str) -> String {
        format!("nats://{user}:{password}@127.0.0.1:{}", self.port)
    }
}

async fn connected(url: &str) -> async_nats::Client {
    let url = url::Url::parse(url).unwrap();
    let (user, password) = (
        url.username().to_owned(),
        url.password().unwrap().to_owned(),
    );
    let options = async_nats::ConnectOptions::with_user_and_password(user, password);
    let address = format!("nats://127.0.0.1:{}", url.port().unwrap());
    options
        .retry_on_initial_connect()
        .connect(address)
        .await
        .unwrap()
}
