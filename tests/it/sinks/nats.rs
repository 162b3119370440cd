//! JetStream: no repeat by its own count, streams of others, users with few rights.

use std::path::Path;
use std::time::Duration;

use async_nats::jetstream::stream::{Config as StreamConfig, Source};
use serde_json::Value;
use shopmirror::config::SinkKind;
use shopmirror::sink::Verdict;
use shopmirror_core::record::{Change, Kind, Route};

use super::webhook::Log;
use super::{
    all_done, build, change, changes, configured, deliver, deliver_one, fault_says, ids, kind_of,
    reason,
};
use crate::support::ClosedPort;
use crate::support::servers::certificate;
use crate::support::servers::nats::Nats;

/// A sink that publishes to a stream of this name, as this shop.
fn kind(url: &str, stream: &str, shop: &str) -> SinkKind {
    let sink = "type = \"nats\"\ntimeout = \"2m\"";
    let lines = format!("{sink}\nurl = \"{url}\"\nstream = \"{stream}\"\nworkspace = \"{shop}\"");
    configured(Path::new("/"), &lines).kind
}

async fn messages(nats: &Nats, stream: &str) -> Vec<(String, Value)> {
    Nats::messages(&nats.url("all", "right"), stream).await
}

/// As [`kind`], with subjects that no other stream takes.
fn apart(url: &str, stream: &str) -> SinkKind {
    kind(url, stream, stream)
}

#[tokio::test]
async fn what_is_handed_over_again_is_in_the_stream_once_by_its_own_count() {
    let Some(nats) = Nats::shared() else { return };
    let kind = apart(&nats.url("all", "right"), "ONCE");
    let given = changes(1..=600);
    for part in given.chunks(300) {
        assert!(all_done(&deliver(&mut build(&kind), part).await));
    }
    // As after a kill: the same again, in other portions.
    let mut sink = build(&kind);
    assert!(all_done(&deliver(&mut sink, &given[100..500]).await));
    let told = messages(nats, "ONCE").await;
    let found: Vec<&str> = told
        .iter()
        .map(|(_, body)| body["event_id"].as_str().unwrap())
        .collect();
    assert_eq!(found, ids(&given));
    // A stream that others deleted is made anew, after the attempt that notices it.
    nats.delete("ONCE").await;
    deliver_one(&mut sink, &change(601)).await;
    assert_eq!(deliver_one(&mut sink, &change(601)).await, Verdict::Done);
    assert_eq!(messages(nats, "ONCE").await.len(), 1);
}

#[tokio::test]
async fn a_subject_is_made_of_the_configuration_the_route_and_the_kind_alone() {
    let Some(nats) = Nats::shared() else { return };
    let hostile = |seq| Change {
        record_id: Some("a.b.> *\r\nPUB x 0".into()),
        business: Some("x.>".into()),
        body: "{\"id\":\"a.b.> *\\r\\nPUB x 0\"}".into(),
        ..change(seq)
    };
    let job = Change {
        route: Route::Jobs,
        kind: Kind::Updated,
        ..hostile(2)
    };
    let mut large = change(3);
    large.body = format!(r#"{{"id":2,"name":"{}"}}"#, "x".repeat(1_100_000));
    let mut sink = build(&apart(&nats.url("all", "right"), "SUBJECTS"));
    let verdicts = deliver(&mut sink, &[hostile(1), large, job]).await;
    let kinds: Vec<&str> = verdicts.iter().map(kind_of).collect();
    assert_eq!(kinds, ["done", "refused", "done"], "{verdicts:?}");
    assert!(
        reason(&verdicts[1]).contains("raise max_payload"),
        "{verdicts:?}"
    );
    let told = messages(nats, "SUBJECTS").await;
    let subjects: Vec<&str> = told.iter().map(|(subject, _)| subject.as_str()).collect();
    assert_eq!(
        subjects,
        ["shop.SUBJECTS.leads.created", "shop.SUBJECTS.jobs.updated"]
    );
}

#[tokio::test]
async fn a_stream_that_cannot_take_changes_is_named_by_check_and_by_a_delivery() {
    let Some(nats) = Nats::shared() else { return };
    let usual = |name: &str| StreamConfig {
        name: name.to_owned(),
        subjects: vec![format!("shop.{name}.>")],
        ..StreamConfig::default()
    };
    for (config, words) in [
        (
            StreamConfig {
                no_ack: true,
                ..usual("MUTE")
            },
            "acknowledges nothing, so nothing counts as delivered",
        ),
        (
            StreamConfig {
                subjects: vec!["other.>".into()],
                ..usual("OTHER")
            },
            "does not take the subject shop.OTHER.>, only other.>",
        ),
        (
            StreamConfig {
                mirror: Some(Source {
                    name: "MUTE".into(),
                    ..Source::default()
                }),
                subjects: Vec::new(),
                ..usual("COPY")
            },
            "is a mirror of another stream",
        ),
    ] {
        let name = config.name.clone();
        nats.make_as(config).await;
        let mut sink = build(&apart(&nats.url("all", "right"), &name));
        fault_says(&mut sink, &change(1), words).await;
        let probed = sink.check().await.unwrap_err().to_string();
        assert!(probed.contains(words), "{probed}");
    }
    nats.make_as(usual("SHORT")).await;
    let mut sink = build(&apart(&nats.url("all", "right"), "SHORT"));
    let (log, logging) = Log::recorded();
    assert_eq!(deliver_one(&mut sink, &change(1)).await, Verdict::Done);
    drop(logging);
    let words = "remembers event ids for 2m only";
    assert!(log.text().contains(words), "{}", log.text());
    let probed = sink.check().await.unwrap();
    assert!(probed.contains(words), "{probed}");
}

#[tokio::test]
async fn a_stream_of_others_a_taken_subject_missing_rights_and_a_server_that_is_down_are_named() {
    let Some(nats) = Nats::shared() else { return };
    let (all, few) = (nats.url("all", "right"), nats.url("few", "right"));
    assert_eq!(
        deliver_one(&mut build(&apart(&all, "OURS")), &change(1)).await,
        Verdict::Done
    );
    // What a user has no right to is not answered.
    let soon = |mut kind: SinkKind| {
        let SinkKind::Nats(settings) = &mut kind else {
            unreachable!("it is one of NATS")
        };
        settings.timeout = Duration::from_secs(2);
        kind
    };
    let closed = ClosedPort::new();
    let mut encrypted = apart(&all.replace("nats://", "tls://"), "OURS");
    if let SinkKind::Nats(settings) = &mut encrypted {
        settings.ca_file = Some(certificate("ca.pem"));
    }
    for (kind, words) in [
        (
            kind(&all, "OURS", "theirs"),
            "the stream OURS does not take the subject shop.theirs.>",
        ),
        (kind(&all, "THEIRS", "OURS"), "name that stream in `stream`"),
        (
            soon(kind(&few, "NEW", "open")),
            "look at the stream and make it",
        ),
        (
            soon(apart(&few, "OURS")),
            "this user may publish to the subjects",
        ),
        (
            apart(&nats.url("all", "CANARY"), "OURS"),
            "correct user and password in the url",
        ),
        (
            apart(&format!("nats://{}", closed.address), "OURS"),
            "nothing accepts connections",
        ),
        (encrypted, "does not speak TLS at this port"),
    ] {
        fault_says(&mut build(&kind), &change(2), words).await;
        assert!(!format!("{kind:?}").contains("CANARY"));
    }
    assert_eq!(messages(nats, "OURS").await.len(), 1);
}
