//! The shapes of a webhook, read by the receivers' own libraries; the ready examples.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use shopmirror::config::{Base, Config, SinkKind, WebhookSettings};
use shopmirror::shape::{CloudEvents, Escape, Format, NAMES, Template};
use shopmirror::sink::Verdict;
use shopmirror_core::record::{Change, Kind, Route};
use tokio_util::sync::CancellationToken;

use crate::sinks;
use crate::support::{Receiver, run_python};

const READ: &str = include_str!("shapes/read.py");

/// What a customer may type: quotes, breaks, markup, mentions, formulas, half of another structure.
const HOSTILE: [&str; 9] = [
    "Zoë \"Q\" \\ O'Neil",
    "\"},\"admin\":true,{\"x\":\"",
    "a\r\nX-Injected: 1\r\n\r\nbody",
    "\u{0}\u{1}\u{2}\u{1b}[31m\u{202e}",
    "{{ 7*7 }}{% raw %}",
    "<!channel> <users/all> @everyone </b><script>",
    "=HYPERLINK(\"http://x\")",
    "%0d%0a;|`$(id)",
    "\u{d7ff}\u{e000}\u{10ffff}😀",
];

fn change(route: Route, text: &str) -> Change {
    let record = json!({
        "id": 12, "name": text, "customer_name": text, "status": text, "status_stage": "open",
        "amount": 10.5, "device_brand": text, "job_id": text, "mobile_number": "0301234",
        "email": "a@example.com", "comment": text,
    });
    Change {
        seq: 7,
        event_id: "evt_0123456789abcdef".into(),
        route,
        record_id: Some(format!("12 {text}")),
        kind: Kind::Updated,
        version: 2,
        observed_at: "2026-01-02T03:04:05.000006Z".into(),
        business: Some("34".into()),
        body: record.to_string(),
        before: Some(r#"{"id":12,"status":"New"}"#.into()),
        job: None,
    }
}

fn webhook(url: String, format: Format) -> WebhookSettings {
    WebhookSettings {
        format,
        ..sinks::webhook(url)
    }
}

/// Delivers the changes and returns the requests as the scripts read them.
async fn received(
    settings: impl FnOnce(String) -> WebhookSettings,
    changes: &[Change],
) -> Vec<Value> {
    let receiver = Receiver::start().await;
    let mut sink = sinks::build(&SinkKind::Webhook(settings(receiver.url("/in"))));
    for change in changes {
        let one = std::slice::from_ref(change);
        let verdicts = sink
            .send(one, jiff::Timestamp::now(), &CancellationToken::new())
            .await;
        assert_eq!(verdicts, [Verdict::Done]);
    }
    let requests = receiver.received();
    requests
        .iter()
        .map(|request| {
            let headers = request.headers.iter();
            let headers: serde_json::Map<String, Value> = headers
                .map(|(name, value)| (name.to_string(), value.to_str().unwrap().into()))
                .collect();
            json!({ "headers": headers, "body": request.body })
        })
        .collect()
}

fn hostile_changes() -> Vec<Change> {
    HOSTILE
        .iter()
        .map(|text| change(Route::Leads, text))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sdk_of_cloud_events_reads_every_event() {
    let source = "https://myshop.example.com/api".to_owned();
    let format = Format::CloudEvents(CloudEvents { source });
    let given = hostile_changes();
    let requests = received(|url| webhook(url, format), &given).await;
    let Some(read) = run_python(READ, &json!({ "requests": requests })) else {
        return;
    };
    for (change, event) in given.iter().zip(read.as_array().unwrap()) {
        let attributes = &event["attributes"];
        assert_eq!(attributes["id"], change.event_id);
        assert_eq!(attributes["specversion"], "1.0");
        assert_eq!(attributes["type"], "leads.updated");
        assert_eq!(attributes["source"], "https://myshop.example.com/api");
        let record = change.record_id.as_deref().unwrap();
        assert_eq!(attributes["subject"], format!("leads/{record}"));
        assert_eq!(attributes["partitionkey"], attributes["subject"]);
        assert_eq!(attributes["sequence"], "7");
        assert_eq!(attributes["time"], "2026-01-02T03:04:05.000006+00:00");
        assert_eq!(attributes["datacontenttype"], "application/json");
        let data: Value = serde_json::from_str(&change.data_json()).unwrap();
        assert_eq!(event["data"], data);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_public_library_of_standard_webhooks_accepts_the_signatures() {
    let secrets: Vec<String> = [7, 9]
        .map(|byte| format!("whsec_{}", STANDARD.encode([byte; 32])))
        .to_vec();
    let source = r#"{"text": "{{ record.name }}"}"#;
    let template = Template::compile(source, Escape::Json, &NAMES).unwrap();
    for format in [
        Format::Standard,
        Format::Raw,
        Format::Template {
            template,
            content_type: "application/json".into(),
        },
    ] {
        let given = hostile_changes();
        let settings = |url| {
            let secrets = secrets
                .iter()
                .map(|secret| secret.as_str().into())
                .collect();
            WebhookSettings {
                secrets,
                ..webhook(url, format.clone())
            }
        };
        let requests = received(settings, &given).await;
        let bodies: Vec<Value> = requests
            .iter()
            .map(|request| serde_json::from_str(request["body"].as_str().unwrap()).unwrap())
            .collect();
        let asked = json!({ "requests": requests, "secrets": secrets });
        let Some(read) = run_python(READ, &asked) else {
            return;
        };
        for (body, verified) in bodies.iter().zip(read.as_array().unwrap()) {
            assert_eq!(
                verified,
                &json!([body, body]),
                "each secret, and no changed body"
            );
        }
    }
}

#[tokio::test]
async fn a_raw_body_is_the_record_as_received_and_headers_say_what_it_is() {
    let mut exact = change(Route::Payments, "x");
    exact.body = "{ \"id\": 1,\n\"amount\":10.10}".into();
    let requests = received(|url| webhook(url, Format::Raw), &[exact.clone()]).await;
    assert_eq!(requests[0]["body"], exact.body);
    assert_eq!(
        requests[0]["headers"]["shopmirror-type"],
        "payments.updated"
    );
    assert_eq!(requests[0]["headers"]["webhook-id"], exact.event_id);
}

/// Every file of a kind in a folder of the repository.
fn files(folder: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
}

/// What an example's receiver needs to find in the body.
fn needed(name: &str) -> &'static [&'static str] {
    match name {
        "slack" | "google-chat" => &["/text"],
        "discord" => &["/content", "/allowed_mentions/parse"],
        "teams" => &[
            "/attachments/0/content/body/0/text",
            "/attachments/0/content/version",
        ],
        "ntfy" => &["/topic", "/message"],
        "telegram" => &["/chat_id", "/text"],
        "google-sheets" | "n8n" | "make" | "zapier" => &["/data/event_id", "/data/record/id"],
        "sms" => &["/to", "/text"],
        "erp" => &["/message_id", "/record/name", "/changed_fields/0"],
        other => panic!("say what {other} needs"),
    }
}

#[test]
fn every_example_makes_json_of_hostile_text() {
    let paths = files("examples/sinks");
    for path in &paths {
        let text = fs::read_to_string(path).unwrap();
        let config = Config::parse(&text, "example", &Base::default())
            .unwrap_or_else(|problems| panic!("{}\n{problems}", path.display()));
        let (_, sink) = config.sinks.first_key_value().unwrap();
        let SinkKind::Webhook(webhook) = &sink.kind else {
            panic!("{}", path.display())
        };
        let name = path.file_stem().unwrap().to_str().unwrap();
        for text in HOSTILE {
            for route in &sink.filter.routes {
                let shaped = webhook.format.shape(&change(*route, text)).unwrap();
                let body: Value = serde_json::from_str(&shaped.body).unwrap();
                for pointer in needed(name) {
                    assert!(body.pointer(pointer).is_some(), "{name} {pointer}: {body}");
                }
                let shown = body.to_string();
                assert!(!shown.contains("<!channel>") || name != "slack", "{shown}");
                assert!(
                    !shown.contains("<users/all>") || name != "google-chat",
                    "{shown}"
                );
                assert!(body.get("admin").is_none(), "{shown}");
            }
        }
        // An alert and a report are shown with their title and text, but by the other system's own
        // JSON.
        for kind in [Kind::Alert, Kind::Report] {
            let body = r#"{"title":"The \"key\"","text":"is refused"}"#.to_owned();
            let notice = Change {
                kind,
                body,
                ..change(Route::Jobs, "x")
            };
            let shown = webhook.format.shape(&notice).unwrap().body;
            let whole = shown.contains(r#"The \"key\""#) && shown.contains("is refused");
            assert!(whole || name == "erp", "{name}: {shown}");
            serde_json::from_str::<Value>(&shown).unwrap();
        }
        // A record with an id alone is shown as well, or refused with a place.
        let mut bare = change(sink.filter.routes[0], "x");
        bare.body = "{\"id\":1}".into();
        if let Err(error) = webhook.format.shape(&bare) {
            assert!(error.at.is_some(), "{name}: {error}");
        }
    }
    assert!(paths.len() >= 12, "{paths:?}");
}
