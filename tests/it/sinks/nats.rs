//! JetStream: no repeat by its own count, streams of others, users with few rights, servers that fail.

use std::time::Duration;

use shopmirror::config::{Base, Config, SinkKind};
use shopmirror::record::{Change, Kind, Route};
use shopmirror::sink::Verdict;

use super::{all_done, build, change, changes, deliver, deliver_one, ids, is_fault, reason};
use crate::support::relay::{Line, Relay};
use crate::support::servers::nats::Nats;
use crate::support::{LIMIT_S, wait_until};

/// A sink that publishes to a stream of this name.
pub(super) fn sink_kind(url: &str, stream: &str, rest: &str) -> SinkKind {
    let text = format!(
        "[workspace]\nbase_url = \"http://127.0.0.1:9/api\"\n[sinks.bus]\ntype = \"nats\"\nurl = \"{url}\"\n\
         stream = \"{stream}\"\nworkspace = \"north\"\n{rest}\n"
    );
    let base = Base { env_key: Some("key".into()), ..Base::default() };
    let config = Config::parse(&text, "config.toml", &base).unwrap_or_else(|p| panic!("{p}"));
    config.sinks["bus"].kind.clone()
}

/// As [`sink_kind`], with subjects that no other stream takes.
pub(super) fn apart(url: &str, stream: &str) -> SinkKind {
    let subject = format!("subject = \"{stream}.{{workspace}}.{{route}}.{{kind}}\"");
    sink_kind(url, stream, &subject)
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
    assert!(all_done(&deliver(&mut build(&kind), &given[100..500]).await));
    let (count, messages) = nats.stream("ONCE").await;
    assert_eq!(count, 600);
    let found: Vec<&str> =
        messages.iter().map(|(_, body)| body["event_id"].as_str().unwrap()).collect();
    assert_eq!(found, ids(&given));
}

#[tokio::test]
async fn a_subject_is_made_of_the_configuration_the_route_and_the_kind_alone() {
    let Some(nats) = Nats::shared() else { return };
    let kind = apart(&nats.url("all", "right"), "SUBJECTS");
    let hostile = |seq| Change {
        record_id: Some("a.b.> *\r\nPUB x 0".into()),
        business: Some("x.>".into()),
        body: "{\"id\":\"a.b.> *\\r\\nPUB x 0\"}".into(),
        ..change(seq)
    };
    let job = Change { route: Route::Jobs, kind: Kind::Updated, ..hostile(2) };
    let mut sink = build(&kind);
    assert!(all_done(&deliver(&mut sink, &[hostile(1)]).await));
    assert!(all_done(&deliver(&mut sink, &[job]).await));
    let (_, messages) = nats.stream("SUBJECTS").await;
    let subjects: Vec<&str> = messages.iter().map(|(subject, _)| subject.as_str()).collect();
    assert_eq!(subjects, ["SUBJECTS.north.leads.created", "SUBJECTS.north.jobs.updated"]);
}

#[tokio::test]
async fn a_stream_of_others_a_taken_subject_and_missing_rights_are_named() {
    let Some(nats) = Nats::shared() else { return };
    let all = nats.url("all", "right");
    assert!(all_done(&deliver(&mut build(&apart(&all, "OURS")), &changes(1..=1)).await));
    // The stream is there, and takes other subjects.
    let other = sink_kind(&all, "OURS", "subject = \"theirs.{workspace}.{route}.{kind}\"");
    // The subjects belong to another stream.
    let taken = sink_kind(&all, "THEIRS", "subject = \"OURS.{workspace}.{route}.{kind}\"");
    let few = |stream: &str, subject: &str| {
        let rest =
            format!("timeout = \"4s\"\nsubject = \"{subject}.{{workspace}}.{{route}}.{{kind}}\"");
        sink_kind(&nats.url("few", "right"), stream, &rest)
    };
    for (kind, words) in [
        (&other, "the stream OURS is of others: it takes OURS.north.*.*, not theirs.north.*.*"),
        (&taken, "name that stream in `stream`"),
        (&few("NEW", "open"), "this user may look at the stream and make it"),
        (&few("OURS", "OURS"), "this user may publish to OURS.north.leads.created"),
        (&apart(&nats.url("all", "CANARY"), "OURS"), "correct user and password in the url"),
    ] {
        let verdict = deliver_one(&mut build(kind), &change(2)).await;
        assert!(is_fault(&verdict) && reason(&verdict).contains(words), "{words}: {verdict:?}");
        assert!(!format!("{verdict:?} {kind:?}").contains("CANARY"));
    }
    let said = build(&other).probe().await.unwrap_err();
    assert!(said.contains("is of others"), "{said}");
    assert_eq!(nats.stream("OURS").await.0, 1);
}

