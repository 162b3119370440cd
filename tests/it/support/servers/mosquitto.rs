//! A mosquitto broker for one test, with TLS if asked for.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rumqttc::{AsyncClient, Event, Incoming, MqttOptions, QoS};
use tokio::task::JoinHandle;

use super::{Server, certificate, folder_of, program};

const PLACES: [&str; 2] = ["/usr/sbin/mosquitto", "/usr/bin/mosquitto"];

/// A broker and what it runs from.
pub(crate) struct Mosquitto {
    server: Option<Server>,
    program: PathBuf,
    folder: PathBuf,
    encrypted: bool,
    lines: &'static str,
    port: u16,
}

impl Mosquitto {
    /// A broker of its own; `None` if mosquitto is left out.
    pub(crate) fn start(encrypted: bool) -> Option<Self> {
        Self::start_with(encrypted, "")
    }

    /// As [`Self::start`], with these lines of its configuration, too.
    pub(crate) fn start_with(encrypted: bool, lines: &'static str) -> Option<Self> {
        let program = program("mosquitto", &PLACES)?;
        let mut broker = Self {
            server: None,
            program,
            folder: folder_of(None),
            encrypted,
            lines,
            port: 0,
        };
        broker.begin();
        Some(broker)
    }

    /// Starts it, at the port it had before.
    pub(crate) fn begin(&mut self) {
        let folder = self.folder.display().to_string();
        let tls = if self.encrypted {
            let [cert, key] = ["server.pem", "server.key"].map(certificate);
            format!("certfile {}\nkeyfile {}\n", cert.display(), key.display())
        } else {
            String::new()
        };
        std::fs::write(
            self.folder.join("access"),
            "user all\ntopic readwrite #\nuser few\ntopic write shop/open/#\n",
        )
        .unwrap();
        let mut passwords = std::process::Command::new("/usr/bin/mosquitto_passwd");
        std::fs::write(self.folder.join("passwords"), "all:right\nfew:right\n").unwrap();
        let made = passwords
            .arg("-U")
            .arg(self.folder.join("passwords"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let (program, config) = (self.program.clone(), self.folder.join("mosquitto.conf"));
        let before = (self.port != 0).then_some(self.port);
        let user = if rustix::process::geteuid().is_root() {
            "user root\n"
        } else {
            ""
        };
        let lines = self.lines;
        let server = Server::start(&self.folder, "TERM", before, |port| {
            let text = format!(
                "listener {port} 127.0.0.1\n{lines}{tls}{user}allow_anonymous false\n\
                 password_file {folder}/passwords\nacl_file {folder}/access\npersistence true\n\
                 persistence_location {folder}/\nmax_queued_messages 0\nmessage_size_limit 20000\n"
            );
            std::fs::write(&config, text).unwrap();
            vec![
                program.display().to_string(),
                "-c".into(),
                config.display().to_string(),
            ]
        });
        self.port = server.port;
        self.server = Some(server);
    }

    /// Ends it; what it keeps stays.
    pub(crate) fn end(&mut self) {
        self.server.take().unwrap().end(&self.folder);
    }

    /// The address for a user, whose password is `right`.
    pub(crate) fn url(&self, user: &str, password: &str) -> String {
        let scheme = if self.encrypted { "mqtts" } else { "mqtt" };
        format!("{scheme}://{user}:{password}@127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Collects every message from now on, also those that came while the broker was away, and what
    /// the broker has kept.
    pub(crate) async fn listen(&self) -> Heard {
        let name = format!("listener-{}", fastrand::u64(..));
        let mut options = MqttOptions::new(name, ("127.0.0.1".to_owned(), self.port));
        options
            .set_credentials("all", "right")
            .set_clean_start(false);
        options.set_session_expiry_interval(Some(3600));
        let (client, mut connection) = AsyncClient::builder(options).capacity(10).build();
        client.subscribe("#", QoS::AtLeastOnce).await.unwrap();
        let messages = Arc::new(Mutex::new(Vec::new()));
        let (ready, is_ready) = tokio::sync::oneshot::channel();
        let (mut ready, heard) = (Some(ready), Arc::clone(&messages));
        let task = tokio::spawn(async move {
            loop {
                match connection.poll().await {
                    Ok(Event::Incoming(Incoming::SubAck(_))) => {
                        let _ = ready.take().map(|ready| ready.send(()));
                    }
                    Ok(Event::Incoming(Incoming::Publish(message))) => {
                        let topic = String::from_utf8(message.topic.to_vec()).unwrap();
                        let text = String::from_utf8(message.payload.to_vec()).unwrap();
                        heard.lock().unwrap().push((topic, text));
                    }
                    Ok(_) => {}
                    // The broker is away; without a wait this would be a busy loop.
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        });
        is_ready.await.unwrap();
        Heard {
            messages,
            _client: client,
            task,
        }
    }
}

/// What a subscriber of every topic was told so far: topic and text.
pub(crate) struct Heard {
    messages: Arc<Mutex<Vec<(String, String)>>>,
    _client: AsyncClient,
    task: JoinHandle<()>,
}

impl Heard {
    pub(crate) fn messages(&self) -> Vec<(String, String)> {
        self.messages.lock().unwrap().clone()
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.task.abort();
    }
}
