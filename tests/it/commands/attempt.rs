//! `sinks test` and `sinks preview`, through the program.

use std::fs;

use sandbox::Route;
use serde_json::{Value, json};

use crate::support::{Answer, Place, Receiver, Workspace};

async fn stored(rest: &str) -> (Workspace, Place) {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(rest);
    workspace.add(Route::Leads, json!({ "name": "Zoë \"Q\"\u{1b}[31m" }));
    let once = place.run(["once"]).await;
    assert_eq!(once.code, Some(0), "{once:?}");
    (workspace, place)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_sends_one_marked_change_and_reports_the_verdict() {
    let receiver = Receiver::start().await;
    let rest = "changes = [\"created\", \"baseline\"]\nroutes = [\"leads\"]\n";
    let sink = Place::webhook_sink("erp", &receiver.url("/CANARY?token=CANARY"), rest);
    let (_workspace, place) = stored(&sink).await;
    let before = receiver.received().len();
    let ended = place.run(["sinks", "test", "erp"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("accepted") && ended.out.starts_with("test_"), "{ended:?}");
    let sent = receiver.received().pop().unwrap();
    assert_eq!(receiver.received().len(), before + 1);
    let body: Value = serde_json::from_str(&sent.body).unwrap();
    assert_eq!((&body["data"]["test"], &body["data"]["route"]), (&true.into(), &"leads".into()));
    assert!(body["data"]["event_id"].as_str().unwrap().starts_with("test_"));
    assert_eq!(sent.header("webhook-id"), body["data"]["event_id"]);

    let ended = place.run(["sinks", "test", "erp", "--create"]).await;
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(ended.err.contains("only for sinks of type intake"), "{ended:?}");
    assert_eq!(receiver.received().len(), before + 1, "nothing was sent");

    receiver.always(Answer::status(422).body("no such field"));
    let ended = place.run(["sinks", "test", "erp", "--seq", "1", "--json"]).await;
    assert_eq!(ended.code, Some(65), "{ended:?}");
    assert_eq!(ended.json()["verdict"], "refused");
    assert!(ended.json()["reason"].as_str().unwrap().contains("no such field"));
    receiver.always(Answer::status(503));
    let ended = place.run(["sinks", "test", "erp"]).await;
    assert!(ended.code == Some(69) && ended.out.contains("fault"), "{ended:?}");
    assert!(!format!("{ended:?}").contains("CANARY"));
    // The sink's own counts know nothing of it.
    let sinks = place.run(["sinks", "--json"]).await.json();
    assert_eq!((&sinks[0]["retrying"], &sinks[0]["dead"]), (&0.into(), &0.into()), "{sinks}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_sends_nothing_and_hides_what_is_secret() {
    let receiver = Receiver::start().await;
    let secret = "secret_file = \"secret\"\nheaders = { Authorization = \"Bearer CANARY\", X-Key = \"CANARY\" }\n";
    let kinds = "changes = [\"created\", \"baseline\"]\nroutes = [\"leads\"]\n";
    let erp = Place::webhook_sink(
        "erp",
        &receiver.url("/CANARY?token=CANARY"),
        &format!("{secret}{kinds}"),
    );
    let file = Place::file_sink("audit", &format!("start = \"beginning\"\n{kinds}"));
    let label = "[sinks.label]\ntype = \"command\"\ncommand = [\"/bin/false\", \"CANARY\"]\n";
    let chat = Place::webhook_sink(
        "chat",
        &receiver.url("/CANARY"),
        &format!(
            "format = \"template\"\ntemplate = '{{\"text\": {{{{ record.nothing }}}}}}'\n{kinds}"
        ),
    );
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.write("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    place.configure(&format!("{erp}{file}{chat}"));
    workspace.add(Route::Leads, json!({ "name": "Zoë \"Q\"\u{1b}[31m" }));
    assert_eq!(place.run(["once"]).await.code, Some(75), "the template fails for each lead");
    place.configure(&format!("{erp}{file}{chat}{label}"));
    let before = (receiver.received().len(), fs::read(place.path("audit.ndjson")).unwrap());

    let ended = place.run(["sinks", "preview", "erp"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for words in
        ["POST", "webhook-id: evt_", "webhook-signature: v1,", "x-key: (hidden)", "\"data\":"]
    {
        assert!(ended.out.contains(words), "{words}: {}", ended.out);
    }
    assert!(!ended.out.contains('\u{1b}'), "{ended:?}");
    let shown = place.run(["sinks", "preview", "erp", "--json", "--seq", "1"]).await;
    assert_eq!(shown.json()["seq"], 1);
    let line = place.run(["sinks", "preview", "audit"]).await;
    assert!(line.out.contains("audit.ndjson") && line.out.contains("{\"event_id\""), "{line:?}");
    let run = place.run(["sinks", "preview", "label"]).await;
    assert!(run.out.contains("/bin/false with 1 argument (hidden)"), "{run:?}");
    let refused = place.run(["sinks", "preview", "chat"]).await;
    assert_eq!(refused.code, Some(65), "{refused:?}");
    assert!(refused.err.contains("line 1, column 13 of the template"), "{refused:?}");
    for ended in [ended, shown, line, run, refused] {
        assert!(!format!("{ended:?}").contains("CANARY"), "{ended:?}");
    }
    let unknown = place.run(["sinks", "preview", "absent"]).await;
    assert!(
        unknown.code == Some(64) && unknown.err.contains("audit, chat, erp, label"),
        "{unknown:?}"
    );
    let missing = place.run(["sinks", "preview", "erp", "--seq", "99999"]).await;
    assert_eq!(missing.code, Some(65), "{missing:?}");
    let after = (receiver.received().len(), fs::read(place.path("audit.ndjson")).unwrap());
    assert_eq!(before, after, "nothing was sent or written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_can_be_tried_before_there_is_a_store() {
    let receiver = Receiver::start().await;
    let place = Place::new("http://127.0.0.1:1/api", "ak_1");
    let rest = "format = \"template\"\ntemplate = '{\"text\": \"{{ record.name }} {{ test }}\"}'\n";
    place.configure(&Place::webhook_sink("chat", &receiver.url("/"), rest));
    let ended = place.run(["sinks", "test", "chat"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(receiver.received()[0].body, "{\"text\": \"Test of shopmirror true\"}");
    assert!(!place.store().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_the_daemon_writes_is_not_tested_beside_it_and_the_message_says_how() {
    let workspace = Workspace::start().await;
    let place = workspace.place();
    place.configure(&Place::file_sink("audit", ""));
    let daemon = place.started().await;
    workspace.all_polled().await;
    workspace.add(Route::Leads, json!({ "name": "Zoë" }));
    place.status_when("a line is written", |status| status["sinks"][0]["delivered"] == 1).await;
    let refused = place.run(["sinks", "test", "audit"]).await;
    assert_eq!(refused.code, Some(75), "{refused:?}");
    assert!(refused.err.contains("the daemon, process "), "{refused:?}");
    assert!(refused.err.contains("`shopmirror check --sink audit`"), "{refused:?}");
    assert_eq!(place.run(["check", "--sink", "audit"]).await.code, Some(0));
    daemon.stop().await;
    let ended = place.run(["sinks", "test", "audit"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_of_an_intake_sink_creates_nothing_unless_it_is_asked_to() {
    let (workspace, other) = (Workspace::start().await, Workspace::start().await);
    let place = workspace.place();
    place.write("partner-key", &other.sandbox.rest_key());
    place.configure(&format!(
        "[sinks.partner]\ntype = \"intake\"\nbase_url = \"{}\"\napi_key_file = \"partner-key\"\n\
         create = \"lead\"\n[sinks.partner.fields]\nname = \"{{{{ record.name }}}}\"\nemail = \"{{{{ record.email }}}}\"\n",
        other.base_url()
    ));
    let before = other.sandbox.requests().total;
    let ended = place.run(["sinks", "test", "partner"]).await;
    assert!(ended.code == Some(64) && ended.err.contains("add --create"), "{ended:?}");
    assert_eq!(other.sandbox.requests().total, before);
    let ended = place.run(["sinks", "test", "partner", "--create"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(other.sandbox.requests().total, before + 1);
}
