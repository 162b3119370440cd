//! The status page over real sockets: what it shows and what tools read.

mod access;
mod customer;
mod first_days;
mod list_numbers;
mod lists;
mod owner;
mod staff;
mod tls;

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sandbox::Route;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{LIMIT_S, Pages, Place, Workspace, look_again, servers};

const LISTEN: &str = "[status]\nlisten = \"127.0.0.1:0\"\n";

/// One answer as it came over the wire.
#[derive(Debug)]
pub(crate) struct Reply {
    code: u16,
    head: String,
    pub(crate) body: String,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// The page of a running daemon.
pub(crate) struct Site {
    address: String,
}

impl Site {
    /// Waits until the daemon of this folder has opened its page.
    pub(crate) async fn of(place: &Place) -> Self {
        let status = place
            .status_when("the page is open", |s| s["page"].is_string())
            .await;
        let url = status["page"].as_str().unwrap();
        Self {
            address: url
                .strip_prefix("http://")
                .unwrap()
                .trim_end_matches('/')
                .to_owned(),
        }
    }

    async fn send(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Sends one request and reads the answer to its end.
    async fn ask(&self, method: &str, path: &str, headers: &[&str]) -> Reply {
        let own_host = format!("Host: {}", self.address);
        let host = headers
            .iter()
            .all(|h| !h.starts_with("Host:"))
            .then_some(own_host.as_str());
        let headers: String = host
            .iter()
            .chain(headers)
            .map(|header| format!("{header}\r\n"))
            .collect();
        self.reply_to(&format!("{method} {path} HTTP/1.1\r\n{headers}\r\n"))
            .await
    }

    /// Sends a form.
    async fn post(&self, path: &str, form: &str, headers: &[&str]) -> Reply {
        let length = form.len();
        let mut text = format!("POST {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        text += "Content-Type: application/x-www-form-urlencoded\r\n";
        text += &format!("Content-Length: {length}\r\n");
        for header in headers {
            text += &format!("{header}\r\n");
        }
        self.reply_to(&format!("{text}\r\n{form}")).await
    }

    /// The bytes that are sent in answer to a request.
    async fn bytes_for(&self, request: &str) -> Vec<u8> {
        let mut stream = self.send(request).await;
        let mut bytes = Vec::new();
        let read = stream.read_to_end(&mut bytes);
        let limit = Duration::from_secs(LIMIT_S);
        tokio::time::timeout(limit, read)
            .await
            .expect("the answer ends in time")
            .unwrap();
        bytes
    }

    /// The file at an address, for who sends this header.
    async fn file(&self, path: &str, header: &str) -> Vec<u8> {
        let host = &self.address;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{header}\r\n\r\n");
        let bytes = self.bytes_for(&request).await;
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        bytes[end.expect("the end of the head") + 4..].to_vec()
    }

    async fn reply_to(&self, request: &str) -> Reply {
        let bytes = self.bytes_for(request).await;
        // An Excel file is no text.
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply {
            code,
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[]).await
    }

    /// Asks until the answer fulfils the condition.
    async fn get_when(&self, path: &str, what: &str, condition: impl Fn(&Reply) -> bool) -> Reply {
        self.ask_when(path, "Accept: */*", what, condition).await
    }

    /// The same, sending a header.
    async fn ask_when(
        &self,
        path: &str,
        header: &str,
        what: &str,
        condition: impl Fn(&Reply) -> bool,
    ) -> Reply {
        let begun = Instant::now();
        loop {
            let reply = self.ask("GET", path, &[header]).await;
            if condition(&reply) {
                return reply;
            }
            assert!(
                begun.elapsed().as_secs() < LIMIT_S,
                "waited in vain until {what}: {reply:?}"
            );
            look_again(begun, 60).await;
        }
    }

    async fn is_ready(&self) {
        self.get_when("/readyz", "every route is read", |reply| reply.code == 200)
            .await;
    }

    /// The stream of the page System.
    async fn live(&self) -> Live {
        let host = &self.address;
        let request =
            format!("GET /system HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n\r\n");
        let stream = self.send(&request).await;
        Live {
            stream,
            read: String::new(),
        }
    }
}

/// An open stream of server-sent events.
struct Live {
    stream: TcpStream,
    read: String,
}

impl Live {
    /// Reads on until what came since the last call holds the text.
    async fn until(&mut self, text: &str) -> String {
        let limit = tokio::time::sleep(Duration::from_secs(LIMIT_S));
        tokio::pin!(limit);
        while !self.read.contains(text) {
            let mut bytes = [0; 4096];
            let read = tokio::select! {
                read = self.stream.read(&mut bytes) => read.unwrap(),
                () = &mut limit => panic!("waited in vain for {text}: {}", self.read),
            };
            assert!(read > 0, "the stream ended before {text}: {}", self.read);
            self.read.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
        std::mem::take(&mut self.read)
    }
}

#[tokio::test]
async fn the_page_shows_counts_and_states_and_no_record_and_the_api_says_what_status_prints() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&format!(
        "{LISTEN}{}",
        Place::file_sink("audit", "start = \"beginning\"")
    ));
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    site.is_ready().await;
    let before = place.number("SELECT max(seq) FROM changes");
    workspace.add(Route::Leads, json!({"name": "Secret Customer"}));
    let change = format!("{} changes in the log", before + 1);

    let page = site
        .get_when("/system", "the change is shown", |r| {
            r.body.contains(&change)
        })
        .await;
    assert_eq!(page.code, 200);
    for shown in [
        "class=\"verdict\"",
        "job_status_changes",
        "<dt>Budget</dt>",
        "audit",
    ] {
        assert!(page.body.contains(shown), "{shown}: {}", page.body);
    }
    let home = site.get("/").await;
    assert!(
        home.body.contains("Taken in") && home.body.contains("As of "),
        "{}",
        home.body
    );
    for page in [page.body, home.body] {
        assert!(
            !page.contains("Secret Customer") && !page.contains("type=\"search\""),
            "{page}"
        );
        // Nothing is loaded from elsewhere, and no script stands in the page.
        assert!(
            !page.contains("http://") && !page.contains("https://"),
            "{page}"
        );
        assert_eq!(page.matches("<script").count(), 1);
        assert!(page.contains("<script src=\"page.js\" defer></script>"));
    }
    for (path, code) in [("/page.css", 200), ("/page.js", 200), ("/nothing", 404)] {
        assert_eq!(site.get(path).await.code, code, "{path}");
    }

    let printed = place.status().await;
    let reply = site.get("/api/status").await;
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let answered: Value = serde_json::from_str(&reply.body).unwrap();
    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&answered), keys(&printed));
    for same in ["pid", "running", "records", "last_seq", "page"] {
        assert_eq!(answered[same], printed[same], "{same}");
    }
    for path in [
        "/records",
        "/records.csv",
        "/records.xlsx",
        "/find?q=a",
        "/record?route=leads&id=1",
    ] {
        let refused = site.get(path).await;
        assert!(
            refused.code == 404 && refused.body.contains("show_records"),
            "{path}: {refused:?}"
        );
    }
    daemon.stop().await;
}

