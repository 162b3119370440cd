//! `sinks NAME test`, and the dead letters of a sink.

use std::fs;

use sandbox::Route;
use serde_json::{Value, json};

use super::filled;
use super::terminal::Terminal;
use crate::support::{Answer, Place, Receiver, Workspace};

const LEADS: &str = "changes = [\"created\", \"baseline\"]\nroutes = [\"leads\"]\n";

#[tokio::test]
async fn a_test_sends_one_marked_change_and_reports_the_verdict() {
    let receiver = Receiver::start().await;
    let sink = Place::webhook_sink("erp", &receiver.url("/CANARY?token=CANARY"), LEADS);
    let (workspace, place) = filled(&sink).await;
    workspace.add(Route::Leads, json!({ "name": "Zoë" }));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    let before = receiver.received().len();
    let ended = place.run(["sinks", "erp", "test"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("accepted"), "{ended:?}");
    let sent = receiver.received().pop().unwrap();
    assert_eq!(receiver.received().len(), before + 1);
    let body: Value = serde_json::from_str(&sent.body).unwrap();
    assert_eq!(
        (&body["data"]["test"], &body["data"]["route"]),
        (&true.into(), &"leads".into())
    );
    assert!(
        body["data"]["event_id"]
            .as_str()
            .unwrap()
            .starts_with("test_")
    );
    assert_eq!(sent.header("webhook-id"), body["data"]["event_id"]);

    receiver.always(Answer::status(422).body("no such field"));
    let ended = place.run(["sinks", "erp", "test", "--json"]).await;
    assert_eq!(ended.code, Some(65), "{ended:?}");
    assert_eq!(ended.json()["verdict"], "refused");
    assert_eq!(ended.json()["quotation"], "no such field");
    receiver.always(Answer::status(503));
    let ended = place.run(["sinks", "erp", "test"]).await;
    assert!(
        ended.code == Some(69) && ended.out.contains("fault"),
        "{ended:?}"
    );
    assert!(!format!("{ended:?}").contains("CANARY"));
    // The sink's own counts know nothing of it.
    let sinks = place.run(["sinks", "--json"]).await.json();
    assert_eq!(
        (&sinks[0]["retrying"], &sinks[0]["dead"]),
        (&0.into(), &0.into()),
        "{sinks}"
    );
}

#[tokio::test]
async fn a_preview_sends_nothing_and_hides_what_is_secret() {
    let receiver = Receiver::start().await;
    let secret = "secret_file = \"secret\"\nheaders = { X-Key = \"CANARY\" }\n";
    let erp = Place::webhook_sink("erp", &receiver.url("/CANARY"), &format!("{secret}{LEADS}"));
    let file = Place::file_sink("audit", &format!("start = \"beginning\"\n{LEADS}"));
    let label = "[sinks.label]\ntype = \"command\"\ncommand = [\"/bin/false\", \"CANARY\"]\n";
    let template = "format = \"template\"\ntemplate = '{{ record.nothing }}'\n";
    let chat = Place::webhook_sink("chat", &receiver.url("/CANARY"), template);
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.write("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    place.configure(&format!("{erp}{file}"));
    workspace.add(Route::Leads, json!({ "name": "Zoë \"Q\"\u{1b}[31m" }));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    place.configure(&format!("{erp}{file}{chat}{label}"));
    let before = (
        receiver.received().len(),
        fs::read(place.path("audit.ndjson")).unwrap(),
    );

    for (sink, code, words) in [
        (
            "erp",
            0,
            &[
                "POST",
                "webhook-signature: v1,",
                "x-key: (hidden)",
                "\"data\":",
            ][..],
        ),
        ("audit", 0, &["audit.ndjson", "{\"event_id\""]),
        ("label", 0, &["/bin/false with 1 argument (hidden)"]),
        ("chat", 65, &["line 1, column 4 of the template"]),
        ("absent", 64, &["audit, chat, erp, label"]),
    ] {
        let ended = place.run(["sinks", sink, "test", "--dry-run"]).await;
        assert_eq!(ended.code, Some(code), "{ended:?}");
        let shown = format!("{}{}", ended.out, ended.err);
        assert!(
            words.iter().all(|word| shown.contains(word)),
            "{sink}: {shown}"
        );
        assert!(
            !shown.contains("CANARY") && !shown.contains('\u{1b}'),
            "{shown}"
        );
    }
    let after = (
        receiver.received().len(),
        fs::read(place.path("audit.ndjson")).unwrap(),
    );
    assert_eq!(before, after, "nothing was sent or written");
}

#[tokio::test]
async fn a_test_of_an_intake_sink_creates_nothing() {
    let (workspace, other) = (Workspace::start().await, Workspace::start().await);
    let place = workspace.place();
    place.write("partner-key", &other.sandbox.rest_key());
    place.configure(&format!(
        "[sinks.partner]\ntype = \"intake\"\nbase_url = \"{}\"\napi_key_file = \"partner-key\"\n\
         create = \"lead\"\nfields = {{ name = \"Ann\", email = \"ann@example.com\" }}\n",
        other.base_url()
    ));
    let before = other.sandbox.requests().total;
    let ended = place.run(["sinks", "partner", "test"]).await;
    assert!(
        ended.code == Some(64) && ended.err.contains("test --dry-run"),
        "{ended:?}"
    );
    assert_eq!(other.sandbox.requests().total, before);
}

#[tokio::test]
async fn a_renamed_sink_goes_on_where_it_was() {
    let named = |name| format!("[sinks.{name}]\ntype = \"file\"\npath = \"all.ndjson\"\n");
    let (workspace, place) = filled(&named("old")).await;
    let early = place.run(["sinks", "old", "rename", "new"]).await;
    assert!(
        early.code == Some(65) && early.err.contains("change [sinks.old] to"),
        "{early:?}"
    );
    place.configure(&named("new"));
    let renamed = place.run(["sinks", "old", "rename", "new"]).await;
    assert_eq!(renamed.code, Some(0), "{renamed:?}");
    workspace.add(Route::Leads, json!({"name": "Ada"}));
    assert_eq!(place.run(["once"]).await.code, Some(0));
    assert_eq!(
        place.rows("SELECT name, delivered FROM _sinks"),
        [json!(["new", 1])]
    );
}

#[tokio::test]
async fn a_chosen_record_is_shown_as_it_would_be_sent_also_if_the_filter_leaves_it_out() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let lead = workspace.add(Route::Leads, json!({"name": "Quillfeather"}));
    place.configure(&Place::webhook_sink(
        "erp",
        "http://127.0.0.1:9/",
        "routes = [\"jobs\"]",
    ));
    assert_ne!(place.run(["once"]).await.code, None);
    let chosen = ["sinks", "erp", "test", "leads", &lead, "--dry-run"];
    let ended = place.run(chosen).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("Quillfeather"), "{ended:?}");
    assert!(ended.err.contains("its filter leaves it out"), "{ended:?}");
    let ended = place
        .run(["sinks", "erp", "test", "leads", "no-such-id", "--dry-run"])
        .await;
    assert_eq!(ended.code, Some(65), "{ended:?}");
    assert!(ended.err.contains("shopmirror find"), "{ended:?}");
}

#[tokio::test]
async fn more_than_a_hundred_changes_are_sent_again_only_after_a_yes_on_the_terminal() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let all = "start = \"beginning\"\nchanges = [\"baseline\", \"created\"]\n";
    place.configure(&Place::file_sink("audit", all));
    for _ in 0..2 {
        workspace.sandbox.burst(Route::Leads, 60);
        assert_eq!(place.run(["once"]).await.code, Some(0));
    }
    let few = place.run(["sinks", "audit", "replay", "--from", "1"]).await;
    assert_eq!(few.code, Some(0), "without a terminal: {few:?}");
    let cancelled = place.run(["sinks", "audit", "replay", "--cancel"]).await;
    assert_eq!(cancelled.code, Some(0), "{cancelled:?}");
    for (answer, code) in [("no", 75), ("yes", 0)] {
        let replay = place.command(["sinks", "audit", "replay"]);
        let mut terminal = Terminal::start(replay.as_std());
        terminal.until("Type yes to send them").await;
        terminal.type_line(answer);
        assert_eq!(terminal.end().await, Some(code), "{}", terminal.shown());
    }
}
