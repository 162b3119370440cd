//! Destinations that are servers: a mail server, PostgreSQL, JetStream, an MQTT broker, S3.

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::destinations::{behind_a_relay, line_of};
use super::judge::{Arrival, LINE};
use super::{Destination, Mood};
use crate::support::relay::{Line, Relay};

/// Every destination of this build whose server is not left out. With `own`, those whose server keeps
/// what it has acknowledged through a restart get one of their own, to be restarted.
pub(super) async fn all(own: bool) -> Vec<Box<dyn Destination>> {
    #[allow(unused_mut, reason = "some sinks are left out of some builds")]
    let mut all: Vec<Box<dyn Destination>> = Vec::new();
    #[cfg(feature = "email")]
    all.extend(mail::start().await);
    #[cfg(feature = "postgres")]
    all.extend(database::start(own).await);
    #[cfg(feature = "nats")]
    all.extend(stream::start(own).await);
    #[cfg(feature = "mqtt")]
    all.extend(broker::start().await);
    #[cfg(feature = "s3")]
    all.extend(bucket::start().await);
    let _ = own;
    all
}

#[cfg(feature = "email")]
mod mail {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::sinks::email::MailServer;

    /// One mail server, and a recipient for each of its two sinks.
    struct Mail {
        server: Arc<Mutex<MailServer>>,
        relay: Relay,
        is_digest: bool,
    }

    pub(super) async fn start() -> Vec<Box<dyn Destination>> {
        let Some(server) = MailServer::start() else { return Vec::new() };
        let port = server.port();
        let server = Arc::new(Mutex::new(server));
        let mut both: Vec<Box<dyn Destination>> = Vec::new();
        for is_digest in [false, true] {
            let relay = Relay::to(port).await;
            both.push(Box::new(Mail { server: Arc::clone(&server), relay, is_digest }));
        }
        both
    }

    impl Mail {
        fn recipient(&self) -> String {
            format!("{}@example.com", self.name())
        }

        fn mails(&self) -> Vec<Value> {
            let mut mails = self.server.lock().unwrap().mails();
            mails.retain(|mail| mail["to"][0] == self.recipient().as_str());
            mails
        }
    }

    impl Destination for Mail {
        behind_a_relay!();

        fn name(&self) -> &'static str {
            if self.is_digest { "digest" } else { "email" }
        }

        fn keys(&self, timeout: &str) -> String {
            let body = if self.is_digest {
                // A record without the field `must` cannot be shown.
                let line = LINE
                    .replace("record.", "change.record.")
                    .replace("event_id", "change.event_id")
                    .replace("version", "change.version")
                    .replace("record_id", "change.record_id");
                format!(
                    "digest = \"10s\"\nsubject = \"{{{{ count }}}} changes\"\n\
                     text = \"{{% for change in changes %}}{line}{{{{ change.record.must }}}}\\n{{% endfor %}}\""
                )
            } else {
                format!("subject = \"News of {{{{ record.name }}}}\"\ntext = \"{LINE}\"")
            };
            format!(
                "type = \"email\"\nserver = \"127.0.0.1:{}\"\ntls = \"none\"\n\
                 from = \"shop@example.com\"\nto = [\"{}\"]\ntimeout = \"{timeout}\"\n{body}",
                self.relay.port(),
                self.recipient()
            )
        }

