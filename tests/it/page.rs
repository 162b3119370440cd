//! The status page over real sockets: what it shows and what tools read.

mod access;
mod dashboard;
mod records;

use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use sandbox::Route;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{LIMIT_S, Pages, Place, Workspace, servers, wait_until};

const LISTEN: &str = "[status]\nlisten = \"127.0.0.1:0\"\n";

/// One answer as it came over the wire.
#[derive(Debug)]
struct Reply {
    code: u16,
    head: String,
    body: String,
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
struct Site {
    address: String,
}

impl Site {
    /// Waits until the daemon of this folder has opened its page.
    async fn of(place: &Place) -> Self {
        let status = place.status_when("the page is open", |s| s["page"].is_string()).await;
        let url = status["page"].as_str().unwrap();
        Self { address: url.strip_prefix("http://").unwrap().trim_end_matches('/').to_owned() }
    }

    async fn send(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Sends one request and reads the answer to its end.
    async fn ask(&self, method: &str, path: &str, headers: &[&str]) -> Reply {
        let own_host = format!("Host: {}", self.address);
        let host = headers.iter().all(|h| !h.starts_with("Host:")).then_some(own_host.as_str());
        let headers: String =
            host.iter().chain(headers).map(|header| format!("{header}\r\n")).collect();
        let mut stream = self.send(&format!("{method} {path} HTTP/1.1\r\n{headers}\r\n")).await;
        let mut text = String::new();
        let read = stream.read_to_string(&mut text);
        let limit = Duration::from_secs(LIMIT_S);
        tokio::time::timeout(limit, read).await.expect("the answer ends in time").unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { code, head: head.to_owned(), body: body.to_owned() }
    }

    async fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[]).await
    }

    /// Asks until the answer fulfils the condition.
    async fn get_when(&self, path: &str, what: &str, condition: impl Fn(&Reply) -> bool) -> Reply {
        self.ask_when(path, &[], what, condition).await
    }

