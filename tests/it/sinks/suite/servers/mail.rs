//! One mail server, and a recipient for each of its two sinks.

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
    let Some(server) = MailServer::start() else {
        return Vec::new();
    };
    let port = server.port();
    let server = Arc::new(Mutex::new(server));
    let mut both: Vec<Box<dyn Destination>> = Vec::new();
    for is_digest in [false, true] {
        let relay = Relay::to(port).await;
        both.push(Box::new(Mail {
            server: Arc::clone(&server),
            relay,
            is_digest,
        }));
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
    fn relay(&self) -> Option<&Relay> {
        Some(&self.relay)
    }

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
        let lines = texts
            .flat_map(str::lines)
            .filter(|line| !line.trim().is_empty());
        let arrivals = lines.map(Arrival::of_line).collect();
        Box::pin(async move { arrivals })
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