        fn received(&self) -> BoxFuture<'_, Vec<Arrival>> {
            let mails = self.mails();
            let texts = mails.iter().filter_map(|mail| mail["text"].as_str());
            let lines = texts.flat_map(str::lines).filter(|line| !line.trim().is_empty());
            let arrivals = lines.map(Arrival::of_line).collect();
            Box::pin(async move { arrivals })
        }

        fn shows_repeats(&self) -> bool {
            true
        }

        fn come_back(&self) {
            self.server.lock().unwrap().begin_again();
            self.relay.set(Line::Open);
        }

        fn trespass(&self) -> BoxFuture<'_, Option<String>> {
            const OURS: [&str; 10] = [
                "Auto-Submitted",
                "Content-Type",
                "Content-Transfer-Encoding",
                "Date",
                "From",
                "MIME-Version",
                "Message-ID",
                "Subject",
                "To",
                "Received",
            ];
            let mut found = None;
            for mail in self.mails() {
                for header in mail["headers"].as_array().unwrap() {
                    let [name, text] = [&header[0], &header[1]].map(|part| part.as_str().unwrap());
                    let bad = |c: char| c.is_control() || c == '\u{202e}';
                    if !OURS.contains(&name) || text.contains(bad) {
                        found = Some(format!("the header {name}: {text:?}"));
                    }
                }
            }
            Box::pin(async move { found })
        }
    }
}

#[cfg(feature = "postgres")]
mod database {
    use std::sync::Mutex;

    use super::*;
    use crate::support::servers::postgres::{Postgres, Role};

    struct Database {
        role: Role,
        relay: Relay,
        own: Option<Mutex<Postgres>>,
    }

    pub(super) async fn start(own: bool) -> Option<Box<dyn Destination>> {
        let own = if own { Some(Postgres::start()?) } else { None };
        let server = match &own {
            Some(own) => own,
            None => Postgres::shared()?,
        };
        let role = server.role().await;
        let relay = Relay::to(server.port()).await;
        Some(Box::new(Database { role, relay, own: own.map(Mutex::new) }))
    }

    impl Destination for Database {
        behind_a_relay!();

        fn name(&self) -> &'static str {
            "postgres"
        }

        fn keys(&self, timeout: &str) -> String {
            let (name, port) = (&self.role.name, self.relay.port());
            format!(
                "type = \"postgres\"\nurl = \"postgresql://{name}@127.0.0.1:{port}/postgres\"\n\
                 schema = \"{name}\"\nworkspace = \"north\"\ntimeout = \"{timeout}\""
            )
        }

        fn data(&self) -> BoxFuture<'_, Option<Vec<Value>>> {
            // In the order of their rows on the disk, which is that of their arrival.
            let rows = self.role.psql(
                "SELECT json_build_object('event_id', event_id, 'seq', seq, 'route', route, \
                 'record_id', record_id, 'kind', kind, 'version', version, 'observed_at', \
                 to_char(observed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), \
                 'business', business, 'record', coalesce(exact, body::text), \
                 'changed', json_build_object()) FROM {s}.changes ORDER BY ctid",
            );
            let read = |row: &String| {
                let mut data: Value = serde_json::from_str(row).unwrap();
                data["record"] = serde_json::from_str(data["record"].as_str().unwrap()).unwrap();
                data
            };
            let data = rows.iter().map(read).collect();
            Box::pin(async move { Some(data) })
        }

        fn shows_repeats(&self) -> bool {
            false
        }

        fn come_back(&self) {
            if let Some(server) = &self.own {
                let mut server = server.lock().unwrap();
                let port = server.port();
                server.end();
                server.begin(Some(port));
                // It listens a little before it answers.
                while self.role.psql("SELECT 1").is_empty() {
                    std::thread::yield_now();
                }
            }
            self.relay.set(Line::Open);
        }

        fn trespass(&self) -> BoxFuture<'_, Option<String>> {
            let tables =
                self.role.psql("SELECT count(*) FROM pg_tables WHERE schemaname = '{s}'").join("");
            let newest = "SELECT count(*) FROM (SELECT max(seq) AS seq FROM {s}.changes \
                 GROUP BY route, record_id) AS newest \
                 WHERE seq NOT IN (SELECT _seq FROM {s}.payments UNION ALL SELECT _seq FROM {s}.customers \
                 UNION ALL SELECT _seq FROM {s}.leads UNION ALL SELECT _seq FROM {s}.jobs)";
            let behind = self.role.psql(newest).join("");
            let said = match (tables.as_str(), behind.as_str()) {
                ("9", "0") => None,
                _ => Some(format!(
                    "{tables} tables, and {behind} records without their newest version"
                )),
            };
            Box::pin(async move { said })
        }
    }
}