    async fn ask_when(
        &self,
        path: &str,
        headers: &[&str],
        what: &str,
        condition: impl Fn(&Reply) -> bool,
    ) -> Reply {
        let limit = tokio::time::Instant::now() + Duration::from_secs(LIMIT_S);
        loop {
            let reply = self.ask("GET", path, headers).await;
            if condition(&reply) {
                return reply;
            }
            assert!(tokio::time::Instant::now() < limit, "waited in vain until {what}: {reply:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn live(&self) -> Live {
        let host = &self.address;
        let stream = self.send(&format!("GET /live HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
        Live { stream, read: String::new() }
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
async fn a_reload_leaves_the_page_and_its_streams_open_unless_their_configuration_changed() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(LISTEN);
    let daemon = place.started().await;
    workspace.all_polled().await;
    let site = Site::of(&place).await;
    let mut live = site.live().await;
    live.until("event: page").await;
    for _ in 0..10 {
        daemon.signal(Signal::HUP);
        for path in ["/healthz", "/readyz", "/metrics"] {
            let reply = site.get(path).await;
            assert_eq!(reply.code, 200, "{path}: {reply:?}");
        }
    }
    place.configure(&[LISTEN, &Place::file_sink("audit", "")].concat());
    daemon.signal(Signal::HUP);
    // The same stream goes on, and tells of the new sink.
    live.until("audit").await;

    place.configure(&[LISTEN, "show_records = true\n"].concat());
    daemon.signal(Signal::HUP);
    let mut rest = Vec::new();
    let limit = Duration::from_secs(LIMIT_S);
    tokio::time::timeout(limit, live.stream.read_to_end(&mut rest)).await.unwrap().unwrap();
    let site = Site::of(&place).await;
    site.get_when("/records", "the records are shown", |reply| reply.code == 200).await;
    daemon.stop().await;
}

#[tokio::test]
async fn the_page_shows_counts_and_states_and_no_record() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&format!("{LISTEN}{}", Place::file_sink("audit", "start = \"beginning\"")));
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    site.get_when("/readyz", "every route is read", |reply| reply.code == 200).await;
    let id = workspace.add(Route::Leads, json!({"name": "Secret Customer"}));
    let cell = format!("data-label=\"Id\">{id}</td>");

    let page = site.get_when("/", "the change is shown", |r| r.body.contains(&cell)).await;
    assert_eq!(page.code, 200);
    for shown in ["class=\"verdict\"", "job_status_changes", "Request budget", "audit"] {
        assert!(page.body.contains(shown), "{shown}: {}", page.body);
    }
    assert!(!page.body.contains("Secret Customer"), "{}", page.body);
    // Nothing is loaded from elsewhere, and no script stands in the page.
    assert!(!page.body.contains("http://") && !page.body.contains("https://"), "{}", page.body);
    assert_eq!(page.body.matches("<script").count(), 1);
    assert!(page.body.contains("<script src=\"page.js\" defer></script>"));
    for asset in ["/page.css", "/page.js", "/icon.svg"] {
        assert_eq!(site.get(asset).await.code, 200, "{asset}");
    }
    assert_eq!(site.get("/nothing").await.code, 404);
    let head = site.ask("HEAD", "/", &[]).await;
    assert_eq!((head.code, head.body.as_str()), (200, ""));
    daemon.stop().await;
}

#[tokio::test]
async fn a_new_record_reaches_an_open_page_by_itself() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(LISTEN);
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    site.get_when("/readyz", "every route is read", |reply| reply.code == 200).await;
    let mut live = site.live().await;
    let first = live.until("\n\n").await;
    assert!(first.contains("content-type: text/event-stream"), "{first}");
    let mut live_again = site.live().await;
    live_again.until("event: page").await;

    let id = workspace.add(Route::Leads, json!({"name": "New"}));
    for viewer in [&mut live, &mut live_again] {
        viewer.until(&format!("<td role=\"cell\" data-label=\"Id\">{id}</td>")).await;
    }
    // The daemon ends in order although streams are open.
    daemon.stop().await;
}

#[tokio::test]
async fn the_api_answers_what_status_json_prints() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(LISTEN);
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    site.get_when("/readyz", "every route is read", |reply| reply.code == 200).await;
    let printed = place.status().await;
    let reply = site.get("/api/status").await;
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let answered: Value = serde_json::from_str(&reply.body).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&answered), keys(&printed));
    assert_eq!(keys(&answered["pollers"][0]), keys(&printed["pollers"][0]));
    for same in ["pid", "running", "records", "last_seq", "page"] {
        assert_eq!(answered[same], printed[same], "{same}");
    }
    // A refusal is JSON too.
    for (path, code, word) in [
        ("/api/nothing", 404, "nothing at this address"),
        ("/api/report?name=none", 404, "no such report"),
        ("/api/records?route=jobs&colour=red", 403, "show_records"),
    ] {
        let refused = site.get(path).await;
        assert_eq!(
            (refused.code, refused.header("content-type")),
            (code, Some("application/json"))
        );
        let error: Value = serde_json::from_str(&refused.body).unwrap();
        assert!(error["error"].as_str().unwrap().contains(word), "{error}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn prometheus_reads_the_metrics() {
    let workspace = Workspace::start().await;
    workspace.add(Route::Leads, json!({"name": "One"}));
    let place = workspace.place();
    place.configure(&format!(
        "{LISTEN}{}",
        Place::file_sink("audit", "start = \"beginning\"\nchanges = [\"baseline\"]")
    ));
    let daemon = place.started().await;
    let refused = "INSERT INTO _notices (sink, event_id, kind, about, version, made_at, body, given_up_at) \
                   VALUES ('audit', 'alert_1', 'alert', 'key', 1, '', '{}', '')";
    place.writer().execute(refused, []).unwrap();
    let site = Site::of(&place).await;
    let metrics = site
        .get_when("/metrics", "all was delivered", |reply| {
            let none_delivered =
                "shopmirror_sink_delivered_changes_total{sink=\"audit\",type=\"file\"} 0\n";
            reply.body.contains("shopmirror_sink_backlog_changes{sink=\"audit\",type=\"file\"} 0.0")
                && !reply.body.contains(none_delivered)
                && reply.body.contains("shopmirror_ready 1.0")
        })
        .await;
    let number = |name: &str| -> f64 {
        let line = metrics.body.lines().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("{name}: {}", metrics.body))
            .rsplit(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    };
    let states = ["ok", "degraded", "at_risk", "failing"];
    let healths = states.map(|state| number(&format!("shopmirror_health{{state=\"{state}\"}}")));
    assert_eq!(healths.iter().sum::<f64>(), 1.0, "{healths:?}");
    assert_eq!(
        number("shopmirror_records{route=\"leads\"}") as i64,
        place.number("SELECT count(*) FROM leads")
    );
    assert_eq!(
        number("shopmirror_changes_total ") as i64,
        place.number("SELECT max(seq) FROM changes")
    );
    assert!(number("shopmirror_sink_delivered_changes_total{sink=\"audit\"") > 0.0);
    assert_eq!(number("shopmirror_sink_refused_notices{sink=\"audit\""), 1.0);
    assert_eq!(number("shopmirror_sink_waiting_notices{sink=\"audit\""), 0.0);
    assert!(number("shopmirror_poller_last_success_timestamp_seconds{route=\"leads\"") > 1.6e9);
    assert!(number("shopmirror_store_size_bytes ") > 0.0);
    daemon.stop().await;

    promtool(&["check", "metrics"], &metrics.body).await;
}

#[tokio::test]
async fn prometheus_accepts_the_example_of_alert_rules() {
    promtool(&["check", "rules", "docs/prometheus-alerts.yml"], "").await;
    promtool(&["test", "rules", "docs/prometheus-alerts.test.yml"], "").await;
}

/// Runs promtool, which must find no fault. Debian has it in the package prometheus.
async fn promtool(args: &[&str], input: &str) {
    let places = ["/usr/bin/promtool", "/usr/local/bin/promtool"];
    let Some(promtool) = servers::program("prometheus", &places) else { return };
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
    let _ = promtool.stdin.take().unwrap().write_all(input.as_bytes()).await;
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
    let not_ready =
        site.get_when("/readyz", "the key is refused", |reply| reply.body.contains("key")).await;
    assert_eq!(not_ready.code, 503);
    assert!(not_ready.body.contains("leads: not read yet"), "{}", not_ready.body);
    assert_eq!(site.get("/healthz").await.code, 200);
    let page = site.get("/").await;
    assert!(page.body.contains("Records are not being read."), "{}", page.body);
    assert!(site.get("/metrics").await.body.contains("shopmirror_ready 0.0"));

    place.write_key(&workspace.sandbox.automation_key());
    daemon.signal(rustix::process::Signal::HUP);
    let place_again = Site::of(&place).await;
    place_again.get_when("/readyz", "every route is read", |reply| reply.code == 200).await;
    daemon.stop().await;
}

#[tokio::test]
async fn hostile_text_is_shown_as_text() {
    let pages = Pages::start().await;
    let hostile = "<script>alert(1)</script>\"'&\u{202e}\r\n";
    pages.show("leads", json!([{"id": hostile, "name": "x"}]).to_string());
    let place = pages.place();
    place.configure(LISTEN);
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    let page = site.get_when("/", "the record is shown", |r| r.body.contains("alert(1)")).await;
    let shown = "&lt;script&gt;alert(1)&lt;/script&gt;&quot;'&amp;\\u{202e}\\u{d}\\u{a}";
    assert!(page.body.contains(shown), "{}", page.body);
    assert!(!page.body.contains("<script>") && !page.body.contains('\u{202e}'));
    let event = site.live().await.until("\n\n\r\n").await;
    assert!(event.contains(shown) && !event.contains("<script>"), "{event}");
    daemon.stop().await;
}

#[tokio::test]
async fn live_pages_are_bounded_and_leave_room_for_other_requests() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(LISTEN);
    let daemon = place.started().await;
    let site = Site::of(&place).await;
    let mut viewers = Vec::new();
    for _ in 0..64 {
        viewers.push(site.live().await);
    }
    for viewer in &mut viewers {
        viewer.until("event: page").await;
    }
    let refused = site.get("/live").await;
    assert_eq!((refused.code, refused.header("retry-after")), (503, Some("30")));
    assert_eq!(site.get("/healthz").await.code, 200);
    viewers.pop();
    let limit = tokio::time::Instant::now() + Duration::from_secs(LIMIT_S);
    loop {
        let mut viewer = site.live().await;
        if viewer.until("\r\n\r\n").await.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(tokio::time::Instant::now() < limit, "a place that was left is not given again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(viewers);
    daemon.stop().await;
}

#[tokio::test]
async fn a_port_in_use_keeps_nothing_from_working_and_is_said_once() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&format!("[status]\nlisten = \"{address}\"\n"));
    let daemon = place.started().await;
    workspace.all_polled().await;
    let status = place.status().await;
    assert_eq!(status["page"], Value::Null);
    let logged = || place.log().matches("could not open the status page").count();
    wait_until("it is logged", || logged() > 0).await;
    daemon.stop().await;
    assert_eq!(logged(), 1, "{}", place.log());
}
