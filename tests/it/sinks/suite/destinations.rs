//! Destinations that need no server but one in this process: webhook, file, command, intake.

use std::fs;
use std::path::PathBuf;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tempfile::TempDir;

use super::judge::{Arrival, LINE};
use super::{Destination, Mood, REFUSED};
use crate::sinks::intake::Partner;
use crate::support::relay::Relay;
use crate::support::{Answer, Receiver};

/// Every destination of this build, except those whose server is left out. With `own`, servers that
/// can be restarted are shared with no other test.
pub(super) async fn all(own: bool) -> Vec<Box<dyn Destination>> {
    let mut all: Vec<Box<dyn Destination>> = vec![
        Box::new(Webhook::start().await),
        Box::new(Lines::start(false)),
        Box::new(Lines::start(true)),
        Box::new(Program::start(false)),
        Box::new(Program::start(true)),
        Box::new(Lead::start().await),
    ];
    all.extend(super::servers::all(own).await);
    all
}

/// A receiver of webhooks.
struct Webhook {
    receiver: Receiver,
    relay: Relay,
}

impl Webhook {
    async fn start() -> Self {
        let receiver = Receiver::start().await;
        receiver.refuse(REFUSED, Answer::status(422));
        let relay = Relay::to(receiver.port()).await;
        Self { receiver, relay }
    }
}

impl Destination for Webhook {
    fn relay(&self) -> Option<&Relay> {
        Some(&self.relay)
    }

    fn name(&self) -> &'static str {
        "webhook"
    }

    fn keys(&self, timeout: &str) -> String {
        let port = self.relay.port();
        format!(
            "type = \"webhook\"\nurl = \"http://127.0.0.1:{port}/hook\"\nconcurrency = 8\ntimeout = \"{timeout}\""
        )
    }

    fn data(&self) -> BoxFuture<'_, Option<Vec<Value>>> {
        let mut received = self.receiver.received();
        // A probe is no POST, and what was refused is not held.
        received.retain(|request| request.method == "POST" && !request.body.contains(REFUSED));
        let events = received.iter().map(|request| {
            let mut body: Value = serde_json::from_str(&request.body).unwrap();
            assert_eq!(request.header("webhook-id"), body["data"]["event_id"]);
            body["data"].take()
        });
        let events = events.collect();
        Box::pin(async move { Some(events) })
    }

    fn trespass(&self) -> BoxFuture<'_, Option<String>> {
        const OURS: [&str; 8] = [
            "content-type",
            "user-agent",
            "webhook-id",
            "webhook-timestamp",
            "webhook-signature",
            "accept",
            "host",
            "content-length",
        ];
        let requests = self.receiver.received();
        let names = requests.iter().flat_map(|request| request.headers.keys());
        let foreign = names
            .map(ToString::to_string)
            .find(|name| !OURS.contains(&name.as_str()));
        Box::pin(async move { foreign.map(|name| format!("the header {name}")) })
    }
}

/// A file of NDJSON or CSV.
struct Lines {
    dir: TempDir,
    is_csv: bool,
}

impl Lines {
    fn start(is_csv: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        Self { dir, is_csv }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("folder").join(if self.is_csv {
            "audit.csv"
        } else {
            "audit.ndjson"
        })
    }
}

impl Destination for Lines {
    fn name(&self) -> &'static str {
        if self.is_csv { "csv" } else { "file" }
    }

    fn keys(&self, _: &str) -> String {
        let format = if self.is_csv { "csv" } else { "standard" };
        format!(
            "type = \"file\"\npath = \"{}\"\nformat = \"{format}\"",
            self.path().display()
        )
    }

    fn be(&self, mood: Mood) {
        let (folder, away) = (self.dir.path().join("folder"), self.dir.path().join("away"));
        match mood {
            Mood::Well | Mood::Slow if away.exists() => fs::rename(away, folder).unwrap(),
            // A disk does not keep a writer waiting here: it is away instead.
            Mood::Down | Mood::Held if folder.exists() => fs::rename(folder, away).unwrap(),
            _ => {}
        }
    }

    fn data(&self) -> BoxFuture<'_, Option<Vec<Value>>> {
        let text = fs::read_to_string(self.path()).unwrap_or_default();
        let data = (!self.is_csv).then(|| objects(&text));
        Box::pin(async move { data })
    }

    fn received(&self) -> BoxFuture<'_, Vec<Arrival>> {
        let text = fs::read_to_string(self.path()).unwrap_or_default();
        let arrivals = match self.is_csv {
            true => rows(&text),
            false => objects(&text).iter().map(Arrival::of).collect(),
        };
        Box::pin(async move { arrivals })
    }

    fn shows_repeats(&self) -> bool {
        false
    }

    fn trespass(&self) -> BoxFuture<'_, Option<String>> {
        let text = fs::read_to_string(self.path()).unwrap_or_default();
        let formula = |cell: &str| cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
        let found = if self.is_csv {
            cells(&text).into_iter().flatten().find(|c| formula(c))
        } else {
            None
        };
        let raw = text.chars().find(|c| c.is_ascii_control() && *c != '\n');
        let said = found.or(raw.map(|c| format!("the character {c:?}")));
        Box::pin(async move { said })
    }
}

