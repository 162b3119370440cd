//! `trace`: prints when records arrived, as input for `simulate --trace`.

use std::process::ExitCode;

use super::exit::{DATA, ExitError};
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
        return Err(ExitError { code: DATA, text }.into());
    };
    let mut text = String::from("seconds,route,id\n");
    for (at, route, id) in &arrivals {
        let seconds = at.duration_since(first).as_secs_f64();
        text.push_str(&format!("{seconds:.3},{route},{}\n", field_of(id)));
    }
    output::raw(text.as_bytes())
}

/// An id as a CSV field (RFC 4180). Characters that would break the line or control a terminal
/// are escaped, so that different ids stay different.
fn field_of(id: &str) -> String {
    let mut shown = String::new();
    for c in id.chars() {
        match c {
            '"' => shown.push_str("\"\""),
            c if is_unsafe(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    if shown.contains(['"', ',']) || shown.trim() != shown { format!("\"{shown}\"") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::Traffic;

    #[test]
    fn ids_with_commas_quotes_and_line_breaks_survive_the_trace() {
        let ids = ["7", "a,b", "a,c", "say \"x\"", "say \"y\"", "one\ntwo", "one\nthree", " 7"];
        let line = |(place, id): (usize, &&str)| format!("{place}.000,jobs,{}\n", field_of(id));
        let text: String = ids.iter().enumerate().map(line).collect();
        assert_eq!(text.lines().count(), ids.len(), "{text}");
        let traffic = Traffic::from_trace(&text, None).unwrap();
        assert_eq!(traffic.routes[0].arrivals.len(), ids.len(), "{text}");
    }
}
