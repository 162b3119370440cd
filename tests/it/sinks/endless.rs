//! Servers that send without end: no other sink and no poll waits for them, the memory stays bounded,
//! and the daemon can be asked and stopped.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;

use rustix::process::Signal;
use sandbox::Route;
use serde_json::{Value, json};

use super::stand_in::Step::Hear;
use super::stand_in::{Step, flood, say, server, trickle};
use crate::support::{Place, Workspace, wait_until};

/// Far more than the daemon needs, and far less than a server sends in a second.
const MOST_MEMORY_KB: u64 = 400_000;
/// What a daemon without any bound may take of the machine that runs the tests.
const LIMITED: [&str; 2] = ["prlimit", "--as=6442450944:"];

fn peak_memory_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Runs a daemon with these sinks, each with what its `last_error` must say, beside a good one.
async fn none_harms(sinks: &[(&str, String, &str)]) {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let from = "routes = [\"leads\"]\nchanges = [\"created\"]\n";
    let mut text = Place::file_sink("good", from);
    for (name, settings, _) in sinks {
        text += &format!("[sinks.{name}]\n{settings}timeout = \"5s\"\n{from}");
    }
    place.configure(&text);
    let mut daemon = place.daemon_by(&LIMITED);
    wait_until("the daemon runs", || place.log().contains(" running ")).await;
    workspace.polled(Route::Leads).await;
    workspace.add(Route::Leads, json!({ "name": "Ada" }));
    let said = |status: &Value, name: &str| {
        let sinks = status["sinks"].as_array().unwrap();
        let sink = sinks.iter().find(|sink| sink["name"] == name).unwrap();
        sink["last_error"].as_str().unwrap_or_default().to_owned()
    };
    // A later attempt may end otherwise, so each is remembered.
    let met = RefCell::new(BTreeSet::new());
    place
        .status_when("every server was met and given up", |status| {
            let mut met = met.borrow_mut();
            met.extend(
                sinks.iter().map(|(name, _, words)| (*name, said(status, name), words)).filter_map(
                    |(name, said, words)| {
                        (!said.is_empty() && said.contains(words)).then_some(name)
                    },
                ),
            );
            met.len() == sinks.len()
        })
        .await;
    wait_until("the good sink has the first", || place.lines("good.ndjson").len() == 1).await;
    workspace.add(Route::Leads, json!({ "name": "Eva" }));
    wait_until("the good sink has both", || place.lines("good.ndjson").len() == 2).await;
    let peak = peak_memory_kb(daemon.pid());
    assert!(peak < MOST_MEMORY_KB, "{peak} kB");
    daemon.signal(Signal::TERM);
    assert!(daemon.wait_as_promised().await.success(), "{}", place.log());
}

#[cfg(feature = "email")]
fn mail(steps: impl IntoIterator<Item = Step>) -> String {
    format!(
        "type = \"email\"\nserver = \"127.0.0.1:{}\"\ntls = \"none\"\nfrom = \"a@b.example\"\n\
         to = [\"c@d.example\"]\n",
        server(steps)
    )
}

#[cfg(feature = "email")]
#[tokio::test(flavor = "multi_thread")]
async fn a_mail_server_that_sends_without_end_harms_nobody() {
    none_harms(&[
        ("greeting", mail([flood("2")]), "an answer without end"),
        ("lines", mail([say("220 x\r\n"), Hear, flood("250-x\r\n")]), "an answer without end"),
        ("line", mail([say("220 x\r\n"), Hear, say("250-"), flood("x")]), "an answer without end"),
        ("unasked", mail([flood("220 x\r\n")]), "its answer is not SMTP"),
    ])
    .await;
}

