//! MQTT: acknowledged by the broker, topics without text of records, kept states, TLS, failures.

use std::path::Path;

use serde_json::Value;
use shopmirror::config::{SinkKind, SinkSettings};
use shopmirror::sink::Verdict;
use shopmirror_core::record::{Change, Kind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{all_done, build, change, changes, configured, deliver, deliver_one, fault_says, ids};
use crate::support::servers::certificate;
use crate::support::servers::mosquitto::Mosquitto;
use crate::support::{Receiver, wait_until};

fn settings(url: &str, rest: &str) -> SinkSettings {
    let shop = if rest.contains("workspace") {
        ""
    } else {
        "workspace = \"north\"\n"
    };
    let sink = format!("type = \"mqtt\"\n{shop}timeout = \"2m\"");
    configured(Path::new("/"), &format!("{sink}\nurl = \"{url}\"\n{rest}"))
}

fn kind(url: &str, rest: &str) -> SinkKind {
    settings(url, rest).kind
}

/// What the broker has kept, by topic.
async fn kept(broker: &Mosquitto) -> Vec<(String, String)> {
    let heard = broker.listen().await;
    let mut marker = build(&kind(&broker.url("all", "right"), ""));
    assert_eq!(deliver_one(&mut marker, &change(99)).await, Verdict::Done);
    let is_state = |topic: &str| topic.contains("/state/");
    let is_marked = || heard.messages().iter().any(|(topic, _)| !is_state(topic));
    wait_until("what is kept was heard", is_marked).await;
    let mut kept = heard.messages();
    kept.retain(|(topic, _)| is_state(topic));
    kept.sort();
    kept
}

#[tokio::test]
async fn a_subscriber_gets_every_change_and_the_broker_keeps_the_newest_state_of_each_record() {
    let Some(broker) = Mosquitto::start(false) else {
        return;
    };
    let heard = broker.listen().await;
    let mut sink = build(&kind(&broker.url("all", "right"), "keep_states = true"));
    let hostile = Some("a/+/#é".to_owned());
    let first = Change {
        record_id: hostile.clone(),
        ..change(1)
    };
    let body = r#"{"id":"x","name":"second"}"#.to_owned();
    let second = Change {
        record_id: hostile,
        kind: Kind::Updated,
        body,
        ..change(2)
    };
    let given = [first, second.clone(), change(3)];
    for change in &given {
        assert_eq!(deliver_one(&mut sink, change).await, Verdict::Done);
    }
    wait_until("all is heard", || heard.messages().len() == 6).await;
    let mut told = heard.messages();
    told.retain(|(topic, _)| !topic.contains("/state/"));
    let topics: Vec<&str> = told.iter().map(|(topic, _)| topic.as_str()).collect();
    let created = "shop/north/leads/created";
    assert_eq!(topics, [created, "shop/north/leads/updated", created]);
    let data = told
        .iter()
        .map(|(_, text)| serde_json::from_str::<Value>(text).unwrap());
    let found: Vec<String> = data
        .map(|data| data["event_id"].as_str().unwrap().into())
        .collect();
    assert_eq!(found, ids(&given));

    let three = ("shop/north/state/leads/3".to_owned(), change(3).body);
    let hostile_topic = "shop/north/state/leads/a%2F%2B%2F%23%C3%A9".to_owned();
    assert_eq!(
        kept(&broker).await,
        [three.clone(), (hostile_topic, second.body.clone())]
    );
    let forgotten = Change {
        kind: Kind::Forgotten,
        body: "{}".to_owned(),
        ..second
    };
    assert_eq!(deliver_one(&mut sink, &forgotten).await, Verdict::Done);
    assert_eq!(kept(&broker).await, [three]);
}

#[test]
fn a_sink_that_keeps_states_at_the_broker_always_gets_what_is_forgotten() {
    let state = "keep_states = true\n";
    for (state, told) in [(state, true), ("", false)] {
        let settings = settings(
            "mqtt://127.0.0.1",
            &format!("{state}changes = [\"created\"]"),
        );
        assert_eq!(
            settings.filter.changes.contains(&Kind::Forgotten),
            told,
            "{state}"
        );
    }
}

#[tokio::test]
async fn a_broker_that_cannot_keep_what_it_gets_is_named_by_check_and_by_a_delivery() {
    for (lines, rest, words) in [
        ("max_qos 0\n", "", "quality of service 0 only"),
        (
            "retain_available false\n",
            "keep_states = true",
            "remove `keep_states`",
        ),
    ] {
        let Some(broker) = Mosquitto::start_with(false, lines) else {
            return;
        };
        let mut sink = build(&kind(&broker.url("all", "right"), rest));
        fault_says(&mut sink, &change(1), words).await;
        let probed = sink.check().await.unwrap_err().to_string();
        assert!(probed.contains(words), "{probed}");
    }
    // A broker for MQTT 3.1.1 refuses the version in its own form; another one only closes.
    for answer in [&[0x20, 2, 0, 1][..], &[]] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("mqtt://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            loop {
                let (mut peer, _) = listener.accept().await.unwrap();
                let _ = peer.read(&mut [0; 512]).await;
                let _ = peer.write_all(answer).await;
            }
        });
        let mut sink = build(&kind(&url, ""));
        fault_says(&mut sink, &change(1), "for MQTT 3.1.1 only cannot be used").await;
        let probed = sink.check().await.unwrap_err().to_string();
        assert!(probed.contains("take one for MQTT 5"), "{probed}");
        serving.abort();
    }
}

#[tokio::test]
async fn tls_and_missing_rights_and_a_broker_that_is_down_are_named() {
    let Some(mut broker) = Mosquitto::start(true) else {
        return;
    };
    let trusted = format!("ca_file = \"{}\"", certificate("ca.pem").display());
    let other = format!("ca_file = \"{}\"", certificate("other.pem").display());
    let (plain, no_broker) = (String::new(), Receiver::start().await);
    let mut sink = build(&kind(&broker.url("all", "right"), &trusted));
    assert!(all_done(&deliver(&mut sink, &changes(1..=3)).await));
    assert!(sink.check().await.is_ok());
    for (url, rest, words) in [
        (
            broker.url("all", "CANARY"),
            &trusted,
            "correct user and password in the url",
        ),
        (
            broker.url("few", "right"),
            &trusted,
            "let this user publish to the topic",
        ),
        (
            broker.url("all", "right"),
            &other,
            "authority that this machine",
        ),
        (
            no_broker.url("").replace("http", "mqtts"),
            &trusted,
            "does not speak TLS at this port",
        ),
        (
            broker.url("all", "right").replace("mqtts", "mqtt"),
            &plain,
            "mqtts or mqtt in the url",
        ),
    ] {
        let kind = kind(&url, rest);
        fault_says(&mut build(&kind), &change(4), words).await;
        assert!(!format!("{kind:?}").contains("CANARY"));
    }
    let open = kind(
        &broker.url("few", "right"),
        &format!("{trusted}\nworkspace = \"open\""),
    );
    assert_eq!(
        deliver_one(&mut build(&open), &change(5)).await,
        Verdict::Done
    );
    broker.end();
    fault_says(&mut sink, &change(6), "nothing accepts connections").await;
    broker.begin();
    assert!(all_done(&deliver(&mut sink, &changes(6..=8)).await));
}