#[tokio::test]
async fn an_open_page_gets_what_changed_by_itself_and_stays_open_at_a_reload() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(LISTEN);
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    site.is_ready().await;
    let mut live = site.live().await;
    let first = live.until("\n\n").await;
    assert!(first.contains("content-type: text/event-stream"), "{first}");
    let (always, still) = ("id=\"facts\"", "id=\"tools\"");
    assert!(first.contains(always) && first.contains(still), "{first}");
    let before = place.number("SELECT max(seq) FROM changes");
    workspace.add(Route::Leads, json!({"name": "New"}));
    let mut changed = live
        .until(&format!("{} changes in the log", before + 1))
        .await;
    changed += &live.until("\n\n").await;
    assert!(
        changed.contains(always) && !changed.contains(still),
        "{changed}"
    );
    place.configure(&[LISTEN, &Place::file_sink("audit", "")].concat());
    daemon.signal(Signal::HUP);
    assert_eq!(site.get("/healthz").await.code, 200);
    live.until("audit").await;
    // The daemon ends in order although streams are open.
    daemon.stop().await;
}

#[tokio::test]
async fn prometheus_reads_the_metrics_and_the_dashboard_and_alert_rules_fit_them() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let audit = Place::file_sink("audit", "start = \"beginning\"\nchanges = [\"baseline\"]");
    place.configure(&format!("{LISTEN}{audit}"));
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    site.is_ready().await;
    let delivered = "shopmirror_sink_delivered_changes_total{sink=\"audit\",type=\"file\"}";
    let all = place.number("SELECT max(seq) FROM changes");
    let all = [
        format!("{delivered} {all}\n"),
        "\nshopmirror_ready 1\n".to_owned(),
    ];
    let has_all = |reply: &Reply| all.iter().all(|line| reply.body.contains(line));
    let metrics = site
        .get_when("/metrics", "all was delivered", has_all)
        .await;
    let number = |name: &str| -> f64 {
        let line = metrics.body.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("{name}: {}", metrics.body));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let states = ["ok", "degraded", "at_risk", "failing"];
    let healths = states.map(|state| number(&format!("shopmirror_health{{state=\"{state}\"}}")));
    assert_eq!(healths.iter().sum::<f64>(), 1.0, "{healths:?}");
    let leads = place.number("SELECT count(*) FROM leads");
    assert_eq!(number("shopmirror_records{route=\"leads\"}") as i64, leads);
    assert_eq!(
        number("shopmirror_sink_backlog_changes{sink=\"audit\""),
        0.0
    );
    assert!(number("shopmirror_poller_last_success_timestamp_seconds{route=\"leads\"") > 1.6e9);
    daemon.stop().await;

    let types = metrics
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let served: BTreeSet<&str> = types.filter_map(|line| line.split(' ').next()).collect();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/grafana-dashboard.json");
    let dashboard = std::fs::read_to_string(file).unwrap();
    let words = dashboard.split(|c: char| !c.is_alphanumeric() && c != '_');
    let named: BTreeSet<&str> = words
        .filter(|word| word.starts_with("shopmirror_"))
        .collect();
    let missing: Vec<_> = named.difference(&served).collect();
    assert!(
        missing.is_empty() && named.len() > 10,
        "{missing:?} of {served:?}"
    );
    let (_, reference) = include_str!("../../docs/reference.md")
        .split_once("## Metrics")
        .unwrap();
    let documented = reference
        .split('`')
        .filter(|word| word.starts_with("shopmirror_"));
    let documented: BTreeSet<&str> = documented.collect();
    // There is no backup yet.
    let unseen = ["shopmirror_last_backup_timestamp_seconds"];
    assert_eq!(
        documented,
        served.into_iter().chain(unseen).collect(),
        "docs/reference.md"
    );
    promtool(&["check", "metrics"], &metrics.body).await;
    promtool(&["check", "rules", "docs/prometheus-alerts.yml"], "").await;
    promtool(&["test", "rules", "docs/prometheus-alerts.test.yml"], "").await;
}

