//! Single runs: `once` beside a failing change and a sink that does not answer.

use sandbox::Route;
use serde_json::{Value, json};

use crate::support::{Answer, Place, Receiver, Workspace, wait_until};

fn count(hook: &Receiver, name: &str) -> usize {
    hook.events().iter().filter(|event| event["record"]["name"] == name).count()
}

fn exceptions(place: &Place) -> Vec<Value> {
    place.rows("SELECT state FROM _queue WHERE state <> 'ready'")
}

#[tokio::test]
async fn once_delivers_around_a_failing_change_and_a_dead_sink_delays_no_other() {
    let hook = Receiver::start().await;
    let silent = Receiver::start_held().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&format!(
        "{}{}{}",
        Place::webhook_sink("a-silent", &silent.url("/"), "timeout = \"10m\""),
        Place::webhook_sink("hook", &hook.url("/"), "concurrency = 1"),
        Place::file_sink("well", ""),
    ));
    let daemon = place.started().await;
    workspace.all_polled().await;
    daemon.stop().await;
    hook.refuse("Poison", Answer::status(500));
    for name in ["Good", "Poison", "Good", "Good", "Poison", "Good"] {
        workspace.add(Route::Leads, json!({"name": name}));
    }
    let run = place.run(["once"]);
    let delivered = async {
        wait_until("the others have what they can take", || {
            count(&hook, "Good") == 4 && place.lines("well.ndjson").len() == 6
        })
        .await;
        // How often they were tried depends on how long the run takes.
        let parked = [json!(["retrying"]), json!(["retrying"])];
        wait_until("what fails is parked", || exceptions(&place) == parked).await;
    };
    tokio::select! {
        ended = run => panic!("the silent sink is still asked: {ended:?}"),
        () = delivered => {}
    }
}
