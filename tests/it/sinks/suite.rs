//! One suite that every sink passes: each destination, in each scenario.
//!
//! A scenario runs one daemon with every destination at once, so that each of them is also the
//! neighbour of all others. A cell that has no meaning for a destination stands in [`NO_MEANING`]
//! with its reason; no other cell is left out.

mod destinations;
mod judge;
mod scenarios;
mod servers;
mod verdicts;
mod world;

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::support::relay::{LATE, Line, Relay};
use judge::Arrival;

/// What a destination does with what reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    /// Takes everything but what [`REFUSED`] marks.
    Well,
    /// Cannot be reached, or says that it is at fault.
    Down,
    /// Takes what comes and does not respond.
    Held,
    /// Takes everything, more slowly.
    Slow,
    /// Takes everything, and keeps back the answer to what [`LATE`] marks.
    Late,
}

/// Every destination refuses a change whose record has this in its name, if it can refuse one.
const REFUSED: &str = "REFUSE-ME";

/// What a client has sent before its line is cut.
const CUT_AFTER: i64 = 4_000;

/// Where changes go, and all that a test does to it.
trait Destination: Send + Sync {
    /// The name of its sink.
    fn name(&self) -> &'static str;

    /// The keys of its sink that say where it is; `timeout` is how long one attempt may take.
    fn keys(&self, timeout: &str) -> String;

    /// What stands between it and its sink; `None` if nothing does.
    fn relay(&self) -> Option<&Relay> {
        None
    }

    fn be(&self, mood: Mood) {
        let relay = self.relay().expect("it has a relay, or moods of its own");
        relay.set(match mood {
            Mood::Well => Line::Open,
            Mood::Down => Line::Cut,
            Mood::Held => Line::Held,
            Mood::Slow => Line::Slow,
            Mood::Late => Line::Late,
        });
    }

    /// The `data` objects that it holds, in the order in which they came; `None` if it is told
    /// less.
    fn data(&self) -> BoxFuture<'_, Option<Vec<Value>>> {
        Box::pin(async { None })
    }

    /// What it holds, in the order in which it came.
    fn received(&self) -> BoxFuture<'_, Vec<Arrival>> {
        Box::pin(async {
            let data = self
                .data()
                .await
                .expect("it holds data objects, or reads what it holds");
            data.iter().map(Arrival::of).collect()
        })
    }

    /// Whether it has begun to take something in since it was told how to be.
    fn has_begun(&self) -> bool {
        self.relay().is_none_or(Relay::has_heard)
    }

    /// Whether a change that is handed over twice is there twice.
    fn shows_repeats(&self) -> bool {
        true
    }

    /// Loses its connections, or its process, in the middle of what is handed over next.
    fn crash_soon(&self) {
        if let Some(relay) = self.relay() {
            relay.cut_after(CUT_AFTER);
        }
    }

    /// Whether [`Self::crash_soon`] has happened.
    fn has_crashed(&self) -> bool {
        self.relay().is_none_or(Relay::is_cut)
    }

    /// Is back after [`Self::crash_soon`], with what it had acknowledged.
    fn come_back(&self) {
        if let Some(relay) = self.relay() {
            relay.set(Line::Open);
        }
    }

    /// What the text of a record has done that it must not do.
    fn trespass(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { None })
    }
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scenario {
    Late,
    TimeOut,
    Refusal,
    Down,
    Restart,
    Kill,
    Reload,
    Slow,
    Hostile,
}

/// The cells without a meaning, and why.
const NO_MEANING: [(&[&str], Scenario, &str); 7] = [
    (
        &[
            "file", "csv", "command", "batch", "digest", "postgres", "nats", "mqtt", "s3",
        ],
        Scenario::Late,
        "it takes one batch after the other",
    ),
    (
        &["file", "csv"],
        Scenario::TimeOut,
        "a write to a disk has no time-out",
    ),
    (
        &["file", "csv"],
        Scenario::Refusal,
        "a file takes every line",
    ),
    (
        &["file", "csv"],
        Scenario::Restart,
        "a disk has no process of its own; a file cut anywhere is tested in sinks/file.rs",
    ),
    (
        &["file", "csv"],
        Scenario::Slow,
        "no test can make a disk slow; it is a neighbour of slow ones",
    ),
    (
        &["postgres"],
        Scenario::Refusal,
        "every change can be stored: what jsonb cannot hold is replaced",
    ),
    (
        &["s3"],
        Scenario::Refusal,
        "an object is stored with all of its changes or not at all",
    ),
];

/// Why the cell has no meaning; `None` if it has one.
fn no_meaning(name: &str, scenario: Scenario) -> Option<&'static str> {
    let found = NO_MEANING
        .iter()
        .find(|(names, of, _)| names.contains(&name) && *of == scenario);
    found.map(|(.., reason)| *reason)
}
