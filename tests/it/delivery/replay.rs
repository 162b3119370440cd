//! `sinks NAME replay`: older changes once more through kills and reloads, without a request to the
//! workspace; and what the log keeps for sinks that are gone.

use rustix::process::Signal;
use sandbox::Route;
use serde_json::{Value, json};

use super::PATIENT;
use crate::support::{Answer, Place, Receiver, Workspace, wait_until};

/// A shop whose sink `hook` has got 60 leads, and the ids of these events.
async fn filled(workspace: &Workspace, place: &Place, hook: &Receiver) -> Vec<String> {
    place.configure(&Place::webhook_sink("hook", &hook.url("/"), PATIENT));
    let daemon = place.started().await;
    workspace.all_polled().await;
    workspace.sandbox.burst(Route::Leads, 60);
    let delivered = || place.number("SELECT delivered FROM _sinks") == 60;
    wait_until("the sink has all", delivered).await;
    daemon.stop().await;
    event_ids(&hook.events())
}

fn event_ids(events: &[Value]) -> Vec<String> {
    events
        .iter()
        .map(|event| event["event_id"].as_str().unwrap().to_owned())
        .collect()
}

fn replay(place: &Place, column: &str) -> Value {
    place.rows(&format!("SELECT {column} FROM _replays"))[0][0].clone()
}

fn is(place: &Place, state: &str) -> bool {
    replay(place, "state") == state
}

#[tokio::test]
async fn a_replay_goes_on_through_kills_and_reloads_under_the_same_ids() {
    // It answers as many requests as it is told to: the replay cannot be done before the test is at
    // its end.
    let hook = Receiver::start_held().await;
    hook.answer(60);
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let first = filled(&workspace, &place, &hook).await;
    let daemon = place.started().await;
    workspace.all_polled().await;
    let begun = place
        .run(["sinks", "hook", "replay", "--rate", "12/s"])
        .await;
    assert_eq!(begun.code, Some(0), "{begun:?}");
    let second = place.run(["sinks", "hook", "replay"]).await;
    assert_eq!(second.code, Some(75), "{second:?}");
    assert!(second.err.contains("--cancel"), "{second:?}");
    hook.answer(6);
    wait_until("some are sent", || hook.received().len() > 65).await;
    daemon.kill().await;
    let daemon = place.started().await;
    let before = hook.received().len();
    // Requests of the daemon that was killed may take some of these answers.
    hook.answer(10);
    wait_until("it goes on after the kill", || {
        hook.received().len() > before + 5
    })
    .await;
    let status = place.status().await;
    assert_eq!(
        status["sinks"][0]["replay"]["to_seq"], status["sinks"][0]["position"],
        "{status}"
    );
    let shown = place.run(["sinks"]).await;
    assert!(shown.out.contains("replay of hook: "), "{shown:?}");
    // With another configuration the task of the sink is a new one.
    let other = format!("{PATIENT}\nconcurrency = 2");
    place.configure(&Place::webhook_sink("hook", &hook.url("/"), &other));
    daemon.signal(Signal::HUP);
    hook.release();
    wait_until("it is done", || is(&place, "done")).await;
    assert_eq!(
        (replay(&place, "sent"), replay(&place, "refused")),
        (json!(60), json!(0))
    );
    let again = event_ids(&hook.events()[60..]);
    assert!(
        first.iter().all(|id| again.contains(id)),
        "every event came once more"
    );
    assert!(
        again.iter().all(|id| first.contains(id)),
        "and no other one"
    );
    assert!(again.len() <= 60 + 16, "{} instead of 60", again.len());
    let searches = workspace.sandbox.requests().log;
    let routes = Route::ALL.map(Route::segment);
    assert!(
        searches.iter().all(|r| routes.contains(&r.route.as_str())
            || r.route.contains("custom-fields")
            || r.route.contains("ping")),
        "no request but polls"
    );
    let verified = place.run(["verify"]).await;
    assert!(
        verified.out.contains("60 delivered + 0 pending"),
        "{verified:?}"
    );
    daemon.stop().await;
}

