//! What every sink answers to the engine: complete, in order, a fault or a refusal, and no more.

use serde_json::Value;
use shopmirror::config::{Base, Config};
use shopmirror::record::Change;
use shopmirror::sink::{Sink, Verdict};
use tokio_util::sync::CancellationToken;

use super::destinations::all;
use super::judge::{Arrival, wrong};
use super::{Destination, Mood, REFUSED, Scenario, no_meaning};
use crate::sinks::{all_done, at, build, change, deliver, stopped_at_a_fault};
use crate::support::LIMIT_S;

fn sink(of: &dyn Destination) -> Sink {
    let text = format!(
        "[workspace]\nbase_url = \"http://127.0.0.1:9/api\"\n[sinks.one]\n{}\n",
        of.keys("2m")
    );
    let base = Base { env_key: Some("key".into()), ..Base::default() };
    let config = Config::parse(&text, "config.toml", &base).unwrap_or_else(|p| panic!("{p}"));
    build(&config.sinks["one"].kind)
}

/// The change number `seq`, with every field that a destination needs.
fn given(seq: i64) -> Change {
    let body = format!(
        r#"{{"id":"{seq}","name":"Zoë \u0000 \"Q\"","amount":10.10,"mobile":"+49170{seq:05}","must":""}}"#
    );
    Change { body, ..change(seq) }
}

fn several(seqs: std::ops::RangeInclusive<i64>) -> Vec<Change> {
    seqs.map(given).collect()
}

fn as_arrivals(changes: &[Change]) -> Vec<Arrival> {
    let read = |change: &Change| serde_json::from_str::<Value>(&change.data_json()).unwrap();
    changes.iter().map(|change| Arrival::of(&read(change))).collect()
}

/// Fails unless the destination comes to hold just these changes.
async fn holds(one: &dyn Destination, given: &[Change], once: bool) {
    let wanted = as_arrivals(given);
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(LIMIT_S);
    loop {
        match wrong(&wanted, &one.received().await, once) {
            None => return,
            // What was acknowledged may reach a reader a little later.
            Some(text) if text.contains("missing") && std::time::Instant::now() < limit => {}
            Some(text) => panic!("{}: {text}", one.name()),
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_changes_arrived_complete_and_in_order() {
    for one in all(false).await {
        let one = one.as_ref();
        let mut sink = sink(one);
        let given = several(1..=9);
        for part in given.chunks(3) {
            let verdicts = deliver(&mut sink, part).await;
            assert!(all_done(&verdicts), "{}: {verdicts:?}", one.name());
        }
        holds(one, &given, true).await;
        let whole: Vec<Value> =
            given.iter().map(|change| serde_json::from_str(&change.data_json()).unwrap()).collect();
        if let Some(mut data) = one.data().await {
            // Several records are under way at the same time.
            data.sort_by_key(|data| data["seq"].as_i64());
            assert_eq!(data, whole, "{}", one.name());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_fault_of_the_destination_every_change_is_delivered_later() {
    for one in all(false).await {
        let one = one.as_ref();
        let mut sink = sink(one);
        let given = several(1..=4);
        assert!(all_done(&deliver(&mut sink, &given[..1]).await), "{}", one.name());
        one.be(Mood::Down);
        let verdicts = deliver(&mut sink, &given[1..]).await;
        // What was on its way when the connection was cut may have arrived.
        let done = verdicts.iter().take_while(|verdict| **verdict == Verdict::Done).count();
        assert!(stopped_at_a_fault(&verdicts[done..]), "{}: {verdicts:?}", one.name());
        one.be(Mood::Well);
        assert!(all_done(&deliver(&mut sink, &given[1 + done..]).await), "{}", one.name());
        holds(one, &given, !one.shows_repeats()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_change_does_not_stop_the_next_one() {
    for one in all(false).await {
        let one = one.as_ref();
        if no_meaning(one.name(), Scenario::Refusal).is_some() {
            continue;
        }
        let mut sink = sink(one);
        // Each destination has its own reason to refuse it.
        let body = format!(
            r#"{{"id":"1","name":"{REFUSED}","mobile":"1","follow":"no date","note":"{}"}}"#,
            "n".repeat(40_000)
        );
        let verdicts = deliver(&mut sink, &[Change { body, ..given(1) }]).await;
        assert!(matches!(&verdicts[0], Verdict::Refused { .. }), "{}: {verdicts:?}", one.name());
        let next = several(2..=2);
        assert!(all_done(&deliver(&mut sink, &next).await), "{}", one.name());
        holds(one, &next, true).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_repeated_after_a_restart_has_the_same_event_id() {
    for one in all(false).await {
        let one = one.as_ref();
        let given = several(1..=3);
        assert!(all_done(&deliver(&mut sink(one), &given).await), "{}", one.name());
        assert!(all_done(&deliver(&mut sink(one), &given).await), "{}", one.name());
        holds(one, &given, !one.shows_repeats()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_delivery_starts_after_a_stop() {
    for one in all(false).await {
        let one = one.as_ref();
        let stop = CancellationToken::new();
        stop.cancel();
        let verdicts = sink(one).deliver(&several(1..=3), at(0), &stop).await;
        assert_eq!(verdicts, vec![Verdict::CutShort; 3], "{}", one.name());
        assert_eq!(one.received().await, [], "{}", one.name());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_delivers_and_creates_nothing() {
    for one in all(false).await {
        let one = one.as_ref();
        let said = sink(one).probe().await;
        assert!(said.is_ok(), "{}: {said:?}", one.name());
        assert_eq!(one.received().await, [], "{}", one.name());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_batch_sends_nothing() {
    for one in all(false).await {
        let one = one.as_ref();
        assert_eq!(deliver(&mut sink(one), &[]).await, [], "{}", one.name());
        assert!(sink(one).batch() > 0);
        assert_eq!(one.received().await, [], "{}", one.name());
    }
}
