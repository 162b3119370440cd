//! `once`: one poll of every route, delivery, and the end.

use std::fs;

use rustix::process::Signal;
use sandbox::{FaultKind, Route};
use serde_json::json;
use tokio::net::TcpListener;

use super::filled;
use crate::support::{ClosedPort, Place, Receiver, Workspace};

#[tokio::test]
async fn once_stores_delivers_and_ends() {
    let (workspace, place) = filled(&Place::file_sink(
        "audit",
        "start = \"beginning\"\nchanges = [\"baseline\"]",
    ))
    .await;
    let stored = place.number("SELECT count(*) FROM changes");
    assert_eq!(
        place.lines("audit.ndjson").len(),
        usize::try_from(stored).unwrap()
    );
    place.configure(&Place::file_sink("audit", ""));
    workspace.sandbox.burst(Route::Jobs, 7);
    for new in [7, 0] {
        let ended = place.run(["once"]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(ended.out, format!("{new} changes stored\n"));
        assert_eq!(
            place.lines("audit.ndjson").len(),
            usize::try_from(stored).unwrap() + 7
        );
    }
    assert_eq!(place.number("SELECT count(*) FROM gaps"), 0);

    // A sink that is down is reported, and the next run retries.
    let closed = ClosedPort::new();
    let address = format!("http://{}/", closed.address);
    place.configure(&Place::webhook_sink("away", &address, ""));
    assert_eq!(
        place.run(["once"]).await.code,
        Some(0),
        "there is nothing for it yet"
    );
    workspace.sandbox.burst(Route::Jobs, 1);
    let ended = place.run(["once"]).await;
    assert_eq!(ended.code, Some(75), "{ended:?}");
    assert!(
        ended.err.contains("sink away: 1 change not delivered"),
        "{ended:?}"
    );
    let hook = Receiver::start().await;
    place.configure(&Place::webhook_sink("away", &hook.url("/"), ""));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(hook.events().len(), 1);
}

#[tokio::test]
async fn while_once_waits_for_a_sink_its_store_is_left_to_it_and_a_signal_ends_it() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let rest = "timeout = \"1h\"\nconcurrency = 2\nstart = \"beginning\"\nchanges = [\"baseline\"]";
    place.configure(&Place::webhook_sink("hangs", &url, rest));
    workspace.add(Route::Leads, json!({"name": "Ada"}));
    for signal in [Signal::INT, Signal::TERM] {
        let mut once = place.background(["once"]);
        let _connections = [
            listener.accept().await.unwrap(),
            listener.accept().await.unwrap(),
        ];
        if signal == Signal::INT {
            let asked = workspace.sandbox.requests().total;
            let told = format!("process {} holds the store", once.pid());
            let reasons = place.status().await["reasons"].to_string();
            assert!(reasons.contains(&told), "{reasons}");
            let ended = place.run(["search", "x"]).await;
            assert_eq!(ended.code, Some(75), "{ended:?}");
            assert!(ended.err.contains(&told), "{ended:?}");
            let now = workspace.sandbox.requests().total;
            assert_eq!(
                now, asked,
                "nothing is sent beside the budget of the one at work"
            );
        }
        once.signal(signal);
        assert_eq!(once.wait().await.code(), Some(75), "{}", place.log());
        let log = fs::metadata(place.path("mirror.db-wal")).unwrap();
        assert_eq!(log.len(), 0, "the store was closed in order");
    }
    assert_eq!(
        place.log().matches("interrupted; the next run").count(),
        2,
        "{}",
        place.log()
    );
}

#[tokio::test]
async fn a_route_that_was_asked_to_wait_is_left_alone_by_the_next_run_and_the_next_daemon() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let kind = FaultKind::Status {
        code: 503,
        retry_after: Some("1800".to_owned()),
    };
    workspace.fault(Some(Route::Leads), kind, 1);
    let first = place.run(["once"]).await;
    assert_eq!(first.code, Some(75), "{first:?}");
    assert_eq!(workspace.asked(Route::Leads), 1);
    let second = place.run(["once"]).await;
    assert_eq!(second.code, Some(75), "{second:?}");
    assert!(second.err.contains("leads"), "{second:?}");
    assert_eq!(workspace.asked(Route::Leads), 1);
    let daemon = place.daemon();
    workspace.polled(Route::Jobs).await;
    workspace.polled(Route::Jobs).await;
    assert_eq!(workspace.asked(Route::Leads), 1);
    daemon.stop().await;
}
