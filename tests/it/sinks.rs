//! Sinks: one suite that every sink passes, then what is particular to each.

mod command;
#[cfg(feature = "email")]
pub(crate) mod email;
mod file;
mod intake;
#[cfg(feature = "mqtt")]
mod mqtt;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "s3")]
mod s3;
mod suite;
mod webhook;

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use shopmirror::config::{Base, CommandSettings, Config, SinkKind, SinkSettings, WebhookSettings};
use shopmirror::shape::Format;
use shopmirror::sink::{Sink, Verdict};
use shopmirror_core::record::{Change, Kind, Route};
use tokio_util::sync::CancellationToken;

use crate::support::LIMIT_S;

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
        job: None,
    }
}

fn changes(seqs: std::ops::RangeInclusive<i64>) -> Vec<Change> {
    seqs.map(change).collect()
}

fn ids(changes: &[Change]) -> Vec<String> {
    changes
        .iter()
        .map(|change| change.event_id.clone())
        .collect()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

async fn deliver(sink: &mut Box<dyn Sink>, changes: &[Change]) -> Vec<Verdict> {
    let verdicts = sink
        .send(changes, at(1_800_000_000), &CancellationToken::new())
        .await;
    assert_eq!(verdicts.len(), changes.len(), "one verdict a change");
    verdicts
}

/// One change's verdict.
async fn deliver_one(sink: &mut Box<dyn Sink>, change: &Change) -> Verdict {
    deliver(sink, std::slice::from_ref(change)).await.remove(0)
}

fn all_done(verdicts: &[Verdict]) -> bool {
    verdicts.iter().all(|verdict| *verdict == Verdict::Done)
}

fn is_fault(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Fault { .. })
}

/// The verdict in a word.
fn kind_of(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Done => "done",
        Verdict::Refused {
            for_good: false, ..
        } => "refused",
        Verdict::Refused { for_good: true, .. } => "refused for good",
        Verdict::Fault { .. } => "fault",
        Verdict::Gone { .. } => "gone",
        Verdict::NotTried => "not tried",
        Verdict::CutShort => "cut short",
    }
}

/// Hands the change over until the fault says this. On a busy machine, a time-out may come first.
async fn fault_says(sink: &mut Box<dyn Sink>, change: &Change, words: &str) {
    let begun = Instant::now();
    loop {
        let verdict = deliver_one(sink, change).await;
        assert!(
            is_fault(&verdict) && !reason(&verdict).contains("CANARY"),
            "{verdict:?}"
        );
        if reason(&verdict).contains(words) {
            return;
        }
        assert!(begun.elapsed().as_secs() < LIMIT_S, "{words}: {verdict:?}");
    }
}

/// The reason, with what the destination said.
fn reason(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Done | Verdict::NotTried | Verdict::CutShort => String::new(),
        Verdict::Refused { reason, .. }
        | Verdict::Fault { reason, .. }
        | Verdict::Gone { reason } => reason.with_quotation(),
    }
}

pub(crate) fn webhook(url: impl Into<String>) -> WebhookSettings {
    WebhookSettings {
        url: url.into().into(),
        allow_plain: false,
        ca_file: None,
        proxy: None,
        redirect_host: None,
        secrets: Vec::new(),
        format: Format::Standard,
        headers: axum::http::HeaderMap::new(),
        timeout: Duration::from_secs(120),
        concurrency: 1,
    }
}

/// What these lines of a configuration in `dir` say of a sink.
fn configured(dir: &Path, lines: &str) -> SinkSettings {
    let start = "[workspace]\nbase_url = \"http://127.0.0.1:9/api\"\n[sinks.erp]\n";
    let base = Base {
        env_key: Some("key".into()),
        dir: dir.to_owned(),
        ..Base::default()
    };
    let config = Config::parse(&format!("{start}{lines}\n"), "shopmirror.toml", &base);
    config.unwrap_or_else(|problems| panic!("{problems}")).sinks["erp"].clone()
}

fn command<const N: usize>(argv: [&str; N], timeout: Duration) -> SinkKind {
    SinkKind::Command(command_settings(argv, 1, timeout))
}

fn command_settings<const N: usize>(
    argv: [&str; N],
    batch: usize,
    timeout: Duration,
) -> CommandSettings {
    let argv = argv.map(str::to_owned).to_vec();
    CommandSettings {
        argv,
        format: Format::Standard,
        batch,
        timeout,
    }
}

pub(crate) fn build(kind: &SinkKind) -> Box<dyn Sink> {
    shopmirror::sink::build_one("erp", kind).unwrap()
}
