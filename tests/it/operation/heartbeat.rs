//! The heartbeat: a service elsewhere notices that the program works, fails or is gone.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::Uri;
use sandbox::Provider;

use crate::support::{Place, Workspace, wait_until};

const INTERVAL: Duration = Duration::from_secs(5);

/// A service that is requested in time by programs that work.
#[derive(Clone, Default)]
struct Watcher {
    heard: Arc<Mutex<Vec<(String, Instant)>>>,
}

impl Watcher {
    /// Starts the service, and returns it with its address.
    async fn start() -> (Self, String) {
        let watcher = Self::default();
        let heard = watcher.heard.clone();
        let router = Router::new().fallback(move |uri: Uri| {
            let heard = heard.clone();
            async move {
                let mut heard = heard.lock().unwrap();
                heard.push((uri.to_string(), Instant::now()));
            }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (watcher, address)
    }

    fn last(&self) -> Option<(String, Instant)> {
        self.heard.lock().unwrap().last().cloned()
    }

    fn last_is(&self, path: &str) -> bool {
        self.last().is_some_and(|(last, _)| last == path)
    }

    /// How many intervals have passed since the last request.
    fn is_silent_for(&self, intervals: u32) -> bool {
        let last = self.last().map(|(_, at)| at);
        last.is_some_and(|at| at.elapsed() > INTERVAL * intervals)
    }
}

fn configure(place: &Place, address: &str, more: &str) {
    place.write("heartbeat-url", &format!("{address}/token?status=up\n"));
    place.write("fail-url", &format!("{address}/token/fail\n"));
    place.configure(&format!(
        "[alerts]\nheartbeat_url_file = \"heartbeat-url\"\nevery = \"5s\"\n{more}"
    ));
}

#[tokio::test]
async fn a_refused_key_and_a_killed_process_are_noticed_elsewhere() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let (watcher, address) = Watcher::start().await;
    configure(&place, &address, "fail_url_file = \"fail-url\"\n");
    let daemon = place.started().await;
    wait_until("it is said that the program works", || {
        watcher.last_is("/token?status=up")
    })
    .await;

    // A page that cannot be opened degrades health, and the heartbeat goes on.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let page = taken.local_addr().unwrap();
    configure(
        &place,
        &address,
        &format!("fail_url_file = \"fail-url\"\n[status]\nlisten = \"{page}\"\n"),
    );
    assert_eq!(place.run(["reload"]).await.code, Some(0));
    place
        .status_when("health is degraded", |status| {
            status["health"] == "degraded"
        })
        .await;
    let before = watcher.heard.lock().unwrap().len();
    wait_until("it is said again", || {
        watcher.heard.lock().unwrap().len() > before
    })
    .await;
    assert!(watcher.last_is("/token?status=up"));

    let key = workspace.sandbox.automation_key();
    workspace
        .sandbox
        .add_key("website", "website", Provider::Website);
    place.write_key("website");
    assert_eq!(place.run(["reload"]).await.code, Some(0));
    wait_until("it is said that the key is refused", || {
        watcher.last_is("/token/fail")
    })
    .await;
    place.write_key(&key);
    assert_eq!(place.run(["reload"]).await.code, Some(0));
    wait_until("it is said that the program works again", || {
        watcher.last_is("/token?status=up")
    })
    .await;

    daemon.kill().await;
    wait_until("nothing is said any more", || watcher.is_silent_for(2)).await;
    let log = place.log();
    assert!(!log.contains("/token"), "the address is secret: {log}");
}

#[tokio::test]
async fn a_store_that_cannot_be_written_silences_the_heartbeat_without_a_second_address() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let (watcher, address) = Watcher::start().await;
    configure(&place, &address, "");
    let daemon = place.started().await;
    wait_until("it is said that the program works", || {
        watcher.last_is("/token?status=up")
    })
    .await;
    let other = place.writer();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for route in sandbox::Route::ALL {
        workspace.sandbox.burst(route, 5);
    }
    wait_until("nothing is said any more", || watcher.is_silent_for(2)).await;
    other.execute_batch("ROLLBACK").unwrap();
    wait_until("it is said that the program works again", || {
        !watcher.is_silent_for(1)
    })
    .await;
    daemon.stop().await;
}
