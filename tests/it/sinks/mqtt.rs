//! MQTT: acknowledged by the broker, topics without text of records, kept states, TLS, failures.

use shopmirror::config::{Base, Config, SinkKind, SinkSettings};
use shopmirror::record::{Change, Kind};
use shopmirror::sink::Verdict;

use rustix::process::Signal;
use sandbox::Route;
use serde_json::{Value, json};

use super::{all_done, build, change, changes, deliver, deliver_one, ids, is_fault, reason};
use crate::support::Workspace;
use crate::support::servers::mosquitto::Mosquitto;

fn sink_kind(url: &str, rest: &str) -> SinkKind {
    sink_settings(url, rest).kind
}

fn sink_settings(url: &str, rest: &str) -> SinkSettings {
    let text = format!(
        "[workspace]\nbase_url = \"http://127.0.0.1:9/api\"\n[sinks.broker]\ntype = \"mqtt\"\n\
         url = \"{url}\"\nworkspace = \"north\"\n{rest}\n"
    );
    let base = Base { env_key: Some("key".into()), ..Base::default() };
    let config = Config::parse(&text, "config.toml", &base).unwrap_or_else(|p| panic!("{p}"));
    config.sinks["broker"].clone()
}

#[tokio::test]
async fn every_change_reaches_a_subscriber_in_order_with_its_event_id() {
    let Some(broker) = Mosquitto::start(false) else { return };
    let mut messages = broker.messages().await;
    let mut sink = build(&sink_kind(&broker.url("all", "right"), ""));
    let given = changes(1..=250);
    for part in given.chunks(100) {
        let verdicts = deliver(&mut sink, part).await;
        assert!(all_done(&verdicts), "{verdicts:?}");
    }
    let mut found = Vec::new();
    for _ in &given {
        let (topic, text) = messages.next().await;
        assert_eq!(topic, "shop/north/leads/created");
        let data: serde_json::Value = serde_json::from_str(&text).unwrap();
        found.push(data["event_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(found, ids(&given));
}

#[tokio::test]
async fn the_broker_keeps_the_newest_state_of_each_record_until_it_is_forgotten() {
    let Some(broker) = Mosquitto::start(false) else { return };
    let rest = "topic = \"all\"\nstate_topic = \"state/{workspace}/{route}/{record}\"";
    let mut sink = build(&sink_kind(&broker.url("all", "right"), rest));
    let hostile = Some("a/+/#é".to_owned());
    let first = Change { record_id: hostile.clone(), ..change(1) };
    let body = r#"{"id":"x","name":"second"}"#.to_owned();
    let second = Change { record_id: hostile.clone(), kind: Kind::Updated, body, ..change(2) };
    for change in [&first, &second, &change(3)] {
        assert_eq!(deliver_one(&mut sink, change).await, Verdict::Done);
    }
    let mut kept = [broker.messages().await.next().await, ("".into(), "".into())];
    let mut messages = broker.messages().await;
    kept[0] = messages.next().await;
    kept[1] = messages.next().await;
    kept.sort();
    let three = ("state/north/leads/3".to_owned(), change(3).body);
    assert_eq!(
        kept,
        [three.clone(), ("state/north/leads/a%2F%2B%2F%23%C3%A9".into(), second.body)]
    );
    let body = "{}".to_owned();
    let forgotten = Change { record_id: hostile, kind: Kind::Forgotten, body, ..change(4) };
    assert_eq!(deliver_one(&mut sink, &forgotten).await, Verdict::Done);
    assert_eq!(broker.messages().await.next().await, three);
}

#[tokio::test]
async fn what_is_forgotten_is_removed_under_each_topic_that_kept_it() {
    let Some(broker) = Mosquitto::start(false) else { return };
    let workspace = Workspace::start().await;
    let place = workspace.place();
    let url = broker.url("all", "right");
    let configure = |state: &str| {
        place.configure(&format!(
            "[sinks.broker]\ntype = \"mqtt\"\nurl = \"{url}\"\nworkspace = \"north\"\n\
             topic = \"all\"\nstate_topic = \"{state}/{{workspace}}/{{route}}/{{record}}\"\n"
        ));
    };
    configure("old");
    let daemon = place.started().await;
    workspace.all_polled().await;
    let first = workspace.add(Route::Leads, json!({"name": "Ada"}));
    let delivered = |count| move |status: &Value| status["sinks"][0]["delivered"] == count;
    place.status_when("the old topic has it", delivered(1)).await;
    configure("new");
    daemon.signal(Signal::HUP);
    workspace.edit(Route::Leads, &first, json!({"name": "Ada Lovelace"}));
    place.status_when("the new topic has it", delivered(2)).await;
    daemon.stop().await;
    // Also after a restart, when nothing but the store knows the old topic.
    let daemon = place.started().await;
    let second = workspace.add(Route::Leads, json!({"name": "Left"}));
    place.status_when("another one is kept", delivered(3)).await;
    assert_eq!(place.run(["forget", "leads", &first]).await.code, Some(0));
    place.status_when("the broker is told", delivered(4)).await;
    let mut messages = broker.messages().await;
    assert_eq!(messages.next().await.0, format!("new/north/leads/{second}"));
    // Nothing else was kept: what comes next is new.
    let mut sink = build(&sink_kind(&url, "topic = \"marker\""));
    assert_eq!(deliver_one(&mut sink, &change(1)).await, Verdict::Done);
    assert_eq!(messages.next().await.0, "marker");
    daemon.stop().await;
}

#[test]
fn a_sink_that_keeps_states_at_the_broker_always_gets_what_is_forgotten() {
    for (rest, told) in [
        ("state_topic = \"state/{workspace}/{route}/{record}\"", true),
        ("state_topic = \"state/{workspace}/{route}/{record}\"\nchanges = [\"created\"]", true),
        ("changes = [\"created\"]", false),
    ] {
        let changes = sink_settings("mqtt://127.0.0.1", rest).filter.changes;
        assert_eq!(changes.contains(&Kind::Forgotten), told, "{rest}");
    }
}

#[tokio::test]
async fn tls_and_missing_rights_and_a_broker_that_is_down_are_named() {
    let Some(mut broker) = Mosquitto::start(true) else { return };
    let trusted = format!("ca_file = \"{}\"", broker.ca_file().display());
    let mut sink = build(&sink_kind(&broker.url("all", "right"), &trusted));
    assert!(all_done(&deliver(&mut sink, &changes(1..=3)).await));
    assert!(sink.probe().await.is_ok());
    let short = format!("{trusted}\ntimeout = \"5s\"");
    for (url, rest, words) in [
        (broker.url("all", "CANARY"), &trusted, "correct user and password in the url"),
        (broker.url("few", "right"), &trusted, "let this user publish to the topic"),
        (broker.url("all", "right"), &String::new(), "authority that this machine"),
    ] {
        let kind = sink_kind(&url, rest);
        let verdict = deliver_one(&mut build(&kind), &change(4)).await;
        assert!(is_fault(&verdict) && reason(&verdict).contains(words), "{words}: {verdict:?}");
        assert!(!format!("{verdict:?} {kind:?}").contains("CANARY"), "{verdict:?}");
    }
    let mut open =
        build(&sink_kind(&broker.url("few", "right"), &format!("{trusted}\ntopic = \"open/x\"")));
    assert!(all_done(&deliver(&mut open, &changes(5..=5)).await));
    broker.end();
    for sink in [&mut sink, &mut build(&sink_kind(&broker.url("all", "right"), &short))] {
        let verdicts = deliver(sink, &changes(6..=8)).await;
        assert!(verdicts.iter().all(is_fault), "{verdicts:?}");
    }
    broker.begin();
    assert!(all_done(&deliver(&mut sink, &changes(6..=8)).await));
}