#[tokio::test]
async fn a_replay_waits_for_its_sink_is_cancelled_and_follows_its_filter() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    filled(&workspace, &place, &hook).await;
    let dry = place
        .run(["sinks", "hook", "replay", "--dry-run", "--json"])
        .await
        .json();
    let would_send = &dry["would_send"];
    let seqs = place.rows("SELECT min(seq), max(seq) FROM changes WHERE kind = 'created'");
    assert_eq!(
        (
            &would_send["changes"],
            &would_send["first"]["seq"],
            &would_send["last"]["seq"]
        ),
        (&json!(60), &seqs[0][0], &seqs[0][1]),
        "{dry}"
    );
    assert_eq!(place.number("SELECT count(*) FROM _replays"), 0);
    let begun = place
        .run(["sinks", "hook", "replay", "--rate", "1000/s"])
        .await;
    assert!(
        begun.out.contains("begins when the daemon runs"),
        "{begun:?}"
    );
    hook.always(Answer::status(503));
    let _daemon = place.started().await;
    wait_until("it was tried", || hook.received().len() > 60).await;
    let why = |status: &Value| status["sinks"][0]["last_error"].to_string().contains("503");
    place.status_when("it says why it waits", why).await;
    let cancelled = place.run(["sinks", "hook", "replay", "--cancel"]).await;
    assert_eq!(cancelled.code, Some(0), "{cancelled:?}");
    assert_eq!(
        place
            .run(["sinks", "hook", "replay", "--cancel"])
            .await
            .code,
        Some(65)
    );
    hook.always(Answer::status(204));
    let (name, id) = {
        let rows = place.rows("SELECT name, id FROM leads ORDER BY _seq DESC LIMIT 1");
        (rows[0][0].as_str().unwrap().to_owned(), rows[0][1].clone())
    };
    let before = hook.received().len();
    let filter = format!("id={}", crate::support::text(&id));
    let chosen = [
        "sinks", "hook", "replay", "--route", "leads", "--where", &filter, "--rate", "100/s",
    ];
    assert_eq!(place.run(chosen).await.code, Some(0));
    wait_until("it is done", || is(&place, "done")).await;
    assert_eq!(replay(&place, "sent"), 1);
    let sent = &hook.events()[before..];
    assert_eq!((sent.len(), &sent[0]["record"]["name"]), (1, &json!(name)));
    // A refusal is counted and told.
    hook.refuse(name, Answer::status(422));
    assert_eq!(place.run(chosen).await.code, Some(0));
    wait_until("it is done", || is(&place, "done")).await;
    let shown = place.run(["sinks", "hook"]).await;
    assert!(
        shown.out.contains("1 refused") && shown.out.contains("422"),
        "{shown:?}"
    );
    assert_eq!(place.number("SELECT retrying + dead FROM _sinks"), 0);
    let none = place
        .run(["sinks", "hook", "replay", "--from", "999999"])
        .await;
    assert_eq!(none.code, Some(65), "{none:?}");
}

#[tokio::test]
async fn the_log_keeps_what_a_removed_sink_needs_until_it_is_forgotten() {
    let hook = Receiver::start().await;
    let workspace = Workspace::start().await;
    let place = workspace.place();
    filled(&workspace, &place, &hook).await;
    let audit = Place::file_sink("audit", "");
    place.configure(&audit);
    let daemon = place.started().await;
    workspace.all_polled().await;
    let id = workspace.add(Route::Leads, json!({ "name": "One" }));
    for name in ["Two", "Three"] {
        workspace.polled(Route::Leads).await;
        workspace.edit(Route::Leads, &id, json!({ "name": name }));
    }
    wait_until("all versions are stored", || {
        place.lines("audit.ndjson").len() == 3
    })
    .await;
    let listed = place.run(["sinks"]).await;
    assert!(listed.out.contains("keeps 3 changes for it"), "{listed:?}");
    let status = place.run(["status"]).await;
    assert!(
        status.out.contains("`shopmirror sinks hook forget`"),
        "{status:?}"
    );
    let status = place.status().await;
    let reasons = status["reasons"].to_string();
    assert!(
        reasons.contains("sinks hook forget"),
        "health says it: {status}"
    );
    assert!(
        status["removed_sinks"][0].to_string().contains("3 changes"),
        "{status}"
    );
    let used = place.run(["sinks", "audit", "forget"]).await;
    assert_eq!(used.code, Some(65), "{used:?}");
    assert!(
        used.err
            .contains("remove [sinks.audit] from the configuration"),
        "{used:?}"
    );
    let unknown = place.run(["sinks", "nothing", "forget"]).await;
    assert_eq!(unknown.code, Some(64), "{unknown:?}");
    assert!(
        unknown.err.contains("the sinks are: audit, hook"),
        "{unknown:?}"
    );
    daemon.stop().await;
    let forgotten = place.run(["sinks", "hook", "forget"]).await;
    assert!(
        forgotten.out.contains("3 changes that it never got"),
        "{forgotten:?}"
    );
    assert_eq!(place.number("SELECT count(*) FROM _sinks"), 1);
    let verified = place.run(["verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
}