fn objects(text: &str) -> Vec<Value> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The cells of a CSV file by row, the header first. A row that is being written is none yet.
fn cells(text: &str) -> Vec<Vec<String>> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut rows = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(whole.as_bytes());
    rows.deserialize().map(Result::unwrap).collect()
}

fn rows(text: &str) -> Vec<Arrival> {
    let mut rows = cells(text).into_iter();
    let header = rows.next().unwrap_or_default();
    let place = |name: &str| header.iter().position(|column| column == name).unwrap();
    rows.map(|row| {
        // The id is taken from the record: its own column has a guard and no line breaks.
        let record: Value = serde_json::from_str(row.last().unwrap()).unwrap();
        Arrival {
            event_id: row[place("event_id")].clone(),
            record_id: record["id"].as_str().unwrap_or_default().to_owned(),
            version: row[place("version")].parse().unwrap(),
            name: record["name"].as_str().unwrap_or_default().to_owned(),
        }
    })
    .collect()
}

/// A program, for each change or for batches.
struct Program {
    dir: TempDir,
    is_batch: bool,
}

/// It takes changes in only when it is to end with 0, or is killed just before its end.
const PROGRAM: &str = r#"cd "$1" || exit 75
: > begun
while [ -e held ]; do /bin/sleep 0.02; done
[ -e down ] && exit 75
case $lines in *REFUSE-ME*) exit 1;; esac
printf '%s\n' "$lines" >> taken
if [ -e crash ]; then /bin/rm crash; kill -9 $$; fi
case $lines in *ANSWER-LATE*) while [ -e late ]; do /bin/sleep 0.02; done;; esac
exit 0
"#;

impl Program {
    fn start(is_batch: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let reads = if is_batch {
            "lines=$(/bin/cat)"
        } else {
            "IFS= read -r lines"
        };
        fs::write(dir.path().join("program"), format!("{reads}\n{PROGRAM}")).unwrap();
        Self { dir, is_batch }
    }

    fn mark(&self, name: &str, is_set: bool) {
        let path = self.dir.path().join(name);
        if is_set {
            fs::write(path, "").unwrap();
        } else {
            let _ = fs::remove_file(path);
        }
    }
}

impl Destination for Program {
    fn name(&self) -> &'static str {
        if self.is_batch { "batch" } else { "command" }
    }

    fn keys(&self, timeout: &str) -> String {
        let (dir, batch) = (
            self.dir.path().display(),
            if self.is_batch { 100 } else { 1 },
        );
        format!(
            "type = \"command\"\ncommand = [\"/bin/sh\", \"{dir}/program\", \"{dir}\"]\n\
             batch = {batch}\ntimeout = \"{timeout}\""
        )
    }

    fn be(&self, mood: Mood) {
        self.mark("down", mood == Mood::Down);
        self.mark("held", mood == Mood::Held);
        self.mark("late", mood == Mood::Late);
        self.mark("begun", false);
    }

    fn data(&self) -> BoxFuture<'_, Option<Vec<Value>>> {
        let text = fs::read_to_string(self.dir.path().join("taken")).unwrap_or_default();
        Box::pin(async move { Some(objects(&text)) })
    }

    fn has_begun(&self) -> bool {
        self.dir.path().join("begun").exists()
    }

    fn crash_soon(&self) {
        self.mark("crash", true);
    }

    fn has_crashed(&self) -> bool {
        !self.dir.path().join("crash").exists()
    }

    fn trespass(&self) -> BoxFuture<'_, Option<String>> {
        let owned = self.dir.path().join("owned").exists();
        Box::pin(async move { owned.then(|| "a command in a record was run".to_owned()) })
    }
}

/// Leads in another workspace.
struct Lead {
    partner: Partner,
    relay: Relay,
}

impl Lead {
    async fn start() -> Self {
        let partner = Partner::start().await;
        let relay = Relay::to(partner.workspace.port()).await;
        Self { partner, relay }
    }
}

impl Destination for Lead {
    fn relay(&self) -> Option<&Relay> {
        Some(&self.relay)
    }

    fn name(&self) -> &'static str {
        "intake"
    }

    fn keys(&self, timeout: &str) -> String {
        let (port, key) = (self.relay.port(), self.partner.key_file());
        format!(
            "type = \"intake\"\nbase_url = \"http://127.0.0.1:{port}/api\"\napi_key_file = \"{}\"\n\
             create = \"lead\"\nrate = \"1000/s\"\ntimeout = \"{timeout}\"\n\
             fields = {{ name = \"{{{{ seq }}}}\", mobile_number = \"{{{{ record.mobile }}}}\", \
             next_follow_up = \"{{{{ record.follow|default('') }}}}\", comment = \"{LINE}\" }}",
            key.display()
        )
    }

    fn received(&self) -> BoxFuture<'_, Vec<Arrival>> {
        let leads = self.partner.leads();
        let comments = leads.iter().filter_map(|lead| lead["comment"].as_str());
        let arrivals = comments.map(Arrival::of_line).collect();
        Box::pin(async move { arrivals })
    }

    /// The `Idempotency-Key` makes a repeat no second lead.
    fn shows_repeats(&self) -> bool {
        false
    }
}