#[tokio::test]
async fn a_change_that_is_too_large_is_refused_and_the_others_pass() {
    let Some(nats) = Nats::shared() else { return };
    let kind = apart(&nats.url("all", "right"), "LARGE");
    let mut given = changes(1..=3);
    given[1].body = format!(r#"{{"id":2,"name":"{}"}}"#, "x".repeat(1_100_000));
    let verdicts = deliver(&mut build(&kind), &given).await;
    assert!(matches!(verdicts[1], Verdict::Refused { .. }), "{:?}", verdicts[1]);
    assert!(reason(&verdicts[1]).contains("raise max_payload"), "{:?}", verdicts[1]);
    assert_eq!((&verdicts[0], &verdicts[2]), (&Verdict::Done, &Verdict::Done));
}

#[tokio::test]
async fn a_server_that_is_down_is_named_and_takes_everything_when_it_is_back() {
    let Some(mut nats) = Nats::start() else { return };
    let kind = apart(&nats.url("all", "right"), "BACK");
    let mut sink = build(&kind);
    assert!(all_done(&deliver(&mut sink, &changes(1..=5)).await));
    nats.end();
    let mut fresh = build(&kind);
    let verdict = deliver_one(&mut fresh, &change(6)).await;
    assert!(is_fault(&verdict) && reason(&verdict).contains("start the server"), "{verdict:?}");
    let sixth = change(6);
    let limited =
        tokio::time::timeout(Duration::from_secs(LIMIT_S), deliver_one(&mut sink, &sixth));
    let verdict = limited.await.expect("it ends in time");
    assert!(is_fault(&verdict), "{verdict:?}");
    nats.begin();
    assert!(all_done(&deliver(&mut sink, &changes(4..=9)).await));
    assert_eq!(nats.stream("BACK").await.0, 9);
}

#[tokio::test]
async fn a_client_that_was_given_up_ends_while_the_server_is_away() {
    let Some(nats) = Nats::shared() else { return };
    let relay = Relay::to(nats.port()).await;
    let url = format!("nats://all:right@127.0.0.1:{}", relay.port());
    let mut sink = build(&apart(&url, "GIVENUP"));
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    assert!(all_done(&deliver(&mut sink, &changes(1..=3)).await));
    assert!(tasks() > before, "a connection has a task");
    relay.set(Line::Cut);
    let verdict = deliver_one(&mut sink, &change(4)).await;
    assert!(is_fault(&verdict), "{verdict:?}");
    // The task of the connection would go on for ever if it tried again for ever.
    wait_until("its task has ended", || tasks() <= before).await;
    relay.set(Line::Open);
    assert!(all_done(&deliver(&mut sink, &changes(4..=5)).await));
    assert_eq!(nats.stream("GIVENUP").await.0, 5);
}

#[tokio::test]
async fn a_connection_that_is_lost_while_acknowledgements_are_due_is_named_at_once() {
    let Some(nats) = Nats::shared() else { return };
    let relay = Relay::to(nats.port()).await;
    let url = format!("nats://all:right@127.0.0.1:{}", relay.port());
    let mut sink = build(&apart(&url, "LOST"));
    assert!(all_done(&deliver(&mut sink, &changes(1..=3)).await));
    relay.cut_after(2_000);
    let given = changes(4..=60);
    let verdicts = deliver(&mut sink, &given).await;
    let lost =
        verdicts.iter().find(|verdict| is_fault(verdict)).expect("some are not acknowledged");
    // Not the time-out of 20 seconds, which would say "no acknowledgement".
    assert!(reason(lost).contains("the connection was closed"), "{lost:?}");
    relay.set(Line::Open);
    assert!(all_done(&deliver(&mut sink, &given).await));
    assert_eq!(nats.stream("LOST").await.0, 60);
}

#[tokio::test]
async fn a_connection_that_is_lost_between_two_batches_is_made_anew_without_a_fault() {
    let Some(nats) = Nats::shared() else { return };
    let relay = Relay::to(nats.port()).await;
    let url = format!("nats://all:right@127.0.0.1:{}", relay.port());
    let mut sink = build(&apart(&url, "IDLE"));
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(all_done(&deliver(&mut sink, &changes(1..=3)).await));
    let connected = tasks();
    relay.set(Line::Cut);
    // The task of the relay ends, and two of the client, which tries again only once.
    wait_until("the client knows that the line is cut", || tasks() + 3 <= connected).await;
    relay.set(Line::Open);
    let verdicts = deliver(&mut sink, &changes(4..=6)).await;
    assert!(all_done(&verdicts), "{verdicts:?}");
    assert_eq!(nats.stream("IDLE").await.0, 6);
}
