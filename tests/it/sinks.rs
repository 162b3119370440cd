//! Sinks: one suite that every sink passes, then what is particular to each.

mod command;
mod echoed;
#[cfg(feature = "email")]
pub(crate) mod email;
#[cfg(all(feature = "nats", feature = "s3"))]
mod emptied;
mod endless;
mod file;
mod intake;
#[cfg(feature = "mqtt")]
mod mqtt;
#[cfg(feature = "nats")]
mod nats;
#[cfg(any(feature = "email", feature = "postgres"))]
mod ordered;
#[cfg(feature = "postgres")]
mod postgres;
mod rotation;
#[cfg(feature = "s3")]
mod s3;
mod stand_in;
mod suite;
#[cfg(feature = "email")]
mod unusable;
mod webhook;

use std::time::Duration;

use jiff::Timestamp;
use shopmirror::config::{CommandSettings, FileFormat, FileSettings, SinkKind, WebhookSettings};
use shopmirror::record::{Change, Kind, Route};
use shopmirror::shape::Format;
use shopmirror::sink::{Sink, Verdict};
use tokio_util::sync::CancellationToken;

/// The change number `seq`, of a record of its own.
fn change(seq: i64) -> Change {
    Change {
        seq,
        event_id: format!("evt_{seq:04}"),
        route: Route::Leads,
        record_id: Some(seq.to_string()),
        kind: Kind::Created,
        version: 1,
        observed_at: "2026-01-02T03:04:05.000000Z".into(),
        business: None,
        body: format!(r#"{{"id":{seq},"name":"Zoë \u0000 \"Q\"","amount":10.10}}"#),
        before: None,
    }
}

fn changes(seqs: std::ops::RangeInclusive<i64>) -> Vec<Change> {
    seqs.map(change).collect()
}

fn ids(changes: &[Change]) -> Vec<String> {
    changes.iter().map(|change| change.event_id.clone()).collect()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

async fn deliver(sink: &mut Sink, changes: &[Change]) -> Vec<Verdict> {
    let verdicts = sink.deliver(changes, at(1_800_000_000), &CancellationToken::new()).await;
    assert_eq!(verdicts.len(), changes.len(), "one verdict a change");
    verdicts
}

/// One change's verdict.
async fn deliver_one(sink: &mut Sink, change: &Change) -> Verdict {
    deliver(sink, std::slice::from_ref(change)).await.remove(0)
}

fn all_done(verdicts: &[Verdict]) -> bool {
    verdicts.iter().all(|verdict| *verdict == Verdict::Done)
}

fn is_fault(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Fault { .. })
}

/// The first change met a fault, and the others were not handed over.
fn stopped_at_a_fault(verdicts: &[Verdict]) -> bool {
    let [first, rest @ ..] = verdicts else { return false };
    is_fault(first) && rest.iter().all(|verdict| is_fault(verdict) || *verdict == Verdict::NotTried)
}

fn reason(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Done | Verdict::NotTried | Verdict::CutShort => "",
        Verdict::Refused { reason, .. }
        | Verdict::Fault { reason, .. }
        | Verdict::Gone { reason } => reason,
    }
}

fn webhook(url: impl Into<String>) -> WebhookSettings {
    WebhookSettings {
        url: url.into().into(),
        secrets: Vec::new(),
        format: Format::Standard,
        headers: std::collections::BTreeMap::default(),
        timeout: Duration::from_secs(120),
        concurrency: 1,
    }
}

fn file(path: impl Into<std::path::PathBuf>) -> SinkKind {
    SinkKind::File(FileSettings {
        path: path.into(),
        format: FileFormat::Lines(Format::Standard),
        rotate_size: None,
        rotate_daily: false,
        compress: true,
    })
}

fn command<const N: usize>(argv: [&str; N], timeout: Duration) -> SinkKind {
    SinkKind::Command(CommandSettings::new(argv.map(str::to_owned).to_vec(), timeout))
}

fn build(kind: &SinkKind) -> Sink {
    Sink::build("test", kind).unwrap()
}