#[cfg(feature = "postgres")]
fn postgres(steps: impl IntoIterator<Item = Step>) -> String {
    let port = server(steps);
    format!("type = \"postgres\"\nurl = \"postgresql://a@127.0.0.1:{port}/a\"\nworkspace = \"a\"\n")
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn a_postgresql_server_that_sends_without_end_harms_nobody() {
    const LET_IN: &[u8] = b"R\0\0\0\x08\0\0\0\0";
    const READY: &[u8] = b"K\0\0\0\x0c\0\0\0\x01\0\0\0\x01Z\0\0\0\x05I";
    const NOTICE: &[u8] = b"N\0\0\0\x1eSNOTICE\0C00000\0Mhello h\0\0";
    let too_much = "sends more than any answer needs";
    none_harms(&[
        ("message", postgres([Hear, say(b"N\x7f\xff\xff\xf0"), flood("x")]), too_much),
        ("error", postgres([Hear, say(b"E\x7f\xff\xff\xf0"), flood("x")]), too_much),
        ("notices", postgres([Hear, say(LET_IN), flood(NOTICE)]), too_much),
        ("settings", postgres([Hear, say(LET_IN), flood(b"S\0\0\0\x08a\0b\0")]), too_much),
        (
            "later",
            postgres([Hear, say(LET_IN), say(READY), Hear, flood(b"D\0\0\0\x06\0\0")]),
            "connecting to PostgreSQL",
        ),
    ])
    .await;
}

#[cfg(feature = "mqtt")]
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_sends_without_end_harms_nobody() {
    let broker = |steps: Vec<Step>| {
        let port = server(steps);
        format!("type = \"mqtt\"\nurl = \"mqtt://127.0.0.1:{port}\"\nworkspace = \"a\"\n")
    };
    const LET_IN: &[u8] = &[0x20, 3, 0, 0, 0];
    const LARGE: &[u8] = &[0x30, 0xff, 0xff, 0xff, 0x7f];
    none_harms(&[
        ("large", broker(vec![Hear, say(LET_IN), say(LARGE), flood("x")]), "MQTT"),
        ("many", broker(vec![Hear, say(LET_IN), flood([0x30, 5, 0, 1, b'a', 0, b'x'])]), ""),
        ("pings", broker(vec![Hear, say(LET_IN), flood([0xd0, 0])]), ""),
    ])
    .await;
}

/// What answers in HTTP: the headers, the body, the parts of one and what comes before an answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_sends_without_end_harms_nobody() {
    let webhook = |steps: Vec<Step>| {
        let port = server(steps);
        format!("type = \"webhook\"\nurl = \"http://127.0.0.1:{port}/\"\n")
    };
    let refused = "HTTP/1.1 500 x\r\n";
    let chunked = format!("{refused}transfer-encoding: chunked\r\n\r\n");
    none_harms(&[
        ("line", webhook(vec![Hear, flood("HTTP/1.1 ")]), "endpoint"),
        ("header", webhook(vec![Hear, say(format!("{refused}x: ")), flood("x")]), "endpoint"),
        ("headers", webhook(vec![Hear, say(refused), flood("a: b\r\n")]), "endpoint"),
        // In a flood of these, a program that is not optimised is busy for many seconds.
        ("before", webhook(vec![Hear, trickle("HTTP/1.1 100 go on\r\n\r\n")]), "endpoint"),
        ("hints", webhook(vec![Hear, trickle("HTTP/1.1 103 hints\r\na: b\r\n\r\n")]), "endpoint"),
        ("body", webhook(vec![Hear, say(format!("{refused}\r\n")), flood("x")]), "answered 500"),
        ("chunks", webhook(vec![Hear, say(&chunked), flood("1\r\nx\r\n")]), "answered 500"),
        ("extension", webhook(vec![Hear, say(&chunked), say("1;"), flood("x")]), "answered 500"),
        ("size", webhook(vec![Hear, say(&chunked), flood("0")]), "answered 500"),
        (
            "trailers",
            webhook(vec![Hear, say(&chunked), say("0\r\n"), flood("a: b\r\n")]),
            "answered 500",
        ),
    ])
    .await;
}
