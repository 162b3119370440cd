//! `trace`: prints when records arrived, as input for `simulate --trace`.

use std::process::ExitCode;

use super::exit::{DATA, Wrong};
use super::output;
use crate::config::Config;
use crate::escape::is_unsafe;
use crate::record::{Kind, field};
use crate::store::Reader;

/// Rows of the log read at once.
const LOG_STEP: usize = 1_000;

/// Prints the arrivals the log holds: a record's own `created_at` where it shows one, else when it
/// was seen. What was there before the first poll is left out.
pub(super) fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let reader = Reader::open(&config.store.path)?;
    let mut arrivals = Vec::new();
    let mut position = 0;
    loop {
        let rows = reader.changes_after(position, LOG_STEP)?;
        let Some(last) = rows.last() else { break };
        position = last.seq;
        for change in rows.iter().filter(|change| change.kind == Kind::Created) {
            let shown = field(&change.body, "created_at")
                .and_then(|text| serde_json::from_str::<String>(text).ok());
            let at: Option<jiff::Timestamp> = shown
                .and_then(|text| text.parse().ok())
                .or_else(|| change.observed_at.parse().ok());
            if let (Some(at), Some(id)) = (at, &change.record_id) {
                arrivals.push((at, change.route, id.clone()));
            }
        }
    }
    arrivals.sort();
    let Some(first) = arrivals.first().map(|(at, ..)| *at) else {
        let text = "the log holds no new record yet: let the daemon run for a while".to_owned();
        return Err(Wrong { code: DATA, text }.into());
    };
    let mut text = String::from("seconds,route,id\n");
    for (at, route, id) in &arrivals {
        let seconds = at.duration_since(first).as_secs_f64();
        // An id that would break the line, or steer a terminal, is no use to a simulation, its arrival is.
        let id = if id.contains(['"', ',']) || id.contains(is_unsafe) { "-" } else { id };
        text.push_str(&format!("{seconds:.3},{route},{id}\n"));
    }
    output::raw(text.as_bytes())
}
