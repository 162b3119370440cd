//! `trace`: prints when records arrived, as input for `simulate --trace`.

use std::process::ExitCode;

use jiff::{SignedDuration, Timestamp};

use super::exit::{DATA, ExitError};
use super::output;
use crate::config::Config;
use crate::escape::is_unsafe;
use crate::record::{Change, Kind, field};
use crate::store::Reader;

/// Rows of the log read at once.
const LOG_STEP: usize = 1_000;

/// How long before it was seen a record can have arrived: a daemon that was off for a night sees it
/// late. An older `created_at` was copied from another system with the record.
const OLDEST: SignedDuration = SignedDuration::from_hours(24);

/// Prints the arrivals the log holds, with the name of their poller. What was there before the first
/// poll is left out.
pub(super) fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let reader = Reader::open(&config.store.path)?;
    let mut arrivals = Vec::new();
    let mut position = 0;
    loop {
        let rows = reader.changes_after(position, LOG_STEP)?;
        let Some(last) = rows.last() else { break };
        position = last.seq;
        for change in rows.iter().filter(|change| change.kind == Kind::Created) {
            let poller = poller(change);
            if let (Some(at), Some(id)) = (arrived(change), &change.record_id) {
                arrivals.push((at, change.route, poller, id.clone()));
            }
        }
    }
    arrivals.sort();
    let Some(first) = arrivals.first().map(|(at, ..)| *at) else {
        let text = "the log holds no new record yet: let the daemon run for a while".to_owned();
        return Err(ExitError { code: DATA, text }.into());
    };
    let mut text = String::from("seconds,route,id\n");
    for (at, _, poller, id) in &arrivals {
        let seconds = at.duration_since(first).as_secs_f64();
        text.push_str(&format!("{seconds:.3},{},{}\n", field_of(poller), field_of(id)));
    }
    output::raw(text.as_bytes())
}

/// The poller that saw a change: its route, and the business if one is configured.
fn poller(change: &Change) -> String {
    match &change.business {
        Some(business) => format!("{}@{business}", change.route),
        None => change.route.to_string(),
    }
}

/// When a record arrived: its own `created_at` if that can be, else when it was seen.
fn arrived(change: &Change) -> Option<Timestamp> {
    let seen: Timestamp = change.observed_at.parse().ok()?;
    let shown = field(&change.body, "created_at")
        .and_then(|text| serde_json::from_str::<String>(text).ok())
        .and_then(|text| text.parse::<Timestamp>().ok());
    let is_possible =
        |at: &Timestamp| (SignedDuration::ZERO..=OLDEST).contains(&seen.duration_since(*at));
    Some(shown.filter(is_possible).unwrap_or(seen))
}

/// An id or the name of a poller as a CSV field (RFC 4180). Characters that would break the line or
/// control a terminal are escaped, so that different ids stay different.
fn field_of(id: &str) -> String {
    let mut shown = String::new();
    for c in id.chars() {
        match c {
            '"' => shown.push_str("\"\""),
            // Else a text that looks like an escaped character would be the same as that character.
            '\\' => shown.push_str("\\\\"),
            c if is_unsafe(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    if shown.contains(['"', ',']) || shown.trim() != shown { format!("\"{shown}\"") } else { shown }
}