/// Runs promtool, which must find no fault. Debian has it in the package prometheus.
async fn promtool(args: &[&str], input: &str) {
    let places = ["/usr/bin/promtool", "/usr/local/bin/promtool"];
    let Some(promtool) = servers::program("prometheus", &places) else {
        return;
    };
    let started = tokio::process::Command::new(promtool)
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let mut promtool = started.unwrap();
    // It may end before it has read everything.
    let _ = promtool
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .await;
    let done = promtool.wait_with_output().await.unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
}

#[tokio::test]
async fn a_mirror_that_is_not_fresh_is_alive_but_not_ready_and_says_why() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.write_key("ak_wrong");
    place.configure(LISTEN);
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    let not_ready = site
        .get_when("/readyz", "the key is refused", |reply| {
            reply.body.contains("key")
        })
        .await;
    assert_eq!(not_ready.code, 503);
    assert!(
        not_ready.body.contains("leads: last read: never"),
        "{}",
        not_ready.body
    );
    assert_eq!(site.get("/healthz").await.code, 200);
    for (path, said) in [
        ("/", "The key has been refused."),
        ("/system", "New records are not being read."),
    ] {
        let page = site.get(path).await;
        assert!(page.body.contains(said), "{path}: {}", page.body);
    }
    assert!(
        site.get("/metrics")
            .await
            .body
            .contains("shopmirror_ready 0")
    );

    place.write_key(&workspace.sandbox.automation_key());
    daemon.signal(Signal::HUP);
    site.is_ready().await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_page_that_cannot_be_opened_degrades_health_until_it_is_open() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    place.configure(&format!("[status]\nlisten = \"{address}\"\n"));
    let daemon = place.started().await;
    workspace.all_polled().await;
    let status = place
        .status_when("the page is refused", |status| {
            status["page_refused"].is_string()
        })
        .await;
    assert_eq!(status["health"], "degraded", "{status}");
    let reasons = status["reasons"].to_string();
    assert!(
        reasons.contains(&address.to_string()) && reasons.contains("uses the port"),
        "{reasons}"
    );
    drop(taken);
    place
        .status_when("the page is open", |status| {
            status["page"].is_string() && status["health"] == "ok"
        })
        .await;
    let log = place.log();
    for told in [
        "the status page cannot be opened",
        "the status page is open now",
    ] {
        let line = log.lines().find(|line| line.contains(told));
        assert!(
            line.is_some_and(|line| line.contains("ERROR")),
            "{told}: {log}"
        );
    }
    daemon.stop().await;
}