#[cfg(feature = "nats")]
mod stream {
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
        Some(Box::new(Stream { name, url, relay, own: own.map(Mutex::new) }))
    }

    impl Destination for Stream {
        behind_a_relay!();

        fn name(&self) -> &'static str {
            "nats"
        }

        fn keys(&self, timeout: &str) -> String {
            let (name, port) = (&self.name, self.relay.port());
            format!(
                "type = \"nats\"\nurl = \"nats://all:right@127.0.0.1:{port}\"\nstream = \"{name}\"\n\
                 workspace = \"north\"\nsubject = \"{name}.{{workspace}}.{{route}}.{{kind}}\"\n\
                 timeout = \"{timeout}\""
            )
        }

        fn data(&self) -> BoxFuture<'_, Option<Vec<Value>>> {
            Box::pin(async move {
                let messages = Nats::messages_at(&self.url, &self.name).await;
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
                let messages = Nats::messages_at(&self.url, &self.name).await;
                let ours = |subject: &str| {
                    let words: Vec<&str> = subject.split('.').collect();
                    let known = ["created", "updated"].contains(words.last().unwrap());
                    words.len() == 4 && words[1] == "north" && known
                };
                let foreign = messages.into_iter().find(|(subject, _)| !ours(subject));
                foreign.map(|(subject, _)| format!("the subject {subject:?}"))
            })
        }
    }
}

#[cfg(feature = "mqtt")]
mod broker {
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
        Some(Box::new(Broker { server: Mutex::new(server), heard, relay }))
    }

    impl Destination for Broker {
        behind_a_relay!();

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

        fn shows_repeats(&self) -> bool {
            true
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
            let foreign = self.heard.messages().into_iter().find(|(topic, _)| !ours(topic));
            let said = foreign.map(|(topic, _)| format!("the topic {topic:?}"));
            Box::pin(async move { said })
        }
    }
}

#[cfg(feature = "s3")]
mod bucket {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tempfile::TempDir;

    use super::*;
    use crate::support::servers::moto::Moto;

    struct Bucket {
        name: String,
        server: &'static Moto,
        dir: TempDir,
        relay: Relay,
    }

    pub(super) async fn start() -> Option<Box<dyn Destination>> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let server = Moto::shared()?;
        let name = format!("suite{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        server.bucket(&name).await;
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        std::fs::write(&key, "AKIDCANARY\nSECRETCANARY\n").unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let relay = Relay::to(server.port()).await;
        Some(Box::new(Bucket { name, server, dir, relay }))
    }

    impl Destination for Bucket {
        behind_a_relay!();

        fn name(&self) -> &'static str {
            "s3"
        }

        fn keys(&self, timeout: &str) -> String {
            let (name, port) = (&self.name, self.relay.port());
            format!(
                "type = \"s3\"\nendpoint = \"http://127.0.0.1:{port}\"\nbucket = \"{name}\"\n\
                 workspace = \"north\"\naccess_key_file = \"{}\"\ntimeout = \"{timeout}\"",
                self.dir.path().join("key").display()
            )
        }

        fn data(&self) -> BoxFuture<'_, Option<Vec<Value>>> {
            Box::pin(async move { Some(self.server.lines(&self.name).await) })
        }

        /// An object is overwritten by itself.
        fn shows_repeats(&self) -> bool {
            false
        }

        fn come_back(&self) {
            // The imitation forgets everything when it ends.
            self.relay.set(Line::Open);
        }

        fn trespass(&self) -> BoxFuture<'_, Option<String>> {
            Box::pin(async move {
                let names = self.server.objects(&self.name).await;
                let ours = |name: &String| {
                    name.strip_prefix("shop/north/2026/01/02/")
                        .and_then(|rest| rest.strip_suffix(".ndjson"))
                        .is_some_and(|number| number.len() == 20)
                };
                names.into_iter().find(|name| !ours(name)).map(|name| format!("the object {name}"))
            })
        }
    }
}
