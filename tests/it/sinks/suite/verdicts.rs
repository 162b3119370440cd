//! What every sink does with a probe, a stop and a batch: nothing, nothing, and all of it, complete
//! and in order.

use serde_json::Value;
use shopmirror::config::{Base, Config};
use shopmirror::sink::{Sink, Verdict};
use shopmirror_core::record::Change;
use tokio_util::sync::CancellationToken;

use super::Destination;
use super::destinations::all;
use super::judge::{Arrival, wrong};
use crate::sinks::{all_done, at, build, change, deliver};
use crate::support::LIMIT_S;

fn sink(of: &dyn Destination) -> Box<dyn Sink> {
    let text = format!(
        "[workspace]\nbase_url = \"http://127.0.0.1:9/api\"\n[sinks.one]\n{}\n",
        of.keys("2m")
    );
    let base = Base {
        env_key: Some("key".into()),
        ..Base::default()
    };
    let config = Config::parse(&text, "shopmirror.toml", &base).unwrap_or_else(|p| panic!("{p}"));
    build(&config.sinks["one"].kind)
}

/// The change number `seq`, with every field that a destination needs.
fn given(seq: i64) -> Change {
    let body = format!(
        r#"{{"id":"{seq}","name":"Zoë \u0000 \"Q\"","amount":10.10,"mobile":"+49170{seq:05}","must":""}}"#
    );
    Change {
        body,
        ..change(seq)
    }
}

fn several(seqs: std::ops::RangeInclusive<i64>) -> Vec<Change> {
    seqs.map(given).collect()
}

fn as_arrivals(changes: &[Change]) -> Vec<Arrival> {
    let read = |change: &Change| serde_json::from_str::<Value>(&change.data_json()).unwrap();
    changes
        .iter()
        .map(|change| Arrival::of(&read(change)))
        .collect()
}

/// Fails unless the destination comes to hold just these changes.
async fn holds(one: &dyn Destination, given: &[Change]) {
    let wanted = as_arrivals(given);
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(LIMIT_S);
    loop {
        match wrong(&wanted, &one.received().await, true) {
            None => return,
            // What was acknowledged may reach a reader a little later.
            Some(text) if text.contains("missing") && std::time::Instant::now() < limit => {}
            Some(text) => panic!("{}: {text}", one.name()),
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sink_takes_a_batch_whole_and_nothing_from_a_probe_or_a_stop() {
    for one in all(false).await {
        let one = one.as_ref();
        let name = one.name();
        let mut sink = sink(one);

        // A probe, an empty batch and what comes after a stop send nothing.
        let said = sink.check().await;
        assert!(said.is_ok(), "{name}: {said:?}");
        assert_eq!(deliver(&mut sink, &[]).await, [], "{name}");
        let stop = CancellationToken::new();
        stop.cancel();
        let verdicts = sink.send(&several(1..=3), at(0), &stop).await;
        assert_eq!(verdicts, vec![Verdict::CutShort; 3], "{name}");
        assert_eq!(one.received().await, [], "{name}");

        // What is acknowledged has arrived, complete and in order.
        let given = several(1..=9);
        for part in given.chunks(3) {
            let verdicts = deliver(&mut sink, part).await;
            assert!(all_done(&verdicts), "{name}: {verdicts:?}");
        }
        holds(one, &given).await;
        if let Some(mut data) = one.data().await {
            let read = |change: &Change| serde_json::from_str(&change.data_json()).unwrap();
            let whole: Vec<Value> = given.iter().map(read).collect();
            // Several records are under way at the same time.
            data.sort_by_key(|data| data["seq"].as_i64());
            assert_eq!(data, whole, "{name}");
        }
    }
}