const HOSTILE: &str = "=1+1<script>alert(1)</script>\"'&\u{202e}\r\n";

#[tokio::test]
async fn records_are_listed_found_and_shown_with_their_history_and_hostile_text_is_text() {
    let pages = Pages::start().await;
    let now = jiff::Timestamp::now().to_string();
    let jobs = |status: &str| {
        let job = |id: u32| {
            let (name, status) = if id == 7 {
                (HOSTILE, status)
            } else {
                ("Ann", "Ready")
            };
            json!({"id": id, "status": status, "job_number": format!("J{id}"),
                "customer_name": name, "created_at": now})
        };
        Value::from((1..=60).rev().map(job).collect::<Vec<_>>()).to_string()
    };
    pages.show("jobs", jobs("Open"));
    let place = pages.place();
    place.configure(&format!(
        "{LISTEN}show_records = true\n[reports]\nfolder = \".\"\n"
    ));
    place.write("mine.sql", "SELECT customer_name FROM jobs WHERE id = '7'");
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    site.is_ready().await;
    pages.shown("jobs", jobs("<b>Closed")).await;
    pages
        .shown(
            "leads",
            json!([{"id": HOSTILE, "name": HOSTILE}]).to_string(),
        )
        .await;
    let link = "record?route=jobs&amp;id=7";
    let listed = site.get("/records?route=jobs").await.body;
    assert_eq!(
        listed.matches("record?route=jobs&amp;id=").count(),
        50,
        "{listed}"
    );
    assert!(
        listed.split("<tr").nth(2).unwrap().contains(link),
        "the last changed: {listed}"
    );
    let (before, _) = listed.split_once("\">Next page</a>").expect("a next page");
    let (_, next) = before.rsplit_once("href=\"").expect("its address");
    let next = format!("/{}", next.replace("&amp;", "&"));
    let second = site.get(&next).await.body;
    assert_eq!(
        second.matches("record?route=jobs&amp;id=").count(),
        10,
        "{second}"
    );
    let chart = site.get("/report?name=busiest-hours").await;
    assert!(
        chart.body.contains("<svg") && chart.body.contains("weekday"),
        "{chart:?}"
    );

    let lead = "&quot;'&amp;\u{fffd}  </a>";
    let path = "/records?route=leads";
    let leads = site
        .get_when(path, "the lead is shown", |r| r.body.contains(lead))
        .await
        .body;
    let home = site.get("/").await.body;
    assert!(home.contains("&lt;b&gt;Closed"), "{home}");
    let is_found = |reply: &Reply| reply.body.contains(link);
    let found = site
        .get_when("/find?q=J7", "the job is found", is_found)
        .await
        .body;
    let record = site.get("/record?route=jobs&id=7").await.body;
    for part in [
        "Version 2",
        "<del><bdi>Open</bdi></del>",
        "<ins><bdi>&lt;b&gt;Closed</bdi></ins>",
    ] {
        assert!(record.contains(part), "{part}: {record}");
    }
    let report = site.get("/report?name=mine").await.body;
    for shown in [&leads, &listed, &record, &report] {
        assert!(shown.contains("&lt;script&gt;"), "{shown}");
    }
    for shown in [home, leads, listed, found, record, report] {
        assert!(!shown.contains("<b>Closed"), "{shown}");
        assert!(
            !shown.contains("<script>") && !shown.contains('\u{202e}'),
            "{shown}"
        );
    }
    let csv = site.get("/records.csv?route=jobs").await.body;
    assert!(csv.contains("\"'=1+1<script>"), "{csv}");
    for path in ["/records.xlsx?route=jobs", "/report?name=mine&format=xlsx"] {
        let excel = site.get(path).await;
        assert!(excel.code == 200 && excel.body.starts_with("PK"), "{path}");
        assert!(excel.head.contains(".xlsx\""), "{path}: {}", excel.head);
    }
    daemon.stop().await;
}

#[tokio::test]
async fn other_requests_are_answered_beside_as_many_live_pages_as_connections() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(LISTEN);
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    let mut pages = Vec::new();
    // Connections that are opened at once are not served in their order.
    for _ in 0..192 {
        let mut page = site.live().await;
        page.until("event: page").await;
        pages.push(page);
    }
    // More are told so, and make room.
    for _ in 192..256 {
        pages.push(site.live().await);
    }
    assert_eq!(site.get("/healthz").await.code, 200);
    assert_eq!(site.get("/metrics").await.code, 200);
    pages[255].until("too many pages are open").await;
    daemon.stop().await;
}
