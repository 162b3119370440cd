//! Reloading: what is wrong is refused while the daemon goes on, and no signal is lost meanwhile.

use std::fs;

use rustix::process::Signal;
use sandbox::Route;
use serde_json::json;
use tokio::net::TcpListener;

use crate::support::{Place, Workspace, wait_until};

/// The text of a webhook sink that has something to deliver, to an endpoint that never answers.
async fn hanging_sink(workspace: &Workspace) -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    workspace.add(Route::Leads, json!({"name": "Ada"}));
    let rest = "timeout = \"2s\"\nstart = \"beginning\"\nchanges = [\"baseline\"]";
    (listener, Place::webhook_sink("hangs", &url, rest))
}

#[tokio::test]
async fn a_reload_while_the_key_is_being_replaced_is_refused_and_polling_goes_on() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let mut daemon = place.started().await;
    for (times, key) in [None, Some("")].into_iter().enumerate() {
        match key {
            None => fs::remove_file(place.path("api-key")).unwrap(),
            Some(text) => place.write_key(text),
        }
        daemon.signal(Signal::HUP);
        wait_until("the reload is refused", || {
            place.log().matches("the reload was refused").count() > times
        })
        .await;
        workspace.all_polled().await;
        assert!(daemon.is_running(), "{}", place.log());
    }
    place.write_key(&workspace.sandbox.automation_key());
    daemon.signal(Signal::HUP);
    wait_until("the daemon reloads", || place.log().matches(" running ").count() == 2).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_stop_during_a_reload_is_obeyed() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let (listener, sink) = hanging_sink(&workspace).await;
    place.configure(&sink);
    let daemon = place.started().await;
    let _connection = listener.accept().await.unwrap();
    daemon.signal(Signal::HUP);
    wait_until("the reload has begun", || place.log().contains("reloading")).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_reload_during_a_reload_reads_the_configuration_again() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let (listener, sink) = hanging_sink(&workspace).await;
    place.configure(&sink);
    let daemon = place.started().await;
    let _connection = listener.accept().await.unwrap();
    daemon.signal(Signal::HUP);
    wait_until("the reload has begun", || place.log().contains("reloading")).await;
    place.configure("");
    daemon.signal(Signal::HUP);
    wait_until("the last configuration runs", || place.log().contains("sinks=0")).await;
    daemon.stop().await;
}
